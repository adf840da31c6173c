// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the API of United, as the CRD and the admission policy define it, against a
// real API server. Only kinds_test.go runs a controller of United, in the namespace of one test.
package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

const startTimeout = 3 * time.Minute

// fixture is the control plane of this package. Tests share it: each test uses its own names, or only
// dry runs.
var fixture struct {
	cluster *cluster.Cluster
	client  dynamic.Interface
}

func TestMain(m *testing.M) {
	os.Exit(install.Suite{Timeout: startTimeout, SetUp: setUp}.Run(m))
}

// setUp installs the CRD and the policy.
func setUp(ctx context.Context, c *cluster.Cluster) (err error) {
	fixture.cluster = c
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	config := filepath.Join(root, "config")
	if err := c.Apply(ctx, filepath.Join(config, "crd"), filepath.Join(config, "admission")); err != nil {
		return err
	}
	if fixture.client, err = dynamic.NewForConfig(c.Config()); err != nil {
		return err
	}
	return install.WaitPolicy(ctx, c)
}

func deployments() dynamic.ResourceInterface {
	resource := v1alpha1.GroupVersion.WithResource("uniteddeployments")
	return fixture.client.Resource(resource).Namespace(metav1.NamespaceDefault)
}

// store creates an object and deletes it at the end of the test.
func store(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	stored, err := deployments().Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has already ended.
		if err := deployments().Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return stored
}
