// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision names, compares and finds the revisions of a
// UnitedDeployment.
//
// A revision is what reaches pods: the pod part of the template, and for each
// subset what its patch and its tolerations change in it. It is kept as a
// ControllerRevision of the parent, whose data can never be changed. A subset
// that comes later is therefore recorded in an annotation of the revision, and
// one that goes is struck out there: adding or removing a subset makes no
// revision, and a later change of its patch is still told from what it was.
//
// All of it is pure. Package store writes them.
package revision

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Content is what pods are made of.
type Content struct {
	// Template is the pod part of the workload template.
	Template map[string]any `json:"template"`
	// Subsets holds what each subset changes in it, by name.
	Subsets map[string]Overlay `json:"subsets"`
	// VersionLabel is the value of the label united.dev/version of all pods, "" without one. The
	// value is kept, and not that there is one: another way to compute it must not restart pods that
	// are protected.
	VersionLabel string `json:"versionLabel,omitempty"`
	// pods is the template as it is compared, if it was marshalled already.
	pods []byte
}

// Marshalled is the content, made ready to be compared again and again.
func (c Content) Marshalled() Content {
	c.pods = marshal(c.Template)
	return c
}

func (c *Content) comparable() []byte {
	if c.pods != nil {
		return c.pods
	}
	return marshal(c.Template)
}

// Overlay is what one subset changes in the pod part.
type Overlay struct {
	// Patch is the pod part of the subset's patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Tolerations are the subset's.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Revision is one revision that is kept.
type Revision struct {
	// Name is the name of its ControllerRevision.
	Name string
	// Number orders the revisions by age: the one used last has the highest.
	Number int64
	// Object is the ControllerRevision it was read from: read only.
	Object *appsv1.ControllerRevision

	template     map[string]any
	versionLabel string
	// pods is the template as it is compared: once for all subsets.
	pods []byte
	// subsets is the data, overlaid with the annotation. A subset without an
	// entry is not known to the revision.
	subsets map[string]Overlay
	// size is that of the data, in bytes.
	size int
	// damaged: somebody has made the annotation unreadable. What it said of subsets that
	// came later is lost.
	damaged bool
}

// Parse reads a revision. It fails when the data are not what this package writes. The
// annotation can be changed by everybody who may change a ControllerRevision: one that
// cannot be read costs what it said, and Amend writes it anew.
func Parse(cr *appsv1.ControllerRevision) (*Revision, error) {
	content := Content{}
	// This Unmarshal keeps integers integers, so that the result can be
	// deep-copied and merged like any unstructured object.
	if err := utiljson.Unmarshal(cr.Data.Raw, &content); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s: data: %w", cr.Name, err)
	}
	if content.Template == nil {
		return nil, fmt.Errorf("ControllerRevision %s: data: template is missing", cr.Name)
	}
	r := &Revision{
		Name: cr.Name, Number: cr.Revision, Object: cr, size: len(cr.Data.Raw),
		template: content.Template, versionLabel: content.VersionLabel, pods: marshal(content.Template), subsets: maps.Clone(content.Subsets),
	}
	if r.subsets == nil {
		r.subsets = map[string]Overlay{}
	}
	amended, err := amendments(cr)
	r.damaged = err != nil
	for name, overlay := range amended {
		if overlay == nil {
			delete(r.subsets, name)
			continue
		}
		r.subsets[name] = *overlay
	}
	return r, nil
}

// amendments reads the annotation: a nil overlay is a subset struck out.
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

// Template is the pod part of the template: read only.
func (r *Revision) Template() map[string]any { return r.template }

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

// Overlay is what the named subset changed in the revision; false when the
// revision does not know the subset.
func (r *Revision) Overlay(subset string) (Overlay, bool) {
	o, ok := r.subsets[subset]
	return o, ok
}

// Matches reports whether the revision makes the same pods as the content, as
// far as it knows the subsets of the content.
func (r *Revision) Matches(c Content) bool { return r.matches(c.comparable(), c) }

// matches is Matches; pods is the template as it is compared.
func (r *Revision) matches(pods []byte, c Content) bool {
	if r.versionLabel != c.VersionLabel || !bytes.Equal(r.pods, pods) {
		return false
	}
	for name, overlay := range c.Subsets {
		if known, ok := r.subsets[name]; ok && !sameOverlay(known, overlay) {
			return false
		}
	}
	return true
}

// SamePods reports whether the two revisions make the same pods in a subset.
// today stands in for a revision that does not know the subset.
func SamePods(a, b *Revision, subset string, today Overlay) bool {
	if a.Name == b.Name {
		return true
	}
	return a.versionLabel == b.versionLabel && bytes.Equal(a.pods, b.pods) && sameOverlay(a.OverlayOr(subset, today), b.OverlayOr(subset, today))
}

// OverlayOr is Overlay with a stand-in for a subset that is not known.
func (r *Revision) OverlayOr(subset string, today Overlay) Overlay {
	if o, ok := r.subsets[subset]; ok {
		return o
	}
	return today
}

// sameOverlay compares two by their JSON: a number is the same number however it was
// decoded, and an empty patch is the same as none.
func sameOverlay(a, b Overlay) bool {
	return a.empty() && b.empty() || bytes.Equal(marshal(a), marshal(b))
}

func (o *Overlay) empty() bool { return len(o.Patch) == 0 && len(o.Tolerations) == 0 }

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		// Only channels, functions and cycles cannot be marshalled; nothing that
		// was decoded from JSON holds any.
		panic(fmt.Sprintf("revision: %v", err))
	}
	return raw
}

// canonical has the keys of every object in order, those of structs too. Trap: the
// garbage collector patches a ControllerRevision to orphan it, the API server then
// writes the data with sorted keys, and takes another order for a change of what
// must not change.
func canonical(v any) []byte {
	var plain any
	if err := utiljson.Unmarshal(marshal(v), &plain); err != nil {
		panic(fmt.Sprintf("revision: what was marshalled cannot be read: %v", err))
	}
	return marshal(plain)
}

// Find gives the revision that matches the content: the preferred one if it
// does, else the one used last; nil when none does. Revisions are compared
// whole, so going back to an earlier template finds its revision again.
func Find(revisions []*Revision, c Content, preferred string) *Revision {
	var found *Revision
	pods := c.comparable() // once: it can be large, and there can be many revisions
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

// ByName gives the revision of a name, nil when there is none.
func ByName(revisions []*Revision, name string) *Revision {
	i := slices.IndexFunc(revisions, func(r *Revision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return revisions[i]
}

// NextNumber is higher than that of every revision.
func NextNumber(revisions []*Revision) int64 {
	next := int64(1)
	for _, r := range revisions {
		next = max(next, r.Number+1)
	}
	return next
}

// New is the ControllerRevision of a content. collision tells apart two
// contents whose names clash; it is 0 but for a clash.
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

// nameOf is the name of the revision of a content in its canonical form.
func nameOf(parent string, raw []byte, collision int) string {
	sum := sha256.Sum256(fmt.Appendf(raw[:len(raw):len(raw)], "/%d", collision))
	return parent + "-" + rand.SafeEncodeString(fmt.Sprintf("%x", sum[:5]))
}

// MaxCollisions bounds the search for a free name. Two contents clash once in
// 2^40; more clashes than this mean that something else is wrong.
const MaxCollisions = 8

// Stray reports whether a ControllerRevision that nobody controls is one of the parent's:
// its name tells of its content, which cannot be changed. Somebody has taken its owner.
func Stray(cr *appsv1.ControllerRevision, parent *v1alpha1.UnitedDeployment) bool {
	return metav1.GetControllerOfNoCopy(cr) == nil && Genuine(cr, parent.Name)
}

// Genuine reports whether the name of a ControllerRevision tells of its content, as that of each
// one does that United has made for the parent. Its content cannot be changed; but somebody may have
// deleted it and made another one of that name.
func Genuine(cr *appsv1.ControllerRevision, parent string) bool {
	content := Content{}
	if err := utiljson.Unmarshal(cr.Data.Raw, &content); err != nil {
		return false
	}
	raw := canonical(content)
	for collision := range MaxCollisions {
		if nameOf(parent, raw, collision) == cr.Name {
			return true
		}
	}
	return false
}

// Amend gives the annotation that a revision must carry to know every living
// subset and none that is gone; false, and no annotation, when it does already.
func (r *Revision) Amend(living map[string]Overlay) (string, bool) {
	amended, _ := amendments(r.Object) // none of what is damaged
	changed := r.damaged
	for name, overlay := range living {
		if _, ok := r.subsets[name]; !ok {
			amended[name], changed = &overlay, true
		}
	}
	for name := range r.subsets {
		if _, ok := living[name]; !ok {
			amended[name], changed = nil, true
		}
	}
	if !changed {
		return "", false
	}
	return string(canonical(amended)), true
}

// LastCurrent gives the revision of the parent that became the current one last, as its
// annotation records, and the number there; nil and 0 when none records it.
func LastCurrent(revisions []*Revision, parent types.UID) (*Revision, int64) {
	last, number := (*Revision)(nil), int64(0)
	for _, r := range revisions {
		if n := currentNumber(r.Object.Annotations[v1alpha1.AnnotationCurrent], parent); n > number {
			last, number = r, n
		}
	}
	return last, number
}

// WasCurrent reports whether the revision records that it became the parent's current one.
func (r *Revision) WasCurrent(parent types.UID) bool {
	return currentNumber(r.Object.Annotations[v1alpha1.AnnotationCurrent], parent) > 0
}

// CurrentRecord is the annotation of a revision that becomes the current one after that of
// the number given.
func CurrentRecord(parent types.UID, last int64) string {
	return fmt.Sprintf("%s/%d", parent, last+1)
}

// currentNumber reads what CurrentRecord writes; 0 where the parent is another one, as when
// revisions outlived it, or the record cannot be read.
func currentNumber(record string, parent types.UID) int64 {
	uid, text, _ := strings.Cut(record, "/")
	if uid != string(parent) {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number == math.MaxInt64 { // there is none after that
		return 0
	}
	return number
}

// MaxHistoryBytes is how large the data of all revisions together may be that are kept
// without being in use: a template may be a megabyte, each revision of it costs etcd as much and
// the controller several times that, and spec.revisionHistoryLimit is for users to choose.
const MaxHistoryBytes = 4 << 20

// Surplus gives the revisions to delete, oldest first: those that are not in
// use, less the limit youngest of them, as far as these are not larger together than
// MaxHistoryBytes.
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
