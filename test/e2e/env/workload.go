// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// Env is a test's namespace. Expect and Eventually are those of gomega; they, and all failures, refer
// to the current step.
type Env struct {
	*WithT
	*Plane
	T   *testing.T
	Ctx context.Context // of the whole test, not of the step
	client.Client
	Namespace string
	History   History
}

// NewEnv creates a namespace on the shared control plane.
func NewEnv(t *testing.T) *Env {
	t.Helper()
	return Shared.NewEnv(t)
}

// NewEnv creates a namespace in which pods can be created. If the test fails, it logs the objects in
// the namespace.
func (p *Plane) NewEnv(t *testing.T) *Env {
	t.Helper()
	e := &Env{WithT: NewWithT(t), Plane: p, T: t, Ctx: t.Context(), Client: p.client}
	e.History = History{e}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	e.Expect(e.Client.Create(e.Ctx, namespace)).To(Succeed())
	e.Namespace = namespace.Name
	e.Eventually(func() error {
		return e.Get(e.Ctx, e.Key("default"), &corev1.ServiceAccount{})
	}).Should(Succeed(), "without its ServiceAccount no pod is admitted")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.describe(context.WithoutCancel(e.Ctx)))
		}
	})
	return e
}

// DeleteAtEnd deletes an object for which a controller works all the time, even when nothing changes, after the test.
func (e *Env) DeleteAtEnd(object client.Object) {
	e.T.Cleanup(func() {
		if e.T.Failed() || e.Cluster.Keeps() {
			return
		}
		e.Expect(client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.Ctx), object))).To(Succeed())
	})
}

// Step runs a part of the test as a subtest, in the same namespace. Parts depend on each other: if one
// fails, the test ends.
func (e *Env) Step(name string, run func()) {
	e.T.Helper()
	fixtures.Step(&e.T, &e.WithT, name, run)
}

func (e *Env) Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: name}
}

// Workload is one UnitedDeployment of the test.
type Workload struct {
	*Env
	Name string
	// disturbed: a test changed the cluster, not the spec, since the manager last reported that
	// everything matches.
	disturbed bool
}

// Create creates a UnitedDeployment, or fails the test.
func (e *Env) Create(d *Draft) *Workload {
	e.T.Helper()
	w, err := e.TryCreate(d)
	e.Expect(err).NotTo(HaveOccurred())
	return w
}

// TryCreate is Create for a draft that may be refused.
func (e *Env) TryCreate(d *Draft) (*Workload, error) {
	parent, err := d.Object()
	if err != nil {
		return nil, err
	}
	parent.Namespace = e.Namespace
	return e.Workload(parent.Name), e.Client.Create(e.Ctx, parent)
}

// Workload returns a UnitedDeployment that was created by other means.
func (e *Env) Workload(name string) *Workload { return &Workload{Env: e, Name: name} }

// Parent reads the UnitedDeployment.
func (w *Workload) Parent() *v1alpha1.UnitedDeployment {
	w.T.Helper()
	parent := &v1alpha1.UnitedDeployment{}
	w.Expect(w.Get(w.Ctx, w.Key(w.Name), parent)).To(Succeed())
	return parent
}

// Patch works like kubectl patch --type=merge.
func (w *Workload) Patch(patch string, args ...any) {
	w.T.Helper()
	w.Expect(w.TryPatch(types.MergePatchType, fmt.Sprintf(patch, args...))).To(Succeed())
}

// JSONPatch works like kubectl patch --type=json.
func (w *Workload) JSONPatch(patch string, args ...any) {
	w.T.Helper()
	w.Expect(w.TryPatch(types.JSONPatchType, fmt.Sprintf(patch, args...))).To(Succeed())
}

// TryPatch sends a patch that may be refused.
func (w *Workload) TryPatch(kind types.PatchType, patch string) error {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	return w.Client.Patch(w.Ctx, parent, client.RawPatch(kind, []byte(patch)), client.FieldOwner("kubectl-patch"))
}

// SetImage stages another image tag.
func (w *Workload) SetImage(tag string) {
	w.T.Helper()
	w.JSONPatch(`[{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image(tag))
}

// SetPartitions sets partitions by a merge patch: it keeps those that it does not name, and removes a
// nil one.
func (w *Workload) SetPartitions(p Parts) {
	w.T.Helper()
	w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":%s}}}}`, AsJSON(p))
}

// Scale uses the scale subresource, as kubectl scale and an HPA do.
func (w *Workload) Scale(n int32) {
	w.T.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.Expect(w.SubResource("scale").Patch(w.Ctx, parent, patch)).To(Succeed())
}

// Child reads the child of a subset.
func (w *Workload) Child(subset string) *appsv1.StatefulSet {
	w.T.Helper()
	child := &appsv1.StatefulSet{}
	w.Expect(w.Get(w.Ctx, w.Key(w.Name+"-"+subset), child)).To(Succeed())
	return child
}

// Status reads the status of a subset.
func (w *Workload) Status(subset string) v1alpha1.SubsetStatus {
	w.T.Helper()
	for _, s := range w.Parent().Status.Subsets {
		if s.Name == subset {
			return s
		}
	}
	return v1alpha1.SubsetStatus{}
}

// PatchChild changes a child by a merge patch, as another client.
func (w *Workload) PatchChild(subset, patch string, args ...any) {
	w.T.Helper()
	child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name + "-" + subset}}
	w.Expect(w.Client.Patch(w.Ctx, child, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, patch, args...)))).To(Succeed())
}

// DeleteChild deletes the child of a subset and waits until there is another one.
func (w *Workload) DeleteChild(subset string, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	w.DeleteChildren(propagation, subset)
}

// DeleteChildren deletes the children of several subsets, and then waits until each of them exists
// again.
func (w *Workload) DeleteChildren(propagation metav1.DeletionPropagation, subsets ...string) {
	w.T.Helper()
	w.disturbed = true
	var gone []*appsv1.StatefulSet
	for _, subset := range subsets {
		gone = append(gone, w.Child(subset))
	}
	for _, child := range gone {
		w.Expect(w.Delete(w.Ctx, child, client.PropagationPolicy(propagation))).To(Succeed())
	}
	for _, child := range gone {
		w.Eventually(func(g Gomega) {
			again := &appsv1.StatefulSet{}
			g.Expect(w.Get(w.Ctx, w.Key(child.Name), again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(child.UID))
		}).Should(Succeed())
	}
}

// DeletePod deletes the pod of an ordinal and waits until there is another one.
func (w *Workload) DeletePod(subset string, ordinal int) {
	w.T.Helper()
	name := fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal)
	old := &corev1.Pod{}
	w.Expect(w.Get(w.Ctx, w.Key(name), old)).To(Succeed())
	w.disturbed = true
	w.Expect(w.Delete(w.Ctx, old)).To(Succeed())
	w.Eventually(func(g Gomega) {
		again := &corev1.Pod{}
		g.Expect(w.Get(w.Ctx, w.Key(name), again)).To(Succeed())
		g.Expect(again.UID).NotTo(Equal(old.UID))
	}).Should(Succeed())
}

// MarkUnready patches a pod's Ready condition to False; the pod stays unready.
func (w *Workload) MarkUnready(subset string, ordinal int) {
	w.T.Helper()
	w.markReplica(subset, ordinal, corev1.ConditionFalse)
}

// MarkReady patches a pod's Ready condition to True.
func (w *Workload) MarkReady(subset string, ordinal int) {
	w.T.Helper()
	w.markReplica(subset, ordinal, corev1.ConditionTrue)
}

func (w *Workload) markReplica(subset string, ordinal int, ready corev1.ConditionStatus) {
	w.T.Helper()
	w.MarkPod(fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal), ready)
}

// MarkPod sets, as the kubelet, whether a pod is ready.
func (w *Workload) MarkPod(name string, ready corev1.ConditionStatus) {
	w.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	patch := client.RawPatch(types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, ready, time.Now().UTC().Format(time.RFC3339)))
	w.disturbed = true
	w.Expect(w.Client.Status().Patch(w.Ctx, p, patch)).To(Succeed())
}

// WipeStatus empties the status, as a restore from a backup of the specs does.
func (w *Workload) WipeStatus() {
	w.T.Helper()
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/status","value":{}}]`))
	w.disturbed = true
	w.Expect(w.Client.Status().Patch(w.Ctx, parent, patch)).To(Succeed())
}

// Pod is the part of a pod that the tests use.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Subset          string
	Ordinal         int
	Image           string // the tag
	Hash            string // the child's own revision
	Node, Zone      string
	Running         bool
	Crashing        bool // a container waits for its restart
	Ready           bool
	ReadySince      time.Time // in whole seconds; zero if the pod is not ready
	Terminating     bool
	Parent          string // the UnitedDeployment
	// Leader is the name of the leader of its group, or its own name if it is the leader; "" for a pod
	// that is a replica by itself. Members is the number of pods in the group.
	Leader  string
	Members int
}

// ReadPod reads a pod. zones has the zone of each node.
func ReadPod(p *corev1.Pod, zones map[string]string) Pod {
	read := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		Subset: p.Labels[v1alpha1.LabelSubset], Ordinal: -1,
		Hash: p.Labels[appsv1.ControllerRevisionHashLabelKey],
		Node: p.Spec.NodeName, Zone: zones[p.Spec.NodeName],
		Terminating: p.DeletionTimestamp != nil, Parent: p.Labels[v1alpha1.LabelName],
		Running: p.Status.Phase == corev1.PodRunning,
	}
	if n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:]); err == nil {
		read.Ordinal = n
	}
	readGroup(p, &read)
	if len(p.Spec.Containers) > 0 {
		read.Image = TagOf(p.Spec.Containers[0].Image)
	}
	for _, c := range p.Status.ContainerStatuses {
		read.Crashing = read.Crashing || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			read.Ready, read.ReadySince = true, c.LastTransitionTime.Time
		}
	}
	return read
}

// Pods reads the replicas of the workload from the API server, by subset and ordinal: its pods, or its
// groups of pods.
func (w *Workload) Pods() []Pod {
	w.T.Helper()
	return AsReplicas(w.Members())
}

// Members returns the pods of the workload, including each pod of a group.
func (w *Workload) Members() []Pod {
	w.T.Helper()
	list := &corev1.PodList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	pods := make([]Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, ReadPod(&list.Items[i], w.Zones))
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Subset, b.Subset), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return pods
}

// Images are the running tags, by subset, in the order of the ordinals: "v1 v1 v2". A tilde follows the
// tag of a terminating pod.
type Images = map[string]string

// Images reads the images from the pods. It omits a subset without pods.
func (w *Workload) Images() Images {
	w.T.Helper()
	running := Images{}
	for _, p := range w.Pods() {
		text := p.Image
		if p.Terminating {
			text += "~"
		}
		running[p.Subset] = strings.TrimSpace(running[p.Subset] + " " + text)
	}
	return running
}

// Writes returns what the manager wrote in the namespace since a mark of AuditMark, including refused
// writes. A kind is a resource, with its subresource if it has one ("statefulsets",
// "uniteddeployments/status"); without kinds Writes returns all writes except events.
func (e *Env) Writes(since int64, kinds ...string) []cluster.Event {
	e.T.Helper()
	manager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	writes, err := e.Cluster.Writes(e.Ctx, since, func(w cluster.Event) bool {
		kind := strings.TrimSuffix(w.Resource+"/"+w.Subresource, "/")
		wanted := slices.Contains(kinds, kind) || len(kinds) == 0 && w.Resource != "events"
		return manager(w) && w.Namespace == e.Namespace && wanted
	})
	e.Expect(err).NotTo(HaveOccurred())
	return writes
}

// WithoutConflicts returns Writes but those that conflicted with one of a child's own controller, and are repeated: of these
// nobody knows the number before.
func (e *Env) WithoutConflicts(since int64, kinds ...string) []cluster.Event {
	e.T.Helper()
	return slices.DeleteFunc(e.Writes(since, kinds...), func(w cluster.Event) bool { return w.Code == http.StatusConflict })
}

// Kinds for Writes.
const (
	Children = "statefulsets"
	Statuses = "uniteddeployments/status"
)

// AuditMark returns the place in the audit log after everything that was written so far.
func (e *Env) AuditMark() int64 {
	e.T.Helper()
	mark, err := e.Cluster.AuditMark(e.Ctx)
	e.Expect(err).NotTo(HaveOccurred())
	return mark
}

// describe describes the objects in the namespace, for the log of a failed test.
func (e *Env) describe(ctx context.Context) string {
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "united,sts,controllerrevisions", "-o", "wide"},
		{"get", "leaderworkersets", "--ignore-not-found"},
		{"get", "pods", "-o", "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image,NODE:.spec.nodeName,HASH:.metadata.labels.controller-revision-hash,READY:.status.conditions[?(@.type==\"Ready\")].status,DELETED:.metadata.deletionTimestamp"},
		{"get", "sts", "-o", "custom-columns=NAME:.metadata.name,UID:.metadata.uid,GENERATION:.metadata.generation,OBSERVED:.status.observedGeneration,CURRENT:.status.currentRevision,UPDATE:.status.updateRevision,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers"},
		{"get", "controllerrevisions", "-o", "custom-columns=NAME:.metadata.name,OWNER:.metadata.ownerReferences[*].uid"},
		{"get", "events.events.k8s.io", "--field-selector=type=Warning"},
		{"get", "events.events.k8s.io", "--field-selector=regarding.kind=UnitedDeployment"},
		{"get", "united", "-o", "yaml"},
	} {
		out, err := e.Cluster.Kubectl(ctx, append([]string{"-n", e.Namespace}, args...)...)
		fmt.Fprintf(&text, "$ kubectl %s\n%s\n", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&text, err) // the cluster need not serve LeaderWorkerSets
		}
	}
	log, err := os.ReadFile(e.Manager.LogPath())
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(e.Namespace)) {
			text.Write(line)
		}
	}
	return text.String()
}

// Count returns how many pods a subset has.
func (w *Workload) Count(subset string) int {
	w.T.Helper()
	return len(strings.Fields(w.Images()[subset]))
}

// EachPolicy runs a test with both pod management policies in parallel, each in its own namespace.
func EachPolicy(t *testing.T, run func(e *Env, p appsv1.PodManagementPolicyType)) {
	t.Helper()
	t.Parallel()
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			run(NewEnv(t), p)
		})
	}
}
