// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
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

// env is a test's namespace. Expect and Eventually are those of gomega; they, and all failures, refer
// to the current step.
type env struct {
	*WithT
	*plane
	t   *testing.T
	ctx context.Context // of the whole test, not of the step
	client.Client
	Namespace string
	History   History
}

// newEnv creates a namespace on the shared control plane.
func newEnv(t *testing.T) *env {
	t.Helper()
	return shared.newEnv(t)
}

// newEnv creates a namespace in which pods can be created. If the test fails, it logs the objects in
// the namespace.
func (p *plane) newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{WithT: NewWithT(t), plane: p, t: t, ctx: t.Context(), Client: p.client}
	e.History = History{e}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	e.Expect(e.Client.Create(e.ctx, namespace)).To(Succeed())
	e.Namespace = namespace.Name
	e.Eventually(func() error {
		return e.Get(e.ctx, e.key("default"), &corev1.ServiceAccount{})
	}).Should(Succeed(), "without its ServiceAccount no pod is admitted")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.describe(context.WithoutCancel(e.ctx)))
		}
	})
	return e
}

// deleteAtEnd deletes an object for which a controller works all the time, even when nothing changes, after the test.
func (e *env) deleteAtEnd(object client.Object) {
	e.t.Cleanup(func() {
		if e.t.Failed() || e.cluster.Keeps() {
			return
		}
		e.Expect(client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.ctx), object))).To(Succeed())
	})
}

// Step runs a part of the test as a subtest, in the same namespace. Parts depend on each other: if one
// fails, the test ends.
func (e *env) Step(name string, run func()) {
	e.t.Helper()
	fixtures.Step(&e.t, &e.WithT, name, run)
}

func (e *env) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: name}
}

// Workload is one UnitedDeployment of the test.
type Workload struct {
	*env
	Name string
	// disturbed: a test changed the cluster, not the spec, since the manager last reported that
	// everything matches.
	disturbed bool
}

// Create creates a UnitedDeployment, or fails the test.
func (e *env) Create(d *Draft) *Workload {
	e.t.Helper()
	w, err := e.TryCreate(d)
	e.Expect(err).NotTo(HaveOccurred())
	return w
}

// TryCreate is Create for a draft that may be refused.
func (e *env) TryCreate(d *Draft) (*Workload, error) {
	parent, err := d.Object()
	if err != nil {
		return nil, err
	}
	parent.Namespace = e.Namespace
	return e.Workload(parent.Name), e.Client.Create(e.ctx, parent)
}

// Workload returns a UnitedDeployment that was created by other means.
func (e *env) Workload(name string) *Workload { return &Workload{env: e, Name: name} }

// Parent reads the UnitedDeployment.
func (w *Workload) Parent() *v1alpha1.UnitedDeployment {
	w.t.Helper()
	parent := &v1alpha1.UnitedDeployment{}
	w.Expect(w.Get(w.ctx, w.key(w.Name), parent)).To(Succeed())
	return parent
}

// Patch works like kubectl patch --type=merge.
func (w *Workload) Patch(patch string, args ...any) {
	w.t.Helper()
	w.Expect(w.TryPatch(types.MergePatchType, fmt.Sprintf(patch, args...))).To(Succeed())
}

// JSONPatch works like kubectl patch --type=json.
func (w *Workload) JSONPatch(patch string, args ...any) {
	w.t.Helper()
	w.Expect(w.TryPatch(types.JSONPatchType, fmt.Sprintf(patch, args...))).To(Succeed())
}

// TryPatch sends a patch that may be refused.
func (w *Workload) TryPatch(kind types.PatchType, patch string) error {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	return w.Client.Patch(w.ctx, parent, client.RawPatch(kind, []byte(patch)), client.FieldOwner("kubectl-patch"))
}

// SetImage stages another image tag.
func (w *Workload) SetImage(tag string) {
	w.t.Helper()
	w.JSONPatch(`[{"op":"replace","path":%q,"value":%q}]`, imagePath, image(tag))
}

// SetPartitions sets partitions by a merge patch: it keeps those that it does not name, and removes a
// nil one.
func (w *Workload) SetPartitions(p parts) {
	w.t.Helper()
	w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":%s}}}}`, asJSON(p))
}

// Scale uses the scale subresource, as kubectl scale and an HPA do.
func (w *Workload) Scale(n int32) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.Expect(w.SubResource("scale").Patch(w.ctx, parent, patch)).To(Succeed())
}

// Child reads the child of a subset.
func (w *Workload) Child(subset string) *appsv1.StatefulSet {
	w.t.Helper()
	child := &appsv1.StatefulSet{}
	w.Expect(w.Get(w.ctx, w.key(w.Name+"-"+subset), child)).To(Succeed())
	return child
}

// Status reads the status of a subset.
func (w *Workload) Status(subset string) v1alpha1.SubsetStatus {
	w.t.Helper()
	for _, s := range w.Parent().Status.Subsets {
		if s.Name == subset {
			return s
		}
	}
	return v1alpha1.SubsetStatus{}
}

// PatchChild changes a child by a merge patch, as another client.
func (w *Workload) PatchChild(subset, patch string, args ...any) {
	w.t.Helper()
	child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name + "-" + subset}}
	w.Expect(w.Client.Patch(w.ctx, child, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, patch, args...)))).To(Succeed())
}

// DeleteChild deletes the child of a subset and waits until there is another one.
func (w *Workload) DeleteChild(subset string, propagation metav1.DeletionPropagation) {
	w.t.Helper()
	w.DeleteChildren(propagation, subset)
}

// DeleteChildren deletes the children of several subsets, and then waits until each of them exists
// again.
func (w *Workload) DeleteChildren(propagation metav1.DeletionPropagation, subsets ...string) {
	w.t.Helper()
	w.disturbed = true
	var gone []*appsv1.StatefulSet
	for _, subset := range subsets {
		gone = append(gone, w.Child(subset))
	}
	for _, child := range gone {
		w.Expect(w.Delete(w.ctx, child, client.PropagationPolicy(propagation))).To(Succeed())
	}
	for _, child := range gone {
		w.Eventually(func(g Gomega) {
			again := &appsv1.StatefulSet{}
			g.Expect(w.Get(w.ctx, w.key(child.Name), again)).To(Succeed())
			g.Expect(again.UID).NotTo(Equal(child.UID))
		}).Should(Succeed())
	}
}

// DeletePod deletes the pod of an ordinal and waits until there is another one.
func (w *Workload) DeletePod(subset string, ordinal int) {
	w.t.Helper()
	name := fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal)
	old := &corev1.Pod{}
	w.Expect(w.Get(w.ctx, w.key(name), old)).To(Succeed())
	w.disturbed = true
	w.Expect(w.Delete(w.ctx, old)).To(Succeed())
	w.Eventually(func(g Gomega) {
		again := &corev1.Pod{}
		g.Expect(w.Get(w.ctx, w.key(name), again)).To(Succeed())
		g.Expect(again.UID).NotTo(Equal(old.UID))
	}).Should(Succeed())
}

// MarkUnready patches a pod's Ready condition to False; the pod stays unready.
func (w *Workload) MarkUnready(subset string, ordinal int) {
	w.t.Helper()
	w.markReplica(subset, ordinal, corev1.ConditionFalse)
}

// MarkReady patches a pod's Ready condition to True.
func (w *Workload) MarkReady(subset string, ordinal int) {
	w.t.Helper()
	w.markReplica(subset, ordinal, corev1.ConditionTrue)
}

func (w *Workload) markReplica(subset string, ordinal int, ready corev1.ConditionStatus) {
	w.t.Helper()
	w.markPod(fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal), ready)
}

// markPod sets, as the kubelet, whether a pod is ready.
func (w *Workload) markPod(name string, ready corev1.ConditionStatus) {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	patch := client.RawPatch(types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, ready, time.Now().UTC().Format(time.RFC3339)))
	w.disturbed = true
	w.Expect(w.Client.Status().Patch(w.ctx, p, patch)).To(Succeed())
}

// WipeStatus empties the status, as a restore from a backup of the specs does.
func (w *Workload) WipeStatus() {
	w.t.Helper()
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/status","value":{}}]`))
	w.disturbed = true
	w.Expect(w.Client.Status().Patch(w.ctx, parent, patch)).To(Succeed())
}

// pod is the part of a pod that the tests use.
type pod struct {
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

// readPod reads a pod. zones has the zone of each node.
func readPod(p *corev1.Pod, zones map[string]string) pod {
	read := pod{
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
		read.Image = tagOf(p.Spec.Containers[0].Image)
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
func (w *Workload) Pods() []pod {
	w.t.Helper()
	return asReplicas(w.members())
}

// members returns the pods of the workload, including each pod of a group.
func (w *Workload) members() []pod {
	w.t.Helper()
	list := &corev1.PodList{}
	w.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	pods := make([]pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, readPod(&list.Items[i], w.zones))
	}
	slices.SortFunc(pods, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.Subset, b.Subset), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return pods
}

// images are the running tags, by subset, in the order of the ordinals: "v1 v1 v2". A tilde follows the
// tag of a terminating pod.
type images = map[string]string

// Images reads the images from the pods. It omits a subset without pods.
func (w *Workload) Images() images {
	w.t.Helper()
	running := images{}
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
func (e *env) Writes(since int64, kinds ...string) []cluster.Event {
	e.t.Helper()
	manager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	writes, err := e.cluster.Writes(e.ctx, since, func(w cluster.Event) bool {
		kind := strings.TrimSuffix(w.Resource+"/"+w.Subresource, "/")
		wanted := slices.Contains(kinds, kind) || len(kinds) == 0 && w.Resource != "events"
		return manager(w) && w.Namespace == e.Namespace && wanted
	})
	e.Expect(err).NotTo(HaveOccurred())
	return writes
}

// Kinds for Writes.
const (
	children = "statefulsets"
	statuses = "uniteddeployments/status"
)

// AuditMark returns the place in the audit log after everything that was written so far.
func (e *env) AuditMark() int64 {
	e.t.Helper()
	mark, err := e.cluster.AuditMark(e.ctx)
	e.Expect(err).NotTo(HaveOccurred())
	return mark
}

// describe describes the objects in the namespace, for the log of a failed test.
func (e *env) describe(ctx context.Context) string {
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
		out, err := e.cluster.Kubectl(ctx, append([]string{"-n", e.Namespace}, args...)...)
		fmt.Fprintf(&text, "$ kubectl %s\n%s\n", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&text, err) // the cluster need not serve LeaderWorkerSets
		}
	}
	log, err := os.ReadFile(e.manager.LogPath())
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
	w.t.Helper()
	return len(strings.Fields(w.Images()[subset]))
}

// eachPolicy runs a test with both pod management policies in parallel, each in its own namespace.
func eachPolicy(t *testing.T, run func(e *env, p appsv1.PodManagementPolicyType)) {
	t.Helper()
	t.Parallel()
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			run(newEnv(t), p)
		})
	}
}
