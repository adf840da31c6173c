// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Deed is a change of a UnitedDeployment for which there is a command.
type Deed struct {
	// What says what is done, and Notes what else the user should know.
	What       string
	Notes      []string
	Operations []change.Operation
	// After is the UnitedDeployment with other pods; nil if they stay the same.
	After *v1alpha1.UnitedDeployment
}

// Command is the kubectl command that does the same.
func (d *Deed) Command(parent *v1alpha1.UnitedDeployment) (string, error) {
	plain, err := json.Marshal(d.Operations)
	return fmt.Sprintf("kubectl patch united %s -n %s --type=json -p %s", parent.Name, parent.Namespace, quoted(string(plain))), err
}

// quoted quotes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// InView reads a UnitedDeployment for a change: the manager must have seen what the user sees, and the update revision must be the
// given one, unless that is "".
func InView(ctx context.Context, read func(context.Context) (*v1alpha1.UnitedDeployment, error), revision string) (*v1alpha1.UnitedDeployment, error) {
	parent, err := observed(ctx, read)
	if err != nil {
		return nil, err
	}
	if parent.Status.UpdateRevision == "" {
		_, _, message := view.Headline(parent)
		return nil, fmt.Errorf("%s has no update revision: %s", parent.Name, message)
	}
	if known.IsShort(revision, parent.Status.UpdateRevision) {
		return nil, fmt.Errorf("%s is only the beginning of a name: give the whole one, %s", revision, parent.Status.UpdateRevision)
	}
	if revision != "" && revision != parent.Status.UpdateRevision {
		return nil, fmt.Errorf("the update revision of %s is %s, and no longer %s: nothing was done", parent.Name, parent.Status.UpdateRevision, revision)
	}
	return parent, nil
}

// observed gives the manager a moment to see the last change, such as that of the command before.
func observed(ctx context.Context, read func(context.Context) (*v1alpha1.UnitedDeployment, error)) (parent *v1alpha1.UnitedDeployment, err error) {
	for range 5 {
		parent, err = read(ctx)
		if err != nil || parent.Status.ObservedGeneration == parent.Generation {
			return parent, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second / 2):
		}
	}
	return nil, fmt.Errorf("no manager has seen the last change of %s yet, so its update revision is not known: see kubectl united why %s", parent.Name, parent.Name)
}

// Act makes a change, if nobody has changed the spec since the parent was read, and returns the parent after it.
func (u *User) Act(ctx context.Context, parent *v1alpha1.UnitedDeployment, d *Deed, dryRun bool) (*v1alpha1.UnitedDeployment, error) {
	bound, err := json.Marshal(append([]change.Operation{{Op: "test", Path: "/metadata/uid", Value: parent.UID}, {Op: "test", Path: "/metadata/generation", Value: parent.Generation}}, d.Operations...))
	if err != nil {
		return nil, err
	}
	after := parent.DeepCopy()
	opts := []client.PatchOption{client.FieldOwner("kubectl-united")}
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	err = u.API.Patch(ctx, after, client.RawPatch(types.JSONPatchType, bound), opts...)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not do that: %w", err)
	// Trap: the API server does not say that a test of a JSON patch failed. Its answer is that of any patch that it cannot apply.
	case (apierrors.IsInvalid(err) || apierrors.IsConflict(err)) && u.changed(ctx, parent):
		return nil, fmt.Errorf("somebody has changed %s since: nothing was done; look at it again: kubectl united status %s", parent.Name, parent.Name)
	case err != nil:
		return nil, err
	}
	return after, nil
}

// changed reports whether somebody has changed the spec since the parent was read, or has deleted it.
func (u *User) changed(ctx context.Context, parent *v1alpha1.UnitedDeployment) bool {
	now, err := look.One(ctx, u.API, parent.Namespace, parent.Name)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != parent.UID || now.Generation != parent.Generation)
}
