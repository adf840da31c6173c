// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
)

// Corrections returns the notes of the ChildCorrected events.
func (w *Contracted) Corrections() (notes []string) {
	w.T.Helper()
	list := &eventsv1.EventList{}
	w.Expect(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	for i := range list.Items {
		if list.Items[i].Reason == "ChildCorrected" {
			notes = append(notes, list.Items[i].Note)
		}
	}
	return notes
}

// KindNamed returns an entry of kinds().
func KindNamed(name string) Kind {
	for _, k := range Kinds() {
		if k.Title == name {
			return k
		}
	}
	panic(name + " is no kind")
}

// Uids returns the pods of the workload.
func (w *Workload) Uids() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, p := range w.Members() {
		uids[p.UID] = true
	}
	return uids
}

// LosesOne makes the child forget, deletes a protected replica, and returns what runs then. A
// controller that has not seen the change yet writes what it knew again.
func (w *Contracted) LosesOne() string {
	w.T.Helper()
	memory := w.Memory(w)
	forgotten := fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, StatusField(memory, "updateRevision"))
	w.Expect(w.Client.Status().Patch(w.Ctx, memory, client.RawPatch(types.MergePatchType, forgotten))).To(Succeed())
	w.DeleteOne("v1")
	var mix string
	w.Eventually(func() string { mix = w.Mix()["zone-a"]; return mix }).Should(BeElementOf("1 v1, 2 v2", "2 v1, 1 v2"))
	return mix
}

// itself returns the child: a child remembers in its own status what its replicas ran. For leadersOf,
// the StatefulSet of the leaders does.
func itself(w *Contracted) *unstructured.Unstructured { return w.LiveChild("zone-a") }

func leadersOf(w *Contracted) *unstructured.Unstructured {
	w.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	w.Expect(w.Get(w.Ctx, w.Key(w.Name+"-zone-a"), u)).To(Succeed())
	return u
}

func StatusField(u *unstructured.Unstructured, field string) string {
	value, _, _ := unstructured.NestedString(u.Object, "status", field)
	return value
}

// DeleteOne deletes one replica that runs an image, and waits until it is gone.
func (w *Contracted) DeleteOne(tag string) {
	w.T.Helper()
	w.Disturbed()
	for _, p := range w.Pods() {
		if p.Image != tag {
			continue
		}
		old := &corev1.Pod{}
		w.Expect(w.Get(w.Ctx, w.Key(p.Name), old)).To(Succeed())
		w.Expect(w.Delete(w.Ctx, old)).To(Succeed())
		w.Eventually(func() map[types.UID]bool { return w.Uids() }).ShouldNot(HaveKey(old.UID))
		return
	}
	w.T.Fatalf("nothing runs %s: %v", tag, w.Mix())
}

// Kind describes a kind of child workload for the contract tests.
type Kind struct {
	Title string
	// member is the member of spec.template, resource the name of the children in the audit log.
	Member, Resource string
	Gvk              schema.GroupVersionKind
	// draft turns the template of a StatefulSet into that of the kind.
	Draft Edit
	// pods are the paths of the pod templates in the spec; the default is "template".
	pods []string
	// whole: a child can be protected and released only as a whole.
	Whole bool
	// counts: replicas have no ordinals, and a partition says only how many of them stay.
	Counts bool
	// manager starts the controller of the kind, if it is not part of Kubernetes.
	Manager func(*Plane, testing.TB)
	// memory returns the object whose status remembers what the replicas of zone-a ran before, as that
	// of a StatefulSet does; nil if no object has to.
	Memory func(*Contracted) *unstructured.Unstructured
	// What a kind cannot do. leavesOrphans: a recreated child does not adopt the pods of an orphaned
	// one. admitsAny: its API accepts a pod template that no pod can be created from, so a release
	// costs a replica, as with one that does not come up. waitsForAny: its API accepts such a template
	// too, but its controller then does nothing. touchesAreObserved: another annotation of a child is a
	// new generation, which its controller has to observe, and the status shows that for a moment.
	// growsOnEarlier: a released replica that a scale-up adds may start on the earlier version, see
	// TestLeaderWorkerSetGrowsReleased.
	LeavesOrphans, admitsAny, waitsForAny, touchesAreObserved, GrowsOnEarlier bool
}

// ContractOf creates a UnitedDeployment of the kind, and starts its manager.
func (k Kind) ContractOf(t *testing.T, edits ...Edit) *Contracted {
	t.Helper()
	return k.ContractOn(Shared, t, edits...)
}

func (k Kind) ContractOn(p *Plane, t *testing.T, edits ...Edit) *Contracted {
	t.Helper()
	if k.Manager != nil {
		k.Manager(p, t)
	}
	e := p.NewEnv(t)
	return e.Create(NewDraft("web", append(edits, k.Draft)...)).Of(k)
}

// Kinds returns all kinds. A new kind has to keep the same contract.
func Kinds() []Kind { return append(BuiltIn(), Installed()...) }

// EachKind runs a test for several kinds, in parallel.
func EachKind(t *testing.T, kinds []Kind, run func(*testing.T, Kind)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.Title, func(t *testing.T) {
			t.Parallel()
			run(t, k)
		})
	}
}

// BuiltIn returns the kinds of Kubernetes.
func BuiltIn() []Kind {
	return []Kind{
		{
			Title: "StatefulSet", Member: "statefulSetTemplate", Resource: "statefulsets",
			Gvk: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Draft: func(*Draft) {}, Memory: itself,
		},
		{
			Title: "Deployment", Member: "deploymentTemplate", Resource: "deployments",
			Gvk: appsv1.SchemeGroupVersion.WithKind("Deployment"), Draft: Deployments, Whole: true, touchesAreObserved: true,
		},
	}
}

// Installed returns the kinds whose controllers somebody has to install.
func Installed() []Kind {
	return []Kind{
		{
			Title: "CloneSet", Member: "cloneSetTemplate", Resource: "clonesets",
			Gvk:   schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"},
			Draft: CloneSets, Manager: (*Plane).WithKruise, Memory: itself, Counts: true, LeavesOrphans: true,
		},
		{
			Title: "AdvancedStatefulSet", Member: "advancedStatefulSetTemplate", Resource: "statefulsets",
			Gvk:   schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
			Draft: AdvancedStatefulSets, Manager: (*Plane).WithKruise, Memory: itself, admitsAny: true,
		},
		{
			Title: "LeaderWorkerSet", Member: "leaderWorkerSetTemplate", Resource: "leaderworkersets",
			Gvk:   schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
			Draft: LeaderWorkerSets, Manager: (*Plane).withLWS, Memory: leadersOf, waitsForAny: true, GrowsOnEarlier: true,
			pods: []string{"leaderWorkerTemplate/leaderTemplate", "leaderWorkerTemplate/workerTemplate"},
		},
	}
}

// Deployments makes the children Deployments.
func Deployments(d *Draft) {
	d.Member = "deploymentTemplate"
	spec := d.Template["spec"].(map[string]any)
	delete(spec, "serviceName")
	delete(spec, "podManagementPolicy")
}

// Contracted is a UnitedDeployment of one of the kinds.
type Contracted struct {
	*Workload
	Kind
}

// Of returns the UnitedDeployment as one of a kind.
func (w *Workload) Of(k Kind) *Contracted { return &Contracted{Workload: w, Kind: k} }

// Mix returns what a subset runs, as the number of replicas of each tag: "2 v1, 1 v2". It also shows
// replicas that are being deleted or are not ready.
func (w *Contracted) Mix() map[string]string {
	counts := map[string]map[string]int{}
	for _, p := range w.Pods() {
		text := p.Image
		switch {
		case p.Terminating:
			text += "~"
		case !p.Ready:
			text += "?"
		}
		if counts[p.Subset] == nil {
			counts[p.Subset] = map[string]int{}
		}
		counts[p.Subset][text]++
	}
	mix := map[string]string{}
	for subset, tags := range counts {
		var parts []string
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			parts = append(parts, fmt.Sprintf("%d %s", tags[tag], tag))
		}
		mix[subset] = strings.Join(parts, ", ")
	}
	return mix
}

// ComesTo waits until the wanted images run, and the workload has settled.
func (w *Contracted) ComesTo(a, b, c string, more ...string) {
	w.T.Helper()
	want := map[string]string{}
	for i, mix := range append([]string{a, b, c}, more...) {
		if mix != "" {
			want["zone-"+string(rune('a'+i))] = mix
		}
	}
	w.Eventually(func(g Gomega) {
		g.Expect(w.Mix()).To(Equal(want))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(RolloutTimeout).Should(Succeed())
}

// RolloutTimeout bounds a rollout of several replicas, one after the other, on a busy machine.
//
// A single group of a LeaderWorkerSet can take a minute there. It gets its workers from a StatefulSet
// whose name, and whose pod names, an earlier StatefulSet had. As long as the garbage collector leaves
// one of those pods, the new StatefulSet fails to create its own. The end of the old pod does not
// trigger a retry, and the controller doubles the delay each time.
const RolloutTimeout = 2 * WaitTimeout

func (w *Contracted) SetImages(tag string) {
	w.T.Helper()
	var patches []string
	for _, at := range w.podTemplates() {
		patches = append(patches, fmt.Sprintf(`{"op":"replace","path":"/spec/template/%s/spec/%s/spec/containers/0/image","value":%q}`, w.Member, at, Image(tag)))
	}
	w.JSONPatch(`[%s]`, strings.Join(patches, ","))
}

func (k Kind) podTemplates() []string {
	if k.pods == nil {
		return []string{"template"}
	}
	return k.pods
}

// PodsPatch returns a patch of the first pod template for a subset.
func (k Kind) PodsPatch(pods string) string {
	steps := strings.Split(k.podTemplates()[0], "/")
	for _, step := range slices.Backward(steps) {
		pods = fmt.Sprintf(`{%q:%s}`, step, pods)
	}
	return fmt.Sprintf(`{"spec":%s}`, pods)
}

func (w *Contracted) Object(subset string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(w.Gvk)
	u.SetNamespace(w.Namespace)
	u.SetName(w.Name + "-" + subset)
	return u
}

// LiveChild reads the child of a subset.
func (w *Contracted) LiveChild(subset string) *unstructured.Unstructured {
	w.T.Helper()
	u := w.Object(subset)
	w.Expect(w.Get(w.Ctx, w.Key(u.GetName()), u)).To(Succeed())
	return u
}

// Remake deletes the child of a subset, and waits until there is another one.
func (w *Contracted) Remake(subset string, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	old := w.LiveChild(subset)
	w.Disturbed()
	w.Expect(w.Delete(w.Ctx, old, client.PropagationPolicy(propagation))).To(Succeed())
	w.Eventually(func(g Gomega) {
		again := w.Object(subset)
		g.Expect(w.Get(w.Ctx, w.Key(old.GetName()), again)).To(Succeed())
		g.Expect(again.GetUID()).NotTo(Equal(old.GetUID()))
	}).Should(Succeed())
}

// DeletePods deletes the pods of a subset, and waits until they are gone.
func (w *Contracted) DeletePods(subset string) {
	w.T.Helper()
	w.Disturbed()
	gone := w.Uids(subset)
	for _, p := range w.PodsOf(subset) {
		w.Expect(client.IgnoreNotFound(w.Delete(w.Ctx, &p))).To(Succeed())
	}
	w.Eventually(func(g Gomega) {
		for uid := range w.Uids(subset) {
			g.Expect(gone).NotTo(HaveKey(uid))
		}
	}).Should(Succeed())
}

// Uids returns the UIDs of the pods of the subsets, or of all subsets if there is none.
func (w *Contracted) Uids(subsets ...string) map[types.UID]bool {
	w.T.Helper()
	uids := map[types.UID]bool{}
	for _, p := range w.Pods() {
		if len(subsets) == 0 || slices.Contains(subsets, p.Subset) {
			uids[p.UID] = true
		}
	}
	return uids
}

// DeploymentsOf creates a UnitedDeployment of Deployments, all of them on v1.
func (e *Env) DeploymentsOf(edits ...Edit) *Contracted {
	e.T.Helper()
	w := e.Create(NewDraft("web", append([]Edit{Deployments}, edits...)...)).Of(KindNamed("Deployment"))
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	return w
}

// Child reads a write of a child; it returns nil for any other call.
func (c *Call) Child() *writtenChild {
	if !c.On(http.MethodPatch, Children) {
		return nil
	}
	w := &writtenChild{}
	if err := json.Unmarshal(c.Body, w); err != nil {
		panic(fmt.Sprintf("a child is not written as JSON: %v", err))
	}
	return w
}

// Object reads the UnitedDeployment with all its fields, as tools see it.
func (w *Workload) Object() *unstructured.Unstructured {
	w.T.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UnitedDeployment"))
	w.Expect(w.Get(w.Ctx, w.Key(w.Name), object)).To(Succeed())
	return object
}

// ApplySampleOf applies a file of config/samples that contains a UnitedDeployment of a kind and with a
// name.
func ApplySampleOf(t *testing.T, kind, file, name string) *Contracted {
	t.Helper()
	k := KindNamed(kind)
	if k.Manager != nil {
		k.Manager(Shared, t)
	}
	e := NewEnv(t)
	e.Kubectl("apply", "-f", filepath.Join(SamplesDir(t), file))
	return e.Workload(name).Of(k)
}

// WithKruise ensures that kruise-manager runs. It starts on the first call: until then the tests run without
// its kinds.
func (p *Plane) WithKruise(t testing.TB) {
	t.Helper()
	if err := p.startKruise(); err != nil {
		t.Fatal(err)
	}
}

// CloneSets makes the children CloneSets.
func CloneSets(d *Draft) {
	Deployments(d)
	d.Member = "cloneSetTemplate"
}

// AdvancedStatefulSets makes the children Advanced StatefulSets.
func AdvancedStatefulSets(d *Draft) {
	d.Member = "advancedStatefulSetTemplate"
	d.Template["spec"].(map[string]any)["podManagementPolicy"] = "Parallel"
}

// DeleteOrphans deletes the pods of a subset that have no controller.
func (w *Contracted) DeleteOrphans(subset string) {
	w.T.Helper()
	w.Disturbed()
	for _, p := range w.PodsOf(subset) {
		if metav1.GetControllerOf(&p) == nil {
			w.Expect(client.IgnoreNotFound(w.Delete(w.Ctx, &p))).To(Succeed())
		}
	}
}

// LeaderWorkerTemplate returns the leaderWorkerTemplate of a draft, whatever its kind is at that point.
func LeaderWorkerTemplate(d *Draft) map[string]any {
	spec := d.Template["spec"].(map[string]any)
	group, ok := spec["leaderWorkerTemplate"].(map[string]any)
	if !ok {
		group = map[string]any{}
		spec["leaderWorkerTemplate"] = group
	}
	return group
}

// withLWS ensures that lws-manager runs. It starts on the first call: until then the tests run without its
// kind.
func (p *Plane) withLWS(t testing.TB) {
	t.Helper()
	if err := p.startLWS(); err != nil {
		t.Fatal(err)
	}
}

// LeaderWorkerSets makes the children LeaderWorkerSets, with groups of a leader and a worker that have
// separate templates.
func LeaderWorkerSets(d *Draft) {
	d.Member = "leaderWorkerSetTemplate"
	spec := d.Template["spec"].(map[string]any)
	worker := spec["template"].(map[string]any)
	delete(spec, "serviceName")
	delete(spec, "podManagementPolicy")
	delete(spec, "template")
	group := LeaderWorkerTemplate(d)
	group["size"], group["leaderTemplate"], group["workerTemplate"] = int64(2), runtime.DeepCopyJSON(worker), runtime.DeepCopyJSON(worker)
}

func SamplesDir(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "config", "samples")
}
