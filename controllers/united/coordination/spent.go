// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// moves are the annotations that move a rollout. What they say of one rollout of a revision says nothing of another one.
var moves = []string{v1alpha1.AnnotationForceUpdate, v1alpha1.AnnotationPromote}

// SpentBy returns a record, as in status.rollout.spent, of the values that some annotations have.
func SpentBy(annotations map[string]string) string { return AlsoSpent("", annotations, moves...) }

// AlsoSpent adds to a record the values that some of the annotations have.
func AlsoSpent(spent string, annotations map[string]string, keys ...string) string {
	for _, key := range keys {
		if value := annotations[key]; value != "" && !isSpent(spent, key, value) {
			spent = strings.TrimPrefix(spent+","+spentKey(key, value), ",")
		}
	}
	return spent
}

// Counts reports whether the value of such an annotation moves the rollout to a revision: it names the revision, and is not in the
// record.
func Counts(spent, annotation, value, revision string) bool {
	return NamesRevision(value, revision) && !isSpent(spent, annotation, value)
}

func isSpent(spent, annotation, value string) bool {
	return slices.Contains(strings.Split(spent, ","), spentKey(annotation, value))
}

func spentKey(annotation, value string) string { return short(annotation + "=" + value) }

// Keys returns the hashes that the status of a parent, its annotations and its revisions may have of names and of contents: always in
// the same order, "" for one that there is not. What is true of the parent with other names has those of that parent instead.
func Keys(parent *v1alpha1.UnitedDeployment) []string {
	keys := []string{RetryKey(parent.Annotations[v1alpha1.AnnotationRetry])}
	for _, annotation := range moves {
		keys = append(keys, AlsoSpent("", parent.Annotations, annotation))
	}
	strategy, rollout := parent.Spec.UpdateStrategy.RollingUpdate, parent.Status.Rollout
	if strategy == nil || rollout == nil {
		return keys
	}
	for i := range strategy.Checks {
		keys = append(keys, CheckKey(&strategy.Checks[i]), earlierCheckKey(&strategy.Checks[i]))
	}
	c := &coordinator{Input: Input{Update: rollout.Revision, Strategy: strategy}, state: rollout}
	c.rules = readRules(c.Input)
	for step := range c.rules.steps {
		key, earlier := c.keysOf(step)
		keys = append(keys, key, earlier)
	}
	return keys
}
