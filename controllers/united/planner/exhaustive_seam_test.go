// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulsets "github.com/unitedworkloads/united/adapters/statefulset"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The seam is all that the small worlds know about the internals of the controller. It creates the world of a pass
// from a small state, calls planner.Make, determines what controllers/united (execute.go) would write, and returns
// the status from report.Status.
//
// What to check when the controller changes:
//   - a new field of adapters.Child that Build writes as an annotation: nothing, it is
//     carried. Unless it is written only together with other writes: then add it to riding.
//   - another write that a pass can make: a kind of smallWrite, in decide and carry.
//   - something that a pass remembers in the status: nothing, it is carried, unless
//     publish.ForDecisions drops it.

// longTime is one tick of the clock: longer than the progress deadline, a step's pause and minReadySeconds.
const longTime = 15 * time.Minute

// riding returns the annotations that are no reason to write a child.
func riding() []string {
	return []string{v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration}
}

// interner numbers values that do not fit into a state.
type interner[T any] struct {
	sync.RWMutex
	ids    map[string]uint32
	values []T
}

func newInterner[T any]() *interner[T] { return &interner[T]{ids: map[string]uint32{}} }

func (n *interner[T]) id(key string, value func() T) uint32 {
	n.RLock()
	id, known := n.ids[key]
	n.RUnlock()
	if known {
		return id
	}
	n.Lock()
	defer n.Unlock()
	if id, known = n.ids[key]; !known {
		id = uint32(len(n.values))
		n.ids[key], n.values = id, append(n.values, value())
	}
	return id
}

func (n *interner[T]) at(id uint32) T {
	n.RLock()
	defer n.RUnlock()
	return n.values[id]
}

// noted are annotations: all, and as text without those that ride along.
type noted struct {
	all     map[string]string
	compare string
}

var (
	statuses = newInterner[*v1alpha1.UnitedDeploymentStatus]()
	texts    = emptyFirst()
	notes    = newInterner[noted]()
)

// emptyFirst: no text is 0.
func emptyFirst() *interner[string] {
	n := newInterner[string]()
	n.id("", func() string { return "" })
	return n
}

// noNotes returns the annotations of no child.
func noNotes() uint32 {
	return notes.id("", func() noted { return noted{map[string]string{}, ""} })
}

// namesOfVersions are the versions by the names of their revisions, in every world.
var namesOfVersions sync.Map

func textID(text string) uint32 { return texts.id(text, func() string { return text }) }

// seam is used by one goroutine.
type seam struct {
	config    *smallConfig
	registry  adapters.Registry
	revisions []*revision.Revision
	versions  map[string]statefulset.Version
	parents   map[parentKey]*parentParts
	children  map[childKey]*world.Child
	replicas  map[replicaKey]adapters.Replica
	built     map[string]uint32
	recorded  map[recordedKey]*revision.Revision
	// passes are those that were decided, by what they see of a state; asked counts how often one was found there.
	passes map[smallHash]*smallPass
	asked  int
}

// mostPasses bounds how many passes a seam keeps, so that it does not need too much memory.
const mostPasses = 10_000

type parentKey struct {
	version                    statefulset.Version
	replicas, variant, subsets uint8
	paused, raised, raisedEach bool
}

type parentParts struct {
	object *v1alpha1.UnitedDeployment
	spec   *spec.Spec
}

type childKey struct {
	k                         int
	template, current, update statefulset.Version
	replicas, partition       uint8
	observed                  bool
	notes                     uint32
	generation                uint8
}

type replicaKey struct {
	k, ordinal int
	pod        statefulset.Pod
	now, start int64
}

func newSeam(config *smallConfig) *seam {
	e := &seam{
		config: config, registry: adapters.Registry{statefulsets.New()}, versions: map[string]statefulset.Version{},
		parents: map[parentKey]*parentParts{}, children: map[childKey]*world.Child{}, replicas: map[replicaKey]adapters.Replica{},
		built: map[string]uint32{}, recorded: map[recordedKey]*revision.Revision{}, passes: map[smallHash]*smallPass{},
	}
	for v := statefulset.Version(1); v <= versions; v++ {
		parts := e.parts(parentKey{version: v, subsets: 1<<maxKids - 1, replicas: 1})
		object := revision.New(parts.object, world.OwnerOf(parts.object), parts.spec.Content(), int64(v), 0)
		object.UID = types.UID(object.Name) // it is stored
		r, err := revision.Parse(object)
		if err != nil {
			panic(err)
		}
		e.revisions = append(e.revisions, r)
		e.versions[r.Name] = v
		namesOfVersions.Store(r.Name, v)
	}
	clear(e.parents) // they were made before bind knew the names
	return e
}

func (e *seam) revisionOf(v statefulset.Version) *revision.Revision { return e.revisions[v-1] }

func subsetName(k int) string { return string(rune('a' + k)) }

// parts returns the parent's spec, and what readSpec makes from it.
func (e *seam) parts(key parentKey) *parentParts {
	if parts := e.parents[key]; parts != nil {
		return parts
	}
	policy := "Parallel"
	if e.config.kind.Ordered {
		policy = "OrderedReady"
	}
	template := fmt.Sprintf(`{"spec": {"podManagementPolicy": %q, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "v%d"}]}}}}`, policy, key.version)
	object := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	object.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(key.replicas)), Paused: key.paused,
		Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template:                v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: []byte(template)}},
		ProgressDeadlineSeconds: ptr.To(int32(600)),
		UpdateStrategy:          e.config.strategy(key.variant, key.raised, key.raisedEach),
	}
	if e.config.kind.MinReady {
		object.Spec.MinReadySeconds = 60
	}
	for k := range maxKids {
		if key.subsets>>k&1 == 1 {
			object.Spec.Topology.Subsets = append(object.Spec.Topology.Subsets, v1alpha1.Subset{Name: subsetName(k)})
		}
	}
	read, err := spec.Read(object, e.registry)
	if err != nil {
		panic(err)
	}
	e.bind(object)
	parts := &parentParts{object, read}
	e.parents[key] = parts
	return parts
}

func clockAt(now uint8) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(now) * longTime)
}

// observed returns the child of a subset; nil without one.
func observed(w *planner.Input, name string) *adapters.Observed {
	if c := w.Children[name]; c != nil {
		return c.Observed
	}
	return nil
}

// world returns what a pass reads.
func (e *seam) world(s *smallState) *planner.Input {
	p := &s.parent
	parts := e.parts(parentKey{p.version, p.replicas, p.variant, p.subsets, p.paused, p.raised, p.raisedEach})
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: parts.object.ObjectMeta, Spec: parts.object.Spec, Status: *statuses.at(p.status).DeepCopy()}
	parent.Generation = int64(p.generation)
	parent.Annotations = map[string]string{}
	if p.approved != 0 {
		parent.Annotations[v1alpha1.AnnotationApproved] = texts.at(p.approved)
	}
	if p.forced != 0 {
		parent.Annotations[v1alpha1.AnnotationForceUpdate] = fmt.Sprintf("%s/%d", e.revisionOf(p.forced).Name, p.forces)
	}
	if p.retry != 0 {
		parent.Annotations[v1alpha1.AnnotationRetry] = retryValue(e.revisionOf(p.retry).Name, p.retries)
	}
	w := &planner.Input{World: world.World{Parent: parent, Spec: parts.spec, Now: clockAt(p.now), Children: map[string]*world.Child{},
		Revisions: slices.Clone(e.revisions),
	}, Update: e.revisionOf(p.version),
	}
	switch {
	case e.config.hasRuns():
		w.Checks = p.run.seen()
	case e.config.hasChecks():
		w.Checks = p.check.seen(e.config)
	}
	e.readRecords(w, s)
	for k := range s.kids {
		if s.kids[k].set.Exists {
			w.Children[subsetName(k)] = e.child(s, k, &s.kids[k])
			continue
		}
		if initialized(s) {
			e.outlived(w, k, &s.kids[k])
		}
	}
	return w.WithRevisions(w.Revisions, w.Update)
}

// outlived reads the pods that nobody owns.
func (e *seam) outlived(w *planner.Input, k int, kid *smallKid) {
	for i := range kid.set.Pods {
		pod := &kid.set.Pods[i]
		if !pod.Exists() || pod.Owner != statefulset.Nobody || pod.Terminating {
			continue
		}
		orphan := podOf(k, i, pod)
		orphan.OwnerReferences = nil
		orphan.Labels["app"] = "web"
		orphan.Labels[v1alpha1.LabelName], orphan.Labels[v1alpha1.LabelSubset] = "web", subsetName(k)
		if w.Outlived == nil {
			w.Outlived = map[string][]corev1.Pod{}
		}
		w.Outlived[subsetName(k)] = append(w.Outlived[subsetName(k)], *orphan)
	}
}

// child reads kid, with the pods of s.
func (e *seam) child(s *smallState, k int, kid *smallKid) *world.Child {
	key := childKey{
		k: k, template: kid.set.Template, current: kid.set.Current, update: kid.set.Update, replicas: kid.set.Replicas,
		partition: kid.set.Partition, observed: kid.set.Observed, notes: kid.notes, generation: kid.generation,
	}
	c := e.children[key]
	if c == nil {
		c = e.read(k, kid)
		e.children[key] = c
	}
	observed := *c.Observed
	if e.strips() {
		if kept := world.SubsetStatus(statuses.at(s.parent.status), subsetName(k)); kept != nil {
			subset.Restore(&observed, subset.Taken{Annotations: missing(kid, observed.Meta.Annotations)}, kept.ChildRecord)
		}
	}
	for i := range s.kids[k].set.Pods {
		if pod := &s.kids[k].set.Pods[i]; pod.Exists() && pod.Owner == statefulset.Mine {
			observed.Pods = append(observed.Pods, e.replica(s, k, i, pod))
		}
	}
	observed.StatusOutdated = false // it is about the last few seconds, which a small clock does not know
	return &world.Child{Object: c.Object, Observed: &observed}
}

// strips reports whether somebody may remove annotations from children, or children from their pods. Otherwise the
// copy of them in the status is not used, and left out.
func (e *seam) strips() bool {
	return e.config.copies || e.config.budget[budgetStrip] > 0 || e.config.budget[budgetOrphan] > 0
}

// missing returns the annotations that the child lacks.
func missing(kid *smallKid, have map[string]string) []string {
	if kid.notes == noNotes() && kid.generation > 0 {
		return nil
	}
	var keys []string
	for _, key := range []string{
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration,
		v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding,
		v1alpha1.AnnotationAsked,
	} {
		if _, there := have[key]; !there {
			keys = append(keys, key)
		}
	}
	return keys
}

func (e *seam) object(k int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web-" + subsetName(k), "uid": subsetName(k)},
	}}
}

// read reads a child without its pods, in the same way as the adapter.
func (e *seam) read(k int, kid *smallKid) *world.Child {
	partition := int64(kid.set.Partition)
	if kid.set.Partition == held {
		partition = int64(coordination.Held)
	}
	hash := func(v statefulset.Version) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf("web-%s-%d", subsetName(k), v)
	}
	u := e.object(k)
	annotations := maps.Clone(notes.at(kid.notes).all)
	if kid.generation > 0 {
		annotations[v1alpha1.AnnotationParentGeneration] = strconv.Itoa(int(kid.generation))
	}
	u.SetAnnotations(annotations)
	// One for each content of the spec is as good as a counter.
	u.SetGeneration(2 + int64(kid.set.Partition) + 256*int64(kid.set.Replicas) + 256*256*int64(kid.set.Template))
	observedGeneration := int64(1)
	if kid.set.Observed {
		observedGeneration = u.GetGeneration()
	}
	policy := string(appsv1.ParallelPodManagement)
	if e.config.kind.Ordered {
		policy = string(appsv1.OrderedReadyPodManagement)
	}
	minReady := int64(0)
	if e.config.kind.MinReady {
		minReady = 60
	}
	u.Object["spec"] = map[string]any{
		"replicas": int64(kid.set.Replicas), "podManagementPolicy": policy, "minReadySeconds": minReady,
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": partition}},
	}
	u.Object["status"] = map[string]any{
		"observedGeneration": observedGeneration, "currentRevision": hash(kid.set.Current), "updateRevision": hash(kid.set.Update),
	}
	observed, err := e.registry[0].Observe(u, adapters.Dependents{})
	if err != nil {
		panic(err)
	}
	return &world.Child{Object: u, Observed: observed}
}

// replica reads a pod, in the same way as the adapter.
func (e *seam) replica(s *smallState, k, ordinal int, pod *statefulset.Pod) adapters.Replica {
	now := clockAt(s.parent.now)
	start := time.Time{}
	rollout := statuses.at(s.parent.status).Rollout
	before := pod.Marks&markBefore != 0 || rollout == nil || e.versions[rollout.Revision] != e.config.wanted(s)
	if rollout != nil && rollout.StartTime != nil {
		start = rollout.StartTime.Time
	}
	key := replicaKey{k: k, ordinal: ordinal, pod: *pod, now: now.Unix(), start: start.Unix()}
	key.pod.Marks = 0
	if before {
		key.pod.Marks = markBefore
	}
	if r, known := e.replicas[key]; known {
		return r
	}
	set := e.object(k)
	made := podOf(k, ordinal, pod)
	created, changed := timesOf(pod, before, now, start)
	made.CreationTimestamp = metav1.NewTime(created)
	// A pod that was ready has changed since it started.
	made.Status.StartTime = ptr.To(metav1.NewTime(changed))
	if pod.WasReady {
		made.Status.StartTime = ptr.To(metav1.NewTime(changed.Add(-time.Second)))
	}
	for i := range made.Status.Conditions {
		made.Status.Conditions[i].LastTransitionTime = metav1.NewTime(changed)
	}
	if pod.Terminating {
		made.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	observed, err := e.registry[0].Observe(set, adapters.Dependents{Pods: []*corev1.Pod{made}})
	if err != nil || len(observed.Pods) != 1 {
		panic(fmt.Sprint(err, observed))
	}
	e.replicas[key] = observed.Pods[0]
	return observed.Pods[0]
}

// timesOf returns times for a pod that match the state: whether it was ready since it was created, whether that or
// its becoming or ceasing to be ready is long ago, and whether it is older than the rollout.
func timesOf(pod *statefulset.Pod, before bool, now, start time.Time) (created, changed time.Time) {
	changed = now
	if pod.Aged {
		changed = now.Add(-longTime)
	}
	if !before {
		if changed.Before(start) {
			changed = start
		}
		if pod.WasReady && changed.After(start) {
			return changed.Add(-time.Minute), changed
		}
		return changed, changed
	}
	created = changed.Add(-2 * time.Minute)
	if !start.IsZero() && !created.Before(start) {
		created = start.Add(-2 * time.Minute)
	}
	if !pod.WasReady {
		changed = created
	}
	return created, changed
}

// podOf returns a pod as the kubelet would report it, without its times.
func podOf(k, ordinal int, pod *statefulset.Pod) *corev1.Pod {
	ready, container := corev1.ConditionFalse, corev1.ContainerStatus{Name: "web"}
	switch pod.Phase {
	case statefulset.Ready:
		ready, container.Ready = corev1.ConditionTrue, true
	case statefulset.Crashed:
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		container.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	}
	name := fmt.Sprintf("web-%s-%d", subsetName(k), ordinal)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name),
			Labels:          map[string]string{appsv1.ControllerRevisionHashLabelKey: fmt.Sprintf("web-%s-%d", subsetName(k), pod.Version)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: types.UID(subsetName(k)), Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{container},
		},
	}
}

// smallWrite is one write of a pass.
type smallWrite struct {
	k int
	// remove deletes the child, deletedPods are deleted, with a bit for each ordinal; neither writes the child.
	remove      bool
	deletedPods uint8
	// remind patches what the child remembers; 0 if it does not.
	remind statefulset.Version

	template            statefulset.Version
	replicas, partition uint8
	notes               uint32
	generation          uint8
}

// smallPass is what a pass has decided.
type smallPass struct {
	w      *planner.Input
	p      *planner.Plan
	writes []smallWrite
	// outcomes are the statuses that it writes, by what became of its writes.
	outcomes map[smallCarried]smallOutcome
}

// smallCarried is what became of the writes of a pass: which were too late, and which pods were deleted, with a bit
// for each ordinal.
type smallCarried struct {
	changed [maxKids]bool
	deleted [maxKids]uint8
}

// smallOutcome is the status of a pass, and the number under which it is stored.
type smallOutcome struct {
	status *v1alpha1.UnitedDeploymentStatus
	id     uint32
}

// decide runs a pass up to its first write. Many states differ only in what no pass can see, so what was decided is
// kept.
func (e *seam) decide(s *smallState) *smallPass {
	seen := s.seen()
	h := hashOf(&seen, 0)
	if pass := e.passes[h]; pass != nil {
		e.audit(s, pass)
		return pass
	}
	if len(e.passes) >= mostPasses {
		clear(e.passes)
	}
	pass := e.decideIn(s, e.world(s))
	e.passes[h] = pass
	return pass
}

// audits is how many of the kept passes are decided again, to see that they are the same: one of so many.
const audits = 64

func (e *seam) audit(s *smallState, kept *smallPass) {
	if e.asked++; e.asked%audits != 0 {
		return
	}
	if again := e.decideIn(s, e.world(s)); !slices.Equal(kept.writes, again.writes) {
		panic(fmt.Sprintf("a pass decides by what seen leaves out: %+v, and %+v in %s", kept.writes, again.writes, s.String()))
	}
}

// seen returns a state without what no pass can see: what may still happen, and what only observers know. See world
// and writeOf for what a pass reads.
func (s *smallState) seen() smallState {
	seen := *s
	seen.budget = [budgets]uint8{}
	p := &seen.parent
	p.told, p.asked, p.approval, p.soaked, p.left = 0, 0, smallApproval{}, false, 0
	p.run.at, p.run.succeeded, p.run.failed = 0, false, false
	for k := range seen.kids {
		kid := &seen.kids[k]
		kid.protects, kid.forgot, kid.meddled, kid.stripped, kid.asked = 0, false, false, 0, smallAsked{}
		for i := range kid.set.Pods {
			kid.set.Pods[i].Marks &= markBefore
		}
	}
	return seen
}

func (e *seam) decideIn(s *smallState, w *planner.Input) *smallPass {
	p := planner.Make(w)
	if e.config.mutant != nil {
		e.config.mutant(w, p)
	}
	decided := &smallPass{w: w, p: p, outcomes: map[smallCarried]smallOutcome{}}
	pass.Writes(p, nil, func(sub *planner.Write) *planner.Result {
		if write, any := e.writeOf(s, sub); any {
			decided.writes = append(decided.writes, write)
		}
		return &planner.Result{}
	})
	return decided
}

// writeOf returns what carrySubset writes for a subset, if anything.
func (e *seam) writeOf(s *smallState, sub *planner.Write) (smallWrite, bool) {
	k := int(sub.Name[0] - 'a')
	kid := &s.kids[k]
	switch sub.Step.Action {
	case subset.ActionApply, subset.ActionSeed, subset.ActionCreate, subset.ActionRelearn:
		c := &sub.Step.Child
		write := smallWrite{
			k: k, template: e.versionIn(c), replicas: uint8(c.Replicas), partition: uint8(min(c.Partition, held)),
			notes: e.notesOf(c), generation: uint8(c.ParentGeneration),
		}
		if !kid.set.Exists || kid.generation == 0 || write.template != kid.set.Template || write.replicas != kid.set.Replicas ||
			write.partition != kid.set.Partition || notes.at(write.notes).compare != notes.at(kid.notes).compare {
			return write, true
		}
	case subset.ActionRemind:
		return smallWrite{k: k, remind: statefulset.Version(sub.Step.Hash[len(sub.Step.Hash)-1] - '0')}, true
	case subset.ActionShrink:
		write := smallWrite{
			k: k, template: kid.set.Template, replicas: uint8(sub.Step.Child.Replicas), partition: kid.set.Partition, notes: kid.notes, generation: kid.generation,
		}
		return write, kid.set.Replicas != write.replicas
	case subset.ActionRemove:
		return smallWrite{k: k, remove: true}, true
	default:
	}
	pods := e.deletedPods(sub.SubsetPlan)
	return smallWrite{k: k, deletedPods: pods}, pods != 0
}

// deletedPods returns the pods that a pass deletes, with a bit for each ordinal.
func (e *seam) deletedPods(sub *planner.SubsetPlan) uint8 {
	var pods uint8
	for _, r := range sub.Deletes {
		pods |= 1 << r.Position
	}
	return pods
}

// versionIn checks the pod part itself.
func (e *seam) versionIn(c *adapters.Child) statefulset.Version {
	containers, _, err := unstructured.NestedFieldNoCopy(c.RevisionTemplate, "spec", "containers")
	if err != nil {
		panic(err)
	}
	image, _ := containers.([]any)[0].(map[string]any)["image"].(string)
	return statefulset.Version(image[1] - '0')
}

// notesOf returns the annotations that Build sets on the child, without the parent's generation. They depend on
// all scalar fields of Child.
func (e *seam) notesOf(c *adapters.Child) uint32 {
	key := make([]byte, 0, 512)
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		key = append(appendScalar(key, v.Field(i)), '\n')
	}
	if id, known := e.built[string(key)]; known {
		return id
	}
	u, err := adapters.Build(e.registry[0], c)
	if err != nil {
		panic(err)
	}
	annotations := u.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationParentGeneration)
	delete(annotations, v1alpha1.AnnotationRecordChecksum) // it contains nothing that the others do not
	id := notesFrom(annotations)
	e.built[string(key)] = id
	return id
}

// appendScalar appends a field to a key, if it is a scalar, or a pointer to one.
func appendScalar(key []byte, f reflect.Value) []byte {
	switch f.Kind() {
	case reflect.String:
		return append(key, f.String()...)
	case reflect.Int32, reflect.Int64:
		return strconv.AppendInt(key, f.Int(), 10)
	case reflect.Bool:
		return strconv.AppendBool(key, f.Bool())
	case reflect.Pointer:
		if f.IsNil() {
			return append(key, '-')
		}
		return appendScalar(key, f.Elem())
	default:
		return key
	}
}

func notesFrom(annotations map[string]string) uint32 {
	return notes.id(sorted(annotations), func() noted {
		compare := maps.Clone(annotations)
		for _, name := range riding() {
			if _, there := compare[name]; there {
				compare[name] = "" // its presence causes a write, its value does not
			}
		}
		return noted{annotations, sorted(compare)}
	})
}

func sorted(m map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(name + "=" + m[name] + "\n")
	}
	return b.String()
}

// carry carries out the first writes of a pass that was decided on read. A child that has changed since is not
// written, and a pod that is gone is not deleted; changed has the former, and the parent in its last element. It
// returns the status that is written in the end, or nil if the pass dies before that or the parent has changed.
func (e *seam) carry(pass *smallPass, read, s *smallState, first int, changed [maxKids + 1]bool) *v1alpha1.UnitedDeploymentStatus {
	carried, wrote, refused := smallCarried{}, uint8(0), uint8(0)
	for _, write := range pass.writes[:first] {
		carried.changed[write.k] = changed[write.k]
		switch {
		case changed[write.k] || write.remove:
			refused |= 1 << write.k
		case write.deletedPods == 0 && write.remind == 0:
			wrote |= 1 << write.k
		}
		carried.deleted[write.k] = e.carryOne(pass.p.CurrentRevision, write, read, s, changed[write.k])
	}
	for _, write := range pass.writes[first:] {
		refused |= 1 << write.k
	}
	e.config.remember(e, read, s, wrote, refused)
	if first == len(pass.writes) {
		e.recordLeft(pass, read, s)
		if !e.recordRejected(pass, read, s) {
			s.tidy()
			return nil
		}
	}
	if first == len(pass.writes) {
		e.carryRuns(pass, s)
	}
	if first < len(pass.writes) || changed[maxKids] {
		s.tidy()
		return nil
	}
	outcome, known := pass.outcomes[carried]
	if !known {
		outcome = e.outcome(pass, read, s, carried)
		pass.outcomes[carried] = outcome
	} else if e.asked%audits == 0 && e.outcome(pass, read, s, carried).id != outcome.id {
		panic("a status depends on what smallCarried leaves out: " + s.String())
	}
	e.publish(read, s, outcome)
	s.tidy()
	return outcome.status
}

// currentOf returns the version that the whole parent ran last according to the status; 0 if none.
func (e *seam) currentOf(s *smallState) statefulset.Version {
	return e.versions[statuses.at(s.parent.status).CurrentRevision]
}

// initialized reports whether a replica was ever ready according to the status.
func initialized(s *smallState) bool {
	return meta.IsStatusConditionTrue(statuses.at(s.parent.status).Conditions, v1alpha1.ConditionInitialized)
}

// everything is for carry: all writes.
func (p *smallPass) everything() int { return len(p.writes) }

// outcome returns the status that a pass writes after all its writes. They were decided on read, and have led to s.
func (e *seam) outcome(pass *smallPass, read, s *smallState, carried smallCarried) smallOutcome {
	done := planner.Results{}
	for _, sub := range pass.p.Subsets {
		done[sub.Name] = &planner.Result{}
	}
	for _, write := range pass.writes {
		name := subsetName(write.k)
		switch o := done[name]; {
		case write.deletedPods != 0:
			for i := range statefulset.MaxPods {
				if carried.deleted[write.k]&(1<<i) != 0 {
					o.DeletedStuck = append(o.DeletedStuck, fmt.Sprintf("web-%s-%d", name, i))
				}
			}
		case carried.changed[write.k]:
			o.Stale = true
		case write.remove:
			o.Deleted = true
		default:
			o.Child = e.child(read, write.k, &s.kids[write.k])
		}
	}
	status, _ := report.Status(pass.w, pass.p, done, report.Undone{})
	status.Rollout = status.Rollout.DeepCopy() // it belongs to the plan, and the next status changes it
	return smallOutcome{status, internStatus(status, e.strips())}
}

// carryOne carries out one write. It returns the pods that it deleted, with a bit for each ordinal.
func (e *seam) carryOne(current string, write smallWrite, read, s *smallState, changed bool) (deleted uint8) {
	kid := &s.kids[write.k]
	switch {
	case write.deletedPods != 0:
		for i := range kid.set.Pods {
			if write.deletedPods&(1<<i) != 0 && kid.set.Pods[i].Exists() {
				kid.set.Delete(i)
				deleted |= 1 << i
			}
		}
	case changed:
	case write.remind != 0:
		kid.set.Current = write.remind
	case write.remove:
		kid.remove()
		kid.protects, kid.asked = 0, smallAsked{}
	default:
		if !kid.set.Exists && kid.protects == 0 && initialized(read) {
			kid.protects = bit(e.versions[current]) // a new subset protects what the whole parent runs
		}
		kid.set.Apply(write.template, write.replicas, write.partition)
		kid.notes, kid.generation, kid.meddled, kid.stripped = write.notes, write.generation, false, 0
		kid.release()
	}
	return deleted
}

// publish writes the status.
func (e *seam) publish(read, s *smallState, outcome smallOutcome) {
	before, status := statuses.at(s.parent.status), outcome.status
	e.recordCurrent(before, read, s, status)
	if startOf(before) != startOf(status) {
		for k := range s.kids {
			for i := range s.kids[k].set.Pods {
				if pod := &s.kids[k].set.Pods[i]; pod.Exists() {
					pod.Marks |= markBefore
				}
			}
		}
	}
	if before.Rollout == nil || status.Rollout == nil || before.Rollout.Revision != status.Rollout.Revision || before.Rollout.Step != status.Rollout.Step {
		s.parent.soaked = false
		s.parent.check = s.parent.check.inAnotherRound(e.config)
	}
	if begins(before, status) {
		s.parent.spent = read.parent.forces
	}
	if positionOf(before) != positionOf(status) {
		s.parent.told = read.parent.variant
	}
	if approvalKeyOf(before) != approvalKeyOf(status) {
		s.parent.asked = read.parent.variant
	}
	for i := range status.Subsets {
		s.kids[status.Subsets[i].Name[0]-'a'].learnProtected(e.versions[status.Subsets[i].CurrentRevision])
	}
	s.parent.status = outcome.id
}

// begins reports whether a status is the first of a rollout, also of one that starts over, or of a rejection: what was there when
// it was made does not count in that rollout.
func begins(before, status *v1alpha1.UnitedDeploymentStatus) bool {
	was, is := before.Rollout, status.Rollout
	switch {
	case is == nil:
		return false
	case was == nil, before.UpdateRevision != status.UpdateRevision, was.RejectedRevision != is.RejectedRevision && is.RejectedRevision != "":
		return true
	}
	return was.Revision == is.Revision && startOf(before) != startOf(status)
}

// isForced reports whether the annotation forces the rollout to a version. A pass that is the first to see what the spec asks for
// heeds nothing that is there.
func (p *smallParent) isForced(version statefulset.Version) bool {
	status := statuses.at(p.status)
	named, known := namesOfVersions.Load(status.UpdateRevision)
	return p.forced == version && p.forces > p.spent && status.Rollout != nil && known && named == p.version
}

// learnProtected: the status says what the subset protects. That ends the time in which it may be either of two.
func (k *smallKid) learnProtected(v statefulset.Version) {
	if k.set.Exists && k.set.Current == v && k.set.Update == v && k.protects&bit(v) != 0 {
		k.protects = bit(v)
	}
}

// position is the position of a rollout, and what it is bound to.
type position struct {
	revision, key string
	step          int32
}

func positionOf(status *v1alpha1.UnitedDeploymentStatus) position {
	if r := status.Rollout; r != nil {
		return position{r.Revision, r.StepKey, r.Step}
	}
	return position{}
}

func approvalKeyOf(status *v1alpha1.UnitedDeploymentStatus) string {
	if r := status.Rollout; r != nil {
		return r.ApprovalKey
	}
	return ""
}

// started is which rollout has begun, and when.
type started struct {
	revision string
	at       int64
}

func startOf(status *v1alpha1.UnitedDeploymentStatus) started {
	if status.Rollout == nil {
		return started{}
	}
	return started{status.Rollout.Revision, status.Rollout.StartTime.Unix()}
}

// internStatus returns the number of a status. records: the copies of what is on the children are kept.
func internStatus(status *v1alpha1.UnitedDeploymentStatus, records bool) uint32 {
	kept := publish.ForDecisions(status)
	for i := range kept.Subsets {
		if !records {
			kept.Subsets[i].ChildRecord = nil
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		panic(err)
	}
	return statuses.id(string(raw), func() *v1alpha1.UnitedDeploymentStatus {
		back := &v1alpha1.UnitedDeploymentStatus{} // as it is read back
		if err := json.Unmarshal(raw, back); err != nil {
			panic(err)
		}
		return back
	})
}
