// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The Deployments' controller is a model of what it may do: it never has more replicas than asked for (maxSurge is
// 0), and takes an available one only if no more than maxUnavailable are unavailable afterwards.

// wholePods is the maximum number of pods of a child, because nothing surges.
const wholePods = 3

type wholeKid struct {
	exists, observed, paused bool
	template                 int8
	replicas, pace           int32
	// record is what is written on the child.
	record string
	pods   [wholePods]kindPod
}

type wholeState struct {
	kindParent
	kids [kindKids]wholeKid
	// fresh: nothing has happened since the last complete pass that it could not know.
	fresh bool
}

// wholeWorld is the setting.
type wholeWorld struct {
	kindWorld
	// held is the subset in which nothing may move; noneHeld if there is none.
	held int
}

const noneHeld = -1

func (w *wholeWorld) setting() *kindWorld { return &w.kindWorld }

func (w *wholeWorld) parent(s *wholeState) *kindParent { return &s.kindParent }

func (w *wholeWorld) passed(s *wholeState, whole bool) { s.fresh = whole }

func (w *wholeWorld) scaled(s *wholeState) { s.fresh = false }

func (w *wholeWorld) kind() (adapters.Adapter, func([]byte) v1alpha1.WorkloadTemplate) {
	return deployment.New(), func(raw []byte) v1alpha1.WorkloadTemplate {
		return v1alpha1.WorkloadTemplate{DeploymentTemplate: rawTemplate(raw)}
	}
}

// child returns a Deployment with its ReplicaSets and pods, as the adapter reads it.
func (w *wholeWorld) child(s *wholeState, k int) *world.Child {
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
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "generation": int64(2), "annotations": recordOf(kid.record)},
		"spec": map[string]any{
			"replicas": int64(kid.replicas), "paused": kid.paused, "template": kindTemplate(kid.template),
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(kid.pace), "maxSurge": int64(0)}},
		},
		"status": map[string]any{"observedGeneration": observed},
	}}
	have := adapters.Dependents{Related: kid.replicaSets(name)}
	for i := range kid.pods {
		if p := &kid.pods[i]; p.version != 0 {
			pod := w.pod(fmt.Sprint(name, "-", i), p)
			pod.UID = types.UID(fmt.Sprint(name, i))
			pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint("v", p.version)}
			pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(name, p.version)), Controller: ptr.To(true)}}
			have.Pods = append(have.Pods, pod)
		}
	}
	o, err := deployment.New().Observe(object, have)
	if err != nil {
		panic(err)
	}
	return &world.Child{Object: object, Observed: o}
}

// replicaSets returns the ReplicaSets of a child.
func (k *wholeKid) replicaSets(name string) (sets []*unstructured.Unstructured) {
	// A paused Deployment does not create a ReplicaSet for another template.
	seen := map[int8]bool{k.template: k.observed && !k.paused}
	for i := range k.pods {
		seen[k.pods[i].version] = seen[k.pods[i].version] || k.pods[i].version != 0
	}
	for version := int8(1); version <= 3; version++ {
		if !seen[version] {
			continue
		}
		template := kindTemplate(version)
		template["metadata"].(map[string]any)["labels"].(map[string]any)[appsv1.DefaultDeploymentUniqueLabelKey] = fmt.Sprint("v", version)
		set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
		set.SetNamespace("shop")
		set.SetUID(types.UID(fmt.Sprint(name, version)))
		set.SetLabels(map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint("v", version)})
		set.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(name), Controller: ptr.To(true)}})
		sets = append(sets, set)
	}
	return sets
}

// write writes a child. A change of the record alone is no reason for a write, except for the revision and the
// partition.
func (w *wholeWorld) write(s *wholeState, k int, sub *planner.SubsetPlan, step subset.Step) bool {
	if step.Action == subset.ActionWait {
		return false
	}
	if step.Action != subset.ActionApply && step.Action != subset.ActionCreate {
		panic(fmt.Sprint("a Deployment needs no ", step.Action))
	}
	if len(sub.Deletes) > 0 {
		panic("a Deployment replaces its pods by itself")
	}
	kid, c := &s.kids[k], &step.Child
	version, pace := w.versionOf(c.Revision), kid.pace
	if c.Pace != nil {
		pace = c.Pace.MaxUnavailable
	}
	record, differs := recorded(c, kid.record, v1alpha1.AnnotationPartition, v1alpha1.AnnotationRevision, v1alpha1.AnnotationAsked)
	if !differs && kid.exists && kid.template == version && kid.replicas == c.Replicas && kid.paused == c.Paused && kid.pace == pace {
		return false
	}
	was := *kid
	kid.exists, kid.template, kid.replicas, kid.paused, kid.record = true, version, c.Replicas, c.Paused, record
	if kid.pace = pace; pace == 0 {
		kid.pace = 1
	}
	if *kid == was {
		return false
	}
	kid.observed = false
	return true
}

func (k *wholeKid) count(of func(p *kindPod) bool) (n int32) {
	for i := range k.pods {
		if k.pods[i].version != 0 && of(&k.pods[i]) {
			n++
		}
	}
	return n
}

func anyPod(*kindPod) bool { return true }

func readyPod(p *kindPod) bool { return p.ready }

// makes returns the version on which a child creates missing replicas. A paused one scales what it has; here, the
// version of which it has most.
func (k *wholeKid) makes() int8 {
	version, counts := k.template, map[int8]int{}
	for _, p := range k.pods {
		if k.paused && p.version != 0 {
			counts[p.version]++
		}
	}
	for other := int8(1); other <= 3; other++ {
		if counts[other] > counts[version] {
			version = other
		}
	}
	return version
}

// works returns each thing that a Deployment's controller may do next. took: it took an available replica for
// another version.
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
	for i := range k.pods {
		n := k
		p := &n.pods[i]
		switch {
		case p.version == 0:
			if total < k.replicas {
				*p = kindPod{version: k.makes()}
				add(n, false)
				return next, took
			}
		case total > k.replicas:
			// Surplus: the worst replicas are removed first.
			if !p.ready || available == total {
				*p = kindPod{}
				add(n, false)
			}
		case k.paused || p.version == k.template:
		case !p.ready, available-1 >= k.replicas-k.pace:
			was := p.ready
			*p = kindPod{}
			add(n, was)
		}
	}
	return next, took
}

// happens adds what may happen to the child of a subset.
func (w *wholeWorld) happens(s *wholeState, k int, add func(string, wholeState, bool)) {
	kids, took := s.kids[k].works()
	for i := range kids {
		n := *s
		n.kids[k] = kids[i]
		add(fmt.Sprint("works ", subsetName(k)), n, took[i])
	}
	for i := range s.kids[k].pods {
		n := *s
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

func (w *wholeWorld) kindly(s *wholeState, k int) {
	for i := range s.kids[k].pods {
		if p := &s.kids[k].pods[i]; p.version != 0 && p.version != w.broken {
			p.ready, p.late = true, false
		}
	}
	if next, _ := s.kids[k].works(); len(next) > 0 {
		s.kids[k] = next[0]
	}
}

// breach returns which rule an event breaks: I1, held replicas do not move; I2, maxUnavailable.
func (w *wholeWorld) breach(s *wholeState, e *kindEvent[wholeState]) string {
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
	if w.held != noneHeld {
		for _, p := range e.next.kids[w.held].pods {
			if p.version > 1 {
				return fmt.Sprintf("I1: %s is held, and has a pod of v%d", subsetName(w.held), p.version)
			}
		}
	}
	return ""
}

// missed returns what a world lacks in which nothing more happens: I6.
func (w *wholeWorld) missed(s *wholeState) string {
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
