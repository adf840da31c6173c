// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The users of the control plane, each with a kubeconfig file <name>.kubeconfig. They have separate names so that the
// audit log shows who wrote what. kwok and those that are no part of Kubernetes have no bootstrap role, so they get
// all permissions.
var users = []struct{ file, name, group string }{
	{"admin", "admin", "system:masters"},
	{"kube-controller-manager", "system:kube-controller-manager", ""},
	{"kube-scheduler", "system:kube-scheduler", ""},
	{"kwok", "kwok", "system:masters"},
	{"kruise-manager", "kruise-manager", "system:masters"},
	{"lws-manager", "lws-manager", "system:masters"},
	{"argo-rollouts", "argo-rollouts", "system:masters"},
}

const credentialLifetime = 10 * 365 * 24 * time.Hour

// writeCredentials writes the certificate authority (ca.crt), the serving certificate (apiserver.crt and .key), the key
// for ServiceAccount tokens (sa.key), and a kubeconfig file for each user.
func (c *Cluster) writeCredentials(context.Context) error {
	port, err := c.FreePort()
	if err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	serving, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	tokens, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("key for tokens: %w", err)
	}
	for name, data := range map[string][]byte{
		"ca.crt": ca.pem, "apiserver.crt": serving.cert, "apiserver.key": serving.key, "sa.key": tokens,
	} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return fmt.Errorf("writing credentials: %w", err)
		}
	}
	for _, user := range users {
		subject := pkix.Name{CommonName: user.name}
		if user.group != "" {
			subject.Organization = []string{user.group}
		}
		pair, err := ca.issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			return err
		}
		auth := &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
		if err := writeKubeconfig(c.path(user.file+".kubeconfig"), serverURL(port), ca.pem, "default", auth); err != nil {
			return err
		}
	}
	if c.config, err = loadConfig(c.Kubeconfig()); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// WriteServiceAccountKubeconfig writes a kubeconfig file with a token of an existing ServiceAccount that is valid for ten
// years, and with its namespace as the current one.
func (c *Cluster) WriteServiceAccountKubeconfig(ctx context.Context, namespace, name, path string) error {
	seconds := int64(credentialLifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	auth := &clientcmdapi.AuthInfo{Token: token.Status.Token}
	return writeKubeconfig(path, c.config.Host, c.config.CAData, namespace, auth)
}

func writeKubeconfig(path, server string, ca []byte, namespace string, auth *clientcmdapi.AuthInfo) error {
	const name = "united"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

func serverURL(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// keyPair is a certificate and its key, both as PEM.
type keyPair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "united-test"}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return &authority{cert: ca, key: key, pem: pem}, nil
}

// issue signs a certificate from a template.
func (a *authority) issue(template *x509.Certificate) (*keyPair, error) {
	fail := func(err error) (*keyPair, error) {
		return nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return fail(err)
	}
	template.SerialNumber = serial
	template.NotBefore = a.cert.NotBefore
	template.NotAfter = a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fail(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	certPEM, err := cert.EncodeCertificates(parsed)
	if err != nil {
		return fail(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fail(err)
	}
	return &keyPair{cert: certPEM, key: keyPEM}, nil
}
