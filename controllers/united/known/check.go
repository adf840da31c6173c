// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// CheckAsk is what a plan wants to know of a check of a rollout.
type CheckAsk struct {
	// Check is as the user wrote it.
	Check *v1alpha1.RolloutCheck
	// Round is what a result belongs to. With another one, earlier results count no more.
	Round string
	// Reached: the running step is reached, so that only what is measured from now on counts (CheckResult.Reached).
	Reached bool
	// Run is the Job or AnalysisRun that the check is about, as "job/name" or "analysisrun/name"; "" if it makes none.
	Run string
	// Owner is the UnitedDeployment, which controls the run.
	Owner types.UID
	// Updated are the replicas of a query that run the update revision and are available, and Others the ones that do not run it.
	// Both are sorted. Without any Updated, they remain as they were in this round.
	Updated, Others []CheckedPod
}

// AnyRound is the round of a result that counts for all.
const AnyRound = "*"

// CheckedPod is a pod that a query is about.
type CheckedPod struct {
	Name, Subset string
	// Version is its label united.dev/version; "" without one.
	Version string
}

// CheckResult is what was last seen of a check. The zero value says that nothing was seen yet: then nothing is released, and the
// result on record remains.
type CheckResult struct {
	// Round is the one of the CheckAsk. Reached: the measurement began after the step was reached.
	Round   string `json:"round,omitempty"`
	Reached bool   `json:"reached,omitempty"`
	// Seen: there is a result. Met: it is as the check asks for; otherwise Message says why it is not.
	Seen    bool   `json:"seen,omitempty"`
	Met     bool   `json:"met,omitempty"`
	Message string `json:"message,omitempty"`
	// Refused: United may not read or create what the check is about. That does not end by itself.
	Refused bool `json:"refused,omitempty"`
	// Unjudged: it is neither met nor missed, because there was no answer, or no number in it, or an AnalysisRun is inconclusive.
	Unjudged bool `json:"unjudged,omitempty"`
	// Misses is how many measurements in a row were not met.
	Misses int32 `json:"misses,omitempty"`
	// Absent: the Job or AnalysisRun does not exist. Running: it has not finished. Failed: it has failed for good.
	Absent  bool `json:"absent,omitempty"`
	Running bool `json:"running,omitempty"`
	Failed  bool `json:"failed,omitempty"`
}
