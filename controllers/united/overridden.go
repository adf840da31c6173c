// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// statusObject is what a parent's status is called where repeated writes are counted. A
// child is called by its kind and its name.
const statusObject = "status"

// publishStatus writes the status if it changed. One that somebody changes again each time is
// written less and less often, and says so: an *writer.OverriddenError puts it off.
func (r *Reconciler) publishStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) error {
	key, now, wanted := client.ObjectKeyFromObject(parent), r.Clock.Now(), status
	if e := r.repeats.Overridden(key, statusObject, now); e != nil {
		wanted = status.DeepCopy()
		planner.SetOverridden(parent, status, e.Error(), e.Lasting, now)
	}
	if planner.SameStatus(&parent.Status, status) {
		r.repeats.RecordStanding(key, statusObject, now)
		return nil
	}
	fields, err := timeless(wanted)
	if err != nil {
		return err
	}
	before, err := timeless(&parent.Status)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(statusText(fields)))
	content := fmt.Sprint(parent.Generation, " ", hex.EncodeToString(sum[:])) // many are remembered, and each is large
	e := r.repeats.Delay(key, statusObject, content, statusText(before), func(written string) writer.Override {
		return statusOverride(parent, before, written)
	}, now)
	if e != nil {
		return e
	}
	if e := r.repeats.Overridden(key, statusObject, now); e != nil {
		planner.SetOverridden(parent, status, e.Error(), e.Lasting, now)
	}
	after, err := r.writeStatus(ctx, parent, status)
	if err != nil {
		return err
	}
	override, err := r.wroteStatus(after, content, status)
	if err == nil && override != (writer.Override{}) && after.ResourceVersion == parent.ResourceVersion {
		// Admission made of it what it was: no watch will bring the pass back.
		return fmt.Errorf("status: %w", writer.ErrStale)
	}
	return err
}

// wroteStatus notes what was written, and what the answer to it had changed already.
func (r *Reconciler) wroteStatus(after *v1alpha1.UnitedDeployment, content string, status *v1alpha1.UnitedDeploymentStatus) (writer.Override, error) {
	written, err := timeless(status)
	if err != nil {
		return writer.Override{}, err
	}
	answered, err := timeless(&after.Status)
	if err != nil {
		return writer.Override{}, err
	}
	override := writer.Override{}
	if path := firstDifference(written, answered, statusPath()); path != nil {
		override = writer.Override{Field: nameOf(path), Admission: true}
	}
	r.repeats.RecordWrite(client.ObjectKeyFromObject(after), statusObject, content, statusText(written), override, r.Clock.Now())
	return override, nil
}

// requeueToConfirm is a wake-up, or when it is sure that the status stands if that is sooner.
func (r *Reconciler) requeueToConfirm(parent *v1alpha1.UnitedDeployment, wake time.Duration) time.Duration {
	now := r.Clock.Now()
	e := r.repeats.Overridden(client.ObjectKeyFromObject(parent), statusObject, now)
	if e == nil {
		return wake
	}
	return sooner(wake, max(e.Until.Sub(now), time.Millisecond))
}

// timeless is a status as JSON has it, without its times: what they say changes with the
// rest, and a status that is written again has others.
func timeless(status *v1alpha1.UnitedDeploymentStatus) (map[string]any, error) {
	bare := status.DeepCopy()
	bare.LastProgressTime, bare.PausedTime, bare.ResumedTime = nil, nil, nil
	if bare.Rollout != nil {
		bare.Rollout.StartTime, bare.Rollout.ReachedTime, bare.Rollout.LastProgressTime = nil, nil, nil
	}
	for i := range bare.Conditions {
		bare.Conditions[i].LastTransitionTime.Reset()
	}
	raw, err := json.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return fields, nil
}

// statusText is a timeless status as text.
func statusText(fields map[string]any) string {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("status: invalid JSON: %v", err))
	}
	return string(raw)
}

// statusOverride is what somebody has made of a status as it was written, and who. Trap: it is
// not what differs from the status that is to be written, which does not say yet that it is
// overridden, as the one does that stands.
func statusOverride(parent *v1alpha1.UnitedDeployment, before map[string]any, written string) writer.Override {
	var was map[string]any
	if err := json.Unmarshal([]byte(written), &was); err != nil {
		return writer.Override{Field: nameOf(nil)}
	}
	path := firstDifference(was, before, statusPath())
	// Trap: the status is atomic in the schema, so that who changes a field of it has it all.
	by, err := writer.OwnerOf(statusPath(), parent.ManagedFields, "status")
	if err != nil {
		by = "" // whoever it is
	}
	return writer.Override{Field: nameOf(path), By: by}
}

func statusPath() fieldpath.Path { return fieldpath.MakePathOrDie("status") }

func nameOf(path fieldpath.Path) string {
	if len(path) == 0 {
		return "status"
	}
	return path.String()[1:]
}

// firstDifference is the path of the first field, in alphabetical order, in which two
// statuses differ; nil when they do not. Items of a list go by their name or type.
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

// fieldsOf are the members of an object, or of a list whose items have a key; nil of
// anything else.
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
