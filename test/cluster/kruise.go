// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// kruiseNamespace is where kruise-manager keeps the certificate of its webhooks.
const kruiseNamespace = "kruise-system"

// kruiseConverted are the CRDs of kruise-manager that it converts between versions itself, as its own installation has
// it. Those of the others have one version, or versions that are alike.
var kruiseConverted = []string{"daemonsets.apps.kruise.io", "sidecarsets.apps.kruise.io", "statefulsets.apps.kruise.io"}

// kruiseAdmitted are the resources that its webhooks are asked about: those that United has as children. It is not asked
// about pods, which no test could make while it is not there.
var kruiseAdmitted = []string{"clonesets", "statefulsets"}

// StartKruise installs the CRDs of OpenKruise, its UnitedDeployment among them, starts its manager, and returns once that admits what it is to run. It is a
// part of the control plane from then on: its end before Stop is an error. bin/kruise has the CRDs; `make kind-managers`
// builds both.
//
// It listens at a port of its own, so that several clusters can have one. Without a container runtime it has no
// kruise-daemon, and its features that are beta or ask for that are off.
func (c *Cluster) StartKruise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.startKruise(ctx); err != nil {
		return fmt.Errorf("starting kruise-manager: %w", err)
	}
	return nil
}

func (c *Cluster) startKruise(ctx context.Context) error {
	port, err := c.FreePort()
	if err != nil {
		return err
	}
	if err := c.applyKruiseCRDs(ctx, port); err != nil {
		return err
	}
	if err := c.createKruiseNamespace(ctx); err != nil {
		return err
	}
	if err := c.createKruiseWebhooks(ctx); err != nil {
		return err
	}
	manager, err := c.startComponent("kruise-manager", []string{
		"WEBHOOK_HOST=127.0.0.1", "WEBHOOK_PORT=" + strconv.Itoa(port), "WEBHOOK_CERT_DIR=" + c.path("kruise-certs"),
		"POD_NAMESPACE=" + kruiseNamespace,
	},
		"--kubeconfig="+c.path("kruise-manager.kubeconfig"),
		"--enable-leader-election=false",
		"--feature-gates=AllBeta=false,PodWebhook=false,KruiseDaemon=false",
		"--metrics-addr=0", "--health-probe-addr=0", "--enable-pprof=false",
		"--protection-log-path="+c.path("logs"),
		"--rest-config-qps=5000", "--rest-config-burst=5000",
		"--cloneset-workers=20", "--statefulset-workers=20",
	)
	if err != nil {
		return err
	}
	return c.poll(ctx, c.kruiseAdmits, manager)
}

// applyKruiseCRDs gives those that need it their conversion webhook. Trap: one with a caBundle that is none would not
// become Established; kruise-manager puts its own there.
func (c *Cluster) applyKruiseCRDs(ctx context.Context, port int) error {
	url := fmt.Sprintf("https://127.0.0.1:%d/convert", port)
	source, target := filepath.Join(c.bin, "kruise", "crd"), c.path("kruise-crd")
	files, err := yamlFiles(source)
	if err != nil {
		return fmt.Errorf("%w (make kind-managers puts them there)", err)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if slices.Contains(kruiseConverted, crd.GetName()) {
			if err := unstructured.SetNestedMap(crd.Object, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"clientConfig": map[string]any{"url": url}, "conversionReviewVersions": []any{"v1", "v1beta1"},
			}}, "spec", "conversion"); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if data, err = yaml.Marshal(crd.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(file)), data, 0o600); err != nil {
			return err
		}
	}
	return c.Apply(ctx, target)
}

// createKruiseNamespace makes the namespace, and the secret in which kruise-manager looks for its certificate.
func (c *Cluster) createKruiseNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kruiseNamespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kruiseNamespace, Name: "kruise-webhook-certs"}}
	_, err := c.client.CoreV1().Secrets(kruiseNamespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// createKruiseWebhooks makes the webhook configurations of the module under the names by which kruise-manager looks for
// them. It puts the address and the certificate there.
func (c *Cluster) createKruiseWebhooks(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(c.bin, "kruise", "webhooks.yaml"))
	if err != nil {
		return fmt.Errorf("%w (make kind-managers puts it there)", err)
	}
	admitted := func(rules []admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, "apps.kruise.io") &&
				slices.ContainsFunc(kruiseAdmitted, func(resource string) bool { return slices.Contains(r.Resources, resource) })
		})
	}
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		into := any(mutating)
		if strings.Contains(document, "kind: Validating") {
			into = validating
		}
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			return fmt.Errorf("webhooks of kruise-manager: %w", err)
		}
	}
	mutating.Name, validating.Name = "kruise-"+mutating.Name, "kruise-"+validating.Name
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return !admitted(w.Rules) })
	validating.Webhooks = slices.DeleteFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !admitted(w.Rules) })
	if len(mutating.Webhooks) != len(kruiseAdmitted) || len(validating.Webhooks) != len(kruiseAdmitted) {
		return fmt.Errorf("webhooks of kruise-manager: %d and %d are for %v", len(mutating.Webhooks), len(validating.Webhooks), kruiseAdmitted)
	}
	client := c.client.AdmissionregistrationV1()
	if _, err := client.MutatingWebhookConfigurations().Create(ctx, mutating, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = client.ValidatingWebhookConfigurations().Create(ctx, validating, metav1.CreateOptions{})
	return err
}

// kruiseAdmits reports whether kruise-manager answers for all that it is asked about: it sets defaults that the schema does
// not, and converts.
func (c *Cluster) kruiseAdmits(ctx context.Context) (bool, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return false, err
	}
	labels := map[string]any{"app": "probe"}
	for _, resource := range kruiseAdmitted {
		kind, version := "CloneSet", "v1alpha1"
		if resource == "statefulsets" {
			kind = "StatefulSet" // stored as v1beta1, so this converts
		}
		probe := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps.kruise.io/" + version, "kind": kind,
			"metadata": map[string]any{"name": "probe"},
			"spec": map[string]any{
				"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
					"containers": []any{map[string]any{"name": "probe", "image": "probe"}},
				}},
			},
		}}
		got, err := client.Resource(schema.GroupVersionResource{Group: "apps.kruise.io", Version: version, Resource: resource}).
			Namespace(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		if limit, found, err := unstructured.NestedInt64(got.Object, "spec", "revisionHistoryLimit"); err != nil || !found || limit == 0 {
			return false, errors.Join(err, fmt.Errorf("%s get no defaults", resource))
		}
	}
	return true, nil
}
