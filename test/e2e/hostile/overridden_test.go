// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestOverriddenChild checks a policy that overrides the replicas of each child on each write, and
// counts. United reports that and writes less and less often. It still writes what the spec asks for at
// once, and others do not wait.
func TestOverriddenChild(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	still := e.History.Forbid(Protect("zone-a", 3, "v1"), Protect("zone-b", 3, "v1"))

	mark := e.AuditMark()
	lift := e.Override(Children, "", `[
		JSONPatch{op: "replace", path: "/spec/replicas", value: 5},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}]`, w.ChildComesOut(func(child *appsv1.StatefulSet) bool { return *child.Spec.Replicas == 5 }))
	w.SetPartitions(Parts{"zone-a": 4}) // the first write is overridden
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, "StatefulSet web-zone-a: spec.replicas was changed by admission")
	e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(5))
	e.Expect(w.Child("zone-a").Labels).To(HaveKey("example.com/written"))
	e.Expect(e.Writes(mark, Children)).To(HaveEach(HaveField("Name", "web-zone-a")))
	e.Expect(len(e.WithoutConflicts(mark, Children))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)))
	e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", Spaced))
	control.Reacts()

	e.Step("another write is made at once", func() {
		for _, partition := range []int32{5, 3, 5} {
			w.SetPartitions(Parts{"zone-a": partition})
			e.Eventually(func() int32 { return w.Partition("zone-a") }).Should(Equal(partition))
		}
		still.Holds()
	})
	e.Step("without the policy all is well", func() {
		lift()
		w.Disturbed()
		w.Settle()
		e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(3))
	})
	w.SetPartitions(Parts{"zone-a": 0})
	w.Settle()
	still.Fires()
}

// TestOverriddenByOther checks that the status names a controller which sets the replicas of a child
// each time they change.
func TestOverriddenByOther(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	mark := e.AuditMark()
	stop := otherScales(w, "zone-a", 3)
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, `spec.replicas was changed by "other-scaler" right after it was written`)
	// On a busy machine many writes meet one of the other client, or of the child's controller: a conflict changes nothing.
	e.Expect(len(childWrites(w, mark))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)))
	stop()
	w.Disturbed()
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
}

// TestOverriddenStatus checks a policy that overrides a field of the status, and counts.
func TestOverriddenStatus(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	mark := e.AuditMark()
	lift := e.Override("uniteddeployments", "status", `[
		JSONPatch{op: "replace", path: "/status/selector", value: "app=x" + oldObject.metadata.resourceVersion}]`, selectorComesOut(w, "app=x"))
	w.SetImage("v2") // the first write is overridden
	w.StallsWhole(v1alpha1.ReasonOverridden, "status: status.selector was changed by admission")
	e.Expect(len(e.Writes(mark, Statuses))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)))
	control.Reacts()
	e.Step("partitions work", func() {
		w.SetPartitions(Parts{"zone-a": 0})
		w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"})
	})
	lift()
	w.Disturbed()
	w.Settle()
}

// otherScales scales a child, as another client, whenever its replicas differ, until stop is called.
func otherScales(w *Workload, subset string, replicas int32) (stop func()) {
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan struct{})
	key := w.Key(w.Name + "-" + subset)
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			child := &appsv1.StatefulSet{}
			if err := w.Get(ctx, key, child); err == nil && *child.Spec.Replicas != replicas {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
				_ = w.Client.Patch(ctx, child, patch, client.FieldOwner("other-scaler"))
			}
			return false, nil
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

// selectorComesOut reports whether a change of the status already gets a selector with the prefix.
func selectorComesOut(w *Workload, prefix string) func() bool {
	return func() bool {
		w.T.Helper()
		return strings.HasPrefix(statusAsWritten(w).Selector, prefix)
	}
}
