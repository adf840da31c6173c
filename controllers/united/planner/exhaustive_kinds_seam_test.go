// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// kindParent is the parent, and what may still happen by chance or by the user.
type kindParent struct {
	version                              int8
	generation                           int64
	replicas                             int32
	paused                               bool
	status                               string
	edits, scales, pauses, blips, losses int8
}

// edited adds what the user may do next.
func (p *kindParent) edited(add func(what string, next kindParent)) {
	for version := int8(1); version <= 3 && p.edits > 0; version++ {
		n := *p
		n.version, n.edits, n.generation = version, p.edits-1, p.generation+1
		if version != p.version {
			add(fmt.Sprint("template v", version), n)
		}
	}
	if p.pauses > 0 {
		n := *p
		n.paused, n.pauses, n.generation = !p.paused, p.pauses-1, p.generation+1
		add("pause", n)
	}
	if p.scales > 0 {
		for _, replicas := range []int32{0, max(0, p.replicas-1), p.replicas + 1} {
			n := *p
			n.replicas, n.scales, n.generation = replicas, p.scales-1, p.generation+1
			add(fmt.Sprint("scale ", replicas), n)
		}
	}
}

// kindPod is a pod; the zero value means none.
type kindPod struct {
	version int8
	ready   bool
	// late: it was ready, and is not by chance. It can become ready again.
	late bool
}

// kindTemplate returns the pod template of a version.
func kindTemplate(version int8) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": fmt.Sprint("v", version)}}},
	}
}

// pod returns a pod with the fields that are the same for all kinds, without its owner.
func (w *kindWorld) pod(name string, p *kindPod) *corev1.Pod {
	born := metav1.NewTime(clockAt(0).Add(-time.Minute))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: born}}
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

// versionOf returns the version of a revision of the parent.
func (w *kindWorld) versionOf(name string) int8 {
	return int8(slices.IndexFunc(w.revisions, func(r *revision.Revision) bool { return r.Name == name }) + 1)
}

// recordOf returns the annotations of a child that were written as a text, as in JSON.
func recordOf(text string) map[string]any {
	record := map[string]any{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			panic(err)
		}
	}
	return record
}

// recorded returns the record of a child as a text, and whether one of these annotations differs from before. The
// others alone are no reason for a write.
func recorded(c *adapters.Child, before string, reasons ...string) (text string, differs bool) {
	record, was := adapters.Record(c), recordOf(before)
	for _, key := range reasons {
		old, _ := was[key].(string)
		differs = differs || old != record[key]
	}
	raw, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	return string(raw), differs
}

// specFor returns an input with the spec of a parent, which is read only once for each.
func specFor[S comparable](m kindModel[S], p *kindParent) *planner.Input {
	w := m.setting()
	key := fmt.Sprint(p.version, p.replicas, p.paused)
	if read := w.specs[key]; read != nil {
		return read
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": kindTemplate(p.version)}})
	if err != nil {
		panic(err)
	}
	adapter, member := m.kind()
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	parent.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(p.replicas), Paused: p.paused, UpdateStrategy: w.strategy,
		Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template:                member(raw),
		ProgressDeadlineSeconds: ptr.To(int32(600)),
	}
	for k := range kindKids {
		parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: subsetName(k)})
	}
	spec, err := spec.Read(parent, adapters.Registry{adapter})
	if err != nil {
		panic(err)
	}
	read := &planner.Input{World: world.World{Parent: parent, Spec: spec}}
	w.specs[key] = read
	return read
}

// inputOf returns what the manager reads.
func inputOf[S comparable](m kindModel[S], s *S) *planner.Input {
	w, p := m.setting(), m.parent(s)
	read := specFor(m, p)
	parent := *read.Parent
	parent.Generation = p.generation
	parent.Status = v1alpha1.UnitedDeploymentStatus{}
	if p.status != "" {
		if err := json.Unmarshal([]byte(p.status), &parent.Status); err != nil {
			panic(err)
		}
	}
	for len(w.revisions) < int(p.version) {
		version := int8(len(w.revisions) + 1)
		of := specFor(m, &kindParent{version: version, replicas: p.replicas})
		r, err := revision.Parse(revision.New(of.Parent, world.OwnerOf(of.Parent), of.Spec.Content(), int64(version), 0))
		if err != nil {
			panic(err)
		}
		r.Object.UID = types.UID(r.Name)
		w.revisions = append(w.revisions, r)
	}
	in := &planner.Input{World: world.World{Parent: &parent, Spec: read.Spec, Now: clockAt(0), Children: map[string]*world.Child{}}}
	in.Revisions, in.Update = slices.Clone(w.revisions), w.revisions[p.version-1]
	for k := range kindKids {
		if child := m.child(s, k); child != nil {
			in.Children[subsetName(k)] = child
		}
	}
	return in
}

// passOf runs a pass of the manager; cut ends it after its first write.
func passOf[S comparable](m kindModel[S], s S, cut bool) S {
	in := inputOf(m, &s)
	p := planner.Make(in)
	results := planner.Results{}
	for sub := p.Next(results); sub != nil; sub = p.Next(results) {
		results[sub.Name] = &planner.Result{}
		k := int(sub.Name[0] - 'a')
		if !m.write(&s, k, sub.SubsetPlan, sub.Step) {
			continue
		}
		if cut {
			m.passed(&s, false)
			return s
		}
		results[sub.Name].Child = m.child(&s, k)
	}
	if cut {
		return s
	}
	status, _ := report.Status(in, p, results, report.Undone{})
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{} // no rule depends on it
	}
	raw, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	m.parent(&s).status = string(raw)
	m.passed(&s, true)
	return s
}

// rawTemplate returns a template as the API has it.
func rawTemplate(raw []byte) *runtime.RawExtension { return &runtime.RawExtension{Raw: raw} }
