// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The bounds on what a parent may cost: the allocated bytes for each of its bytes, and a total for the node
// selector terms that result from multiplying those of template and subset, which are bounded. Allocations do not
// depend on the load of the machine. Comparisons without allocations are noticed, too: the large parents of the
// corpus would not end.
const (
	allocatedPerByte = 1000
	allocatedAnyway  = 128 << 20
)

// FuzzCost reads, plans and renders a parent in which everything without a schema is drawn, and bounds the cost by
// the size of the parent.
func FuzzCost(f *testing.F) {
	for _, seed := range costly() {
		f.Add(seed.pod, seed.patch, seed.selector, seed.tolerations)
	}
	f.Fuzz(func(t *testing.T, pod, patch, selector, tolerations string) {
		parent, ok := parentOf(pod, patch, selector, tolerations)
		if !ok {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := planAndRender(parent)
		runtime.ReadMemStats(&after)
		size := uint64(len(pod) + len(patch) + len(selector) + len(tolerations))
		if have := after.TotalAlloc - before.TotalAlloc; have > allocatedPerByte*size+allocatedAnyway {
			t.Errorf("%d bytes for %d (%v)", have, size, err)
		}
	})
}

type cost struct{ pod, patch, selector, tolerations string }

// costly returns the corpus: each is as large as the API server accepts, and once took seconds, or all the memory.
func costly() []cost {
	list := func(n int, element string) string {
		var text strings.Builder
		for i := range n {
			if i > 0 {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, element, i)
		}
		return "[" + text.String() + "]"
	}
	containers := func(fields string) string { return `{"containers":[{"name":"web",` + fields + `}]}` }
	env := func(n int) string { return containers(`"env":` + list(n, `{"name":"E%d","value":"v"}`)) }
	affinity := func(n int) string {
		return `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + list(n, `{"matchExpressions":[{"key":"k%d","operator":"Exists"}]}`) + `}}}}`
	}
	return []cost{
		{`{"containers":[{"name":"web","image":"x"}]}`, `{"containers":[{"name":"web","image":"y"}]}`, `{}`, `[]`},
		{env(6600), env(20), `{}`, `[]`},
		{env(20000), env(20000), `{}`, `[]`},
		{env(20000), containers(`"env":` + list(20000, `{"name":"E%d","$patch":"delete"}`)), `{}`, `[]`},
		{env(20000), containers(`"$setElementOrder/env":` + list(20000, `{"name":"E%d"}`)), `{}`, `[]`},
		{containers(`"ports":` + list(20000, `{"containerPort":%d}`)), containers(`"ports":` + list(20000, `{"containerPort":%d,"name":"x"}`)), `{}`, `[]`},
		{`{"future":{"a":1}}`, `{"future":{"$retainKeys":` + list(50000, `"f%d"`) + `}}`, `{}`, `[]`},
		{affinity(1000), `{}`, `{"nodeSelectorTerms":` + list(1000, `{"matchExpressions":[{"key":"k%d","operator":"Exists"}]}`) + `}`, `[]`},
		{`{"tolerations":` + list(10000, `{"key":"k%d"}`) + `}`, `{}`, `{}`, list(10000, `{"key":"k%d","operator":"Exists"}`)},
		{strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000), strings.Repeat(`{"a":`, 5000) + `2` + strings.Repeat(`}`, 5000), `{}`, `[]`},
	}
}

// parentOf returns a parent with these parts; not ok if they are not valid.
func parentOf(pod, patch, selector, tolerations string) (*v1alpha1.UnitedDeployment, bool) {
	template := `{"metadata":{"labels":{"app":"web"}},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":` + pod + `}}}`
	overlay := `{"spec":{"template":{"spec":` + patch + `}}}`
	sub := v1alpha1.Subset{Name: "a", Patch: &kruntime.RawExtension{Raw: []byte(overlay)}}
	var nodes corev1.NodeSelector
	if !json.Valid([]byte(template)) || !json.Valid([]byte(overlay)) ||
		json.Unmarshal([]byte(selector), &nodes) != nil || json.Unmarshal([]byte(tolerations), &sub.Tolerations) != nil {
		return nil, false
	}
	if len(nodes.NodeSelectorTerms) > 0 {
		sub.NodeSelector = &nodes
	}
	parent := &v1alpha1.UnitedDeployment{}
	parent.Name, parent.Namespace, parent.UID = "web", "ns", "u-1"
	parent.Spec.Replicas = ptr.To(int32(2))
	parent.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	parent.Spec.Template.StatefulSetTemplate = &kruntime.RawExtension{Raw: []byte(template)}
	other := sub
	other.Name = "b"
	parent.Spec.Topology.Subsets = []v1alpha1.Subset{sub, other}
	return parent, true
}

// planAndRender runs what a pass computes for a new parent. It does not matter whether the parent is rejected.
func planAndRender(parent *v1alpha1.UnitedDeployment) error {
	adapter := statefulset.New()
	read, err := spec.Read(parent, adapters.Registry{adapter})
	if err != nil {
		return err
	}
	in, err := (&planner.Input{World: world.World{Parent: parent, Spec: read, Now: time.Unix(0, 0)}}).WithUpdateRevision()
	if err != nil {
		return err
	}
	for _, s := range planner.Make(in).Subsets {
		built, err := adapters.Build(adapter, &s.Step.Child)
		if err != nil {
			return err
		}
		if _, err := json.Marshal(built.Object); err != nil {
			return err
		}
	}
	return nil
}
