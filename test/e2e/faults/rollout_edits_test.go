// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestEditsMeanwhile checks a canary and a rollout while somebody edits annotations and partitions of
// both parents without pause. No status update of the manager is refused because of the edits, and both
// rollouts end.
func TestEditsMeanwhile(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	canary := e.Create(NewDraft("canary", Replicas(9), Zones("3", "3", "3"), Hold()))
	rollout := e.Create(NewDraft("rollout", Replicas(9), Policy(appsv1.ParallelPodManagement), Zones("3", "3", "3"), Rolling(`{partition: 0}`)))
	for _, w := range []*Workload{canary, rollout} {
		w.Settle()
	}
	before, mark := canary.Parent(), e.AuditMark()
	annotate := func(w *Workload) func(int) error {
		return func(i int) error {
			return w.TryPatch(types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/edited":"%d"}}}`, i))
		}
	}
	stop := editing(e,
		annotate(canary), annotate(rollout),
		func(i int) error { // above the number of replicas, so that it always holds
			return canary.TryPatch(types.MergePatchType, fmt.Sprintf(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-c":%d}}}}}`, 4+i%2))
		},
		func(i int) error { // two equivalent values
			return rollout.TryPatch(types.MergePatchType, fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%s}}}}`, []string{`0`, `"0%"`}[i%2]))
		},
	)
	canary.SetImage("v2")
	rollout.SetImage("v2")
	for _, gate := range []struct {
		subset    string
		partition int
		runs      string
	}{{"zone-a", 2, "v1 v1 v2"}, {"zone-a", 0, "v2 v2 v2"}, {"zone-b", 1, "v1 v2 v2"}, {"zone-b", 0, "v2 v2 v2"}} {
		canary.SetPartitions(Parts{gate.subset: gate.partition})
		canary.Eventually(canary.Images).Should(HaveKeyWithValue(gate.subset, gate.runs))
	}
	rollout.Runs(ThreeZones("v2 v2 v2"))
	edits := stop()
	canary.IsReady(v1alpha1.ReasonRolloutHeld)
	e.Expect(canary.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v1 v1 v1"}))
	rollout.IsReady(v1alpha1.ReasonRolloutComplete)
	canary.SetPartitions(Parts{"zone-c": 0})
	canary.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(canary.Images()).To(Equal(ThreeZones("v2 v2 v2")))

	byManager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	told := statusWrites(e, mark, byManager)
	t.Logf("%d edits, %d statuses, %d refused", edits, len(told), len(refused(told)))
	e.Expect(edits).To(BeNumerically(">", 0))
	e.Expect(told).NotTo(BeEmpty())
	e.Expect(refused(told)).To(BeEmpty())

	e.Step("positive control: a refused status is seen", func() {
		mark := e.AuditMark()
		patch := func(kind types.PatchType, raw string) error {
			parent := &v1alpha1.UnitedDeployment{}
			parent.Namespace, parent.Name = canary.Namespace, canary.Name
			return e.Client.Status().Patch(e.Ctx, parent, client.RawPatch(kind, []byte(raw)))
		}
		err := patch(types.JSONPatchType, fmt.Sprintf(`[{"op":"test","path":"/status","value":%s},{"op":"add","path":"/status","value":{}}]`, AsJSON(before.Status)))
		e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		err = patch(types.MergePatchType, fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{"replicas":1}}`, before.ResourceVersion))
		e.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		var codes []int
		for _, write := range refused(statusWrites(e, mark, func(w cluster.Event) bool { return !byManager(w) })) {
			codes = append(codes, write.Code)
		}
		e.Expect(codes).To(Equal([]int{http.StatusUnprocessableEntity, http.StatusConflict}))
	})
}

// editing runs all of the edits at once, each over and over, until stop is called, which returns how
// many there were. None may fail.
func editing(e *Env, edits ...func(i int) error) (stop func() int) {
	ctx, cancel := context.WithCancel(e.Ctx)
	e.T.Cleanup(cancel)
	var group sync.WaitGroup
	errs, counts := make([]error, len(edits)), make([]int, len(edits))
	for n, edit := range edits {
		group.Go(func() {
			for ; ctx.Err() == nil && errs[n] == nil; counts[n]++ {
				errs[n] = edit(counts[n])
			}
		})
	}
	return func() int {
		e.T.Helper()
		cancel()
		group.Wait()
		e.Expect(errors.Join(errs...)).NotTo(HaveOccurred())
		made := 0
		for _, count := range counts {
			made += count
		}
		return made
	}
}

// statusWrites returns the writes of the status of UnitedDeployments in the namespace since a mark that
// by selects.
func statusWrites(e *Env, since int64, by func(cluster.Event) bool) []cluster.Event {
	e.T.Helper()
	writes, err := e.Cluster.Writes(e.Ctx, since, func(w cluster.Event) bool {
		return by(w) && w.Namespace == e.Namespace && w.Resource+"/"+w.Subresource == Statuses
	})
	e.Expect(err).NotTo(HaveOccurred())
	return writes
}

// refused returns the writes that were refused because the object had changed: by its resourceVersion,
// or by a test in a JSON patch.
func refused(writes []cluster.Event) []cluster.Event {
	return slices.DeleteFunc(slices.Clone(writes), func(w cluster.Event) bool {
		return w.Code != http.StatusConflict && w.Code != http.StatusUnprocessableEntity
	})
}
