// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the API of United, as the CRD and the admission policy make it, against a real API server.
// No controller of United runs here.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

const (
	startTimeout = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// fixture is the control plane of this package. Tests share it: each uses names of its own, or only dry runs.
var fixture struct {
	cluster *cluster.Cluster
	client  dynamic.Interface
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	fixture.cluster = c
	if err := install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// install installs the CRD and the policy, and waits until the policy is in force: the API server learns of it by a
// watch.
func install(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	config := filepath.Join(root, "config")
	if err := fixture.cluster.Apply(ctx, filepath.Join(config, "crd"), filepath.Join(config, "admission")); err != nil {
		return err
	}
	if fixture.client, err = dynamic.NewForConfig(fixture.cluster.Config()); err != nil {
		return err
	}
	probe, err := sample("probe")
	if err != nil {
		return err
	}
	set(int64(1), "spec", "template", "statefulSetTemplate", "spec", "replicas")(probe.Object)
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, last = deployments().Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(last), nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for the admission policy: %w", err), last)
	}
	return nil
}

func deployments() dynamic.ResourceInterface {
	resource := v1alpha1.GroupVersion.WithResource("uniteddeployments")
	return fixture.client.Resource(resource).Namespace(metav1.NamespaceDefault)
}

// store creates an object and has it deleted at the end of the test.
func store(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	stored, err := deployments().Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended by now.
		if err := deployments().Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return stored
}
