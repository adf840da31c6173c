// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision names, compares and finds the revisions of a UnitedDeployment.
//
// A revision is what reaches pods: the pod part of the template, and for each subset what its patch
// and its tolerations change in that part. It is stored as a ControllerRevision of the parent, whose
// data are immutable. Therefore an annotation of the revision records the subsets that are added
// later, and those that are removed: adding or removing a subset makes no revision, and a later
// change of its patch is still detected.
//
// The package is pure. Package store writes the revisions.
package revision

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Content is what determines the pods.
type Content struct {
	// Template is the pod part of the workload template.
	Template map[string]any `json:"template"`
	// Subsets holds the changes of each subset to the template, by name.
	Subsets map[string]Overlay `json:"subsets"`
	// VersionLabel is the value of the label united.dev/version of all pods, "" without one. The
	// value is kept, and not that there is one: another way to compute it must not restart pods that
	// are protected.
	VersionLabel string `json:"versionLabel,omitempty"`
	// Colocation is how pods are placed in groups; nil if they are not.
	Colocation *Colocation `json:"colocation,omitempty"`
	// pods is the template in the form in which it is compared, if it was marshaled already.
	pods []byte
}

// Marshalled returns the content with its template marshaled, for repeated comparisons.
func (c Content) Marshalled() Content {
	c.pods = podsOf(c.Template)
	return c
}

func (c *Content) comparable() []byte {
	if c.pods != nil {
		return c.pods
	}
	return podsOf(c.Template)
}

// podsOf returns a template in the form in which it is compared: a large one as a hash.
func podsOf(template map[string]any) []byte {
	raw := marshal(template)
	if len(raw) <= mostDecoded {
		return raw
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// Overlay is what one subset changes in the pod part of the template.
type Overlay struct {
	// Patch is the pod part of the subset's patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Tolerations are the tolerations of the subset.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Revision is one stored revision.
type Revision struct {
	// Name is the name of its ControllerRevision.
	Name string
	// Number orders the revisions by last use: the one used last has the highest.
	Number int64
	// Object is the ControllerRevision that it was read from. Do not modify it.
	Object *appsv1.ControllerRevision

	// decoded returns what is decoded of the data and the annotation.
	decoded      func() decoded
	versionLabel string
	colocation   *Colocation
	// pods is the template in the form in which it is compared, the same for all subsets.
	pods []byte
	// names are the subsets that it knows.
	names map[string]bool
	// size is the size of the data in bytes.
	size int
	// damaged is true if the annotation cannot be parsed. What it said about subsets that were added
	// later is lost.
	damaged bool
}

// decoded is the content of a revision as objects.
type decoded struct {
	template map[string]any
	// subsets is the data merged with the annotation. The revision does not know a subset without an
	// entry.
	subsets map[string]Overlay
}

// mostDecoded is the size up to which a revision stays decoded from pass to pass.
const mostDecoded = 16 << 10

// Anew returns the revision for another pass. If it is large, its content is decoded when the pass asks for it, and
// lasts as long as the pass does, which is one goroutine: as objects it takes up to forty times as much memory, and most revisions of a
// parent are idle.
func (r *Revision) Anew() *Revision {
	if r.size+len(r.Object.Annotations[v1alpha1.AnnotationSubsets]) <= mostDecoded {
		return r
	}
	out, object := *r, r.Object // and not what r has decoded
	var again *Revision
	out.decoded = func() decoded {
		if again == nil {
			var err error
			if again, err = Parse(object); err != nil {
				panic(fmt.Sprintf("revision: what was parsed cannot be parsed: %v", err))
			}
		}
		return again.decoded()
	}
	return &out
}

// Parse parses a revision. It fails if the data are not in the form that this package writes.
// Everybody who may change a ControllerRevision can change the annotation: if that cannot be parsed,
// only its content is lost, and Amend writes it again.
func Parse(cr *appsv1.ControllerRevision) (*Revision, error) {
	content := Content{}
	// This Unmarshal keeps integers, so the result can be deep-copied and merged like any
	// unstructured object.
	if err := utiljson.Unmarshal(cr.Data.Raw, &content); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s: data: %w", cr.Name, err)
	}
	if content.Template == nil {
		return nil, fmt.Errorf("ControllerRevision %s: data: template is missing", cr.Name)
	}
	r := &Revision{
		Name: cr.Name, Number: cr.Revision, Object: cr, size: len(cr.Data.Raw),
		versionLabel: content.VersionLabel, colocation: content.Colocation, pods: podsOf(content.Template), names: map[string]bool{},
	}
	d := decoded{content.Template, maps.Clone(content.Subsets)}
	if d.subsets == nil {
		d.subsets = map[string]Overlay{}
	}
	amended, err := amendments(cr)
	r.damaged = err != nil
	for name, overlay := range amended {
		if overlay == nil {
			delete(d.subsets, name)
			continue
		}
		d.subsets[name] = *overlay
	}
	for name := range d.subsets {
		r.names[name] = true
	}
	r.decoded = func() decoded { return d }
	return r, nil
}

// amendments parses the annotation: a nil overlay is a subset that was removed.
func amendments(cr *appsv1.ControllerRevision) (map[string]*Overlay, error) {
	amended := map[string]*Overlay{}
	if text, ok := cr.Annotations[v1alpha1.AnnotationSubsets]; ok {
		if err := utiljson.Unmarshal([]byte(text), &amended); err != nil {
			return map[string]*Overlay{}, fmt.Errorf("ControllerRevision %s: annotation %s: %w", cr.Name, v1alpha1.AnnotationSubsets, err)
		}
	}
	if amended == nil { // "null" leaves a nil map behind
		amended = map[string]*Overlay{}
	}
	return amended, nil
}

// Template returns the pod part of the template. Do not modify it.
func (r *Revision) Template() map[string]any { return r.decoded().template }

// Identity is the same for the same content: it identifies the version of the stored object. It is "" for one that is not
// stored.
func (r *Revision) Identity() string {
	if r.Object.UID == "" || r.Object.ResourceVersion == "" {
		return ""
	}
	return string(r.Object.UID) + "/" + r.Object.ResourceVersion
}

// VersionLabel is the value of the label united.dev/version of all pods, "" without one.
func (r *Revision) VersionLabel() string { return r.versionLabel }

// TemplateHash is the version of the pod part of a template, for the label united.dev/version: the same
// for the same template, whatever subsets change in it.
//
// Trap: with another value for the same template every pod with the label would be replaced when United is
// upgraded.
func TemplateHash(template map[string]any) string {
	sum := sha256.Sum256(canonical(template))
	return rand.SafeEncodeString(fmt.Sprintf("%x", sum[:5]))
}

// Overlay returns what the named subset changed in the revision; false if the revision does not know
// the subset.
func (r *Revision) Overlay(subset string) (Overlay, bool) {
	o, ok := r.decoded().subsets[subset]
	return o, ok
}

// Matches reports whether the revision makes the same pods as the content. Only subsets that both
// know count.
func (r *Revision) Matches(c Content) bool { return r.matches(c.comparable(), c) }

// matches is Matches with pods, the template of c in the form in which it is compared.
func (r *Revision) matches(pods []byte, c Content) bool {
	if r.versionLabel != c.VersionLabel || !sameColocation(r.colocation, c.Colocation) || !bytes.Equal(r.pods, pods) {
		return false
	}
	for name, overlay := range c.Subsets {
		if mine, ok := r.Overlay(name); ok && !sameOverlay(mine, overlay) {
			return false
		}
	}
	return true
}

// SamePods reports whether the two revisions make the same pods in a subset. If a revision does not
// know the subset, today takes the place of its overlay.
func SamePods(a, b *Revision, subset string, today Overlay) bool {
	if a.Name == b.Name {
		return true
	}
	groupsA, groupsB := a.Colocation(subset), b.Colocation(subset)
	if (groupsA == nil) != (groupsB == nil) || groupsA != nil && *groupsA != *groupsB {
		return false
	}
	return a.versionLabel == b.versionLabel && bytes.Equal(a.pods, b.pods) && sameOverlay(a.OverlayOr(subset, today), b.OverlayOr(subset, today))
}

// OverlayOr is Overlay with a default for a subset that the revision does not know.
func (r *Revision) OverlayOr(subset string, today Overlay) Overlay {
	if o, ok := r.Overlay(subset); ok {
		return o
	}
	return today
}

// sameOverlay compares two overlays by their JSON, so that it does not matter how a number was
// decoded, and an empty patch equals none.
func sameOverlay(a, b Overlay) bool {
	return a.empty() && b.empty() || bytes.Equal(marshal(a), marshal(b))
}

func (o *Overlay) empty() bool { return len(o.Patch) == 0 && len(o.Tolerations) == 0 }

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		// Only channels, functions and cycles cannot be marshaled, and decoded JSON has none of
		// these.
		panic(fmt.Sprintf("revision: %v", err))
	}
	return raw
}

// canonical marshals with the keys of all objects sorted, also those of structs. Trap: when the
// garbage collector patches a ControllerRevision to orphan it, the API server writes the data with
// sorted keys, and it rejects another order as a change of immutable data.
func canonical(v any) []byte {
	var plain any
	if err := utiljson.Unmarshal(marshal(v), &plain); err != nil {
		panic(fmt.Sprintf("revision: what was marshalled cannot be read: %v", err))
	}
	return marshal(plain)
}

// Find returns the revision that matches the content: the preferred one if it does, else the one used
// last, or nil if none does. Revisions are compared as a whole, so going back to an earlier template
// finds its revision again.
func Find(revisions []*Revision, c Content, preferred string) *Revision {
	var found *Revision
	pods := c.comparable() // only once: it can be large, and there can be many revisions
	for _, r := range revisions {
		if !r.matches(pods, c) {
			continue
		}
		if r.Name == preferred {
			return r
		}
		if found == nil || r.Number > found.Number {
			found = r
		}
	}
	return found
}

// ByName returns the revision with a name, or nil.
func ByName(revisions []*Revision, name string) *Revision {
	i := slices.IndexFunc(revisions, func(r *Revision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return revisions[i]
}

// NextNumber returns a number higher than that of every revision.
func NextNumber(revisions []*Revision) int64 {
	next := int64(1)
	for _, r := range revisions {
		next = max(next, r.Number+1)
	}
	return next
}

// New returns the ControllerRevision of a content. collision is 0, unless something else has the name;
// then it distinguishes them.
func New(parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference, c Content, number int64, collision int) *appsv1.ControllerRevision {
	raw := canonical(c)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       parent.Namespace,
			Name:            nameOf(parent.Name, raw, collision),
			Labels:          map[string]string{v1alpha1.LabelName: parent.Name},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Data:     runtime.RawExtension{Raw: raw},
		Revision: number,
	}
}

// nameOf returns the name of the revision of a content in canonical form.
func nameOf(parent string, raw []byte, collision int) string {
	return parent + "-" + known.Digest(hashed(raw, collision))
}

// earlierNameOf returns the name that earlier versions of United gave such a revision. It has 40 bits, so somebody who chooses
// two contents can give them the same name: only a stored revision keeps it.
func earlierNameOf(parent string, raw []byte, collision int) string {
	sum := sha256.Sum256(hashed(raw, collision))
	return parent + "-" + rand.SafeEncodeString(fmt.Sprintf("%x", sum[:5]))
}

func hashed(raw []byte, collision int) []byte {
	return fmt.Appendf(raw[:len(raw):len(raw)], "/%d", collision)
}

// MaxCollisions bounds the search for a free name. Two contents do not collide, but somebody may have taken the name.
const MaxCollisions = 8

// Stray reports whether a ControllerRevision that has no controller belongs to the parent: its name
// is that of its content, which is immutable. Somebody has removed its owner reference.
func Stray(cr *appsv1.ControllerRevision, parent *v1alpha1.UnitedDeployment) bool {
	return metav1.GetControllerOfNoCopy(cr) == nil && Genuine(cr, parent.Name)
}

// Genuine reports whether the name of a ControllerRevision is that of its content, which is true for
// all that United makes for the parent. The content is immutable, but somebody may have deleted the
// object and created another one with its name.
func Genuine(cr *appsv1.ControllerRevision, parent string) bool { return naming(cr, parent) != nil }

// Renamed returns the name that a genuine revision would have with another content; "" for one that is not genuine.
func Renamed(cr *appsv1.ControllerRevision, parent string, c Content) string {
	if name := naming(cr, parent); name != nil {
		return name(canonical(c))
	}
	return ""
}

// naming returns how a ControllerRevision has its name from its content; nil if it has not.
func naming(cr *appsv1.ControllerRevision, parent string) func(raw []byte) string {
	content := Content{}
	if err := utiljson.Unmarshal(cr.Data.Raw, &content); err != nil {
		return nil
	}
	raw := canonical(content)
	for collision := range MaxCollisions {
		for _, name := range []func(string, []byte, int) string{nameOf, earlierNameOf} {
			if name(parent, raw, collision) == cr.Name {
				return func(raw []byte) string { return name(parent, raw, collision) }
			}
		}
	}
	return nil
}

// Amend returns the annotation with which the revision knows every existing subset and no removed
// one; false if the revision has that already.
func (r *Revision) Amend(living map[string]Overlay) (string, bool) {
	amended, _ := amendments(r.Object) // empty if the annotation is damaged
	changed := r.damaged
	for name, overlay := range living {
		if !r.names[name] {
			amended[name], changed = &overlay, true
		}
	}
	for name := range r.names {
		if _, ok := living[name]; !ok {
			amended[name], changed = nil, true
		}
	}
	if !changed {
		return "", false
	}
	return string(canonical(amended)), true
}

// Change is what is changed of a stored revision. The zero Change changes nothing.
type Change struct {
	// Number is its new number; 0 leaves it as it is.
	Number int64
	// Annotations are its new annotations; one that is "" is removed.
	Annotations map[string]string
}

// None reports whether there is nothing to change.
func (c Change) None() bool { return c.Number == 0 && len(c.Annotations) == 0 }

// Of returns a revision as it is after the change.
func (c Change) Of(cr *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	out := cr.DeepCopy()
	out.Revision = cmp.Or(c.Number, out.Revision)
	for key, value := range c.Annotations {
		if metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value); value == "" {
			delete(out.Annotations, key)
		}
	}
	return out
}

// Amendment is the change by Amend.
func (r *Revision) Amendment(living map[string]Overlay) Change {
	annotation, changed := r.Amend(living)
	if !changed {
		return Change{}
	}
	return Change{Annotations: map[string]string{v1alpha1.AnnotationSubsets: annotation}}
}

// Front returns the number, higher than those of all that are kept, of a revision that is used again, so that the history is
// truncated by last use; 0 if its number may stay. The update revision already has the highest one.
func (r *Revision) Front(kept []*Revision, updateRevision string) int64 {
	next := NextNumber(kept)
	if r.Name == updateRevision || r.Number == next-1 {
		return 0
	}
	return next
}

// Stored reports whether the API server has the revision.
func (r *Revision) Stored() bool { return r.Object.UID != "" }

// MaxHistoryBytes bounds the total size of the data of stored revisions that are not in use. A
// template may have a megabyte, each revision of it costs that much in etcd and several times as much
// in the controller, and users choose spec.revisionHistoryLimit.
const MaxHistoryBytes = 4 << 20

// Surplus returns the revisions to delete, oldest first: those that are not in use, except the
// youngest ones, up to limit of them and up to MaxHistoryBytes together.
func Surplus(revisions []*Revision, inUse map[string]bool, limit int) []*Revision {
	idle := slices.DeleteFunc(slices.Clone(revisions), func(r *Revision) bool { return inUse[r.Name] })
	slices.SortFunc(idle, func(a, b *Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	surplus, size := len(idle), 0
	for surplus > max(0, len(idle)-max(0, limit)) {
		if size += idle[surplus-1].size; size > MaxHistoryBytes {
			break
		}
		surplus--
	}
	return idle[:surplus]
}
