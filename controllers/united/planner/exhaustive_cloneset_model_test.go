// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The CloneSets' controller is a model that counts in the way that was measured for the real one. A missing pod
// comes back on its current revision as long as fewer pods than its partition are on a revision other than that of
// the template. It updates or deletes unready pods first; which of the ready ones is unspecified. It settles as
// soon as all pods are updated.

const countPods = 4

type countKid struct {
	exists, observed, unbounded bool
	template, current, update   int8
	replicas, partition         int32
	// record is what is written on the child.
	record string
	pods   [countPods]kindPod
}

type countState struct {
	kindParent
	kids [kindKids]countKid
	// deleted: the manager has deleted a replica that was ready, and was released or is protected.
	deleted bool
}

// countWorld is the setting.
type countWorld struct {
	kindWorld
	// keeps is how many pods of each subset stay on v1.
	keeps [kindKids]int32
	// mutant corrupts what is read of a child.
	mutant func(*adapters.Observed)
}

func (w *countWorld) setting() *kindWorld { return &w.kindWorld }

func (w *countWorld) parent(s *countState) *kindParent { return &s.kindParent }

func (w *countWorld) passed(*countState, bool) {}

func (w *countWorld) scaled(*countState) {}

func (w *countWorld) kind() (adapters.Adapter, func([]byte) v1alpha1.WorkloadTemplate) {
	return cloneset.New(), func(raw []byte) v1alpha1.WorkloadTemplate {
		return v1alpha1.WorkloadTemplate{CloneSetTemplate: rawTemplate(raw)}
	}
}

// countHash returns the child's own revision of a version.
func countHash(name string, version int8) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("%s-v%d", name, version)
}

// child returns a CloneSet with its pods, as the adapter reads it.
func (w *countWorld) child(s *countState, k int) *world.Child {
	kid := &s.kids[k]
	if !kid.exists {
		return nil
	}
	name := "web-" + subsetName(k)
	observed := int64(1)
	if kid.observed {
		observed = 2
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "generation": int64(2), "annotations": recordOf(kid.record)},
		"spec": map[string]any{
			"replicas": int64(kid.replicas), "template": kindTemplate(kid.template),
			"updateStrategy": map[string]any{"partition": int64(kid.partition)},
		},
		"status": map[string]any{
			"observedGeneration": observed, "currentRevision": countHash(name, kid.current), "updateRevision": countHash(name, kid.update),
		},
	}}
	have := adapters.Dependents{}
	for i := range kid.pods {
		if p := &kid.pods[i]; p.version != 0 {
			pod := w.pod(fmt.Sprint(name, "-", i), p)
			pod.UID = types.UID(fmt.Sprint(i))
			pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: countHash(name, p.version)}
			pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(name), Controller: ptr.To(true)}}
			have.Pods = append(have.Pods, pod)
		}
	}
	o, err := cloneset.New().Observe(object, have)
	if err != nil {
		panic(err)
	}
	if w.mutant != nil {
		w.mutant(o)
	}
	o.StatusOutdated = false // it does not matter here when it yields for a moment
	return &world.Child{Object: object, Observed: o}
}

// write carries out a step and, if nothing had to be written, the deletions.
func (w *countWorld) write(s *countState, k int, sub *planner.SubsetPlan, step subset.Step) bool {
	kid := &s.kids[k]
	was := *kid
	switch step.Action {
	case subset.ActionWait:
		return false
	case subset.ActionApply, subset.ActionCreate, subset.ActionSeed, subset.ActionRelearn:
		w.apply(kid, &step.Child)
	case subset.ActionRemind:
		kid.current = int8(step.Hash[len(step.Hash)-1] - '0')
	default:
		panic(fmt.Sprint("nothing here needs ", step.Action, ": ", step.Reason))
	}
	if *kid != was {
		return true
	}
	for _, d := range sub.Deletes {
		i := d.UID[0] - '0'
		s.deleted = s.deleted || kid.pods[i].ready && !d.Unreleased
		kid.pods[i] = kindPod{}
	}
	return *kid != was
}

// apply writes a child. A change of the record alone is no reason for a write, except for some of its parts.
func (w *countWorld) apply(kid *countKid, c *adapters.Child) {
	version := w.versionOf(c.Revision)
	record, differs := recorded(c, kid.record, v1alpha1.AnnotationPartition, v1alpha1.AnnotationRevision, v1alpha1.AnnotationSeeding, v1alpha1.AnnotationAsked)
	if !differs && kid.exists && kid.template == version && kid.replicas == c.Replicas && kid.partition == c.Partition && kid.unbounded == (c.Pace != nil) {
		return
	}
	kid.observed = false
	kid.exists, kid.template, kid.replicas, kid.partition, kid.record = true, version, c.Replicas, c.Partition, record
	kid.unbounded = c.Pace != nil
}

func (k *countKid) count(of func(p *kindPod) bool) (n int32) {
	for i := range k.pods {
		if k.pods[i].version != 0 && of(&k.pods[i]) {
			n++
		}
	}
	return n
}

func (k *countKid) total() int32 { return k.count(anyPod) }

func (k *countKid) available() int32 { return k.count(readyPod) }

func (k *countKid) old() int32 {
	return k.count(func(p *kindPod) bool { return p.version != k.template })
}

// works returns each thing that a CloneSet's controller may do next, with the status that it writes.
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
	take := func(of func(p *kindPod) bool, room bool) {
		unready := k.count(func(p *kindPod) bool { return of(p) && !p.ready }) > 0
		for i := range k.pods {
			if p := &k.pods[i]; p.version != 0 && of(p) && (!p.ready || !unready && room) {
				n := k
				n.pods[i] = kindPod{}
				add(n)
			}
		}
	}
	isOld := func(p *kindPod) bool { return p.version != k.template }
	room := k.unbounded || k.available() > k.replicas-1
	switch {
	case total < k.replicas:
		version := k.template
		if old < k.partition {
			version = memory
		}
		n := k
		n.pods[slices.IndexFunc(n.pods[:], func(p kindPod) bool { return p.version == 0 })] = kindPod{version: version}
		add(n)
	case total > k.replicas && old > k.partition:
		take(isOld, true)
	case total > k.replicas:
		take(func(p *kindPod) bool { return !isOld(p) || old == total }, true)
	case old > min(k.partition, k.replicas):
		take(isOld, room)
	}
	if len(next) == 0 {
		add(k)
	}
	return next
}

// taking returns how many available replicas the controllers are about to take.
func (s *countState) taking() (n int32) {
	for k := range s.kids {
		n += s.kids[k].taking()
	}
	return n
}

func (k *countKid) taking() int32 {
	unready := k.count(func(p *kindPod) bool { return p.version != k.template && !p.ready })
	return max(0, min(k.old()-k.partition, k.replicas)-unready)
}

// down returns how many of the requested replicas are unavailable, or about to be.
func (s *countState) down() int32 {
	down := s.replicas
	for k := range s.kids {
		down -= s.kids[k].available() - s.kids[k].taking()
	}
	return down
}

// happens adds what may happen to the child of a subset.
func (w *countWorld) happens(s *countState, k int, add func(string, countState, bool)) {
	for _, kid := range s.kids[k].works() {
		n := *s
		n.kids[k] = kid
		add(fmt.Sprint("works ", subsetName(k)), n, false)
	}
	for i := range s.kids[k].pods {
		n := *s
		p := &n.kids[k].pods[i]
		switch {
		case p.version != 0 && !p.ready && p.version != w.broken:
			p.ready, p.late = true, false
			add(fmt.Sprint("ready ", subsetName(k), i), n, false)
		case p.ready && s.blips > 0:
			p.ready, p.late, n.blips = false, true, s.blips-1
			add(fmt.Sprint("blip ", subsetName(k), i), n, false)
		}
		if lost := *s; s.losses > 0 && s.kids[k].pods[i].version != 0 {
			lost.kids[k].pods[i], lost.losses = kindPod{}, s.losses-1
			add(fmt.Sprint("lost ", subsetName(k), i), lost, false)
		}
	}
}

func (w *countWorld) kindly(s *countState, k int) {
	for i := range s.kids[k].pods {
		if p := &s.kids[k].pods[i]; p.version != 0 && p.version != w.broken {
			p.ready, p.late = true, false
		}
	}
	if next := s.kids[k].works(); len(next) > 0 {
		s.kids[k] = next[0]
	}
}

// breach returns which rule an event breaks: I1, held replicas do not move; I2, maxUnavailable; C, the protected
// revision of a subset was ready; D, available replicas are not deleted.
func (w *countWorld) breach(s *countState, e *kindEvent[countState]) string {
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
	// Which of two old versions the CloneSet chooses is not up to United.
	for k := range e.next.kids {
		kid := &e.next.kids[k]
		newer := kid.count(func(p *kindPod) bool { return p.version > 1 })
		if w.edits <= 1 && newer > max(0, kid.replicas-w.keeps[k]) && newer > s.kids[k].count(func(p *kindPod) bool { return p.version > 1 }) {
			return fmt.Sprintf("I1: %s keeps %d of %d replicas, and %d are made anew", subsetName(k), w.keeps[k], kid.replicas, newer)
		}
	}
	return ""
}

// missed returns what a world lacks in which nothing more happens: I6.
func (w *countWorld) missed(s *countState) string {
	total := int32(0)
	for k := range s.kids {
		kid := &s.kids[k]
		updated := kid.count(func(p *kindPod) bool { return p.version == s.version })
		first := kid.count(func(p *kindPod) bool { return p.version == 1 })
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
