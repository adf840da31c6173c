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

// kruiseNamespace is the namespace of the certificate of kruise-manager's webhooks.
const kruiseNamespace = "kruise-system"

// kruiseConverted are the CRDs that kruise-manager converts between versions, as its own installation configures them.
// The others have only one version, or versions that do not differ.
var kruiseConverted = []string{"daemonsets.apps.kruise.io", "sidecarsets.apps.kruise.io", "statefulsets.apps.kruise.io"}

// kruiseAdmitted are the resources of its webhooks: those that United has as children. Pods are not among them, because
// no test could create pods while kruise-manager does not run.
var kruiseAdmitted = []string{"clonesets", "statefulsets"}

// StartKruise installs the CRDs of OpenKruise, including its UnitedDeployment, starts its manager, and returns once that
// admits its resources. The manager then is a component of the control plane: it is an error if it ends before Stop.
// bin/kruise has the CRDs; `make kind-managers` builds both.
//
// It listens on its own port, so several clusters can have one. Without a container runtime there is no kruise-daemon,
// and features that are beta or need the daemon are off.
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

// applyKruiseCRDs adds the conversion webhook to the CRDs that need it. Trap: a CRD with an invalid caBundle would not
// become Established; kruise-manager sets its own.
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

// createKruiseNamespace creates the namespace, and the secret in which kruise-manager looks for its certificate.
func (c *Cluster) createKruiseNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kruiseNamespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kruiseNamespace, Name: "kruise-webhook-certs"}}
	_, err := c.client.CoreV1().Secrets(kruiseNamespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// createKruiseWebhooks creates the webhook configurations of the module under the names that kruise-manager expects.
// kruise-manager fills in the address and the certificate.
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

// kruiseAdmits reports whether kruise-manager answers all its webhooks: it sets defaults that the schema does not have,
// and converts.
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
