// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

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
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestCloneSetSample applies config/samples/cloneset.yaml, stages a version, and checks that one pod of
// zone-a is updated.
func TestCloneSetSample(t *testing.T) {
	t.Parallel()
	k := KindNamed("CloneSet")
	k.Manager(Shared, t)
	e := NewEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	_, err = e.Cluster.Kubectl(e.Ctx, "-n", e.Namespace, "apply", "-f", filepath.Join(root, "config", "samples", "cloneset.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	w := e.Workload("clones").Of(k)
	w.ComesTo("2 v1", "2 v1", "2 v1")
	w.SetImages("v2")
	w.ComesTo("1 v1, 1 v2", "2 v1", "2 v1")
}

// TestCloneSetCounts checks that the partition of a CloneSet is the number of pods that stay. The
// CloneSet updates unready pods first, creates missing pods on the version that the count asks for, and
// removes a reverted version regardless of the partition.
func TestCloneSetCounts(t *testing.T) {
	t.Parallel()
	w := KindNamed("CloneSet").ContractOf(t, Replicas(4), Zones(""), Partitions(Parts{"zone-a": 4}))
	w.ComesTo("4 v1", "", "")
	var unready types.UID
	w.Step("what is not ready goes first", func() {
		p := w.Pods()[1]
		unready = p.UID
		w.MarkPod(p.Name, corev1.ConditionFalse)
		w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-a").ReadyReplicas).To(Equal(int32(3))) }).Should(Succeed())
		w.SetImages("v2")
		w.SetPartitions(Parts{"zone-a": 3})
		w.ComesTo("3 v1, 1 v2", "", "")
		w.Expect(w.Uids()).NotTo(HaveKey(unready))
		w.Eventually(func() string { return w.Status("zone-a").Message }).Should(Equal("partition 3 of 4 replicas protects 3; the CloneSet chooses which"))
	})
	w.Step("what is missing comes back as the count says", func() {
		w.SetPartitions(Parts{"zone-a": 2})
		w.ComesTo("2 v1, 2 v2", "", "")
		for _, tag := range []string{"v1", "v2"} {
			untilYounger(w)
			deleteImage(w, tag)
			w.ComesTo("2 v1, 2 v2", "", "")
		}
	})
	w.Step("scaled, with the partition", func() {
		w.Scale(3)
		w.ComesTo("2 v1, 1 v2", "", "")
		w.Scale(5)
		w.ComesTo("2 v1, 3 v2", "", "")
	})
	w.Step("what fails is replaced by the next version", func() {
		w.SetImages("broken")
		w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 broken?, 2 v1, 2 v2"}), "its maxUnavailable is 20%")
		w.SetImages("v3")
		w.ComesTo("2 v1, 3 v3", "", "")
	})
	w.Step("back", func() {
		w.SetImages("v1")
		w.ComesTo("5 v1", "", "")
	})
	w.Step("and on, protected as before", func() {
		w.SetImages("v4")
		w.ComesTo("2 v1, 3 v4", "", "")
	})
}

// TestCloneSetScalesDownUnreadyFirst checks that a CloneSet which scales down deletes, of the pods that
// are updated, the one that is not ready, even if it is the oldest.
func TestCloneSetScalesDownUnreadyFirst(t *testing.T) {
	t.Parallel()
	w := KindNamed("CloneSet").ContractOf(t, Replicas(5), Zones(""), Partitions(Parts{"zone-a": 1}))
	w.ComesTo("5 v1", "", "")
	w.SetImages("v2")
	w.ComesTo("1 v1, 4 v2", "", "")
	for left := 4; left > 2; left-- { // more than once, because any of them could be the one by chance
		oldest, want := byAge(w, "v2")[0], w.Uids()
		delete(want, oldest.UID)
		w.MarkPod(oldest.Name, corev1.ConditionFalse)
		w.Eventually(func() int32 { return w.Status("zone-a").ReadyReplicas }).Should(Equal(int32(left)))
		w.Scale(int32(left))
		w.ComesTo(fmt.Sprintf("1 v1, %d v2", left-1), "", "")
		w.Expect(w.Uids()).To(Equal(want))
	}
}

// byAge returns the pods that run an image, beginning with the one that has been ready for the longest
// time.
func byAge(w *Contracted, tag string) (pods []Pod) {
	w.T.Helper()
	for _, p := range w.Pods() {
		if p.Image == tag {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return a.ReadySince.Compare(b.ReadySince) })
	return pods
}

// TestCloneSetIsHasty checks that United still knows the previous version when a CloneSet has forgotten
// it. A CloneSet does so as soon as all of its pods are updated, ready or not.
func TestCloneSetIsHasty(t *testing.T) {
	t.Parallel()
	all := TemplateField("100%", "spec", "updateStrategy", "maxUnavailable")
	w := KindNamed("CloneSet").ContractOf(t, Replicas(2), Zones(""), Hold(), all)
	w.ComesTo("2 v1", "", "")
	before := w.Parent().Status.CurrentRevision
	w.Step("a version that never comes up", func() {
		w.SetImages("broken")
		w.SetPartitions(Parts{"zone-a": 0})
		w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "2 broken?"}))
		w.Eventually(func(g Gomega) {
			g.Expect(hashOf(w, "currentRevision")).To(Equal(hashOf(w, "updateRevision")), "it has forgotten")
			g.Expect(w.Status("zone-a").UpdatedReplicas).To(Equal(int32(2)))
		}).Should(Succeed())
		w.Expect(w.Status("zone-a").CurrentRevision).To(Equal(before))
	})
	w.Step("is taken back by what comes next, all held", func() {
		w.SetPartitions(Parts{"zone-a": "100%"})
		w.SetImages("v3")
		w.ComesTo("2 v1", "", "")
	})
}

// hashOf returns a field of the status of zone-a's child.
func hashOf(w *Contracted, field string) any {
	w.T.Helper()
	status, _ := w.LiveChild("zone-a").Object["status"].(map[string]any)
	return status[field]
}

// untilYounger waits until pods that are created from now on are younger than all others. A CloneSet
// updates the youngest pods first, and compares their creation times in seconds: among equals it picks
// any, even a pod that was protected so far.
func untilYounger(w *Contracted) {
	w.T.Helper()
	newest := time.Time{}
	for _, p := range w.PodsOf("zone-a") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.After(newest) {
				newest = c.LastTransitionTime.Time
			}
		}
	}
	w.Eventually(time.Now).Should(BeTemporally(">=", newest.Add(time.Second)))
}

// deleteImage deletes the pods that run a tag, and waits until they are gone.
func deleteImage(w *Contracted, tag string) {
	w.T.Helper()
	w.Disturbed()
	gone := map[types.UID]bool{}
	for _, p := range w.PodsOf("zone-a") {
		if TagOf(p.Spec.Containers[0].Image) == tag {
			gone[p.UID] = true
			w.Expect(client.IgnoreNotFound(w.Delete(w.Ctx, &p))).To(Succeed())
		}
	}
	w.Eventually(func(g Gomega) {
		for uid := range w.Uids("zone-a") {
			g.Expect(gone).NotTo(HaveKey(uid))
		}
	}).Should(Succeed())
}

// TestCloneSetInPlace checks an update in place, see updatesInPlace.
func TestCloneSetInPlace(t *testing.T) {
	t.Parallel()
	updatesInPlace(KindNamed("CloneSet"), t, TemplateField("InPlaceIfPossible", "spec", "updateStrategy", "type"))
}

// updatesInPlace checks that a pod which is updated in place keeps its place, and counts as not ready
// until its kubelet has finished. Here the test plays the kubelet.
func updatesInPlace(k Kind, t *testing.T, edits ...Edit) {
	t.Helper()
	w := k.ContractOf(t, append(edits, Replicas(3), Zones(""), Rolling(`{"maxUnavailable":1}`))...)
	w.ComesTo("3 v1", "", "")
	before := w.Uids()
	w.SetImages("v2")
	for n := 1; n <= 3; n++ {
		w.Eventually(func(g Gomega) {
			g.Expect(inPlace(w)).To(HaveLen(1), "one at a time")
			g.Expect(w.Status("zone-a").UpdatedReplicas).To(Equal(int32(n)))
			g.Expect(w.Status("zone-a").AvailableReplicas).To(Equal(int32(2)))
		}).Should(Succeed())
		finishInPlace(w, inPlace(w)[0])
	}
	w.ComesTo("3 v2", "", "")
	w.Expect(w.Uids()).To(Equal(before))
}

// inPlace returns the pods that wait for their kubelet to update them in place.
func inPlace(w *Contracted) (updating []corev1.Pod) {
	w.T.Helper()
	for _, p := range w.PodsOf("zone-a") {
		if p.Labels["lifecycle.apps.kruise.io/state"] == "Updating" {
			updating = append(updating, p)
		}
	}
	return updating
}

// finishInPlace reports, as the kubelet, that a pod runs its new image and is ready.
func finishInPlace(w *Contracted, p corev1.Pod) {
	w.T.Helper()
	after := p.DeepCopy()
	for i := range after.Status.ContainerStatuses {
		after.Status.ContainerStatuses[i].Image = after.Spec.Containers[i].Image
		after.Status.ContainerStatuses[i].ImageID = after.Spec.Containers[i].Image
	}
	w.Expect(w.Client.Status().Patch(w.Ctx, after, client.MergeFrom(&p))).To(Succeed())
	w.Eventually(func(g Gomega) {
		done := &corev1.Pod{}
		g.Expect(w.Get(w.Ctx, w.Key(p.Name), done)).To(Succeed())
		g.Expect(done.Labels["lifecycle.apps.kruise.io/state"]).To(Equal("Normal"))
	}).Should(Succeed())
	w.MarkPod(p.Name, corev1.ConditionTrue)
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
			w := KindNamed(name).ContractOf(t, Replicas(1), Zones(""), TemplateField("web-override", "spec", "template", "spec", "hostnameOverride"))
			w.ComesTo("1 v1", "", "")
			_, found, err := unstructured.NestedString(w.LiveChild("zone-a").Object, "spec", "template", "spec", "hostnameOverride")
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(found).To(Equal(kept))
		})
	}
}
