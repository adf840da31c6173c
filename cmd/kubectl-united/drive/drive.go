// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drive is what the commands and the page do alike, with the rights of a user: it looks at a UnitedDeployment and what
// belongs to it, plans a change, and makes it.
package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// User is who looks and acts.
type User struct {
	API    client.WithWatch
	Config genericclioptions.RESTClientGetter
	// Looker looks at worlds and revisions.
	Looker *look.Looker
}

// NewUser returns a user who asks the API server.
func NewUser(api client.WithWatch, config genericclioptions.RESTClientGetter) *User {
	return &User{API: api, Config: config, Looker: look.New(api)}
}

// World returns the world of a parent, as far as the user may see it, or else why not.
func (u *User) World(ctx context.Context, parent *v1alpha1.UnitedDeployment) (in *planner.Input, unseen string) {
	in, err := u.Looker.World(ctx, parent, time.Now())
	switch {
	case apierrors.IsForbidden(err):
		return nil, "replicas: " + Forbidden(err)
	case err != nil:
		return nil, "replicas: " + err.Error()
	}
	return in, ""
}

// Status returns the status of a parent, with its replicas as far as the user may see them.
func (u *User) Status(ctx context.Context, parent *v1alpha1.UnitedDeployment) *view.Status {
	in, unseen := u.World(ctx, parent)
	return view.StatusOf(parent, in, unseen)
}

// Revisions returns the stored revisions of a parent, the one used last at the end.
func (u *User) Revisions(ctx context.Context, parent *v1alpha1.UnitedDeployment) ([]*revision.Revision, error) {
	revisions, err := u.Looker.Revisions(ctx, parent)
	if apierrors.IsForbidden(err) {
		return nil, errors.New("the revisions of " + parent.Name + ": " + Forbidden(err))
	}
	return revisions, err
}

// Shown returns the revision with a number, a name, or the only one whose name begins so, as people see it. That is enough to read:
// what acts takes the whole name (Chosen).
func Shown(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision, asked string) (*revision.Revision, error) {
	var begin []*revision.Revision
	for _, r := range revisions {
		if strings.HasPrefix(r.Name, asked) && len(asked) >= len(known.Short(r.Name)) {
			begin = append(begin, r)
		}
	}
	if len(begin) == 1 {
		return begin[0], nil
	}
	return Chosen(parent, revisions, asked)
}

// Chosen returns the revision with a number or a name.
func Chosen(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision, asked string) (*revision.Revision, error) {
	number, err := strconv.ParseInt(asked, 10, 64)
	numbered := err == nil
	var names []string
	for _, r := range revisions {
		if r.Name == asked || numbered && r.Number == number {
			return r, nil
		}
		if known.IsShort(asked, r.Name) {
			return nil, fmt.Errorf("%s is only the beginning of a name: give the whole one, %s, or the number %d", asked, r.Name, r.Number)
		}
		names = append(names, r.Name)
		if numbered {
			names[len(names)-1] = fmt.Sprint(r.Number)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no revisions yet", parent.Name)
	case numbered: // the nearest number is no better than any other
		names = names[max(0, len(names)-8):]
		return nil, fmt.Errorf("%s has no revision %s; there is %s", parent.Name, asked, strings.Join(names, ", "))
	}
	slices.Reverse(names) // suggest what was used last
	return nil, fmt.Errorf("%s has no revision %s%s", parent.Name, asked, Suggestion(asked, names))
}

// Diff returns how the pods of two revisions differ. Without names these are the current and the update revision.
func Diff(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision, from, to string) (*view.Diff, error) {
	if from == "" {
		from = parent.Status.CurrentRevision
	}
	if to == "" {
		to = parent.Status.UpdateRevision
	}
	was, err := Shown(parent, revisions, from)
	if err != nil {
		return nil, err
	}
	is, err := Shown(parent, revisions, to)
	if err != nil {
		return nil, err
	}
	return view.DiffOf(was, is, SubsetNames(parent), overlays(parent))
}

// SubsetNames returns the names of the subsets of a spec.
func SubsetNames(parent *v1alpha1.UnitedDeployment) (names []string) {
	for i := range parent.Spec.Topology.Subsets {
		names = append(names, parent.Spec.Topology.Subsets[i].Name)
	}
	return names
}

// overlays returns what the subsets change today; nothing if the spec is not valid, and then revisions have to know it.
func overlays(parent *v1alpha1.UnitedDeployment) map[string]revision.Overlay {
	read, err := spec.Read(parent, all.Registry())
	if err != nil {
		return nil
	}
	return read.Overlays()
}

// Forbidden says which right is missing.
func Forbidden(err error) string {
	status, verb := apierrors.APIStatus(nil), "list"
	if _, after, found := strings.Cut(err.Error(), " cannot "); found {
		verb, _, _ = strings.Cut(after, " ")
	}
	if errors.As(err, &status) && status.Status().Details != nil {
		return "you have no right to " + verb + " " + status.Status().Details.Kind
	}
	return err.Error()
}

// Explained adds to an error of the API what to do about it.
func Explained(err error) error {
	if Unserved(err) {
		return errors.New("this cluster has no CustomResourceDefinition uniteddeployments.apps.united.dev: United is not installed")
	}
	return err
}

// Unserved reports whether the API server does not know the kind of an object that it was asked for. A mapper that has cached
// what the server knew may not notice.
func Unserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Suggestion names the nearest of the names.
func Suggestion(name string, names []string) string {
	best, least := "", 4
	for _, n := range names {
		if d := levenshtein.ComputeDistance(name, n); d < least {
			best, least = n, d
		}
	}
	switch {
	case best != "":
		return "; did you mean " + best + "?"
	case len(names) == 0:
		return ""
	case len(names) > 8:
		names = append(names[:8:8], "...")
	}
	return "; there is " + strings.Join(names, ", ")
}
