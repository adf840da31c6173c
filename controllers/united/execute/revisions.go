// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// spacing delays changes of a parent's revisions that somebody undoes again and again, as those of its children and its
// status are delayed. It is a store.Spacing.
type spacing struct {
	repeats undone.Repeats
	now     func() time.Time
}

func (e *Executor) spacing() *spacing { return &spacing{repeats: e.repeats(), now: e.Clock.Now} }

// store returns the store of a parent's revisions.
func (e *Executor) store() *store.Store {
	return &store.Store{Client: e.Client, Live: e.Live, Spacing: e.spacing()}
}

// creation is the content of the creation of a revision: it is the same write whatever the revision's number is.
const creation = "create"

// Delay returns an *undone.OverriddenError while a change is delayed.
func (s *spacing) Delay(is, wanted *appsv1.ControllerRevision) error {
	if is == nil {
		return errOf(s.repeats.Delay(revisionObject(wanted.Name), creation, "", func(string) undone.Override {
			return undone.Override{Field: undone.WholeObject}
		}, s.now()))
	}
	object, fields := changed(is, wanted)
	return errOf(s.repeats.Delay(object, fields(wanted).text(), fields(is).text(), func(written string) undone.Override {
		return revisionOverride(is, fields(is), written)
	}, s.now()))
}

// Wrote records a change.
func (s *spacing) Wrote(was, wanted, after *appsv1.ControllerRevision) {
	if was == nil {
		s.repeats.RecordWrite(revisionObject(after.Name), creation, identity(after).text(), undone.Override{}, s.now())
		return
	}
	object, fields := changed(was, wanted)
	content, override := fields(wanted).text(), undone.Override{}
	if path := fields(wanted).difference(fields(after)); path != nil {
		override = undone.Override{Field: ownership.FieldName(path), Admission: true}
	}
	s.repeats.RecordWrite(object, content, content, override, s.now())
}

// errIfOverridden returns an *undone.OverriddenError while it is uncertain whether the changes of an object stand that
// were undone each time before.
func (s *spacing) errIfOverridden(object string) error {
	return errOf(s.repeats.Overridden(object, s.now()))
}

// errOf returns e as an error, which is nil if e is.
func errOf(e *undone.OverriddenError) error {
	if e == nil {
		return nil
	}
	return e
}

// forgetSurplus removes the repeated writes of revisions that are about to be deleted.
func (e *Executor) forgetSurplus(in *planner.Input, inUse map[string]bool) {
	for _, surplus := range revision.Surplus(in.Revisions, inUse, spec.RevisionLimit(in.Parent)) {
		for _, object := range []string{revisionObject(surplus.Name), currentRecordOf(surplus.Name)} {
			e.repeats().Delete(object)
		}
	}
}

// revisionObject returns the name of a revision in the repeated writes.
func revisionObject(name string) string { return "ControllerRevision " + name }

// currentRecordOf returns the name there of the record that a revision was the current one. No rollout waits for that.
func currentRecordOf(name string) string { return "the record in ControllerRevision " + name }

// changed returns the name of the changed object in the repeated writes, and a function that returns the fields that
// matter.
func changed(is, wanted *appsv1.ControllerRevision) (object string, fields func(*appsv1.ControllerRevision) revisionRecord) {
	if currentRecord(is).difference(currentRecord(wanted)) != nil {
		return currentRecordOf(is.Name), currentRecord
	}
	return revisionObject(is.Name), identity
}

// revisionRecord has the fields of a revision that United changes, with their paths.
type revisionRecord []recordedField

type recordedField struct {
	Path  fieldpath.Path `json:"-"`
	Value string
}

// identity returns the owner of a revision, the subsets that it knows, and its number.
func identity(cr *appsv1.ControllerRevision) revisionRecord {
	owner := ""
	if ref := metav1.GetControllerOfNoCopy(cr); ref != nil {
		owner = string(ref.UID)
	}
	return revisionRecord{
		{fieldpath.MakePathOrDie("metadata", "labels", v1alpha1.LabelName), cr.Labels[v1alpha1.LabelName]},
		{fieldpath.MakePathOrDie("metadata", "ownerReferences"), owner},
		annotationOf(cr, v1alpha1.AnnotationSubsets),
		{fieldpath.MakePathOrDie("revision"), fmt.Sprint(cr.Revision)},
	}
}

// currentRecord returns the record that the revision was the current one.
func currentRecord(cr *appsv1.ControllerRevision) revisionRecord {
	return revisionRecord{annotationOf(cr, v1alpha1.AnnotationCurrent), annotationOf(cr, v1alpha1.AnnotationLeft), annotationOf(cr, v1alpha1.AnnotationRejected)}
}

func annotationOf(cr *appsv1.ControllerRevision, key string) recordedField {
	return recordedField{fieldpath.MakePathOrDie("metadata", "annotations", key), cr.Annotations[key]}
}

func (r revisionRecord) text() string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("revision: invalid JSON: %v", err))
	}
	return string(raw)
}

// difference returns the path of the first field in which two records differ; nil if they are equal.
func (r revisionRecord) difference(other revisionRecord) fieldpath.Path {
	for i := range r {
		if i >= len(other) || r[i].Value != other[i].Value {
			return r[i].Path
		}
	}
	return nil
}

// revisionOverride returns how somebody has changed a revision after it was written, and who. has are the fields that
// were written.
func revisionOverride(is *appsv1.ControllerRevision, has revisionRecord, written string) undone.Override {
	var was revisionRecord
	if err := json.Unmarshal([]byte(written), &was); err != nil {
		return undone.Override{Field: "all of it"}
	}
	path := has.difference(was)
	by, err := ownership.OwnerOf(path, is.ManagedFields, "")
	if err != nil {
		by = "" // it does not matter who it is
	}
	return undone.Override{Field: cmp.Or(ownership.FieldName(path), undone.WholeObject), By: by}
}
