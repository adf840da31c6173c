// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// contentOf tells writes of a child apart. What rides along with other writes is not in
// it: that can change with each. An edit of the parent makes another write of it.
func contentOf(c *adapters.Child, u *unstructured.Unstructured) string {
	return content(c.ParentGeneration, fingerprintOf(u), c.Replicas, c.Partition, c.Partition, c.Seeding, c.Revision)
}

// contentNow is the content of the write that would have made a child what it is. All that
// differsFrom compares is in it: what is not would pass for a change of our own mind, and
// be written again without end.
func contentNow(o *adapters.Observed) string {
	return content(subset.ParentGeneration(o), o.Meta.Annotations[v1alpha1.AnnotationFingerprint], o.Replicas, o.Partition, subset.RecordedPartition(o), subset.Seeding(o), subset.RevisionOf(o))
}

func content(generation int64, fingerprint string, replicas, partition, recorded int32, seeding bool, revision string) string {
	return fmt.Sprint(generation, fingerprint, replicas, partition, recorded, seeding, revision)
}

func fingerprintOf(u *unstructured.Unstructured) string {
	return u.GetAnnotations()[v1alpha1.AnnotationFingerprint]
}

// object is how a child is called.
func (w *Writer) object(name string) string {
	return w.Adapter.GroupVersionKind().Kind + " " + name
}

// putOff gives an *OverriddenError when a write of what is there now is put off. at is
// what was undone. What values do not tell was undone for sure.
func (w *Writer) putOff(c *adapters.Child, u *unstructured.Unstructured, at place, current *unstructured.Unstructured, observed *adapters.Observed) error {
	standing := ""
	if w.differsFrom(c, fingerprintOf(u), observed).text != "" {
		standing = contentNow(observed)
	}
	return w.putOffWrite(parentOf(c), c.Name, contentOf(c, u), standing, at, current)
}

func (w *Writer) putOffWrite(parent types.NamespacedName, name, content, standing string, at place, current *unstructured.Unstructured) error {
	if w.Repeats == nil {
		return nil
	}
	var failed error
	e := w.Repeats.PutOff(parent, w.object(name), content, standing, func() Override {
		if current == nil {
			return Override{Field: "all of it"}
		}
		by, err := OwnerOf(at.path, current.GetManagedFields(), "")
		failed = err
		return Override{Field: at.text, By: by}
	}, w.Now())
	if e != nil && failed == nil {
		return e
	}
	return failed
}

// futile tells whether admission changed the same write the last time. One that raises a
// partition is put off only then: it would raise nothing.
func (w *Writer) futile(c *adapters.Child, u *unstructured.Unstructured) bool {
	return w.Repeats.Futile(parentOf(c), w.object(c.Name), contentOf(c, u))
}

// stands notes that a child is as it was written.
func (w *Writer) stands(c *adapters.Child) {
	if w.Repeats != nil {
		w.Repeats.Stands(parentOf(c), w.object(c.Name), w.Now())
	}
}

// wrote notes a write of a child, and gives the first place in which what the API server
// answered is not as it was written.
func (w *Writer) wrote(c *adapters.Child, content, fingerprint string, answer *unstructured.Unstructured) place {
	at, override := place{}, Override{}
	if observed, err := w.Adapter.Observe(answer, nil); err == nil {
		at = w.differsFrom(c, fingerprint, observed)
	}
	if at.text != "" {
		override = Override{Field: at.text, Admission: true}
	}
	if w.Repeats != nil {
		w.Repeats.Wrote(parentOf(c), w.object(c.Name), content, content, override, w.Now())
	}
	return at
}

// Overridden gives what undoes the last write of a child again and again, nil when that
// stands.
func (w *Writer) Overridden(parent types.NamespacedName, name string) *OverriddenError {
	if w.Repeats == nil {
		return nil
	}
	return w.Repeats.Overridden(parent, w.object(name), w.Now())
}

// A child whose subset is going is only told its replicas.

func (w *Writer) putOffShrink(current *unstructured.Unstructured, replicas int32) error {
	return w.putOffWrite(parentOfObject(current), current.GetName(), shrinking(current, replicas), "",
		fieldPlace(w.Adapter.FieldPaths().Replicas...), current)
}

func (w *Writer) shrunk(current, answer *unstructured.Unstructured, replicas int32) {
	if w.Repeats == nil {
		return
	}
	override, content := Override{}, shrinking(current, replicas)
	if observed, err := w.Adapter.Observe(answer, nil); err == nil && observed.Replicas != replicas {
		override = Override{Field: fieldPlace(w.Adapter.FieldPaths().Replicas...).text, Admission: true}
	}
	w.Repeats.Wrote(parentOfObject(current), w.object(current.GetName()), content, content, override, w.Now())
}

func shrinking(current *unstructured.Unstructured, replicas int32) string {
	return fmt.Sprint("shrink ", current.GetUID(), replicas)
}

func parentOfObject(u *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetLabels()[v1alpha1.LabelName]}
}
