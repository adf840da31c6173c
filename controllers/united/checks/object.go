// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// object is all that is kept of an object that a check names.
type object struct {
	// deleted: it is being deleted, and still there because of a finalizer.
	deleted bool
	// behind: its controller has not observed its last change.
	behind     bool
	conditions []condition
	// more: it has more conditions than are kept.
	more bool
	// run is what a Job or an AnalysisRun says as one that a check started; nil for all other kinds.
	run *run
}

type condition struct {
	name, status, reason string
	// behind: it is of an earlier generation of the object.
	behind bool
}

const (
	// mostConditions are kept of an object. Those who may write its status could store a hundred thousand.
	mostConditions = 100
	// longestType is the longest type of a condition that the API conventions allow.
	longestType = 316
)

// reduce returns what is kept of an object. Whatever is not as expected in its status is left out: then it is not met.
func reduce(u *unstructured.Unstructured) *object {
	generation := u.GetGeneration()
	behind := func(fields map[string]any, path ...string) bool {
		observed, found, err := unstructured.NestedInt64(fields, path...)
		return err != nil || found && observed < generation
	}
	o := &object{behind: behind(u.Object, "status", "observedGeneration"), run: reduceRun(u)}
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	items, _ := list.([]any)
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { value, _ := fields[name].(string); return value }
		if o.more = len(o.conditions) == mostConditions; o.more {
			break
		}
		if len(text("type")) > longestType {
			continue // no check can ask for it
		}
		o.conditions = append(o.conditions, condition{text("type"), short(text("status")), short(text("reason")), behind(fields, "observedGeneration")})
	}
	o.deleted = u.GetDeletionTimestamp() != nil
	return o
}

// short cuts what is longer than anything that is meant to be read.
func short(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// judge compares an object with what a check asks for. The text says no more than what changes when the condition turns, so
// that the status need not be written more often.
func (o *object) judge(asked *v1alpha1.ObjectCondition) known.CheckResult {
	no := func(format string, args ...any) known.CheckResult {
		return known.CheckResult{Seen: true, Message: asked.Kind + " " + asked.Name + " " + fmt.Sprintf(format, args...)}
	}
	switch {
	case o == nil:
		return no("does not exist")
	case o.deleted:
		return no("is being deleted")
	}
	i := slices.IndexFunc(o.conditions, func(c condition) bool { return c.name == asked.Type })
	switch {
	case i < 0 && o.more:
		return no("has no condition %s among its first %d, and no more are read", asked.Type, mostConditions)
	case i < 0:
		return no("has no condition %s", asked.Type)
	}
	c, want := o.conditions[i], string(cmp.Or(asked.Status, metav1.ConditionTrue))
	state := c.status
	if c.reason != "" {
		state += ", " + c.reason
	}
	switch {
	case o.behind || c.behind:
		return no("has a change that its controller has not observed yet")
	case c.status == want:
		return known.CheckResult{Seen: true, Met: true}
	case want == string(metav1.ConditionTrue):
		return no("is not %s (%s)", asked.Type, state)
	}
	return no("has the condition %s (%s), and not with status %s", asked.Type, state, want)
}
