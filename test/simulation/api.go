// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Objects are what an API server holds, or a cache: by name, in one namespace.
// What is in there is never changed, but replaced.
type Objects struct {
	Parents   map[string]*v1alpha1.UnitedDeployment
	Sets      map[string]*unstructured.Unstructured
	Pods      map[string]*corev1.Pod
	Revisions map[string]*appsv1.ControllerRevision
}

// Clone is a copy; what is in it is shared, since that is never changed.
func (o Objects) Clone() Objects {
	return Objects{maps.Clone(o.Parents), maps.Clone(o.Sets), maps.Clone(o.Pods), maps.Clone(o.Revisions)}
}

// API is an API server as far as the controller uses one, and the controller's
// cache of it, which lags until it is refreshed. It answers
// server-side apply faithfully where the controller is the only one to write a
// field: what is applied replaces what was applied before.
type API struct {
	// Live is what the server holds, Cached what the controller sees of it.
	Live, Cached Objects
	// Now is the time.
	Now func() metav1.Time
	// Last is the last of resourceVersions and UIDs: it grows with every change.
	Last int
	// heard is up to which of them the cache has heard of a kind.
	heard map[string]int
	// podsAt is when it last heard of pods.
	podsAt time.Time
	// deaf is until when the cache hears nothing of a kind, since the API server restarted.
	deaf map[string]time.Time
	// forgot are the current revisions that sets have forgotten, since the cache of their
	// controller did not show it: nobody else is to blame.
	forgot map[types.UID]string
	// own are the sets' own revisions, by set and hash.
	own map[string]map[string]*ownRevision

	// read and contents are what sets and templates were read as, hashes those of sets.
	read     map[*unstructured.Unstructured]*appsv1.StatefulSet
	hashes   map[*unstructured.Unstructured]string
	contents map[string]string

	// Writes are those of the controller.
	Writes []string
	// Fail, when set, is what the next write answers. Lost, when set, is what the
	// next one answers that is done nevertheless: the response is lost.
	Fail, Lost error
	// Crash, when above 0, counts the writes down to the one in which the
	// controller crashes: before it is done, or after it when CrashAfter is set.
	Crash      int
	CrashAfter bool
	// Refuse, when set, is what an apply answers for the child of a subset.
	Refuse map[string]error
	// Unkept, when set, is what every attempt to make a revision is answered.
	Unkept error
	// Unpatched, when set, is what every patch of a revision is answered.
	Unpatched error
	// Foreign, when set, is a JSON merge patch of what the server's parents have beside
	// what our types know.
	Foreign string
	// notes hears of every write of the controller.
	notes func(write string)
	// oracle is that of the parent whose pass it is: it looks on at what the controller
	// does, just before it is done.
	oracle *Oracle

	// untold counts the statuses that were refused, the one before having changed: the
	// pass tells nothing then.
	untold int
}

// failing is how many faults are still to come.
func (a *API) failing() int {
	count := 0
	for _, there := range []bool{a.Fail != nil, a.Lost != nil, a.Crash > 0} {
		if there {
			count++
		}
	}
	return count
}

// crashed is what a pass of the controller panics with when it crashes.
type crashed struct{}

func newAPI(now func() metav1.Time) *API {
	return &API{Now: now, heard: map[string]int{}, forgot: map[types.UID]string{}, own: map[string]map[string]*ownRevision{},
		read: map[*unstructured.Unstructured]*appsv1.StatefulSet{}, contents: map[string]string{},
		hashes: map[*unstructured.Unstructured]string{}, Live: Objects{
			Parents:   map[string]*v1alpha1.UnitedDeployment{},
			Sets:      map[string]*unstructured.Unstructured{},
			Pods:      map[string]*corev1.Pod{},
			Revisions: map[string]*appsv1.ControllerRevision{},
		}}
}

// Next is a resourceVersion, or a UID, that nothing has had.
func (a *API) Next() string {
	a.Last++
	return strconv.Itoa(a.Last)
}

// Refresh brings the cache up to date.
func (a *API) Refresh() {
	for _, kind := range Kinds() {
		a.RefreshKind(kind)
	}
}

// Heard is up to which change the cache has heard of all kinds.
func (a *API) Heard() int {
	least := a.Last
	for _, kind := range Kinds() {
		least = min(least, a.heard[kind])
	}
	return least
}

// Kinds are what the cache has a watch of each for.
func Kinds() []string { return []string{"parents", "sets", "pods", "revisions"} }

// RefreshKind brings the cache of one kind up to date: each has a watch of its own,
// and may be ahead of the others.
func (a *API) RefreshKind(kind string) {
	if a.Now().Time.Before(a.deaf[kind]) {
		return
	}
	a.heard[kind] = a.Last
	switch kind {
	case "parents":
		a.Cached.Parents = maps.Clone(a.Live.Parents)
	case "sets":
		a.Cached.Sets = maps.Clone(a.Live.Sets)
	case "pods":
		a.Cached.Pods, a.podsAt = maps.Clone(a.Live.Pods), a.Now().Time
	case "revisions":
		a.Cached.Revisions = maps.Clone(a.Live.Revisions)
	}
}

// PutParent changes a parent behind the controller's back.
func (a *API) PutParent(p *v1alpha1.UnitedDeployment) {
	p.ResourceVersion = a.Next()
	a.Live.Parents[p.Name] = p
}

// PutSet changes a set behind the controller's back.
func (a *API) PutSet(u *unstructured.Unstructured) {
	u.SetResourceVersion(a.Next())
	a.Live.Sets[u.GetName()] = u
}

// PutPod changes a pod behind the controller's back.
func (a *API) PutPod(p *corev1.Pod) {
	p.ResourceVersion = a.Next()
	a.Live.Pods[p.Name] = p
}

// DeletePod begins to delete a pod: the kubelet finishes it.
func (a *API) DeletePod(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		p = p.DeepCopy()
		now := a.Now()
		p.DeletionTimestamp = &now
		a.PutPod(p)
	}
}

// wrote begins a write of the controller to an object.
func (a *API) wrote(to metav1.Object, format string, args ...any) error {
	if err := a.Fail; err != nil {
		a.Fail = nil
		return err
	}
	if a.Crash == 1 && !a.CrashAfter {
		a.Crash = 0
		panic(crashed{})
	}
	a.oracle.touches(to)
	write := fmt.Sprintf(format, args...)
	a.Writes = append(a.Writes, write)
	a.notes(write)
	return nil
}

// answered is how a write ends that was done. An error is all that the controller
// learns of it: the cache does not hold what was written then.
func (a *API) answered() error {
	if a.Crash > 0 {
		if a.Crash--; a.Crash == 0 {
			panic(crashed{})
		}
	}
	err := a.Lost
	a.Lost = nil
	return err
}

func notFound(key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func conflict(name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{}, name, errors.New(why))
}
