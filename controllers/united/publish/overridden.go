// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// statusObject is the name of a parent's status in the repeated writes. The name of a child is its kind and its name.
const statusObject = "status"

func (w *Publisher) repeats() undone.Repeats { return undone.RepeatsOf(w.Memory) }

// publishStatus writes the status if it changed, and returns it. If somebody changes it again each time, it is written less
// and less often, and has a message about that; the error is an *undone.OverriddenError while the write is delayed.
func (w *Publisher) publishStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, describe Describe) (*v1alpha1.UnitedDeploymentStatus, error) {
	repeats, now, wanted := w.repeats(), w.Clock.Now(), status
	if e := repeats.Overridden(statusObject, now); e != nil {
		status = describe(e)
	}
	if same(&parent.Status, status) {
		repeats.RecordStanding(statusObject, now)
		return status, nil
	}
	text, err := timeless(wanted)
	if err != nil {
		return nil, err
	}
	before, err := timeless(&parent.Status)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	content := fmt.Sprint(parent.Generation, " ", hex.EncodeToString(sum[:])) // many are remembered, and the text is large
	putOff := repeats.Delay(statusObject, content, string(before), func(written string) undone.Override {
		return statusOverride(parent, before, []byte(written))
	}, now)
	if putOff != nil {
		return nil, putOff
	}
	if e := repeats.Overridden(statusObject, now); e != nil {
		status = describe(e)
	}
	after, err := w.writeStatus(ctx, parent, status)
	if err != nil {
		return nil, err
	}
	override, err := w.wroteStatus(after, content, status)
	if err == nil && override == (undone.Override{}) && sameMetadata(parent, after) && !Decides(&parent.Status, status) {
		memory.Slot[quiet]{Entry: w.Memory}.Set(quiet(after.ResourceVersion))
	}
	if err == nil && override != (undone.Override{}) && after.ResourceVersion == parent.ResourceVersion {
		// Admission restored the previous status: no watch will trigger another pass.
		return nil, fmt.Errorf("status: %w", subset.ErrStale)
	}
	return status, err
}

// sameMetadata reports whether nobody changed a parent, apart from its status, while that was written.
func sameMetadata(before, after *v1alpha1.UnitedDeployment) bool {
	return before.UID == after.UID && before.Generation == after.Generation && before.DeletionTimestamp.Equal(after.DeletionTimestamp) &&
		maps.Equal(before.Annotations, after.Annotations) && maps.Equal(before.Labels, after.Labels)
}

// wroteStatus records what was written, and what differs in the response already.
func (w *Publisher) wroteStatus(after *v1alpha1.UnitedDeployment, content string, status *v1alpha1.UnitedDeploymentStatus) (undone.Override, error) {
	written, err := timeless(status)
	if err != nil {
		return undone.Override{}, err
	}
	override := undone.Override{}
	if !same(&after.Status, status) {
		answered, err := timeless(&after.Status)
		if err != nil {
			return undone.Override{}, err
		}
		if path := firstDifference(parsed(written), parsed(answered), statusPath()); path != nil {
			override = undone.Override{Field: ownership.FieldName(path), Admission: true}
		}
	}
	w.repeats().RecordWrite(statusObject, content, string(written), override, w.Clock.Now())
	return override, nil
}

// ConfirmAfter returns the time until it is certain that the status stands; 0 if it is.
func (w *Publisher) ConfirmAfter() time.Duration {
	now := w.Clock.Now()
	e := w.repeats().Overridden(statusObject, now)
	if e == nil {
		return 0
	}
	return max(e.Until.Sub(now), time.Millisecond)
}

// timeless returns the JSON of a status without its times: they change only together with other fields, and are
// different if the same status is written again.
func timeless(status *v1alpha1.UnitedDeploymentStatus) ([]byte, error) {
	bare := *status
	bare.LastProgressTime, bare.PausedTime, bare.ResumedTime = nil, nil, nil
	if status.Rollout != nil {
		rollout := *status.Rollout
		rollout.StartTime, rollout.ReachedTime, rollout.LastProgressTime = nil, nil, nil
		rollout.Checks = slices.Clone(rollout.Checks)
		for i := range rollout.Checks {
			rollout.Checks[i].SinceTime, rollout.Checks[i].FailingTime = metav1.Time{}, nil
		}
		bare.Rollout = &rollout
	}
	bare.Conditions = slices.Clone(status.Conditions)
	for i := range bare.Conditions {
		bare.Conditions[i].LastTransitionTime.Reset()
	}
	raw, err := json.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return raw, nil
}

// parsed returns the fields of a status; nil if it cannot be parsed.
func parsed(raw []byte) (fields map[string]any) {
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil
	}
	return fields
}

// statusOverride returns how somebody has changed a status after it was written, and who. Trap: this is not the
// difference from the status to be written, because that does not have the message yet that it is overridden, which the
// present one has.
func statusOverride(parent *v1alpha1.UnitedDeployment, before, written []byte) undone.Override {
	path := firstDifference(parsed(written), parsed(before), statusPath())
	// Trap: the status is atomic in the schema, so whoever changes a field of it owns all of it.
	by, err := ownership.OwnerOf(statusPath(), parent.ManagedFields, "status")
	if err != nil {
		by = "" // it does not matter who it is
	}
	return undone.Override{Field: cmp.Or(ownership.FieldName(path), statusObject), By: by}
}

func statusPath() fieldpath.Path { return fieldpath.MakePathOrDie("status") }

// firstDifference returns the path of the first field, in alphabetical order, in which two statuses differ; nil if they
// are equal. Items of a list are matched by name or type.
func firstDifference(a, b any, at fieldpath.Path) fieldpath.Path {
	if equality.Semantic.DeepEqual(a, b) {
		return nil
	}
	left, right := fieldsOf(a), fieldsOf(b)
	if left == nil || right == nil {
		return at
	}
	for _, key := range slices.Sorted(maps.Keys(union(left, right))) {
		element := right[key].element
		if _, ok := left[key]; ok {
			element = left[key].element
		}
		if path := firstDifference(left[key].value, right[key].value, append(at.Copy(), element)); path != nil {
			return path
		}
	}
	return at
}

// member is a member of an object, or an item of a list.
type member struct {
	element fieldpath.PathElement
	value   any
}

// fieldsOf returns the members of an object, or of a list whose items have a key; nil for anything else.
func fieldsOf(v any) map[string]member {
	switch v := v.(type) {
	case map[string]any:
		fields := map[string]member{}
		for name, child := range v {
			fields[name] = member{fieldpath.PathElement{FieldName: &name}, child}
		}
		return fields
	case []any:
		fields := map[string]member{}
		for _, item := range v {
			object, _ := item.(map[string]any)
			for _, key := range []string{"name", "type"} {
				if text, ok := object[key].(string); ok {
					list := value.FieldList{{Name: key, Value: value.NewValueInterface(text)}}
					fields[text] = member{fieldpath.PathElement{Key: &list}, item}
				}
			}
		}
		if len(fields) == len(v) {
			return fields
		}
	}
	return nil
}

func union(a, b map[string]member) map[string]member {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
