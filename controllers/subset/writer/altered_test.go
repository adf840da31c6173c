// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/controllers/subset"
)

// TestAlteredIsSaidAndLeft: a change of the pod template by admission is reported, and not written again.
func TestAlteredIsSaidAndLeft(t *testing.T) {
	b, _ := overriding(t, func(*unstructured.Unstructured) {})
	b.Memory = newEntry()
	current := b.asStored(childSpec(), nil)
	current.SetGeneration(3)
	apply := subset.Step{Action: subset.ActionApply, Child: childSpec()}
	if _, wrote, err := b.carry(apply, current); wrote || err != nil || b.Overridden("web-zone-a", current) != nil {
		t.Fatal("all is well", wrote, err)
	}
	altered := current.DeepCopy()
	altered.SetResourceVersion("99")
	altered.SetGeneration(4)
	containers, _, _ := unstructured.NestedSlice(altered.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = "b:9"
	if err := unstructured.SetNestedSlice(altered.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second result is remembered
		if _, wrote, err := b.carry(apply, altered); wrote || err != nil {
			t.Fatal(wrote, err)
		}
		altered.SetResourceVersion("100") // its status has changed
		e := b.Overridden("web-zone-a", altered)
		if e == nil || !e.Lasting || !strings.Contains(e.Error(), "StatefulSet web-zone-a: spec.template.spec.containers[0].image was changed by admission") ||
			!strings.Contains(e.Error(), "United leaves it") {
			t.Fatal(e)
		}
		altered.SetResourceVersion("99")
	}
	altered.SetGeneration(5)
	if b.Overridden("web-zone-a", altered) != nil {
		t.Error("its spec has changed since: it has to be looked at again")
	}
}
