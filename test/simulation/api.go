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

// Objects are the objects in an API server or a cache, by name, in one namespace. They are never modified, but replaced.
type Objects struct {
	Parents   map[string]*v1alpha1.UnitedDeployment
	Sets      map[string]*unstructured.Unstructured
	Pods      map[string]*corev1.Pod
	Revisions map[string]*appsv1.ControllerRevision
}

// Clone returns a copy that shares the objects.
func (o Objects) Clone() Objects {
	return Objects{maps.Clone(o.Parents), maps.Clone(o.Sets), maps.Clone(o.Pods), maps.Clone(o.Revisions)}
}

// API simulates an API server, as far as the controller uses one, and the controller's cache, which lags until it is
// refreshed. Its server-side apply is faithful if the controller is the only writer of a field: what is applied replaces
// what was applied before.
type API struct {
	// Live has the objects on the server, Cached those that the controller sees.
	Live, Cached Objects
	// Now returns the time.
	Now func() metav1.Time
	// Last is the last resourceVersion and UID: it increases with every change.
	Last int
	// heard is the last change of each kind that the cache has seen.
	heard map[string]int
	// podsAt is when the cache last received changes of pods.
	podsAt time.Time
	// silentUntil is until when the cache receives no changes of a kind after a restart of the API server.
	silentUntil map[string]time.Time
	// forgot are the current revisions that sets have forgotten because their controller's cache did not show them, and
	// for no other reason.
	forgot map[types.UID]string
	// own are the sets' own revisions, by set and hash.
	own map[string]map[string]*ownRevision

	// read and contents cache parsed sets and templates, hashes caches the hashes of sets.
	read     map[*unstructured.Unstructured]*appsv1.StatefulSet
	hashes   map[*unstructured.Unstructured]string
	contents map[string]string
	// packed are the sets as the cache has them, by name.
	packed map[string]struct{ of, is *unstructured.Unstructured }

	// Writes are the writes of the controller.
	Writes []string
	// Fail, if set, is the error of the next write. Lost, if set, is the error of the next write although it succeeds:
	// its response is lost.
	Fail, Lost error
	// Crash, if above 0, counts down to the write in which the controller crashes: before it takes effect, or if
	// CrashAfter is set, after it.
	Crash      int
	CrashAfter bool
	// Refuse, if set, is the error of an apply of the child of a subset.
	Refuse map[string]error
	// Unkept, if set, is the error of every attempt to create a revision.
	Unkept error
	// Unpatched, if set, is the error of every patch of a revision.
	Unpatched error
	// Foreign, if set, is a JSON merge patch with fields of parents on the server that our types do not have.
	Foreign string
	// notes is called for every write of the controller.
	notes func(write string)
	// oracle is the oracle of the parent of the current pass. It judges what the controller does just before it takes
	// effect.
	oracle *Oracle

	// rejectedStatuses counts the status writes that were rejected because the status had changed: such a pass emits no events.
	rejectedStatuses int
}

// failing returns how many faults are still to come.
func (a *API) failing() int {
	count := 0
	for _, there := range []bool{a.Fail != nil, a.Lost != nil, a.Crash > 0} {
		if there {
			count++
		}
	}
	return count
}

// crashed is the value of the panic in which a pass of the controller ends when it crashes.
type crashed struct{}

func newAPI(now func() metav1.Time) *API {
	return &API{Now: now, heard: map[string]int{}, forgot: map[types.UID]string{}, own: map[string]map[string]*ownRevision{},
		read: map[*unstructured.Unstructured]*appsv1.StatefulSet{}, contents: map[string]string{},
		packed: map[string]struct{ of, is *unstructured.Unstructured }{},
		hashes: map[*unstructured.Unstructured]string{}, Live: Objects{
			Parents:   map[string]*v1alpha1.UnitedDeployment{},
			Sets:      map[string]*unstructured.Unstructured{},
			Pods:      map[string]*corev1.Pod{},
			Revisions: map[string]*appsv1.ControllerRevision{},
		}}
}

// Next returns a new resourceVersion or UID.
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

// Heard returns the last change that the cache has seen of all kinds.
func (a *API) Heard() int {
	least := a.Last
	for _, kind := range Kinds() {
		least = min(least, a.heard[kind])
	}
	return least
}

// Kinds returns the kinds for which the cache has a watch.
func Kinds() []string { return []string{"parents", "sets", "pods", "revisions"} }

// RefreshKind brings the cache of one kind up to date: each kind has its own watch, and may be ahead of the others.
func (a *API) RefreshKind(kind string) {
	if a.Now().Time.Before(a.silentUntil[kind]) {
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

// PutParent changes a parent, as somebody other than the controller.
func (a *API) PutParent(p *v1alpha1.UnitedDeployment) {
	p.ResourceVersion = a.Next()
	a.Live.Parents[p.Name] = p
}

// PutSet changes a set, as somebody other than the controller.
func (a *API) PutSet(u *unstructured.Unstructured) {
	u.SetResourceVersion(a.Next())
	a.Live.Sets[u.GetName()] = u
}

// PutPod changes a pod, as somebody other than the controller.
func (a *API) PutPod(p *corev1.Pod) {
	p.ResourceVersion = a.Next()
	a.Live.Pods[p.Name] = p
}

// DeletePod starts to delete a pod; the kubelet completes that.
func (a *API) DeletePod(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		p = p.DeepCopy()
		now := a.Now()
		p.DeletionTimestamp = &now
		a.PutPod(p)
	}
}

// wrote starts a write of the controller to an object.
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

// answered ends a successful write. If it returns an error, that is all that the controller learns about the write, which
// is then not in its cache.
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
