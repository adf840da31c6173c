// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// contentOf identifies a write of a child. It does not include what is only written along with other changes, because
// that may differ each time. After an edit of the parent it is another write.
func contentOf(c *adapters.Child, u *unstructured.Unstructured) string {
	return content(c.ParentGeneration, fingerprintOf(u), c.Replicas, c.Partition, c.Partition, c.Seeding, c.Paused, false, true, c.Revision)
}

// contentNow returns the content of the write that would have created the child's current state. It must include
// everything that differsFrom compares: otherwise a difference would look like a change of the desired state, and would
// be written again and again without a delay.
func contentNow(c *adapters.Child, o *adapters.Observed) string {
	return content(subset.ParentGeneration(o), o.Meta.Annotations[v1alpha1.AnnotationFingerprint], o.Replicas, o.Partition, subset.RecordedPartition(o), subset.Seeding(o), o.Paused, o.NoPartition, c.HasPace(o.Pace), subset.RevisionOf(o))
}

// content joins its parameters. paced means that the pace is the desired one; which one that is, is part of the
// fingerprint.
func content(generation int64, fingerprint string, replicas, partition, recorded int32, seeding, paused, noPartition, paced bool, revision string) string {
	return fmt.Sprint(generation, fingerprint, replicas, partition, recorded, seeding, paused, noPartition, paced, revision)
}

func fingerprintOf(u *unstructured.Unstructured) string {
	return u.GetAnnotations()[v1alpha1.AnnotationFingerprint]
}

// object returns the kind and name of a child.
func (w *Writer) object(name string) string {
	return w.Adapter.GroupVersionKind().Kind + " " + name
}

// delayIfRepeated returns an *OverriddenError if a write to the current state is delayed. at is the field that was
// undone. If values do not show that something was undone, managedFields have shown it.
func (w *Writer) delayIfRepeated(c *adapters.Child, u *unstructured.Unstructured, at ownership.Location, current *unstructured.Unstructured, observed *adapters.Observed) error {
	standing := ""
	if w.differsFrom(c, fingerprintOf(u), observed).Text != "" {
		standing = contentNow(c, observed)
	}
	return w.delayWriteIfRepeated(c.Name, contentOf(c, u), standing, at, current.GetManagedFields())
}

func (w *Writer) delayWriteIfRepeated(name, content, standing string, at ownership.Location, managed []metav1.ManagedFieldsEntry) error {
	var failed error
	e := w.repeats().Delay(w.object(name), content, standing, func(string) undone.Override {
		if at.Text == "" {
			return undone.Override{Field: undone.WholeObject}
		}
		override, err := w.overrideAt(at, managed)
		failed = err
		return override
	}, w.now())
	if e != nil && failed == nil {
		return e
	}
	return failed
}

// overrideAt returns what somebody has changed in a child whose first difference from its desired state is at a
// location. Trap: the desired state may be another than the last one. A child that was scaled to 0 first gets back the
// template of its protected revision, and that is not what somebody has changed.
func (w *Writer) overrideAt(at ownership.Location, managed []metav1.ManagedFieldsEntry) (undone.Override, error) {
	by, err := ownership.OwnerOf(at.Path, managed, "")
	if err != nil || by != "" {
		return undone.Override{Field: at.Text, By: by}, err
	}
	ours, err := ownership.OwnedIn(managed)
	if err != nil || ours == nil {
		return undone.Override{Field: at.Text}, err
	}
	fields := w.Adapter.FieldPaths()
	for _, steps := range [][]string{fields.Replicas, fields.Partition, fields.Paused, fields.Strategy} {
		if steps == nil || ours.Has(ownership.FieldAt(steps...).Path) {
			continue
		}
		taken := ownership.FieldAt(steps...)
		if by, err = ownership.OwnerOf(taken.Path, managed, ""); err != nil || by != "" {
			return undone.Override{Field: taken.Text, By: by}, err
		}
	}
	// Trap: a Scale omits replicas if they are 0. So if somebody scales a child to 0, the API server removes us as the
	// owner of its replicas, and makes nobody else the owner. Nobody can remove the field, because an absent value
	// means 1.
	if replicas := ownership.FieldAt(fields.Replicas...); !ours.Has(replicas.Path) {
		return undone.Override{Field: replicas.Text, Unnamed: true}, nil
	}
	return undone.Override{Field: at.Text}, nil
}

// barredByAdmission reports whether admission prevented the last identical write from raising the partition. Only then
// is a write that raises a partition delayed: it would not raise anything.
func (w *Writer) barredByAdmission(c *adapters.Child, u *unstructured.Unstructured) bool {
	return w.repeats().BarredByAdmission(w.object(c.Name), contentOf(c, u))
}

// writeStands records that a child is as it was written.
func (w *Writer) writeStands(c *adapters.Child) {
	w.repeats().RecordStanding(w.object(c.Name), w.now())
}

// recordWrite records a write of a child, and returns the first location at which the API server's response differs
// from what was written.
func (w *Writer) recordWrite(c *adapters.Child, content, fingerprint string, applied, answer *unstructured.Unstructured) ownership.Location {
	at, override := ownership.Location{}, undone.Override{}
	barred := false
	if observed, err := w.Adapter.Observe(answer, adapters.Dependents{}); err == nil {
		at, barred = w.differsFrom(c, fingerprint, observed), observed.Partition < c.Partition
	}
	if label := ownership.LostLabel(c, answer); at.Text == "" && label != "" {
		at = ownership.LabelAt(label)
	}
	if at.Text == "" {
		at = unrecorded(c, answer)
	}
	if at.Text == "" {
		at.Text = adapters.Overruled(w.Adapter, applied, answer)
	}
	if at.Text != "" {
		override = undone.Override{Field: at.Text, Admission: true, Barred: barred, Generation: c.ParentGeneration}
	}
	w.repeats().RecordWrite(w.object(c.Name), content, content, override, w.now())
	return at
}

// unrecorded returns the location of an annotation that the response does not have as it was written; none if it has
// all.
func unrecorded(c *adapters.Child, answer *unstructured.Unstructured) ownership.Location {
	wanted, has := adapters.Record(c), answer.GetAnnotations()
	for _, key := range append(adapters.RecordKeys(), v1alpha1.AnnotationRecordChecksum) {
		if v, there := has[key]; !there || v != wanted[key] {
			return ownership.AnnotationAt(key)
		}
	}
	return ownership.Location{}
}

// labelling returns the content of a write of only the labels by which a child is found.
func labelling(live metav1.Object) string { return fmt.Sprint("labels ", live.GetUID()) }

// recordRelabel records that the labels were restored, and whether the response has them.
func (w *Writer) recordRelabel(c *adapters.Child, content string, answer metav1.Object) {
	override := undone.Override{}
	if label := ownership.LostLabel(c, answer); label != "" {
		override = undone.Override{Field: ownership.LabelAt(label).Text, Admission: true}
	}
	w.repeats().RecordWrite(w.object(c.Name), content, content, override, w.now())
}

func (w *Writer) comparisons() comparisons { return comparisonsOf(w.Memory) }

func (w *Writer) repeats() undone.Repeats { return undone.RepeatsOf(w.Memory) }

// now returns the time, which only what is remembered needs.
func (w *Writer) now() time.Time {
	if w.Now == nil {
		return time.Time{}
	}
	return w.Now()
}

// Overridden returns what undoes the last write of a child again and again, or what admission has changed in its pod
// template; nil if all writes stand. current is the child as it is now, nil if it is not known.
func (w *Writer) Overridden(name string, current *unstructured.Unstructured) *undone.OverriddenError {
	if e := w.contested(name); e != nil {
		return e
	}
	if e := w.repeats().Overridden(w.object(name), w.now()); e != nil || current == nil {
		return e
	}
	if field, why := w.comparisons().fixed(current); field != "" {
		return &undone.OverriddenError{Object: w.object(name), Override: undone.Override{Field: field, Admission: true}, Lasting: true, Fixed: why}
	}
	if field := w.comparisons().altered(current); field != "" {
		return &undone.OverriddenError{Object: w.object(name), Override: undone.Override{Field: field, Admission: true}, Lasting: true, NotRetried: true}
	}
	return nil
}

// delayShrinkIfRepeated is for a child of a removed subset, in which only the replicas are written.
func (w *Writer) delayShrinkIfRepeated(current *unstructured.Unstructured, replicas int32) error {
	return w.delayWriteIfRepeated(current.GetName(), shrinking(current, replicas), "",
		ownership.FieldAt(w.Adapter.FieldPaths().Replicas...), current.GetManagedFields())
}

// recordShrink records such a write, and reports whether the response has other replicas nevertheless.
func (w *Writer) recordShrink(current, answer *unstructured.Unstructured, replicas int32) (changed bool) {
	override, content := undone.Override{}, shrinking(current, replicas)
	if observed, err := w.Adapter.Observe(answer, adapters.Dependents{}); err == nil && observed.Replicas != replicas {
		override = undone.Override{Field: ownership.FieldAt(w.Adapter.FieldPaths().Replicas...).Text, Admission: true}
	}
	w.repeats().RecordWrite(w.object(current.GetName()), content, content, override, w.now())
	return override.Admission
}

func shrinking(current *unstructured.Unstructured, replicas int32) string {
	return fmt.Sprint("shrink ", current.GetUID(), replicas)
}
