// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
)

// kindNamed returns an entry of kinds().
func kindNamed(name string) kind {
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	panic(name + " is no kind")
}

// TestCloneSetSample applies config/samples/cloneset.yaml, stages a version, and checks that one pod of
// zone-a is updated.
func TestCloneSetSample(t *testing.T) {
	t.Parallel()
	k := kindNamed("CloneSet")
	k.manager(shared, t)
	e := newEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	_, err = e.cluster.Kubectl(e.ctx, "-n", e.Namespace, "apply", "-f", filepath.Join(root, "config", "samples", "cloneset.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	w := e.Workload("clones").of(k)
	w.comesTo("2 v1", "2 v1", "2 v1")
	w.setImage("v2")
	w.comesTo("1 v1, 1 v2", "2 v1", "2 v1")
}

// TestCloneSetCounts checks that the partition of a CloneSet is the number of pods that stay. The
// CloneSet updates unready pods first, creates missing pods on the version that the count asks for, and
// removes a reverted version regardless of the partition.
func TestCloneSetCounts(t *testing.T) {
	t.Parallel()
	w := kindNamed("CloneSet").contractOf(t, replicas(4), zones(""), partitions(parts{"zone-a": 4}))
	w.comesTo("4 v1", "", "")
	var unready types.UID
	w.Step("what is not ready goes first", func() {
		p := w.Pods()[1]
		unready = p.UID
		w.markPod(p.Name, corev1.ConditionFalse)
		w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-a").ReadyReplicas).To(Equal(int32(3))) }).Should(Succeed())
		w.setImage("v2")
		w.SetPartitions(parts{"zone-a": 3})
		w.comesTo("3 v1, 1 v2", "", "")
		w.Expect(w.uids()).NotTo(HaveKey(unready))
		w.Eventually(func() string { return w.Status("zone-a").Message }).Should(Equal("partition 3 of 4 replicas protects 3; the CloneSet chooses which"))
	})
	w.Step("what is missing comes back as the count says", func() {
		w.SetPartitions(parts{"zone-a": 2})
		w.comesTo("2 v1, 2 v2", "", "")
		for _, tag := range []string{"v1", "v2"} {
			w.untilYounger()
			w.deleteImage(tag)
			w.comesTo("2 v1, 2 v2", "", "")
		}
	})
	w.Step("scaled, with the partition", func() {
		w.Scale(3)
		w.comesTo("2 v1, 1 v2", "", "")
		w.Scale(5)
		w.comesTo("2 v1, 3 v2", "", "")
	})
	w.Step("what fails is replaced by the next version", func() {
		w.setImage("broken")
		w.Eventually(w.mix).Should(Equal(map[string]string{"zone-a": "1 broken?, 2 v1, 2 v2"}), "its maxUnavailable is 20%")
		w.setImage("v3")
		w.comesTo("2 v1, 3 v3", "", "")
	})
	w.Step("back", func() {
		w.setImage("v1")
		w.comesTo("5 v1", "", "")
	})
	w.Step("and on, protected as before", func() {
		w.setImage("v4")
		w.comesTo("2 v1, 3 v4", "", "")
	})
}

// TestCloneSetScalesDownUnreadyFirst checks that a CloneSet which scales down deletes, of the pods that
// are updated, the one that is not ready, even if it is the oldest.
func TestCloneSetScalesDownUnreadyFirst(t *testing.T) {
	t.Parallel()
	w := kindNamed("CloneSet").contractOf(t, replicas(5), zones(""), partitions(parts{"zone-a": 1}))
	w.comesTo("5 v1", "", "")
	w.setImage("v2")
	w.comesTo("1 v1, 4 v2", "", "")
	for left := 4; left > 2; left-- { // more than once, because any of them could be the one by chance
		oldest, want := w.byAge("v2")[0], w.uids()
		delete(want, oldest.UID)
		w.markPod(oldest.Name, corev1.ConditionFalse)
		w.Eventually(func() int32 { return w.Status("zone-a").ReadyReplicas }).Should(Equal(int32(left)))
		w.Scale(int32(left))
		w.comesTo(fmt.Sprintf("1 v1, %d v2", left-1), "", "")
		w.Expect(w.uids()).To(Equal(want))
	}
}

// byAge returns the pods that run an image, beginning with the one that has been ready for the longest
// time.
func (w *contracted) byAge(tag string) (pods []pod) {
	w.t.Helper()
	for _, p := range w.Pods() {
		if p.Image == tag {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b pod) int { return a.ReadySince.Compare(b.ReadySince) })
	return pods
}

// TestCloneSetIsHasty checks that United still knows the previous version when a CloneSet has forgotten
// it. A CloneSet does so as soon as all of its pods are updated, ready or not.
func TestCloneSetIsHasty(t *testing.T) {
	t.Parallel()
	all := templateField("100%", "spec", "updateStrategy", "maxUnavailable")
	w := kindNamed("CloneSet").contractOf(t, replicas(2), zones(""), hold(), all)
	w.comesTo("2 v1", "", "")
	before := w.Parent().Status.CurrentRevision
	w.Step("a version that never comes up", func() {
		w.setImage("broken")
		w.SetPartitions(parts{"zone-a": 0})
		w.Eventually(w.mix).Should(Equal(map[string]string{"zone-a": "2 broken?"}))
		w.Eventually(func(g Gomega) {
			g.Expect(w.hashOf("currentRevision")).To(Equal(w.hashOf("updateRevision")), "it has forgotten")
			g.Expect(w.Status("zone-a").UpdatedReplicas).To(Equal(int32(2)))
		}).Should(Succeed())
		w.Expect(w.Status("zone-a").CurrentRevision).To(Equal(before))
	})
	w.Step("is taken back by what comes next, all held", func() {
		w.SetPartitions(parts{"zone-a": "100%"})
		w.setImage("v3")
		w.comesTo("2 v1", "", "")
	})
}

// hashOf returns a field of the status of zone-a's child.
func (w *contracted) hashOf(field string) any {
	w.t.Helper()
	status, _ := w.child("zone-a").Object["status"].(map[string]any)
	return status[field]
}

// untilYounger waits until pods that are created from now on are younger than all others. A CloneSet
// updates the youngest pods first, and compares their creation times in seconds: among equals it picks
// any, even a pod that was protected so far.
func (w *contracted) untilYounger() {
	w.t.Helper()
	newest := time.Time{}
	for _, p := range w.podsOf("zone-a") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.After(newest) {
				newest = c.LastTransitionTime.Time
			}
		}
	}
	w.Eventually(time.Now).Should(BeTemporally(">=", newest.Add(time.Second)))
}

// deleteImage deletes the pods that run a tag, and waits until they are gone.
func (w *contracted) deleteImage(tag string) {
	w.t.Helper()
	w.Disturbed()
	gone := map[types.UID]bool{}
	for _, p := range w.podsOf("zone-a") {
		if tagOf(p.Spec.Containers[0].Image) == tag {
			gone[p.UID] = true
			w.Expect(client.IgnoreNotFound(w.Delete(w.ctx, &p))).To(Succeed())
		}
	}
	w.Eventually(func(g Gomega) {
		for uid := range w.uids("zone-a") {
			g.Expect(gone).NotTo(HaveKey(uid))
		}
	}).Should(Succeed())
}

// TestCloneSetInPlace checks an update in place, see updatesInPlace.
func TestCloneSetInPlace(t *testing.T) {
	t.Parallel()
	kindNamed("CloneSet").updatesInPlace(t, templateField("InPlaceIfPossible", "spec", "updateStrategy", "type"))
}

// updatesInPlace checks that a pod which is updated in place keeps its place, and counts as not ready
// until its kubelet has finished. Here the test plays the kubelet.
func (k kind) updatesInPlace(t *testing.T, edits ...edit) {
	t.Helper()
	w := k.contractOf(t, append(edits, replicas(3), zones(""), rolling(`{"maxUnavailable":1}`))...)
	w.comesTo("3 v1", "", "")
	before := w.uids()
	w.setImage("v2")
	for n := 1; n <= 3; n++ {
		w.Eventually(func(g Gomega) {
			g.Expect(w.inPlace()).To(HaveLen(1), "one at a time")
			g.Expect(w.Status("zone-a").UpdatedReplicas).To(Equal(int32(n)))
			g.Expect(w.Status("zone-a").AvailableReplicas).To(Equal(int32(2)))
		}).Should(Succeed())
		w.finishInPlace(w.inPlace()[0])
	}
	w.comesTo("3 v2", "", "")
	w.Expect(w.uids()).To(Equal(before))
}

// inPlace returns the pods that wait for their kubelet to update them in place.
func (w *contracted) inPlace() (updating []corev1.Pod) {
	w.t.Helper()
	for _, p := range w.podsOf("zone-a") {
		if p.Labels["lifecycle.apps.kruise.io/state"] == "Updating" {
			updating = append(updating, p)
		}
	}
	return updating
}

// finishInPlace reports, as the kubelet, that a pod runs its new image and is ready.
func (w *contracted) finishInPlace(p corev1.Pod) {
	w.t.Helper()
	after := p.DeepCopy()
	for i := range after.Status.ContainerStatuses {
		after.Status.ContainerStatuses[i].Image = after.Spec.Containers[i].Image
		after.Status.ContainerStatuses[i].ImageID = after.Spec.Containers[i].Image
	}
	w.Expect(w.Client.Status().Patch(w.ctx, after, client.MergeFrom(&p))).To(Succeed())
	w.Eventually(func(g Gomega) {
		done := &corev1.Pod{}
		g.Expect(w.Get(w.ctx, w.key(p.Name), done)).To(Succeed())
		g.Expect(done.Labels["lifecycle.apps.kruise.io/state"]).To(Equal("Normal"))
	}).Should(Succeed())
	w.markPod(p.Name, corev1.ConditionTrue)
}

// TestCloneSetDropsFields checks that a CloneSet loses fields that the types of OpenKruise lack,
// because the webhook of OpenKruise decodes it into these types. A StatefulSet, which no webhook
// decodes, keeps the same field.
func TestCloneSetDropsFields(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"CloneSet": false, "StatefulSet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// This field exists since Kubernetes 1.34; OpenKruise 1.9 has the types of 1.32.
			w := kindNamed(name).contractOf(t, replicas(1), zones(""), templateField("web-override", "spec", "template", "spec", "hostnameOverride"))
			w.comesTo("1 v1", "", "")
			_, found, err := unstructured.NestedString(w.child("zone-a").Object, "spec", "template", "spec", "hostnameOverride")
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(found).To(Equal(kept))
		})
	}
}
