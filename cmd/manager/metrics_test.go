// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// secretWith writes a certificate for a name as a Secret of type kubernetes.io/tls is mounted, and returns who has signed it.
func secretWith(t *testing.T, name string) (dir string, ca *x509.CertPool) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	dir, ca = t.TempDir(), x509.NewCertPool()
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600)).To(Succeed())
	parsed, err := x509.ParseCertificate(cert)
	g.Expect(err).NotTo(HaveOccurred())
	ca.AddCert(parsed)
	return dir, ca
}

// The manager serves metrics with the certificate that it is given, which Prometheus can verify; without one, or with one that is
// not there, nobody takes another for it.
func TestMetricsCertificate(t *testing.T) {
	const name = "united-metrics.united-system.svc"
	dir, ca := secretWith(t, name)
	for _, tc := range []struct {
		name, dir string
		verified  bool
	}{{"of a Secret", dir, true}, {"self-signed", "", false}} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(free.Close()).To(Succeed())
			o := &options{metricsAddress: free.Addr().String(), metricsSecure: true, certDir: tc.dir}
			g.Expect(o.hasCertificate()).To(Succeed())
			m := o.metricsOptions()
			m.FilterProvider = nil // it asks an API server
			served, err := metricsserver.NewServer(m, nil, nil)
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- served.Start(ctx) }()
			dialed := func(config *tls.Config) error {
				c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", m.BindAddress)
				if err != nil {
					return err
				}
				return c.Close()
			}
			g.Eventually(func() error { return dialed(&tls.Config{InsecureSkipVerify: true}) }, 30*time.Second).Should(Succeed()) //nolint:gosec // that it is there
			if err := dialed(&tls.Config{RootCAs: ca, ServerName: name, MinVersion: tls.VersionTLS12}); tc.verified {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring("certificate")))
			}
			cancel()
			g.Expect(<-ended).To(Succeed())
		})
	}
	g := NewWithT(t)
	g.Expect((&options{metricsSecure: true, certDir: t.TempDir()}).hasCertificate()).To(MatchError(ContainSubstring("--metrics-cert-dir must have tls.crt and tls.key")))
	g.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), nil, 0o600)).To(Succeed())
	g.Expect((&options{metricsSecure: true, certDir: dir}).hasCertificate()).NotTo(Succeed())
}
