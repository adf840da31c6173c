// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// threeOf returns a subset with a child of three available replicas of h1, which has the update revision h2.
func threeOf(name string, partition, recorded int32) coordination.Subset {
	o := &adapters.Observed{
		Meta:     metav1.ObjectMeta{Name: "web-" + name, UID: "uid"},
		Replicas: 3, Partition: partition, SpecObserved: true, CurrentHash: "h1", UpdateHash: "h2",
	}
	for i := range int32(3) {
		o.Pods = append(o.Pods, adapters.Replica{
			Name: fmt.Sprintf("web-%s-%d", name, i), Position: i, Hash: "h1", Ready: true, ReadySince: time.Unix(1e9-1000, 0),
		})
	}
	return coordination.Subset{Name: name, Desired: 3, Facts: known.Facts{Observed: o, Revision: "r2", Recorded: ptr.To(recorded), ProtectedHash: "h1"}}
}

// Somebody has raised a partition, and the child's controller may have taken released replicas before. So nothing
// else is released, and the partition is lowered again only if the ledger has room for what it held already.
func TestARaisedPartition(t *testing.T) {
	in := coordination.Input{
		Strategy: &v1alpha1.RollingUpdate{}, Update: "r2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Hour,
		State: &v1alpha1.RolloutStatus{Revision: "r2", Phase: v1alpha1.RolloutProgressing},
	}
	decide := func(subsets ...coordination.Subset) [2]int32 {
		in.Subsets = subsets
		p := coordination.Coordinate(in)
		return [2]int32{p.Subsets[0].Partition, p.Subsets[1].Partition}
	}
	if got := decide(threeOf("a", 3, 3), threeOf("b", 3, 3)); got != [2]int32{2, 3} {
		t.Error("the positive control: one is released:", got)
	}
	if got := decide(threeOf("a", 3, 2), threeOf("b", 3, 3)); got != [2]int32{2, 3} {
		t.Error("raised over one that was released: it is again, and no other:", got)
	}
	unready := threeOf("b", 3, 3)
	unready.Observed.Pods[1].Ready = false
	if got := decide(threeOf("a", 3, 2), unready); got != [2]int32{3, 3} {
		t.Error("another has gone since, and there is no room:", got)
	}
}
