// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Clock is the clock of a cluster. Nothing else happens while it moves, so those who measure time are called before.
type Clock struct {
	*clocktesting.FakePassiveClock
	moves func(to time.Time)
}

// SetTime advances the clock.
func (c *Clock) SetTime(to time.Time) {
	c.moves(to)
	c.FakePassiveClock.SetTime(to)
}

// soak measures how long the current step has been reached, from the real pods and not from the status.
type soak struct {
	stood time.Duration
	// stoodThen is for how long it had been reached when the controller's cache last received pods.
	stoodThen time.Duration
	// down is for how long it has not been reached since, until now, and missed is the part of that which is over.
	down, missed time.Duration
	// failed: a replica had failed according to what the pass saw when it began.
	failed bool
}

// timePasses counts the time in which the current step is reached.
func (o *Oracle) timePasses(to time.Time) {
	parent := o.parent(o.Before)
	if parent == nil || len(strategyOf(parent).Steps) == 0 {
		return
	}
	from := o.api.Now().Time
	since, stands := o.standsSince(o.api.Live)
	o.soak.heard(o.api.podsAt.Equal(from), stands)
	if stands {
		up := positive(to.Sub(latest(from, since)))
		o.soak.stood += up
		o.soak.missed, o.soak.down = o.soak.missed+o.soak.down, to.Sub(from)-up
		return
	}
	o.soak.down += to.Sub(from)
}

// heard: the controller's cache may have received pods. A pod shows since when it has its state, but not its earlier
// states: if it is ready again, nobody can see that it was not in the meantime, so that time counts. (If it is ready, it
// shows since when.)
func (s *soak) heard(now, stands bool) {
	if !now {
		return
	}
	if !stands {
		s.stood += s.missed
	}
	s.stoodThen, s.down, s.missed = s.stood, 0, 0
}

// standsSince reports whether everything that the current step releases is updated and will be available, and since when,
// unless something happens before.
//
// Edits of the user since the controller last read the spec do not count yet: nothing in the cluster shows when they were
// made, so the step was reached until the pass that saw them.
func (o *Oracle) standsSince(of Objects) (since time.Time, stands bool) {
	parent := *o.parent(o.Before)
	parent.Status.Rollout = o.parent(o.api.Live).Status.Rollout
	from := Objects{Parents: map[string]*v1alpha1.UnitedDeployment{o.name: &parent}, Sets: of.Sets, Pods: of.Pods, Revisions: o.api.Live.Revisions}
	if !coordinated(&parent) || replicasOf(&parent) == 0 {
		return since, false // a parent without replicas finishes nothing
	}
	for _, s := range o.seeIn(from, nil) {
		wait := min(s.wait, time.Duration(s.set.Spec.MinReadySeconds)*time.Second) // a shorter one is in effect already
		for position := s.target; position < s.desired && !s.removed; position++ {
			p := s.pods[position]
			if p == nil || p.DeletionTimestamp != nil || PodContent(p) != s.wanted || !IsReady(p) {
				return since, false
			}
			ready, _ := readySince(p)
			since = latest(since, ready.Add(wait))
		}
	}
	return since, true
}

// judgeSoak: a timed pause is over when the step has been reached for that time in total, since the rollout came to it
// and since the last failure that the controller saw. There are two allowances. Nobody can see what happened to pods
// after the controller's cache last received them, so until then the step counts as reached. And a status has whole
// seconds.
func (o *Oracle) judgeSoak(step int, pause time.Duration) {
	o.Checked["soak"]++
	now, heard := o.api.Now().Time, o.api.podsAt
	_, stands := o.standsSince(o.api.Live)
	o.soak.heard(heard.Equal(now), stands)
	stood := o.soak.stood
	if since, stands := o.standsSince(o.api.Cached); stands {
		stood = max(stood, o.soak.stoodThen+positive(now.Sub(latest(heard, since))))
	}
	if stood < pause-time.Second {
		o.fail("step %d is over after it stood for %s of its pause of %s", step, stood, pause)
	}
}

// sawFailure reports whether what the controller sees when its pass begins shows that an updated replica has failed,
// which resets the time.
func (o *Oracle) sawFailure() bool {
	parent := o.parent(o.api.Cached)
	if !coordinated(parent) || len(strategyOf(parent).Steps) == 0 || parent.Status.Rollout == nil ||
		parent.Annotations[v1alpha1.AnnotationForceUpdate] != "" || !o.isOf(o.api.Cached, parent.Status.Rollout.Revision) || o.goesBack(o.api.Cached) {
		return false
	}
	for _, s := range o.see(nil) {
		status := s.set.Status
		certain := status.ObservedGeneration == s.set.Generation && status.CurrentRevision != status.UpdateRevision
		if s.removed || !certain || s.set.Annotations[v1alpha1.AnnotationRevision] != parent.Status.Rollout.Revision {
			continue
		}
		for position, p := range s.pods {
			if position < s.desired && PodContent(p) == s.wanted && p.DeletionTimestamp == nil && !IsReady(p) && (hasFailed(p) || o.overdue(parent, p)) {
				return true
			}
		}
	}
	return false
}

// overdue reports whether the pod has been unready for longer than the deadline, without time in pauses.
func (o *Oracle) overdue(parent *v1alpha1.UnitedDeployment, p *corev1.Pod) bool {
	status := &parent.Status
	return status.PausedTime == nil && status.ResumedTime == nil && !unreadySince(p).Add(deadlineOf(parent)).After(o.api.Now().Time)
}

// soakAfterPass resets the time if the pass saw a failure, and made all its writes.
func (o *Oracle) soakAfterPass(wrote bool) {
	if wrote && o.soak.failed {
		o.Checked["soak set back"]++
		o.soak = soak{}
	}
}

// soakAfterStatus resets the time when the rollout comes to another step.
func (o *Oracle) soakAfterStatus(was, is *v1alpha1.RolloutStatus) {
	if was == nil || rolloutKey(was) != rolloutKey(is) || was.Step != is.Step {
		o.soak = soak{}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func positive(d time.Duration) time.Duration { return max(0, d) }
