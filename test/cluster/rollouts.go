// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StartRollouts installs the CRDs of the analyses of Argo Rollouts, starts its controller, and returns once that works on an
// AnalysisRun. It works on nothing else. It then is a component of the control plane: it is an error if it ends before Stop.
// bin/argo-rollouts-crd has the CRDs; `make kind-managers` builds both.
func (c *Cluster) StartRollouts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.startRollouts(ctx); err != nil {
		return fmt.Errorf("starting the controller of Argo Rollouts: %w", err)
	}
	return nil
}

func (c *Cluster) startRollouts(ctx context.Context) error {
	if err := c.Apply(ctx, filepath.Join(c.bin, "argo-rollouts-crd")); err != nil {
		return fmt.Errorf("%w (make kind-managers puts it there)", err)
	}
	args := []string{
		"--kubeconfig=" + c.path("argo-rollouts.kubeconfig"),
		"--controllers=analysis", "--leader-elect=false", "--qps=5000", "--burst=5000",
	}
	for _, flag := range []string{"metricsPort", "healthzPort"} {
		port, err := c.FreePort()
		if err != nil {
			return err
		}
		args = append(args, "--"+flag+"="+strconv.Itoa(port))
	}
	controller, err := c.startComponent("argo-rollouts", nil, args...)
	if err != nil {
		return err
	}
	return c.poll(ctx, c.analyzes, controller)
}

// analyzes reports whether the controller works: it gives a phase to a run that has nothing to measure.
func (c *Cluster) analyzes(ctx context.Context) (bool, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return false, err
	}
	runs := client.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "analysisruns"}).Namespace(metav1.NamespaceDefault)
	run, err := runs.Get(ctx, "probe", metav1.GetOptions{})
	if err != nil {
		_, err = runs.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun", "metadata": map[string]any{"name": "probe"},
			"spec": map[string]any{"metrics": []any{map[string]any{"name": "nothing", "provider": map[string]any{}}}},
		}}, metav1.CreateOptions{})
		return false, err
	}
	phase, _, err := unstructured.NestedString(run.Object, "status", "phase")
	if err != nil || phase == "" {
		return false, err
	}
	return true, runs.Delete(ctx, "probe", metav1.DeleteOptions{})
}
