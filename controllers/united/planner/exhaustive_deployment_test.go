// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Small worlds of Deployments: two subsets of two replicas, every order in which the
// manager, the Deployments' controller, the kubelet, the user and chance can take their
// turns. The planner and the adapter are the real ones; the Deployments' controller is a
// model of what it may do: it never has more replicas than asked for (maxSurge is 0), and
// takes an available one only while as many as maxUnavailable allows are there.

const (
	wholeKids = 2
	wholePods = 3 // a child has no more, since nothing surges
)

// wholePod is a pod; the zero one is none.
type wholePod struct {
	version int8
	ready   bool
	// late: it was ready, and is not by chance. It can be again.
	late bool
}

type wholeKid struct {
	exists, observed, paused bool
	template                 int8
	replicas, pace           int32
	// record is what is written on it.
	record string
	pods   [wholePods]wholePod
}

type wholeState struct {
	version    int8
	generation int64
	replicas   int32
	paused     bool
	status     string
	kids       [wholeKids]wholeKid
	// left is what may still happen by chance, or by the user.
	edits, scales, pauses, blips int8
	// fresh: nothing has happened since the last whole pass that it could not know.
	fresh bool
}

// wholeWorld is the setting.
type wholeWorld struct {
	name     string
	strategy v1alpha1.UpdateStrategy
	max      int32
	// broken is the version whose pods do not come up; 0 if none.
	broken int8
	// held is the subset of which nothing may move; -1 if none.
	held                         int
	edits, scales, pauses, blips int8

	revisions []*revision.Revision
	specs     map[string]*planner.Input
}

func wholeTemplate(version int8) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": fmt.Sprint("v", version)}}},
	}
}

// input is the parent, as it is read.
func (w *wholeWorld) input(s *wholeState) *planner.Input {
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
			Template:                v1alpha1.WorkloadTemplate{DeploymentTemplate: &runtime.RawExtension{Raw: raw}},
			ProgressDeadlineSeconds: ptr.To(int32(600)),
		}
		for k := range wholeKids {
			parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: subsetName(k)})
		}
		spec, err := planner.ReadSpec(parent, adapters.Registry{deployment.New()})
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
			w.input(&wholeState{version: version, replicas: s.replicas}) // adds it
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

// child is a Deployment with its ReplicaSets and pods, read by the adapter.
func (w *wholeWorld) child(k int, kid *wholeKid) *planner.Child {
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
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "generation": int64(2), "annotations": annotations},
		"spec": map[string]any{
			"replicas": int64(kid.replicas), "paused": kid.paused, "template": wholeTemplate(kid.template),
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(kid.pace), "maxSurge": int64(0)}},
		},
		"status": map[string]any{"observedGeneration": observed},
	}}
	have := adapters.Dependents{}
	// One that is paused makes no ReplicaSet for another template.
	seen := map[int8]bool{kid.template: kid.observed && !kid.paused}
	for i := range kid.pods {
		seen[kid.pods[i].version] = seen[kid.pods[i].version] || kid.pods[i].version != 0
	}
	for version := int8(1); version <= 3; version++ {
		if !seen[version] {
			continue
		}
		template := wholeTemplate(version)
		template["metadata"].(map[string]any)["labels"].(map[string]any)[appsv1.DefaultDeploymentUniqueLabelKey] = fmt.Sprint("v", version)
		set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
		set.SetNamespace("shop")
		set.SetUID(types.UID(fmt.Sprint(name, version)))
		set.SetLabels(map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint("v", version)})
		set.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(name), Controller: ptr.To(true)}})
		have.Related = append(have.Related, set)
	}
	for i := range kid.pods {
		if kid.pods[i].version != 0 {
			have.Pods = append(have.Pods, w.pod(name, i, &kid.pods[i]))
		}
	}
	o, err := deployment.New().Observe(object, have)
	if err != nil {
		panic(err)
	}
	return &planner.Child{Object: object, Observed: o}
}

func (w *wholeWorld) pod(owner string, i int, p *wholePod) *corev1.Pod {
	born := metav1.NewTime(clockAt(0).Add(-time.Minute))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprint(owner, "-", i), UID: types.UID(fmt.Sprint(owner, i)), CreationTimestamp: born,
		Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint("v", p.version)},
		OwnerReferences: []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(owner, p.version)), Controller: ptr.To(true)}},
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
func (w *wholeWorld) pass(s wholeState, cut bool) wholeState {
	in := w.input(&s)
	p := planner.Make(in)
	results := planner.Results{}
	for _, sub := range p.Order(in) {
		results[sub.Name] = &planner.Result{}
		step, _ := p.Hold(in, sub, results)
		k := int(sub.Name[0] - 'a')
		kid := &s.kids[k]
		if step.Action != subset.ActionApply && step.Action != subset.ActionCreate {
			if step.Action != subset.ActionWait {
				panic(fmt.Sprint("a Deployment needs no ", step.Action))
			}
			continue
		}
		if len(sub.Deletes) > 0 {
			panic("a Deployment replaces its pods by itself")
		}
		was := *kid
		w.carry(kid, &step.Child)
		if *kid == was {
			continue
		}
		kid.observed = false
		if cut {
			s.fresh = false
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
	s.status, s.fresh = string(raw), true
	return s
}

// carry writes a child. What the record alone says is no reason for a write, but for the
// revision and the partition.
func (w *wholeWorld) carry(kid *wholeKid, c *adapters.Child) {
	version := int8(0)
	for i, r := range w.revisions {
		if r.Name == c.Revision {
			version = int8(i + 1)
		}
	}
	record := adapters.Record(c)
	before := map[string]string{}
	_ = json.Unmarshal([]byte(kid.record), &before)
	pace := kid.pace
	if c.Pace != nil {
		pace = c.Pace.MaxUnavailable
	}
	same := kid.exists && kid.template == version && kid.replicas == c.Replicas && kid.paused == c.Paused && kid.pace == pace &&
		before[v1alpha1.AnnotationPartition] == record[v1alpha1.AnnotationPartition] && before[v1alpha1.AnnotationRevision] == record[v1alpha1.AnnotationRevision]
	if same {
		return
	}
	raw, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	kid.exists, kid.template, kid.replicas, kid.paused, kid.record = true, version, c.Replicas, c.Paused, string(raw)
	if kid.pace = pace; pace == 0 {
		kid.pace = 1
	}
}

func (k *wholeKid) count(of func(p *wholePod) bool) (n int32) {
	for i := range k.pods {
		if k.pods[i].version != 0 && of(&k.pods[i]) {
			n++
		}
	}
	return n
}

func anyPod(*wholePod) bool     { return true }
func readyPod(p *wholePod) bool { return p.ready }

// works is the turn of a Deployment's controller: each thing that it may do next. took: it
// took an available replica for another version.
func (k wholeKid) works() (next []wholeKid, took []bool) {
	add := func(n wholeKid, t bool) { next, took = append(next, n), append(took, t) }
	if !k.exists {
		return nil, nil
	}
	if !k.observed {
		k.observed = true
		add(k, false)
		return next, took
	}
	total, available := k.count(anyPod), k.count(readyPod)
	versionToMake := k.template
	if k.paused { // it scales what it has; here: what it has most of
		counts := map[int8]int{}
		for _, p := range k.pods {
			if p.version != 0 {
				counts[p.version]++
			}
		}
		for version, n := range counts {
			if version != versionToMake && n > counts[versionToMake] {
				versionToMake = version
			}
		}
	}
	for i := range k.pods {
		n := k
		p := &n.pods[i]
		switch {
		case p.version == 0:
			if total < k.replicas {
				*p = wholePod{version: versionToMake}
				add(n, false)
				return next, took
			}
		case total > k.replicas:
			// Surplus: the worst go first.
			if !p.ready || available == total {
				*p = wholePod{}
				add(n, false)
			}
		case k.paused || p.version == k.template:
		case !p.ready, available-1 >= k.replicas-k.pace:
			was := p.ready
			*p = wholePod{}
			add(n, was)
		}
	}
	return next, took
}

// event is one thing that can happen next.
type wholeEvent struct {
	what string
	next wholeState
	took bool
}

func (w *wholeWorld) events(s wholeState) (events []wholeEvent) {
	add := func(what string, n wholeState, took bool) {
		if n != s {
			events = append(events, wholeEvent{what, n, took})
		}
	}
	add("pass", w.pass(s, false), false)
	add("cut", w.pass(s, true), false)
	for k := range s.kids {
		kids, took := s.kids[k].works()
		for i := range kids {
			n := s
			n.kids[k] = kids[i]
			add(fmt.Sprint("works ", subsetName(k)), n, took[i])
		}
		for i := range s.kids[k].pods {
			n := s
			switch p := &n.kids[k].pods[i]; {
			case p.version != 0 && !p.ready && p.version != w.broken:
				p.ready, p.late = true, false
				add(fmt.Sprint("ready ", subsetName(k), i), n, false)
			case p.ready && s.blips > 0:
				p.ready, p.late, n.blips, n.fresh = false, true, s.blips-1, false
				add(fmt.Sprint("blip ", subsetName(k), i), n, false)
			}
		}
	}
	if s.edits > 0 {
		for version := int8(1); version <= 3; version++ {
			n := s
			n.version, n.edits, n.generation = version, s.edits-1, s.generation+1
			if version != s.version {
				add(fmt.Sprint("template v", version), n, false)
			}
		}
	}
	if s.pauses > 0 {
		n := s
		n.paused, n.pauses, n.generation = !s.paused, s.pauses-1, s.generation+1
		add("pause", n, false)
	}
	if s.scales > 0 {
		for _, replicas := range []int32{0, s.replicas - 1, s.replicas + 1} {
			n := s
			n.replicas, n.scales, n.generation, n.fresh = replicas, s.scales-1, s.generation+1, false
			add(fmt.Sprint("scale ", replicas), n, false)
		}
	}
	return events
}

// breach says what an event breaks; "" if nothing.
func (w *wholeWorld) breach(s *wholeState, e *wholeEvent) string {
	if e.took && s.fresh && w.max > 0 {
		down := int32(0)
		for k := range e.next.kids {
			kid := &e.next.kids[k]
			down += max(0, kid.replicas-kid.count(readyPod))
		}
		if down > w.max {
			return fmt.Sprintf("I2: an available replica is taken, %d are down, maxUnavailable is %d", down, w.max)
		}
	}
	if w.held >= 0 {
		for _, p := range e.next.kids[w.held].pods {
			if p.version > 1 {
				return fmt.Sprintf("I1: %s is held, and has a pod of v%d", subsetName(w.held), p.version)
			}
		}
	}
	return ""
}

// ends lets the world be kind, and says what keeps it from what is asked for; "" if
// nothing does.
func (w *wholeWorld) ends(s wholeState) string {
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
			if next, _ := s.kids[k].works(); len(next) > 0 {
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
		for _, p := range kid.pods {
			if p.version != 0 && p.version != s.version && k != w.held {
				return fmt.Sprintf("I6: %s ends with v%d, and v%d is asked for: %+v", subsetName(k), p.version, s.version, s)
			}
		}
		if kid.exists {
			total += kid.count(readyPod)
		}
	}
	if total != s.replicas {
		return fmt.Sprintf("I6: it ends with %d replicas of %d: %+v", total, s.replicas, s)
	}
	return ""
}

// walk goes through all that can happen, and gives what is broken first, with the way
// there.
func (w *wholeWorld) walk(bound int) (states int, breach string) {
	w.specs = map[string]*planner.Input{}
	s := wholeState{version: 1, generation: 1, replicas: 4, edits: 0, blips: 0}
	// It comes up on v1, undisturbed.
	if why := w.ends(s); why != "" {
		return 0, why
	}
	for range 50 {
		s = w.pass(s, false)
		for k := range s.kids {
			for i := range s.kids[k].pods {
				if p := &s.kids[k].pods[i]; p.version != 0 {
					p.ready = true
				}
			}
			if next, _ := s.kids[k].works(); len(next) > 0 {
				s.kids[k] = next[0]
			}
		}
	}
	s = w.pass(s, false)
	s.edits, s.scales, s.pauses, s.blips = w.edits, w.scales, w.pauses, w.blips
	type from struct {
		state wholeState
		what  string
	}
	seen := map[wholeState]from{s: {}}
	path := func(s wholeState, last string) string {
		names := []string{last}
		for f := seen[s]; f.what != ""; f = seen[f.state] {
			names = append(names, f.what)
		}
		slices.Reverse(names)
		return strings.Join(names, ", ")
	}
	queue := []wholeState{s}
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
	if len(queue) > 0 {
		return len(seen), "" // bounded
	}
	return len(seen), ""
}

func rollingOf(maxUnavailable int, order v1alpha1.RolloutOrder, steps ...v1alpha1.RolloutStep) v1alpha1.UpdateStrategy {
	return v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{
		MaxUnavailable: ptr.To(intstr.FromInt(maxUnavailable)), Order: order, Steps: steps,
	}}
}

func wholeWorlds() []wholeWorld {
	held := v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: &v1alpha1.ManualUpdate{
		Partitions: map[string]intstr.IntOrString{"a": intstr.FromInt(0)},
	}}
	zero := intstr.FromString("0%")
	step := v1alpha1.RolloutStep{Subsets: []string{"b"}, Partition: &zero}
	return []wholeWorld{
		{name: "one at a time", strategy: rollingOf(1, ""), max: 1, held: -1, edits: 1, blips: 1},
		{name: "two at a time", strategy: rollingOf(2, ""), max: 2, held: -1, edits: 1, blips: 1},
		{name: "one after the other, twice", strategy: rollingOf(1, v1alpha1.SequentialOrder), max: 1, held: -1, edits: 2},
		{name: "a step", strategy: rollingOf(2, "", step), max: 2, held: -1, edits: 1, blips: 1},
		{name: "broken", strategy: rollingOf(2, ""), max: 2, broken: 2, held: -1, edits: 2},
		{name: "scaled", strategy: rollingOf(1, ""), max: 1, held: -1, edits: 1, scales: 1},
		{name: "paused", strategy: rollingOf(2, ""), max: 2, held: -1, edits: 1, pauses: 1},
		{name: "held by hand", strategy: held, held: 1, edits: 2, scales: 1, blips: 1},
		{name: "held by hand, paused", strategy: held, held: 1, edits: 1, pauses: 1, scales: 1},
	}
}

// TestDeploymentWorlds walks through all small worlds of Deployments.
func TestDeploymentWorlds(t *testing.T) {
	t.Parallel()
	for _, w := range wholeWorlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			states, breach := w.walk(kindStates())
			if breach != "" {
				t.Fatal(breach)
			}
			t.Logf("%d states", states)
		})
	}
}

// TestDeploymentWorldsConvict is the control: what is looked for is found where it is.
func TestDeploymentWorldsConvict(t *testing.T) {
	t.Parallel()
	open := v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy}
	for _, tc := range []struct {
		wholeWorld
		want string
	}{
		{wholeWorld{name: "two at a time, one is allowed", strategy: rollingOf(2, ""), max: 1, held: -1, edits: 1}, "I2: "},
		{wholeWorld{name: "released, and held", strategy: open, held: 1, edits: 1}, "I1: "},
		{wholeWorld{name: "never comes up", strategy: rollingOf(1, ""), max: 1, broken: 3, held: -1, edits: 1}, "I6: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, breach := tc.walk(4_000); !strings.HasPrefix(breach, tc.want) {
				t.Errorf("want a breach of %s, have %q", tc.want, breach)
			}
		})
	}
}
