// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Rest lets everybody but the user act until nothing is left to do. The controller passes over a parent only when
// something has changed, or when it asked to be woken: nothing may depend on more passes than that. (A change of one
// parent wakes the others too. setup.go determines which parents the controller wakes.)
func (s *Cluster) Rest() {
	for _, w := range s.worlds {
		w.wakeAt = s.Clock.Now().Add(w.Wake)
	}
	for rounds := 0; ; rounds++ {
		if rounds > 3000 {
			s.Fail("it does not come to rest: %v", s.API.Writes[max(0, len(s.API.Writes)-10):])
		}
		last := s.API.Last
		for _, w := range s.worlds {
			w.passIfDue()
		}
		s.others()
		if s.API.Last != last || slices.ContainsFunc(s.worlds, func(w *World) bool { return w.again }) {
			continue
		}
		wakeAt, asked := s.nextWake()
		if !asked {
			// Sets wait for minReadySeconds by themselves.
			s.Clock.SetTime(s.Clock.Now().Add(time.Minute))
			if s.others(); s.API.Last != last {
				continue
			}
			s.resting()
			return
		}
		if wakeAt.After(s.Clock.Now()) {
			s.Clock.SetTime(wakeAt)
		}
	}
}

// passIfDue runs a pass if one is due.
func (s *World) passIfDue() {
	due := s.Wake > 0 && !s.Clock.Now().Before(s.wakeAt)
	if s.API.Last != s.seen || s.again || due {
		s.API.Refresh()
		s.Reconcile()
		s.wakeAt = s.Clock.Now().Add(s.Wake)
	}
}

// nextWake returns the first time at which the controller asked to be woken, if it did.
func (s *Cluster) nextWake() (first time.Time, asked bool) {
	for _, w := range s.worlds {
		if w.Wake > 0 && (!asked || w.wakeAt.Before(first)) {
			first, asked = w.wakeAt, true
		}
	}
	return first, asked
}

// resting checks that the controller writes nothing when there is nothing to do.
func (s *Cluster) resting() {
	writes := len(s.API.Writes)
	for _, w := range s.worlds {
		w.Reconcile()
	}
	if len(s.API.Writes) != writes {
		s.Fail("at rest the controller writes %v", s.API.Writes[writes:])
	}
	if s.kind() {
		s.eachOracle((*Oracle).judgeKept)
	}
}

// others returns everybody but the user and the controller.
func (s *Cluster) others() {
	for _, name := range slices.Sorted(maps.Keys(s.API.Live.Sets)) {
		s.Sync(name)
	}
	s.Sets.Collect()
	for _, name := range slices.Sorted(maps.Keys(s.API.Live.Pods)) {
		s.Sets.Kubelet(name)
		s.Look()
	}
}

// Ends lets a rollout finish like a patient user: it approves steps, and forces the rollout if it is blocked. The pods of
// the update revision must be able to become ready.
func (s *World) Ends() {
	for range 30 {
		s.Rest()
		rollout := s.Parent().Status.Rollout
		if rollout == nil {
			return // no replica was ever ready, so there is nothing to protect
		}
		switch rollout.Phase {
		case v1alpha1.RolloutDone:
			return
		case v1alpha1.RolloutProgressing:
			if replicasOf(s.Parent()) > 0 && len(s.Parent().Spec.Topology.Subsets) > 0 {
				s.Fail("it does not end: %s: %s", rollout.Phase, rollout.Message)
			}
			return // without replicas, nothing finishes
		case v1alpha1.RolloutAwaitingApproval:
			s.Annotate(v1alpha1.AnnotationApproved, rollout.ApprovalKey)
		case v1alpha1.RolloutBlocked:
			completing := s.completing()
			if strategy := strategyOf(s.Parent()); completing && (strategy.Partition != nil || len(strategy.Steps) > 0) {
				s.protectNothing()
				continue
			}
			if !completing && !s.Oracle.blocked() {
				s.Fail("it is blocked, though nothing out of reach uses up the ledger: %s", rollout.Message)
			}
			switch {
			case !rollout.Forced:
				s.Annotate(v1alpha1.AnnotationForceUpdate, fmt.Sprint(rollout.Revision, "/", s.Clock.Now().UnixNano())) // never before
			case !s.Oracle.keptBroken():
				s.Fail("it is blocked in spite of force: %s", rollout.Message)
			case len(strategyOf(s.Parent()).Steps) > 0:
				s.dropSteps()
			default:
				return // the floor keeps it broken, as requested
			}
		default:
			s.Fail("it does not end: %s: %s", rollout.Phase, rollout.Message)
		}
	}
	s.Fail("it has no end")
}

// Finish releases everything, with a good template, and checks that it arrives.
func (s *World) Finish(policy string) {
	s.Edit("releases v9", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Paused, spec.Template, spec.UpdateStrategy.ManualUpdate = false, s.template("v9", policy), Released()
		if len(spec.Topology.Subsets) == 0 {
			ComeOrGo(spec, "a")
		}
	})
	s.Settle()
	s.Rest() // replicas that seem finished and are not are replaced after their deadline: see seemsFinished
	s.Judge(true)
	status := &s.Parent().Status
	if status.CurrentRevision != status.UpdateRevision && replicasOf(s.Parent()) > 0 {
		s.Fail("the current revision is %s, not %s", status.CurrentRevision, status.UpdateRevision)
	}
}

// completing reports whether a child has a template that replaced another one before any replica was ready, and has not
// come up on it.
func (s *World) completing() bool {
	for _, u := range s.API.Live.Sets {
		if u.GetAnnotations()[v1alpha1.AnnotationProtectedRevision] == "" && s.Oracle.owns(s.API.typed(u)) && !s.Oracle.settledSet(u) {
			return true
		}
	}
	return false
}

// protectNothing helps if that never comes up, and is protected from any other template.
func (s *World) protectNothing() {
	s.Oracle.Checked["nothing protected"]++
	s.Edit("protects nothing", func(spec *v1alpha1.UnitedDeploymentSpec) {
		strategy := spec.UpdateStrategy.RollingUpdate.DeepCopy()
		strategy.Partition, strategy.Steps = nil, nil
		spec.UpdateStrategy.RollingUpdate = strategy
	})
}

// dropSteps helps if a step protects a broken replica, and its child updates nothing because of that: force does not skip
// steps.
func (s *World) dropSteps() {
	s.Oracle.Checked["steps dropped"]++
	s.Edit("no steps", func(spec *v1alpha1.UnitedDeploymentSpec) {
		strategy := spec.UpdateStrategy.RollingUpdate.DeepCopy()
		strategy.Steps = nil
		spec.UpdateStrategy.RollingUpdate = strategy
	})
}

// Judge compares the cluster with the spec; healthy: all replicas can become ready.
func (s *World) Judge(healthy bool) {
	parent := s.Parent()
	wanted := s.Oracle.targets(s.API.Live)
	for i := range parent.Spec.Topology.Subsets {
		sub := &parent.Spec.Topology.Subsets[i]
		set, want := s.Child(sub.Name), s.API.wanted(parent, sub)
		pods, updated := s.PodsOf(set), int32(0)
		for _, p := range pods {
			if PodContent(p) == want {
				updated++
			}
			if healthy && !IsReady(p) {
				s.Fail("%s is not ready: %s", p.Name, s.Describe(set))
			}
			if healthy && !parent.Spec.Paused && OrdinalOf(set, p.Name) >= wanted[sub.Name].partition && PodContent(p) != want {
				s.Fail("%s is released, and not on %s", p.Name, want)
			}
		}
		if healthy && int32(len(pods)) != wanted[sub.Name].replicas {
			s.Fail("%s has not %d replicas: %s", set, wanted[sub.Name].replicas, s.Describe(set))
		}
		status := statusOf(&parent.Status, sub.Name)
		if status == nil || status.Replicas != int32(len(pods)) || status.DesiredReplicas != wanted[sub.Name].replicas {
			s.Fail("the status says %+v of %s", status, s.Describe(set))
		}
		if healthy && !parent.Spec.Paused && status.UpdatedReplicas != updated {
			s.Fail("the status says that %d are updated of %s", status.UpdatedReplicas, s.Describe(set))
		}
	}
	if healthy && !meta.IsStatusConditionTrue(parent.Status.Conditions, v1alpha1.ConditionReady) {
		s.Fail("it is not Ready: %+v", parent.Status.Conditions)
	}
	if parent.Status.ObservedGeneration != parent.Generation {
		s.Fail("generation %d was not observed", parent.Generation)
	}
}
