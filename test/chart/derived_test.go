// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/unitedworkloads/united/test/cluster"
)

// TestDerived checks that the chart renders the same objects as config/, from which parts of it are
// generated.
func TestDerived(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	rendered := e.decode([]byte(e.helm("template", "united", e.chart("united"), "--namespace=united-system")))
	compared := 0
	for _, file := range []string{"crd/apps.united.dev_uniteddeployments.yaml", "admission/policy.yaml", "admission/colocation.yaml", "rbac/role.yaml", "rbac/leader_election.yaml", "rbac/metrics_auth.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(file)))
		e.Expect(err).NotTo(HaveOccurred())
		for key, want := range e.decode(content) {
			got := rendered[key]
			e.Expect(got).NotTo(BeNil(), key)
			if rules, ok := want.Object["rules"].([]any); ok {
				// In the chart the rules of optional kinds come last.
				e.Expect(got.Object["rules"]).To(ConsistOf(rules...), "%s: rules", key)
			}
			for _, field := range []string{"spec", "roleRef", "subjects"} {
				if want.Object[field] != nil {
					e.Expect(got.Object[field]).To(Equal(want.Object[field]), "%s: %s", key, field)
				}
			}
			compared++
		}
	}
	e.Expect(compared).To(Equal(11))
}

// decode decodes the objects of a YAML stream by kind and name.
func (e *env) decode(stream []byte) map[string]*unstructured.Unstructured {
	e.t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		e.Expect(err).NotTo(HaveOccurred())
		if len(object.Object) > 0 {
			objects[object.GetKind()+" "+object.GetName()] = object
		}
	}
}
