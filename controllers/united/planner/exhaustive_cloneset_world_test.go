// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Small worlds of CloneSets: two subsets of two replicas, every order in which the manager,
// the CloneSets' controller, the kubelet, the user and chance can take their turns. The
// planner and the adapter are the real ones; the controller is a model that counts as the
// real one was measured to: what is missing comes back on its current revision as long as
// there are fewer pods on another than that of the template than its partition says; what
// it updates or deletes first is what is not ready, and which one that is ready is not said;
// it settles as soon as all pods are updated.

const (
	countKids = 2
	countPods = 4
)

type countPod struct {
	version int8
	ready   bool
	// late: it was ready, and is not by chance. It can be again.
	late bool
}

type countKid struct {
	exists, observed, unbounded bool
	template, current, update   int8
	replicas, partition         int32
	// record is what is written on it.
	record string
	pods   [countPods]countPod
}

type countState struct {
	version    int8
	generation int64
	replicas   int32
	paused     bool
	status     string
	kids       [countKids]countKid
	// left is what may still happen by chance, or by the user.
	edits, scales, pauses, blips, losses int8
	// deleted: the manager has deleted a replica that was ready, and was released or is protected.
	deleted bool
}

// countWorld is the setting.
type countWorld struct {
	name     string
	strategy v1alpha1.UpdateStrategy
	max      int32
	// broken is the version whose pods do not come up; 0 if none.
	broken int8
	// keeps is how many pods of each subset stay on v1.
	keeps                                [countKids]int32
	edits, scales, pauses, blips, losses int8
	// mutant spoils what is read of a child.
	mutant func(*adapters.Observed)

	revisions []*revision.Revision
	specs     map[string]*planner.Input
}

// input is the parent, as it is read.
func (w *countWorld) input(s *countState) *planner.Input {
	key := fmt.Sprint(s.version, s.replicas, s.paused)
	read := w.specs[key]
	if read == nil {
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": wholeTemplate(s.version)}})
		if err != nil {
			panic(err)
		}
		parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
		parent.Spec = v1alpha1.UnitedDeploymentSpec{
			Replicas: ptr.To(s.replicas), Paused: s.paused, UpdateStrategy: w.strategy,
			Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:                v1alpha1.WorkloadTemplate{CloneSetTemplate: &runtime.RawExtension{Raw: raw}},
			ProgressDeadlineSeconds: ptr.To(int32(600)),
		}
		for k := range countKids {
			parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: subsetName(k)})
		}
		spec, err := planner.ReadSpec(parent, adapters.Registry{cloneset.New()})
		if err != nil {
			panic(err)
		}
		read = &planner.Input{Parent: parent, Spec: spec}
		w.specs[key] = read
	}
	parent := *read.Parent
	parent.Generation = s.generation
	parent.Status = v1alpha1.UnitedDeploymentStatus{}
	if s.status != "" {
		if err := json.Unmarshal([]byte(s.status), &parent.Status); err != nil {
			panic(err)
		}
	}
	in := &planner.Input{Parent: &parent, Spec: read.Spec, Now: clockAt(0), Children: map[string]*planner.Child{}}
	for len(w.revisions) < int(s.version) {
		version := int8(len(w.revisions) + 1)
		if version != s.version {
			w.input(&countState{version: version, replicas: s.replicas}) // adds it
			continue
		}
		r, err := revision.Parse(revision.New(read.Parent, planner.OwnerOf(read.Parent), read.Spec.Content(), int64(version), 0))
		if err != nil {
			panic(err)
		}
		r.Object.UID = types.UID(r.Name)
		w.revisions = append(w.revisions, r)
	}
	in.Revisions, in.Update = slices.Clone(w.revisions), w.revisions[s.version-1]
	for k := range s.kids {
		if s.kids[k].exists {
			in.Children[subsetName(k)] = w.child(k, &s.kids[k])
		}
	}
	return in
}

// countHash is the child's own revision of a version.
func countHash(name string, version int8) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("%s-v%d", name, version)
}

// child is a CloneSet with its pods, read by the adapter.
func (w *countWorld) child(k int, kid *countKid) *planner.Child {
	name := "web-" + subsetName(k)
	record := map[string]string{}
	if err := json.Unmarshal([]byte(kid.record), &record); err != nil {
		panic(err)
	}
	annotations := map[string]any{}
	for key, value := range record {
		annotations[key] = value
	}
	observed := int64(1)
	if kid.observed {
		observed = 2
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "generation": int64(2), "annotations": annotations},
		"spec": map[string]any{
			"replicas": int64(kid.replicas), "template": wholeTemplate(kid.template),
			"updateStrategy": map[string]any{"partition": int64(kid.partition)},
		},
		"status": map[string]any{
			"observedGeneration": observed, "currentRevision": countHash(name, kid.current), "updateRevision": countHash(name, kid.update),
		},
	}}
	have := adapters.Dependents{}
	for i := range kid.pods {
		if kid.pods[i].version != 0 {
			have.Pods = append(have.Pods, w.pod(name, i, &kid.pods[i]))
		}
	}
	o, err := cloneset.New().Observe(object, have)
	if err != nil {
		panic(err)
	}
	if w.mutant != nil {
		w.mutant(o)
	}
	o.StatusOutdated = false // when it yields for a moment is no matter here
	return &planner.Child{Object: object, Observed: o}
}

func (w *countWorld) pod(owner string, i int, p *countPod) *corev1.Pod {
	born := metav1.NewTime(clockAt(0).Add(-time.Minute))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprint(owner, "-", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: born,
		Labels:          map[string]string{appsv1.ControllerRevisionHashLabelKey: countHash(owner, p.version)},
		OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: ptr.To(true)}},
	}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &born}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: born}
	if p.ready {
		ready.Status = corev1.ConditionTrue
	}
	if p.late {
		ready.LastTransitionTime = metav1.NewTime(born.Add(time.Second))
	}
	pod.Status.Conditions = []corev1.PodCondition{ready}
	if p.version == w.broken && !p.ready {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	}
	return pod
}

// pass is what the manager does; cut ends it after its first write.
func (w *countWorld) pass(s countState, cut bool) countState {
	in := w.input(&s)
	p := planner.Make(in)
	results := planner.Results{}
	for _, sub := range p.Order(in) {
		results[sub.Name] = &planner.Result{}
		step, _ := p.Hold(in, sub, results)
		k := int(sub.Name[0] - 'a')
		kid := &s.kids[k]
		was := *kid
		switch step.Action {
		case subset.ActionWait:
			continue
		case subset.ActionApply, subset.ActionCreate, subset.ActionSeed, subset.ActionRelearn:
			w.carry(kid, &step.Child)
		case subset.ActionRemind:
			kid.current = int8(step.Hash[len(step.Hash)-1] - '0')
		default:
			panic(fmt.Sprint("nothing here needs ", step.Action, ": ", step.Reason))
		}
		if *kid == was {
			for _, d := range sub.Deletes {
				i := d.UID[0] - '0'
				s.deleted = s.deleted || kid.pods[i].ready && !d.Unreleased
				kid.pods[i] = countPod{}
			}
		}
		if *kid == was {
			continue
		}
		if cut {
			return s
		}
		results[sub.Name].Child = w.child(k, kid)
	}
	if cut {
		return s
	}
	status, _ := planner.Status(in, p, results)
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{} // no rule asks for it
	}
	raw, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	s.status = string(raw)
	return s
}

// carry writes a child. What the record alone says is no reason for a write, but for some
// of it.
func (w *countWorld) carry(kid *countKid, c *adapters.Child) {
	version := int8(0)
	for i, r := range w.revisions {
		if r.Name == c.Revision {
			version = int8(i + 1)
		}
	}
	record := adapters.Record(c)
	before := map[string]string{}
	_ = json.Unmarshal([]byte(kid.record), &before)
	same := kid.exists && kid.template == version && kid.replicas == c.Replicas && kid.partition == c.Partition && kid.unbounded == (c.Pace != nil)
	for _, key := range []string{v1alpha1.AnnotationPartition, v1alpha1.AnnotationRevision, v1alpha1.AnnotationSeeding} {
		same = same && before[key] == record[key]
	}
	if same {
		return
	}
	raw, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	kid.observed = false
	kid.exists, kid.template, kid.replicas, kid.partition, kid.record = true, version, c.Replicas, c.Partition, string(raw)
	kid.unbounded = c.Pace != nil
}

func (k *countKid) count(of func(p *countPod) bool) (n int32) {
	for i := range k.pods {
		if k.pods[i].version != 0 && of(&k.pods[i]) {
			n++
		}
	}
	return n
}

func (k *countKid) total() int32     { return k.count(func(*countPod) bool { return true }) }
func (k *countKid) available() int32 { return k.count(func(p *countPod) bool { return p.ready }) }
func (k *countKid) old() int32 {
	return k.count(func(p *countPod) bool { return p.version != k.template })
}

// works is the turn of a CloneSet's controller: each thing that it may do next, with the
// status that it writes.
func (k countKid) works() (next []countKid) {
	if !k.exists {
		return nil
	}
	total, old, was := k.total(), k.old(), k
	if k.current == 0 {
		k.current = k.template
	}
	memory := k.current
	k.update, k.observed = k.template, true
	if old == 0 && total == k.replicas {
		k.current = k.template
	}
	add := func(n countKid) {
		if n != was {
			next = append(next, n)
		}
	}
	take := func(of func(p *countPod) bool, room bool) {
		unready := k.count(func(p *countPod) bool { return of(p) && !p.ready }) > 0
		for i := range k.pods {
			if p := &k.pods[i]; p.version != 0 && of(p) && (!p.ready || !unready && room) {
				n := k
				n.pods[i] = countPod{}
				add(n)
			}
		}
	}
	isOld := func(p *countPod) bool { return p.version != k.template }
	room := k.unbounded || k.available() > k.replicas-1
	switch {
	case total < k.replicas:
		version := k.template
		if old < k.partition {
			version = memory
		}
		n := k
		n.pods[slices.IndexFunc(n.pods[:], func(p countPod) bool { return p.version == 0 })] = countPod{version: version}
		add(n)
	case total > k.replicas && old > k.partition:
		take(isOld, true)
	case total > k.replicas:
		take(func(p *countPod) bool { return !isOld(p) || old == total }, true)
	case old > min(k.partition, k.replicas):
		take(isOld, room)
	}
	if len(next) == 0 {
		add(k)
	}
	return next
}

// taking is how many available replicas the controllers are about to take.
func (s *countState) taking() (n int32) {
	for k := range s.kids {
		n += s.kids[k].taking()
	}
	return n
}

func (k *countKid) taking() int32 {
	unready := k.count(func(p *countPod) bool { return p.version != k.template && !p.ready })
	return max(0, min(k.old()-k.partition, k.replicas)-unready)
}

// down is how many of the replicas that are asked for are unavailable, or about to be.
func (s *countState) down() int32 {
	down := s.replicas
	for k := range s.kids {
		down -= s.kids[k].available() - s.kids[k].taking()
	}
	return down
}

// countEvent is one thing that can happen next.
type countEvent struct {
	what string
	next countState
}

func (w *countWorld) events(s countState) (events []countEvent) {
	add := func(what string, n countState) {
		if n != s {
			events = append(events, countEvent{what, n})
		}
	}
	add("pass", w.pass(s, false))
	add("cut", w.pass(s, true))
	for k := range s.kids {
		for _, kid := range s.kids[k].works() {
			n := s
			n.kids[k] = kid
			add(fmt.Sprint("works ", subsetName(k)), n)
		}
		for i := range s.kids[k].pods {
			n := s
			p := &n.kids[k].pods[i]
			switch {
			case p.version != 0 && !p.ready && p.version != w.broken:
				p.ready, p.late = true, false
				add(fmt.Sprint("ready ", subsetName(k), i), n)
			case p.ready && s.blips > 0:
				p.ready, p.late, n.blips = false, true, s.blips-1
				add(fmt.Sprint("blip ", subsetName(k), i), n)
			}
			if lost := s; s.losses > 0 && s.kids[k].pods[i].version != 0 {
				lost.kids[k].pods[i], lost.losses = countPod{}, s.losses-1
				add(fmt.Sprint("lost ", subsetName(k), i), lost)
			}
		}
	}
	for version := int8(1); version <= 3 && s.edits > 0; version++ {
		n := s
		n.version, n.edits, n.generation = version, s.edits-1, s.generation+1
		if version != s.version {
			add(fmt.Sprint("template v", version), n)
		}
	}
	if s.pauses > 0 {
		n := s
		n.paused, n.pauses, n.generation = !s.paused, s.pauses-1, s.generation+1
		add("pause", n)
	}
	if s.scales > 0 {
		for _, replicas := range []int32{0, max(0, s.replicas-1), s.replicas + 1} {
			n := s
			n.replicas, n.scales, n.generation = replicas, s.scales-1, s.generation+1
			add(fmt.Sprint("scale ", replicas), n)
		}
	}
	return events
}

// breach says what an event breaks; "" if nothing.
func (w *countWorld) breach(s *countState, e *countEvent) string {
	if w.max > 0 && e.next.taking() > s.taking() && e.next.down() > w.max {
		return fmt.Sprintf("I2: an available replica is released, with that %d are down, maxUnavailable is %d", e.next.down(), w.max)
	}
	if e.next.deleted {
		return "D: the manager deletes an available replica, which is for the CloneSet to choose"
	}
	status := v1alpha1.UnitedDeploymentStatus{}
	if e.next.status != s.status {
		if err := json.Unmarshal([]byte(e.next.status), &status); err != nil {
			panic(err)
		}
	}
	for _, sub := range status.Subsets {
		if w.broken > 0 && len(w.revisions) >= int(w.broken) && sub.CurrentRevision == w.revisions[w.broken-1].Name {
			return "C: " + sub.Name + " protects a version that was never ready"
		}
	}
	// What the CloneSet chooses among two old versions is not United's to say.
	for k := range e.next.kids {
		kid := &e.next.kids[k]
		newer := kid.count(func(p *countPod) bool { return p.version > 1 })
		if w.edits <= 1 && newer > max(0, kid.replicas-w.keeps[k]) && newer > s.kids[k].count(func(p *countPod) bool { return p.version > 1 }) {
			return fmt.Sprintf("I1: %s keeps %d of %d replicas, and %d are made anew", subsetName(k), w.keeps[k], kid.replicas, newer)
		}
	}
	return ""
}

// ends lets the world be kind, and says what keeps it from what is asked for; "" if nothing
// does.
func (w *countWorld) ends(s countState) string {
	if s.version == w.broken {
		s.version, s.generation = 3, s.generation+1 // the user corrects it
	}
	if s.paused {
		s.paused, s.generation = false, s.generation+1
	}
	for range 200 {
		before := s
		for k := range s.kids {
			for i := range s.kids[k].pods {
				if p := &s.kids[k].pods[i]; p.version != 0 && p.version != w.broken {
					p.ready, p.late = true, false
				}
			}
			if next := s.kids[k].works(); len(next) > 0 {
				s.kids[k] = next[0]
			}
		}
		if s = w.pass(s, false); s == before {
			break
		}
	}
	total := int32(0)
	for k := range s.kids {
		kid := &s.kids[k]
		updated := kid.count(func(p *countPod) bool { return p.version == s.version })
		first := kid.count(func(p *countPod) bool { return p.version == 1 })
		keeps := min(w.keeps[k], kid.replicas)
		if s.version == 1 {
			keeps = kid.replicas
		}
		if kid.exists && (first != keeps || s.version != 1 && updated != kid.replicas-keeps) {
			return fmt.Sprintf("I6: %s ends with %d of v1 and %d of v%d, and %d are to stay: %+v", subsetName(k), first, updated, s.version, keeps, s)
		}
		total += kid.available()
	}
	if total != s.replicas {
		return fmt.Sprintf("I6: it ends with %d replicas of %d: %+v", total, s.replicas, s)
	}
	return ""
}

// walk goes through all that can happen, and gives what is broken first, with the way
// there.
func (w *countWorld) walk(bound int) (states int, breach string) {
	w.specs = map[string]*planner.Input{}
	s := countState{version: 1, generation: 1, replicas: 4}
	if why := w.ends(s); why != "" {
		return 0, why
	}
	for range 50 { // it comes up on v1, undisturbed
		s = w.pass(s, false)
		for k := range s.kids {
			if next := s.kids[k].works(); len(next) > 0 {
				s.kids[k] = next[0]
			}
			for i := range s.kids[k].pods {
				s.kids[k].pods[i].ready = s.kids[k].pods[i].version != 0
			}
		}
	}
	s = w.pass(s, false)
	s.edits, s.scales, s.pauses, s.blips, s.losses = w.edits, w.scales, w.pauses, w.blips, w.losses
	type from struct {
		state countState
		what  string
	}
	seen := map[countState]from{s: {}}
	path := func(s countState, last string) string {
		names := []string{last}
		for f := seen[s]; f.what != ""; f = seen[f.state] {
			names = append(names, f.what)
		}
		slices.Reverse(names)
		return strings.Join(names, ", ")
	}
	queue := []countState{s}
	for len(queue) > 0 && len(seen) < bound {
		s, queue = queue[0], queue[1:]
		if why := w.ends(s); why != "" {
			return len(seen), why + "\nafter: " + path(s, "")
		}
		for _, e := range w.events(s) {
			if why := w.breach(&s, &e); why != "" {
				return len(seen), why + "\nafter: " + path(s, e.what)
			}
			if _, known := seen[e.next]; !known {
				seen[e.next] = from{s, e.what}
				queue = append(queue, e.next)
			}
		}
	}
	return len(seen), ""
}
