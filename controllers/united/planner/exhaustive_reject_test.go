// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// onFailure Rollback, as section 6a of docs/design.md has it: a revision that fails is rejected, which is recorded on it, and
// the rollout goes back to the current one; it comes again only when a new value of the annotation retry asks for it.

func rollsBack(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.RollbackOnFailure }

func retrying() smallEdit {
	return smallEdit{"retry", func(p *smallParent) { p.retry, p.retries = p.version, p.retries+1 }}
}

func retryValue(name string, number uint8) string { return fmt.Sprintf("%s/%d", name, number) }

// wanted returns the version that a pass should go to: the one that the spec asks for, or, while that is rejected, the current
// one.
func (c *smallConfig) wanted(s *smallState) statefulset.Version {
	p := &s.parent
	record := p.recorded[p.version-1]
	if !record.rejected || c.variants[p.variant].Type != v1alpha1.RollingUpdateStrategy || p.retry == p.version && p.retries > record.spent {
		return p.version
	}
	current, known := namesOfVersions.Load(statuses.at(p.status).CurrentRevision)
	if !known {
		return p.version
	}
	return current.(statefulset.Version)
}

// rejections describes what is rejected.
func (p *smallParent) rejections() string {
	text := ""
	for i, r := range p.recorded {
		if r.rejected {
			text += fmt.Sprintf(" (v%d rejected)", i+1)
		}
	}
	if p.retry != 0 {
		text += fmt.Sprintf(" (retry %d of v%d)", p.retries, p.retry)
	}
	return text
}

// annotateRejected writes what is recorded of a rejection on a revision.
func (e *seam) annotateRejected(object *appsv1.ControllerRevision, record smallRecord) {
	if record.spent > 0 {
		object.Annotations[v1alpha1.AnnotationLeft] = "retried-" + coordination.RetryKey(retryValue(object.Name, record.spent))
	}
	if record.rejected {
		object.Annotations[v1alpha1.AnnotationRejected] = "it failed"
	}
}

// recordRejected records what a pass has found, before the status, and reports whether the pass may go on: the revision was not
// changed since it was read.
func (e *seam) recordRejected(pass *smallPass, read, s *smallState) bool {
	if !e.config.records {
		return true
	}
	r := pass.w.UnrecordedRejection(pass.p)
	if r == nil {
		return true
	}
	v := e.versions[r.Name]
	record := &s.parent.recorded[v-1]
	if record.rejected != read.parent.recorded[v-1].rejected || record.spent != read.parent.recorded[v-1].spent {
		return false
	}
	record.rejected, record.left = r.Why != "", 1
	for n := uint8(1); n <= read.parent.retries; n++ {
		if strings.Contains(r.Left, coordination.RetryKey(retryValue(r.Name, n))) {
			record.spent = n
		}
	}
	s.parent.left |= bit(v)
	return true
}

// judgeRejection: nothing is rejected without a failure, nor if nobody asks for that.
func (j *judged) judgeRejection(pass *smallPass) {
	if !j.c.records {
		return
	}
	r := pass.w.UnrecordedRejection(pass.p)
	if r == nil || r.Why == "" || j.s.parent.recorded[j.e.versions[r.Name]-1].rejected {
		return
	}
	failed := j.c.hasChecks() && j.s.parent.check&checkNotMet != 0
	for k := range j.s.kids {
		for i := range j.s.kids[k].set.Pods {
			pod := &j.s.kids[k].set.Pods[i]
			failed = failed || j.updated(k, i) && !j.available(k, i) && (pod.Aged || pod.Phase == statefulset.Crashed)
		}
	}
	if !failed || j.forced || j.back || j.s.parent.paused || j.rolling == nil || j.rolling.OnFailure != v1alpha1.RollbackOnFailure {
		j.complain("rejection", "v%d is rejected, and has not failed, or is not to be rejected", j.version)
	}
}

// judgeForth: a child never goes forth to a rejected version.
func (j *judged) judgeForth(k int) {
	to := func(set *statefulset.Set, i int) bool {
		return set.Exists && set.Template == j.rejected && i >= int(set.Partition) && i < int(set.Replicas)
	}
	for i := range int(j.after[k].Replicas) {
		if j.rejected != 0 && to(&j.after[k], i) && !to(&j.before[k], i) {
			j.complain("rejected", "%s-%d is released to v%d, which is rejected", subsetName(k), i, j.rejected)
			return
		}
	}
}

// judgeRejected: the status says what is rejected, and that does not become the current revision.
func (j *judged) judgeRejected(told *v1alpha1.UnitedDeploymentStatus) {
	said := statefulset.Version(0)
	if told.Rollout != nil {
		said = j.e.versions[told.Rollout.RejectedRevision]
	}
	switch {
	case j.c.records && said != j.rejected && told.Rollout != nil:
		j.complain("rejected", "v%d is said to be rejected, and v%d is", said, j.rejected)
	case j.rejected != 0 && told.Rollout != nil && !j.s.parent.paused && j.e.versions[told.Rollout.Revision] == j.rejected:
		j.complain("rejected", "v%d is rolled out, and is rejected", j.rejected)
	case j.rejected != 0 && j.e.versions[told.CurrentRevision] == j.rejected:
		j.complain("rejected", "v%d becomes the current revision, and is rejected", j.rejected)
	case j.rejected != 0 && j.e.versions[told.UpdateRevision] != j.rejected:
		j.complain("rejected", "v%d is asked for, and v%d is said to be", j.rejected, j.e.versions[told.UpdateRevision])
	}
}

// goesBackByItself reports whether a version that cannot become ready need not be corrected: all goes back to the current one.
func (c *smallConfig) goesBackByItself(s *smallState) bool {
	current, known := namesOfVersions.Load(statuses.at(s.parent.status).CurrentRevision)
	if !known || !c.records || !initialized(s) {
		return false
	}
	v, r := current.(statefulset.Version), c.variants[s.parent.variant].RollingUpdate
	return r != nil && r.OnFailure == v1alpha1.RollbackOnFailure && !s.parent.isForced(s.parent.version) &&
		v != s.parent.version && c.bad&bit(v) == 0 && s.parent.left&bit(v) == 0 && s.parent.replicas > 0
}

// toldRejected returns what is wrong with the status when all has gone back.
func toldRejected(status *v1alpha1.UnitedDeploymentStatus) string {
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonRevisionRejected || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		return "all has gone back, and it is not told"
	}
	return ""
}

func rejectConfigs() []smallConfig {
	return slices.Concat(
		kinds("Rollback, replicas fail", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack)}, records: true, bad: bit(2),
			edits:  edits(templates(1, 2), these(retrying())),
			budget: budget{budgetEdit: 3, budgetDie: 1, budgetLoss: 1}.whole(),
		}),
		kinds("Rollback, a replica fails", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack, atMost(2))}, records: true,
			edits:  edits(templates(2), these(scaleTo(4), pausing())),
			budget: budget{budgetEdit: 2, budgetCrash: 1, budgetTick: 1}.whole(),
		}),
		kinds("Rollback, a check fails", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack, checked, step(canary, ""))}, records: true,
			edits:  edits(templates(2), these(retrying())),
			budget: budget{budgetEdit: 2, budgetTurn: 2, budgetTick: 2, budgetRestart: 1, budgetLoss: 1}.whole(),
		}),
		kinds("Rollback, late, scaled, to another", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack)}, records: true, bad: bit(2),
			edits:  edits(templates(2, 3), these(scaleTo(3))),
			budget: budget{budgetEdit: 3, budgetStale: 1}.whole(), large: true,
		}),
		kinds("Rollback, forced, and by hand", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack), manual(none), rolling()}, records: true, bad: bit(2),
			edits:  edits(templates(2), these(forcing(), variant(0, "rolling back"), variant(1, "Manual"), variant(2, "holding"))),
			budget: budget{budgetEdit: 3, budgetDie: 1}.whole(),
		}),
	)
}

// rejectMutants are controllers that reject what they should not, or forget it.
func rejectMutants() []mutant {
	world := smallConfig{
		replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(rollsBack)}, records: true, bad: bit(2),
		edits: edits(templates(2), these(retrying())), budget: budget{budgetEdit: 2, budgetLoss: 1}.whole(),
	}
	// forth lets the plan go on to what is rejected, if that is so.
	forth := func(when func(*planner.Input) bool) func(*planner.Input, *planner.Plan) {
		return func(w *planner.Input, p *planner.Plan) {
			if w.Rejected == nil || !when(w) {
				return
			}
			in := *w
			in.Update, in.Rejected = w.Rejected, nil
			*p = *planner.Make(&in)
		}
	}
	return []mutant{
		{"rejects what has not failed", "rejection", world, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout != nil {
				p.Rollout.Failure = "no"
			}
		}},
		{"never rejects", "I6", world, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout != nil {
				p.Rollout.Failure = ""
			}
		}},
		{"forgets a rejection when the status is lost", "rejected", world, forth(func(w *planner.Input) bool {
			return w.Parent.Status.Rollout == nil || w.Parent.Status.Rollout.RejectedRevision == ""
		})},
		{"takes a value of retry twice", "rejected", world, forth(func(w *planner.Input) bool {
			return coordination.NamesRevision(w.Parent.Annotations[v1alpha1.AnnotationRetry], w.Rejected.Name)
		})},
		{"does not go back", "I6", world, func(w *planner.Input, p *planner.Plan) {
			if w.Rejected == nil {
				return
			}
			for _, s := range p.Subsets {
				if o := observed(w, s.Name); o != nil {
					s.Deletes, s.Step.Child.Partition = nil, o.Partition
					if has := revision.ByName(w.Revisions, o.Meta.Annotations[v1alpha1.AnnotationRevision]); has != nil {
						s.Step.Child.RevisionTemplate, s.Step.Child.Revision = has.Template(), has.Name
					}
				}
			}
		}},
	}
}
