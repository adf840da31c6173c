// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// recorded are the annotations that show what a child runs.
var recorded = []string{
	v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration, v1alpha1.AnnotationPartition,
	v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding, v1alpha1.AnnotationAsked, v1alpha1.AnnotationFingerprint,
}

// removes returns a merge patch of metadata that sets all of these annotations to null.
func removes(annotations ...string) string {
	var gone []string
	for _, a := range annotations {
		gone = append(gone, fmt.Sprintf("%q:null", a))
	}
	return `"annotations":{` + strings.Join(gone, ",") + `}`
}

// TestStripped removes or forges, in the middle of a rollout, the annotations that United wrote on a
// child. It checks that no pod moves, and that United writes them again. The control is another parent.
func TestStripped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		strategy Edit
		release  string
	}{
		"Manual":        {Partitions(Parts{"zone-a": 2}), `{"manualUpdate":{"partitions":null,"defaultPartition":0}}`},
		"RollingUpdate": {Rolling(`{steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`), `{"rollingUpdate":{"steps":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				control := NewEnv(e.T).Create(NewDraft("control", Replicas(2), Zones("", ""), Hold()))
				control.Settle()
				w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("3", "3"), tc.strategy))
				w.Settle()
				w.SetImage("v2")
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
				w.Disturbed()
				w.Settle()
				still := e.History.Forbid(AnyNewPod)
				for _, subset := range []string{"zone-a", "zone-b"} {
					isStripped(w, subset)
				}
				losesItsOwner(w, "zone-a")
				control.Reacts()
				still.Holds()

				e.Step("what protects is whole", func() {
					for _, subset := range []string{"zone-a", "zone-b"} {
						w.DeletePod(subset, 0)
					}
					w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
					still.Fires()
				})
				w.Disturbed()
				w.Settle()
				w.Patch(`{"spec":{"updateStrategy":%s}}`, tc.release)
				w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"})
				w.Disturbed()
				w.Settle()
			})
		})
	}
}

// isStripped removes everything that can be removed from a child, one by one and at once.
func isStripped(w *Workload, subset string) {
	w.T.Helper()
	checked := append(slices.Clone(recorded), v1alpha1.AnnotationRecordChecksum)
	patches := []string{
		removes(recorded...),
		removes(checked...),
		`"labels":{"united.dev/name":null}`,
		`"labels":{"united.dev/subset":null,"app":null}`,
		`"labels":null,` + removes(checked...),
		`"managedFields":[{}]`,
		`"managedFields":[{}],` + removes(recorded...),
		`"annotations":{"united.dev/parent-generation":"99999"}`,
		`"annotations":{"united.dev/record-checksum":"1-0"}`,
		`"annotations":{"united.dev/parent-generation":"0","united.dev/protected-revision":"","united.dev/revision":"web-0"}`,
	}
	for _, a := range recorded {
		patches = append(patches, removes(a))
	}
	for _, patch := range patches {
		putsRight(w, subset, `{"metadata":{`+patch+`}}`)
	}
	w.Step("the protected revision is gone as well", func() {
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Parent().Status.CurrentRevision}}
		if w.Delete(w.Ctx, revision) == nil { // the second child finds it already deleted
			w.Disturbed()
		}
		putsRight(w, subset, `{"metadata":{`+removes(recorded...)+`}}`)
	})
}

// putsRight patches a child, and waits until it has its previous annotations and labels again.
func putsRight(w *Workload, subset, patch string) {
	w.T.Helper()
	before := w.Child(subset)
	w.PatchChild(subset, "%s", patch)
	w.Disturbed()
	w.Eventually(func(g Gomega) {
		now := w.Child(subset)
		g.Expect(ours(now.Annotations)).To(Equal(ours(before.Annotations)), patch)
		g.Expect(now.Labels).To(Equal(before.Labels), patch)
		g.Expect(now.Spec).To(Equal(before.Spec), patch)
	}).Should(Succeed())
	w.Settle()
}

// ours returns the annotations of United, without the generation, which follows that of the parent.
func ours(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !strings.HasPrefix(key, "united.dev/") || key == v1alpha1.AnnotationParentGeneration
	})
	return kept
}

// losesItsOwner removes all annotations and the owner: United then leaves the child alone until it has
// the owner again.
func losesItsOwner(w *Workload, subset string) {
	w.T.Helper()
	before := w.Child(subset)
	w.PatchChild(subset, "%s", `{"metadata":{"ownerReferences":null,"labels":null,`+removes(recorded...)+`}}`)
	w.Stalls(subset, v1alpha1.ReasonNameConflict, before.Name+" exists")
	w.PatchChild(subset, `{"metadata":{"ownerReferences":%s}}`, AsJSON(before.OwnerReferences))
	w.Disturbed()
	w.Eventually(func(g Gomega) {
		now := w.Child(subset)
		g.Expect(ours(now.Annotations)).To(Equal(ours(before.Annotations)))
		g.Expect(now.Spec).To(Equal(before.Spec))
	}).Should(Succeed())
	w.Settle()
}

// TestHeldByAFinalizer checks that the child of a removed subset stays in the status until it is gone,
// and so does a child that a user has deleted, which comes back then. The status of both names the
// finalizer.
func TestHeldByAFinalizer(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"the subset is removed": true, "the child is deleted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
			w.Settle()
			w.PatchChild("zone-c", `{"metadata":{"finalizers":["example.com/keep"]}}`)
			left := []string{"zone-a", "zone-b", "zone-c"}
			if removed {
				w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"}]`)
				left = left[:2]
			} else {
				e.Expect(w.Delete(w.Ctx, w.Child("zone-c"))).To(Succeed())
			}
			e.Eventually(func(g Gomega) {
				subsets := w.Parent().Status.Subsets
				g.Expect(subsets).To(HaveLen(3))
				g.Expect(subsets[2]).To(And(HaveField("Name", "zone-c"),
					HaveField("Message", ContainSubstring("waiting for web-zone-c to be deleted; its finalizers are example.com/keep"))))
			}).Should(Succeed())
			if removed {
				w.IsNotReady(v1alpha1.ReasonScaling)
			}
			w.PatchChild("zone-c", `{"metadata":{"finalizers":null}}`)
			w.Disturbed()
			w.Settle()
			e.Eventually(func() []v1alpha1.SubsetStatus { return w.Parent().Status.Subsets }).Should(HaveLen(len(left)))
			e.Expect(w.Asked(left...)).To(Equal(int32(6)))
		})
	}
}

// TestStrippedWhileNoManagerRuns lowers the partition of a child while no manager runs, and removes or
// forges the annotations that United wrote on it. The child's controller moves protected replicas. That
// is not a release: the protected replicas come back as they were.
func TestStrippedWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	open := `"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}`
	patches := map[string]string{
		"stripped":      fmt.Sprintf(`{"metadata":{%s},%s}`, removes(append(slices.Clone(recorded), v1alpha1.AnnotationRecordChecksum)...), open),
		"unowned":       fmt.Sprintf(`{"metadata":{"managedFields":[{}],%s},%s}`, removes(recorded...), open),
		"forged":        fmt.Sprintf(`{"metadata":{"annotations":{%q:"0",%q:"0"}},%s}`, v1alpha1.AnnotationPartition, v1alpha1.AnnotationReleasedFrom, open),
		"lowered alone": fmt.Sprintf(`{%s}`, open), // the control
	}
	p := NewPlaneOf(t)
	all := map[string][]*Workload{}
	for _, patch := range slices.Sorted(maps.Keys(patches)) {
		for _, coordinated := range []bool{false, true} {
			all[patch] = append(all[patch], midCanary(p.NewEnv(t), appsv1.ParallelPodManagement, coordinated))
		}
	}
	p.NewEnv(t).RestartManager(func() {
		for name, workloads := range all {
			for _, w := range workloads {
				w.Disturbed()
				w.PatchChild("zone-a", "%s", patches[name])
			}
		}
		for _, workloads := range all {
			for _, w := range workloads {
				w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1"})
			}
		}
	})
	for name, workloads := range all {
		for _, w := range workloads {
			w.Step(name, func() {
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
				w.Settle()
			})
		}
	}
}

// TestOldRecordPutBack restores annotations that United wrote on a child earlier, as from a backup,
// together with another template. United then does not know what the child protects: no replica moves,
// the status reports that, and restoring what the status asks for is enough.
func TestOldRecordPutBack(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]Edit{"Manual": Hold(), "RollingUpdate": Rolling(`{maxUnavailable: 1, partition: "100%"}`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Zones("", ""), Policy(appsv1.ParallelPodManagement), strategy))
			w.Settle()
			w.SetImage("v2")
			w.Disturbed()
			w.Settle()
			backup := ours(w.Child("zone-b").Annotations) // on v2, and protects v1
			release, held := `{"manualUpdate":{"partitions":null,"defaultPartition":0}}`, `{"manualUpdate":{"defaultPartition":"100%"}}`
			if name == "RollingUpdate" {
				release, held = `{"rollingUpdate":{"partition":0}}`, `{"rollingUpdate":{"partition":"100%"}}`
			}
			w.Patch(`{"spec":{"updateStrategy":%s}}`, release)
			w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"})
			w.Settle()
			w.Patch(`{"spec":{"updateStrategy":%s}}`, held)
			w.SetImage("v3")
			w.Disturbed()
			w.Settle()
			before := w.Child("zone-b")
			e.Expect(before.Annotations[v1alpha1.AnnotationProtectedRevision]).NotTo(Equal(backup[v1alpha1.AnnotationProtectedRevision]), "the control: it protects another by now")

			still := e.History.Forbid(AnyNewPod)
			w.PatchChild("zone-b", `{"metadata":{"annotations":%s},"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, AsJSON(backup), Image("v9"))
			w.Stalls("zone-b", v1alpha1.ReasonRevisionLost, "it protected "+before.Annotations[v1alpha1.AnnotationProtectedRevision])
			still.Holds()
			w.PatchChild("zone-b", `{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
				v1alpha1.AnnotationProtectedRevision, before.Annotations[v1alpha1.AnnotationProtectedRevision],
				v1alpha1.AnnotationRevision, before.Annotations[v1alpha1.AnnotationRevision])
			w.Disturbed()
			w.Settle()
			e.Expect(recordOf(w.Child("zone-b"))).To(Equal(recordOf(before)))
			still.Holds()
			w.DeletePod("zone-b", 0)
			w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"})
			still.Fires()
		})
	}
}

// TestPutBackOnAReplacedChild replaces a child, with or without its pods, from a manifest without the
// annotations. The status of the stalled subset says what to restore. After that, the protected
// replicas run what they ran, and come back on it.
func TestPutBackOnAReplacedChild(t *testing.T) {
	t.Parallel()
	for name, propagation := range map[string]metav1.DeletionPropagation{
		"with its pods": metav1.DeletePropagationBackground, "around its pods": metav1.DeletePropagationOrphan,
	} {
		for strategy, coordinated := range map[string]bool{"Manual": false, "RollingUpdate": true} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				t.Parallel()
				e := NewEnv(t)
				w := midCanary(e, appsv1.ParallelPodManagement, coordinated)
				before, runs := w.Child("zone-a"), w.Images()
				protected := before.Annotations[v1alpha1.AnnotationProtectedRevision]
				replaceBare(w, before, propagation)
				w.Stalls("zone-a", v1alpha1.ReasonRevisionLost, "it protected "+protected)
				w.PatchChild("zone-a", `{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
					v1alpha1.AnnotationProtectedRevision, protected, v1alpha1.AnnotationRevision, before.Annotations[v1alpha1.AnnotationRevision])
				w.Disturbed()
				w.Eventually(w.Images).WithTimeout(2 * WaitTimeout).Should(Equal(runs))
				w.Settle()
				e.Expect(recordOf(w.Child("zone-a"))).To(Equal(recordOf(before)))
				w.DeletePod("zone-a", 0)
				w.Disturbed()
				w.Eventually(w.Images).Should(Equal(runs))
				w.Settle()
			})
		}
	}
}

// replaceBare replaces a child by one without annotations, as kubectl replace --force does. United
// recreates the child as well: if United is faster, replaceBare replaces the child again.
func replaceBare(w *Workload, child *appsv1.StatefulSet, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	bare := child.DeepCopy()
	bare.ObjectMeta = metav1.ObjectMeta{Namespace: bare.Namespace, Name: bare.Name, Labels: bare.Labels, OwnerReferences: bare.OwnerReferences}
	bare.Status = appsv1.StatefulSetStatus{}
	var was types.UID
	w.Eventually(func() error {
		live := &appsv1.StatefulSet{}
		if err := w.Get(w.Ctx, client.ObjectKeyFromObject(bare), live); err == nil && live.UID != was {
			was = live.UID
			if err := w.Delete(w.Ctx, live, client.PropagationPolicy(propagation)); err != nil {
				return err
			}
		}
		return w.Client.Create(w.Ctx, bare.DeepCopy(), client.FieldOwner("kubectl-replace"))
	}).WithPolling(2 * time.Millisecond).Should(Succeed())
}
