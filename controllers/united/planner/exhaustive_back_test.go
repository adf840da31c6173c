// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Going back, as docs/design.md has it (coordination): to the current revision, or to one of rollbackRevisions that were
// current before it; never to one that was not current, or that was left by the way back, until it was rolled out
// through the steps again. What passes record on the revisions is written as pass.Pass.Finish says: after the
// children, and before the status.

// smallRecord is what is recorded on a revision.
type smallRecord struct {
	// rank orders the revisions by when they became the current one last, from 1; 0 if never.
	rank uint8
	// left is the record that it was left: an index in leftRecords.
	left uint8
	// rejected: it failed with onFailure Rollback. spent is the number of the last value of retry that is spent.
	rejected bool
	spent    uint8
}

// leftRecords are the values of the annotation.
var leftRecords = []string{"", "true"}

type recordedKey struct {
	v      statefulset.Version
	record smallRecord
}

// readRecords reads the revisions with their records.
func (e *seam) readRecords(w *planner.Input, s *smallState) {
	if !e.config.records {
		return
	}
	for i, record := range s.parent.recorded {
		key := recordedKey{statefulset.Version(i + 1), record}
		r := e.recorded[key]
		if r == nil {
			object := e.revisions[i].Object.DeepCopy()
			if object.Annotations == nil {
				object.Annotations = map[string]string{}
			}
			if record.rank > 0 {
				object.Annotations[v1alpha1.AnnotationCurrent] = revision.CurrentRecord(w.Parent.UID, int64(record.rank)-1)
			}
			if record.left > 0 {
				object.Annotations[v1alpha1.AnnotationLeft] = leftRecords[record.left]
			}
			e.annotateRejected(object, record)
			var err error
			if r, err = revision.Parse(object); err != nil {
				panic(err)
			}
			e.recorded[key] = r
		}
		if w.Revisions[i] = r; key.v == s.parent.version {
			w.Update = r
		}
	}
}

// recordLeft records on the current revision that the rollout is on the way back from it, as soon as that begins, and
// remembers what a way back has left. It is the revision that was asked for before, and the current one. (A pass may see
// only now that all replicas run another one; then going further back than that counts from there.)
func (e *seam) recordLeft(pass *smallPass, read, s *smallState) {
	if !e.config.records {
		return
	}
	if v := e.versions[pass.p.CurrentRevision]; pass.p.GoesBack && v != 0 && v != e.versions[pass.w.Update.Name] {
		s.parent.recorded[v-1].left = 1
	}
	j := e.config.judgedState(e, read)
	if j.rolling == nil || !initialized(read) || !j.back || !j.isWayBack(e.versions[pass.p.CurrentRevision]) {
		return
	}
	status := statuses.at(read.parent.status)
	for _, name := range []string{status.UpdateRevision, pass.p.CurrentRevision} {
		if v := e.versions[name]; v != 0 && v != j.version {
			s.parent.left |= bit(v)
		}
	}
}

// recordCurrent records that a revision has become the current one, or has been rolled out again: then it is no longer
// one that was left.
func (e *seam) recordCurrent(before *v1alpha1.UnitedDeploymentStatus, read, s *smallState, status *v1alpha1.UnitedDeploymentStatus) {
	v := e.versions[status.CurrentRevision]
	if !e.config.records || v == 0 {
		return
	}
	again := status.Rollout != nil && status.Rollout.Phase == v1alpha1.RolloutDone && status.Rollout.Revision == status.CurrentRevision
	if before.CurrentRevision == status.CurrentRevision && s.parent.recorded[v-1].rank > 0 && !again {
		return
	}
	s.parent.recorded[v-1].rank = versions + 1
	if v == read.parent.version { // and not when it ends too late, and is left at the same time
		s.parent.recorded[v-1].left, s.parent.recorded[v-1].rejected, s.parent.recorded[v-1].spent = 0, false, 0
		s.parent.left &^= bit(v)
	}
	order := []uint8{0, 1, 2}
	slices.SortFunc(order, func(a, b uint8) int { return cmp.Compare(s.parent.recorded[a].rank, s.parent.recorded[b].rank) })
	rank := uint8(0)
	for _, i := range order {
		if s.parent.recorded[i].rank > 0 {
			rank++
			s.parent.recorded[i].rank = rank
		}
	}
}

// isWayBack reports whether the rollout is the way back.
func (j *judged) isWayBack(current statefulset.Version) bool {
	p := &j.s.parent
	switch {
	case p.left&bit(j.version) != 0:
		return false
	case current == j.version:
		return true
	case current == 0 || p.recorded[j.version-1].rank == 0:
		return false
	}
	later := int32(0) // how many became current after it, and before the current one
	for i, r := range p.recorded {
		if v := statefulset.Version(i + 1); v != current && r.rank > p.recorded[j.version-1].rank {
			later++
		}
	}
	return later < ptr.Deref(j.rolling.RollbackRevisions, 1)
}

// judgeWayBack: on the way back nothing waits for a step.
func (j *judged) judgeWayBack(told *v1alpha1.RolloutStatus) {
	if told != nil && j.back && !j.s.parent.paused && (told.Phase == v1alpha1.RolloutAwaitingApproval || told.Phase == v1alpha1.RolloutPaused) {
		j.complain("back", "step %d waits, on the way back to v%d", told.Step, j.version)
	}
}
