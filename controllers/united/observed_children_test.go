// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// observingAdapter is the adapter for StatefulSets, and records which children it decodes.
type observingAdapter struct {
	adapters.Adopting
	at *[]string
}

func (l observingAdapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	*l.at = append(*l.at, child.GetName())
	return l.Adopting.Observe(child, have)
}

// TestChildrenAreDecodedOnce: a pass decodes only the children that have changed, or that have a pod that has.
func TestChildrenAreDecodedOnce(t *testing.T) {
	s := newScene(t).settled()
	s.Restart() // so there is no remembered spec, which contains the adapter
	var decoded []string
	s.Reconciler.Adapters = adapters.Registry{observingAdapter{statefulset.New(), &decoded}}
	expect := func(what string, want ...string) {
		t.Helper()
		decoded = nil
		s.pass()
		if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(decoded))), want) {
			t.Errorf("%s: decoded %v, want %v", what, decoded, want)
		}
	}
	expect("all is new", "web-a", "web-b")
	expect("nothing has changed")
	s.ready("a-0", false)
	expect("a pod has changed", "web-a")
	if s.status().ReadyReplicas != 3 {
		t.Error("it is not seen:", s.told())
	}
	expect("nothing more")
	s.later(time.Minute)
	expect("time has passed")
	s.ready("a-0", true)
	expect("it is ready again", "web-a")
	s.wish("b", "1")
	expect("a child is written", "web-a", "web-b") // the other one gets the replicas that this one loses
	s.settled()
	expect("at rest")
	pod := s.API.Live.Pods["web-a-0"].DeepCopy()
	pod.UID = "another"
	s.API.Live.Pods["web-a-0"] = pod
	expect("a pod of the same name is another one", "web-a")
	s.comeOrGo("b").pass().settled()
	s.comeOrGo("b").settled()
	expect("one that was gone for a while is at rest")
}
