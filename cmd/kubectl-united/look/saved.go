// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Saved is what a pass would have seen of one UnitedDeployment, for a report of a bug: the same is decided on it.
type Saved struct {
	// Now is when it was seen.
	Now time.Time `json:"now"`
	// Checks are the results of checks, by name. Save has them from the status, where not all of a result is.
	Checks map[string]known.CheckResult `json:"checks,omitempty"`
	// Objects are the parent, its children and what belongs to them, and its revisions, as the API server has them, but without
	// the values of environment variables.
	Objects []unstructured.Unstructured `json:"objects"`
}

// Save reads the world of a parent, as World does, and returns what was read.
func Save(ctx context.Context, from client.Reader, scheme *runtime.Scheme, parent *v1alpha1.UnitedDeployment, now time.Time) (*Saved, error) {
	r := &recorder{Reader: from, scheme: scheme, seen: map[string]map[string]any{}}
	in, err := New(r).World(ctx, parent, now)
	if err != nil {
		return nil, err
	}
	if err := r.note(parent); err != nil {
		return nil, err
	}
	// Objects of others may have been read along with it, and of a StatefulSet those ControllerRevisions that no pass looks at.
	var objects []map[string]any
	isSeen := func(name string) bool {
		return slices.ContainsFunc(in.Revisions, func(r *revision.Revision) bool { return r.Name == name })
	}
	for _, object := range r.seen {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		u := unstructured.Unstructured{Object: object}
		_, ofChild := u.GetLabels()[v1alpha1.LabelSubset]
		mine := strings.Contains(string(raw), `"`+v1alpha1.LabelName+`":"`+parent.Name+`"`) || strings.Contains(string(raw), `"`+string(parent.UID)+`"`)
		if mine && (u.GetKind() != revisionKind || !ofChild) || u.GetKind() == revisionKind && isSeen(u.GetName()) {
			objects = append(objects, object)
		}
	}
	nameOf := func(object map[string]any) string {
		u := unstructured.Unstructured{Object: object}
		return u.GetKind() + "/" + u.GetName()
	}
	slices.SortFunc(objects, func(a, b map[string]any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	s, named := &Saved{Now: now}, &v1alpha1.UnitedDeployment{}
	if s.Objects, err = redacted(parent, in.Asked().Object, objects); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Objects, func(u unstructured.Unstructured) bool { return u.GetUID() == parent.UID })
	if err := convert(s.Objects[i].Object, named); err != nil {
		return nil, err
	}
	s.Checks = planner.RecordedChecks(named)
	return s, nil
}

// recorder remembers what it has read.
type recorder struct {
	client.Reader
	scheme *runtime.Scheme
	seen   map[string]map[string]any
}

// Get remembers the object.
func (r *recorder) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, o, opts...); err != nil {
		return err
	}
	return r.note(o)
}

// List remembers the objects.
func (r *recorder) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(o runtime.Object) error { return r.note(o) })
}

func (r *recorder) note(o runtime.Object) error {
	gvk, err := apiutil.GVKForObject(o, r.scheme)
	if err != nil {
		return err
	}
	u := unstructured.Unstructured{}
	if err := convert(o, &u.Object); err != nil {
		return err
	}
	u.SetGroupVersionKind(gvk)
	r.seen[gvk.Kind+"/"+u.GetName()] = u.Object
	return nil
}
