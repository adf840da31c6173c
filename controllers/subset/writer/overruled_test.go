// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// overruled returns a child in which admission has replaced a value in the spec.
func overruled(t *testing.T, value any, path ...string) (b *bench, now *time.Time, current *unstructured.Unstructured) {
	change := func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	b, now = overriding(t, change)
	current = b.asStored(childSpec(), nil)
	change(current)
	return b, now, current
}

// TestOverruled: a change of the rest of the spec by admission is corrected, less and less often, and reported. Nothing
// else waits for that.
func TestOverruled(t *testing.T) {
	b, now, current := overruled(t, int64(77), "spec", "minReadySeconds")
	apply := subset.Step{Action: subset.ActionApply, Child: childSpec()}
	for range 500 {
		*now = now.Add(time.Second)
		after, _, err := b.carry(apply, current)
		if err != nil {
			t.Fatal(err)
		}
		after.SetManagedFields(current.GetManagedFields())
		current = after
	}
	if writes := len(b.applied); writes <= undone.RepeatsAtOnce || writes > undone.RepeatsEachSecond+10 {
		t.Error(writes, "writes")
	}
	e := b.Overridden("web-zone-a", current)
	if e == nil || !e.Lasting || e.NotRetried || !strings.HasPrefix(e.Error(), "StatefulSet web-zone-a: spec.minReadySeconds was changed by admission") {
		t.Fatalf("%+v", e)
	}
	b.change, *now = nil, e.Until
	after, wrote, err := b.carry(apply, current)
	if err != nil || !wrote {
		t.Fatal("it is time again:", wrote, err)
	}
	after.SetManagedFields(current.GetManagedFields())
	if _, wrote, err = b.carry(apply, after); err != nil || wrote {
		t.Error("it is as it is to be:", wrote, err)
	}
}

// TestOverruledInARollout: a rollout writes a child many times. The repetitions of these writes are one series: before,
// there were ten at once after each of them.
func TestOverruledInARollout(t *testing.T) {
	b, now, current := overruled(t, int64(77), "spec", "minReadySeconds")
	released := 0
	for partition := int32(20); partition > 0; partition-- {
		child := childSpec()
		child.Replicas, child.Partition = 20, partition
		for range 10 {
			*now = now.Add(100 * time.Millisecond)
			after, _, err := b.carry(subset.Step{Action: subset.ActionApply, Child: child}, current)
			if err != nil {
				t.Fatal(err)
			}
			after.SetManagedFields(current.GetManagedFields())
			current = after
		}
		released++
		if got, _, _ := unstructured.NestedInt64(current.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); got != int64(partition) {
			t.Fatal("the partition is not written at once:", got, partition)
		}
	}
	if repeated := len(b.applied) - released; repeated <= 0 || repeated > undone.RepeatsEachSecond {
		t.Error(repeated, "repetitions in 20 s")
	}
	if e := b.Overridden("web-zone-a", current); e == nil {
		t.Error("it is not reported")
	}
	edited, before := childSpec(), len(b.applied)
	edited.ParentGeneration++
	for range 50 {
		after, _, err := b.carry(subset.Step{Action: subset.ActionApply, Child: edited}, current)
		if err != nil {
			t.Fatal(err)
		}
		after.SetManagedFields(current.GetManagedFields())
		current = after
	}
	if again := len(b.applied) - before; again < undone.RepeatsAtOnce {
		t.Error("after an edit of the parent it is not tried at once:", again)
	}
}

// TestOverruledForGood: a field that is immutable after the creation of the child is corrected once for each version of
// the spec.
func TestOverruledForGood(t *testing.T) {
	b, now, current := overruled(t, "other", "spec", "serviceName")
	b.applyErr = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "web-zone-a", nil)
	apply := subset.Step{Action: subset.ActionApply, Child: childSpec()}
	for i := range 20 {
		*now = now.Add(time.Minute)
		current.SetResourceVersion(strings.Repeat("9", i+1)) // its status changes
		if _, wrote, err := b.carry(apply, current); wrote || err != nil {
			t.Fatal(wrote, err)
		}
	}
	if len(b.applied) != 1 {
		t.Error(len(b.applied), "writes")
	}
	e := b.Overridden("web-zone-a", current)
	if e == nil || !e.Lasting || e.NotRetried || !strings.Contains(e.Error(), `spec.serviceName was changed by admission (a policy or webhook) when it was written, and the API server rejects a correction: StatefulSet.apps "web-zone-a" is invalid`) {
		t.Fatal(e)
	}
	current.SetGeneration(current.GetGeneration() + 1)
	current.SetResourceVersion("1")
	if _, _, err := b.carry(apply, current); err != nil || len(b.applied) != 2 {
		t.Error("its spec has changed since, so it is tried again:", err, len(b.applied))
	}
}
