// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// lwsSetName is a label of the pods of a LeaderWorkerSet.
const lwsSetName = "leaderworkerset.sigs.k8s.io/name"

// lwsAdmitted are the resources of the webhooks of lws-manager. For pods, they are called only for its own: otherwise no
// test could create pods while lws-manager does not run.
var lwsAdmitted = []string{"leaderworkersets", "pods"}

// StartLWS installs the CRDs of LeaderWorkerSet, starts its manager, and returns once that admits its resources. The
// manager then is a component of the control plane: it is an error if it ends before Stop. bin/lws has the CRDs; `make
// kind-managers` builds both.
func (c *Cluster) StartLWS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.startLWS(ctx); err != nil {
		return fmt.Errorf("starting lws-manager: %w", err)
	}
	return nil
}

func (c *Cluster) startLWS(ctx context.Context) error {
	port, err := c.FreePort()
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, filepath.Join(c.bin, "lws", "crd")); err != nil {
		return fmt.Errorf("%w (make kind-managers puts it there)", err)
	}
	ca, err := c.writeLWSCertificate()
	if err != nil {
		return err
	}
	if err := c.writeLWSConfig(port); err != nil {
		return err
	}
	manager, err := c.startComponent("lws-manager", nil,
		"--kubeconfig="+c.path("lws-manager.kubeconfig"),
		"--config="+c.path("lws-manager.yaml"),
		"--zap-log-level=info",
		"--kube-api-qps=5000", "--kube-api-burst=5000",
	)
	if err != nil {
		return err
	}
	if err := c.createLWSWebhooks(ctx, port, ca); err != nil {
		return err
	}
	return c.poll(ctx, c.lwsAdmits, manager)
}

// writeLWSCertificate gives the manager a certificate for 127.0.0.1, and returns the authority that the API server has to
// trust. The certificate that the manager would create itself is for a Service.
func (c *Cluster) writeLWSCertificate() ([]byte, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	serving, err := ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lws-manager"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	dir := c.path("lws-certs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return ca.pem, errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), serving.cert, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), serving.key, 0o600))
}

func (c *Cluster) writeLWSConfig(port int) error {
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
		"metrics":                map[string]any{"bindAddress": "0"},
		"health":                 map[string]any{"healthProbeBindAddress": "0"},
		"webhook":                map[string]any{"host": "127.0.0.1", "port": port, "certDir": c.path("lws-certs")},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(c.path("lws-manager.yaml"), config, 0o600)
}

// createLWSWebhooks creates the webhook configurations of the module, with the address where the manager listens.
func (c *Cluster) createLWSWebhooks(ctx context.Context, port int, ca []byte) error {
	data, err := os.ReadFile(filepath.Join(c.bin, "lws", "webhooks.yaml"))
	if err != nil {
		return fmt.Errorf("%w (make kind-managers puts it there)", err)
	}
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		into := any(mutating)
		if strings.Contains(document, "kind: Validating") {
			into = validating
		}
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			return fmt.Errorf("webhooks of lws-manager: %w", err)
		}
	}
	here := func(at *admissionv1.WebhookClientConfig) {
		url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + *at.Service.Path
		*at = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	mutating.Name, validating.Name = "lws-"+mutating.Name, "lws-"+validating.Name
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return !areFor(w.Rules, lwsAdmitted...) })
	validating.Webhooks = slices.DeleteFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !areFor(w.Rules, lwsAdmitted...) })
	if len(mutating.Webhooks) != len(lwsAdmitted) || len(validating.Webhooks) != len(lwsAdmitted) {
		return fmt.Errorf("webhooks of lws-manager: %d and %d are for %v", len(mutating.Webhooks), len(validating.Webhooks), lwsAdmitted)
	}
	own := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: lwsSetName, Operator: metav1.LabelSelectorOpExists}}}
	for i := range mutating.Webhooks {
		here(&mutating.Webhooks[i].ClientConfig)
		if areFor(mutating.Webhooks[i].Rules, "pods") {
			mutating.Webhooks[i].ObjectSelector = own
		}
	}
	for i := range validating.Webhooks {
		here(&validating.Webhooks[i].ClientConfig)
		if areFor(validating.Webhooks[i].Rules, "pods") {
			validating.Webhooks[i].ObjectSelector = own
		}
	}
	client := c.client.AdmissionregistrationV1()
	if _, err := client.MutatingWebhookConfigurations().Create(ctx, mutating, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = client.ValidatingWebhookConfigurations().Create(ctx, validating, metav1.CreateOptions{})
	return err
}

// areFor reports whether the rules of a webhook name one of the resources.
func areFor(rules []admissionv1.RuleWithOperations, resources ...string) bool {
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(resources, func(resource string) bool { return slices.Contains(r.Resources, resource) })
	})
}

// lwsAdmits reports whether lws-manager answers all its webhooks: a LeaderWorkerSet gets a default that the schema does
// not have, and the leader of a group gets a label.
func (c *Cluster) lwsAdmits(ctx context.Context) (bool, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return false, err
	}
	containers := []any{map[string]any{"name": "probe", "image": "probe"}}
	for _, probe := range []struct {
		resource schema.GroupVersionResource
		object   map[string]any
		sets     []string
	}{
		{
			schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
			map[string]any{
				"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": map[string]any{"name": "probe"},
				"spec": map[string]any{"replicas": int64(0), "leaderWorkerTemplate": map[string]any{
					"workerTemplate": map[string]any{"spec": map[string]any{"containers": containers}},
				}},
			},
			[]string{"spec", "networkConfig", "subdomainPolicy"},
		},
		{
			schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			map[string]any{
				"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{
					"name":        "probe-0",
					"labels":      map[string]any{lwsSetName: "probe", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
					"annotations": map[string]any{"leaderworkerset.sigs.k8s.io/size": "1"},
				},
				"spec": map[string]any{"containers": containers},
			},
			[]string{"metadata", "labels", "leaderworkerset.sigs.k8s.io/group-index"},
		},
	} {
		got, err := client.Resource(probe.resource).Namespace(metav1.NamespaceDefault).
			Create(ctx, &unstructured.Unstructured{Object: probe.object}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		if _, found, err := unstructured.NestedString(got.Object, probe.sets...); err != nil || !found {
			return false, errors.Join(err, fmt.Errorf("%s get no %v", probe.resource.Resource, probe.sets))
		}
	}
	return true, nil
}
