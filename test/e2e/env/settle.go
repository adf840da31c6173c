// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
)

// wakeBackedOff makes kube-controller-manager sync StatefulSets that it has left in its backoff. While its caches lag
// behind its own writes, each event of a StatefulSet or its pods is one more failed sync of that name, and doubles the
// wait: after 15 failures it is minutes. Two errors end such a sync. With 1.37, the caches "are not as new as" what was
// written. And when ControllerRevisions were just adopted, an update of one of them with its earlier resourceVersion
// fails, which is reported as "resource name may not be empty" (the retry uses the empty answer). Usually an event ends
// the wait. But after a StatefulSet was deleted and recreated, the last event can be one of a pod that still refers to
// the earlier UID, or of a ControllerRevision, for which nothing is synced. United can only wait for that, like for any
// other controller that is away. A StatefulSet is woken only if its last sync failed; if it then fails for a reason that
// lasts, it stays unobserved, and the test fails. The map has, for each generation of a StatefulSet, when it was first
// seen unobserved.
func (w *Workload) wakeBackedOff(g Gomega, unobserved map[string]time.Time) {
	list := &appsv1.StatefulSetList{}
	g.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	for i := range list.Items {
		set := &list.Items[i]
		if set.DeletionTimestamp != nil || set.Status.ObservedGeneration == set.Generation {
			continue
		}
		id := fmt.Sprintf("%s/%d", set.UID, set.Generation)
		since, seen := unobserved[id]
		if !seen {
			unobserved[id] = time.Now()
			continue
		}
		if time.Since(since) < 20*time.Second {
			continue
		}
		log, err := os.ReadFile(w.Cluster.LogPath("kube-controller-manager"))
		g.Expect(err).NotTo(HaveOccurred())
		line := LastSyncError(log, set.Namespace+"/"+set.Name)
		if line == "" {
			continue
		}
		w.T.Logf("waking %s, which kube-controller-manager has in its backoff: %s", set.Name, line)
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.united.dev/woken":%q}}}`, time.Now().Format(time.RFC3339))
		g.Expect(w.Client.Patch(w.Ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		unobserved[id] = time.Now()
	}
}

// LastSyncError returns the last line of kube-controller-manager's log that says that it failed to sync the
// StatefulSet with this key, or "".
func LastSyncError(log []byte, key string) string {
	last := ""
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("Error syncing StatefulSet")) && bytes.Contains(line, []byte(`key="`+key+`"`)) {
			last = strings.TrimSpace(string(line))
		}
	}
	return last
}

// Settle waits until the manager reports that the cluster matches the spec (Ready=True for this
// generation), and checks that it does: every controller has observed its child, every replica exists
// and is ready, and every released replica runs the child's template.
//
// After a change of the spec alone, a premature Ready=True is an error, and fails the test. After a
// change of pods or children (DeletePod and similar, or Disturbed), the status may be older than the
// change.
func (w *Workload) Settle() {
	w.T.Helper()
	unobserved := map[string]time.Time{}
	w.Eventually(func(g Gomega) {
		w.wakeBackedOff(g, unobserved)
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.Ctx, w.Key(w.Name), parent)).To(Succeed())
		g.Expect(fixtures.WhyNotReady(parent)).To(BeEmpty())
		if w.disturbed {
			g.Expect(w.Unsettled(g, parent)).To(BeEmpty())
			return
		}
		w.Expect(w.Unsettled(w, parent)).To(BeEmpty(), "the status says Ready=True, but:")
	}).WithTimeout(RolloutTimeout).Should(Succeed())
	w.disturbed = false
}

// Disturbed informs Settle that a test changed pods or children.
func (w *Workload) Disturbed() { w.disturbed = true }

// Unsettled describes how the cluster differs from the spec and the children; it reads everything from
// the API server.
func (w *Workload) Unsettled(g Gomega, parent *v1alpha1.UnitedDeployment) string {
	list := &appsv1.StatefulSetList{}
	g.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	sets := map[string]*appsv1.StatefulSet{}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], parent) {
			sets[list.Items[i].Name] = &list.Items[i]
		}
	}
	pods := map[string][]Pod{}
	for _, p := range w.Pods() {
		pods[p.Subset] = append(pods[p.Subset], p)
	}
	total := int32(0)
	for _, s := range parent.Spec.Topology.Subsets {
		name := adapters.ChildName(w.Name, s.Name)
		set := sets[name]
		if set == nil {
			return name + " does not exist"
		}
		if why := unsettledChild(set, pods[s.Name], parent.Spec.Paused); why != "" {
			return why
		}
		total += ptr.Deref(set.Spec.Replicas, 1)
	}
	switch {
	case len(sets) != len(parent.Spec.Topology.Subsets):
		return fmt.Sprintf("%d children, %d subsets", len(sets), len(parent.Spec.Topology.Subsets))
	case len(sets) > 0 && total != ptr.Deref(parent.Spec.Replicas, 1):
		return fmt.Sprintf("the children have %d replicas together, the parent %d", total, ptr.Deref(parent.Spec.Replicas, 1))
	}
	return ""
}

func unsettledChild(set *appsv1.StatefulSet, pods []Pod, paused bool) string {
	first, partition := 0, 0
	if set.Spec.Ordinals != nil {
		first = int(set.Spec.Ordinals.Start)
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = int(ptr.Deref(rolling.Partition, 0))
	}
	switch {
	case set.Status.ObservedGeneration != set.Generation:
		return set.Name + " has not been observed"
	case len(pods) != int(ptr.Deref(set.Spec.Replicas, 1)):
		return fmt.Sprintf("%s has %d of %d replicas", set.Name, len(pods), ptr.Deref(set.Spec.Replicas, 1))
	}
	for i, p := range pods {
		switch {
		case p.Ordinal != first+i:
			return fmt.Sprintf("%s has no replica %d", set.Name, first+i)
		case !p.Ready || p.Terminating:
			return p.Name + " is not ready"
		case i >= partition && p.Hash != set.Status.UpdateRevision && !paused:
			return p.Name + " is released and has not moved"
		}
	}
	return ""
}

// AwaitObserved waits until the StatefulSets of all subsets have reported the state of all of their
// pods. They do that a moment after the fact, and the manager's Ready=True does not wait for it.
func (w *Workload) AwaitObserved() {
	w.T.Helper()
	w.Eventually(func(g Gomega) { g.Expect(w.notObserved()).To(BeEmpty()) }).Should(Succeed())
}

// notObserved describes what a StatefulSet has not reported about its pods yet.
func (w *Workload) notObserved() string {
	w.T.Helper()
	pods := map[string][]Pod{}
	for _, p := range w.Pods() {
		pods[p.Subset] = append(pods[p.Subset], p)
	}
	for _, s := range w.Parent().Spec.Topology.Subsets {
		if why := notObservedChild(w.Child(s.Name), pods[s.Name]); why != "" {
			return why
		}
	}
	return ""
}

// NotSettledInStatus returns a subset whose replicas are all ready on the update revision, but whose
// StatefulSet has not settled on it yet according to the status.
func NotSettledInStatus(parent *v1alpha1.UnitedDeployment) string {
	for _, s := range parent.Status.Subsets {
		if s.DesiredReplicas > 0 && s.UpdatedReadyReplicas == s.DesiredReplicas && s.CurrentRevision != s.UpdateRevision {
			return s.Name + " is complete and still protects " + s.CurrentRevision
		}
	}
	return ""
}

func notObservedChild(set *appsv1.StatefulSet, pods []Pod) string {
	told, wanted := set.Status, ptr.Deref(set.Spec.Replicas, 1)
	is := appsv1.StatefulSetStatus{Replicas: int32(len(pods))}
	for _, p := range pods {
		if p.Ready && p.Running {
			is.ReadyReplicas++
		}
		if p.Hash == told.UpdateRevision && !p.Terminating {
			is.UpdatedReplicas++
		}
		if p.Hash == told.CurrentRevision && !p.Terminating {
			is.CurrentReplicas++
		}
	}
	finished := is.Replicas == wanted && is.ReadyReplicas == wanted && is.UpdatedReplicas == wanted
	switch {
	case told.ObservedGeneration != set.Generation:
		return set.Name + " has not been observed"
	case told.Replicas != is.Replicas, told.ReadyReplicas != is.ReadyReplicas,
		told.UpdatedReplicas != is.UpdatedReplicas, told.CurrentReplicas != is.CurrentReplicas,
		set.Spec.MinReadySeconds == 0 && told.AvailableReplicas != is.ReadyReplicas:
		return fmt.Sprintf("the status of %s is %s, its pods are %s", set.Name, AsJSON(told), AsJSON(is))
	case finished && told.CurrentRevision != told.UpdateRevision:
		return set.Name + " has not settled on its update revision"
	}
	return ""
}

func AsJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("as JSON: %v", err))
	}
	return string(raw)
}

// ExpectRest touches all children of a workload at rest and checks that the manager writes nothing. To
// see that the manager has processed them, it then removes a label from the last child, which comes
// later in the same order of events and causes one write, of that child alone.
func ExpectRest(w *Workload, subsets ...string) {
	w.T.Helper()
	w.Expect(notResting(w, subsets)).To(BeEmpty())
}

// ComesToRest is expectRest for a workload that does not show when all work is done: it repeats the
// check until the manager writes nothing.
func ComesToRest(w *Workload, subsets ...string) {
	w.T.Helper()
	w.Eventually(func() []cluster.Event { return notResting(w, subsets) }).Should(BeEmpty())
}

// BringToRest waits until the controllers have reported the state of all pods of their children, and
// the manager has processed that. Any later write has a later cause.
func BringToRest(w *Workload, subsets ...string) {
	w.T.Helper()
	w.AwaitObserved()
	ComesToRest(w, subsets...)
}

// notResting touches all children, and returns the writes of the manager, except for those that restore
// the label.
func notResting(w *Workload, subsets []string) []cluster.Event {
	w.T.Helper()
	last := w.Name + "-" + subsets[len(subsets)-1]
	mark := w.AuditMark()
	for round := range 2 { // the second round sees writes of the first that came too late
		for _, subset := range subsets {
			w.PatchChild(subset, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, round)
		}
		w.PatchChild(subsets[len(subsets)-1], `{"metadata":{"labels":{"app":"drift"}}}`)
		w.Eventually(func() string { return w.Child(subsets[len(subsets)-1]).Labels["app"] }).Should(Equal(w.Name))
	}
	var others []cluster.Event
	w.Eventually(func() int { // a write takes effect a moment before it is answered and logged
		expected := 2
		others = slices.DeleteFunc(w.Writes(mark), func(write cluster.Event) bool {
			ours := expected > 0 && write.Resource+"/"+write.Name == Children+"/"+last
			if ours {
				expected--
			}
			return ours
		})
		return expected
	}).Should(BeZero(), "writes about the label that are missing")
	return others
}
