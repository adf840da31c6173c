// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Proposal is a UnitedDeployment as it is, nil if it is new, and as it would be.
type Proposal struct {
	Before, After *v1alpha1.UnitedDeployment
	// Refused and Unfinished are as in a plan.
	Refused, Unfinished []string
}

// Foreseen returns the plan of a change, checked by the API server as far as the user may.
func (u *User) Foreseen(ctx context.Context, c *Proposal) (*foresee.Plan, error) {
	blank := &foresee.Plan{
		Namespace: c.After.Namespace, Name: c.After.Name, New: c.Before == nil, Refused: c.Refused, Unfinished: c.Unfinished,
		Subsets: []foresee.Subset{}, Waves: []foresee.Wave{},
	}
	if len(c.Refused) > 0 {
		return blank, nil
	}
	if _, err := spec.Read(c.After, all.Registry()); err != nil {
		blank.Refused = append(blank.Refused, err.Error())
		return blank, nil
	}
	in, err := look.New(u.API).World(ctx, c.After, time.Now())
	if apierrors.IsForbidden(err) {
		return nil, errors.New(Forbidden(err) + ", so there is no plan; for one that asks no API server: -f FILE --offline")
	}
	if err != nil {
		return nil, err
	}
	opts := foresee.Options{CountsUnavailable: u.countsUnavailable()}
	plan, err := foresee.Of(in, opts)
	if err != nil {
		return nil, err
	}
	if checked := u.tryChildren(ctx, in, plan); len(checked.Unchanged)+len(checked.Refused) > 0 {
		opts.Unchanged, opts.Refused = checked.Unchanged, checked.Refused
		first := plan
		if plan, err = foresee.Of(in, opts); err != nil {
			return nil, err
		}
		plan.Refused, plan.Unfinished = append(plan.Refused, refusals(first, checked.Refused)...), first.Unfinished
	}
	plan.New, plan.Unfinished = c.Before == nil, append(c.Unfinished, plan.Unfinished...)
	if c.Before != nil && c.Before.Status.ObservedGeneration != c.Before.Generation {
		plan.Assumed = append(plan.Assumed, fmt.Sprintf("a manager sees generation %d, which none has yet", c.Before.Generation))
	}
	return plan, nil
}

// Offline returns the plan of a new UnitedDeployment in a cluster of which nothing is known.
func Offline(after *v1alpha1.UnitedDeployment) (*foresee.Plan, error) {
	read, err := spec.Read(after, all.Registry())
	if err != nil {
		return &foresee.Plan{
			Namespace: after.Namespace, Name: after.Name, New: true, Refused: []string{err.Error()}, Subsets: []foresee.Subset{}, Waves: []foresee.Wave{},
		}, nil
	}
	in, err := planner.NewInput(&world.World{Parent: after, Spec: read, Now: time.Now()})
	if err != nil {
		return nil, err
	}
	plan, err := foresee.Of(in, foresee.Options{CountsUnavailable: true})
	if err != nil {
		return nil, err
	}
	plan.New, plan.Unfinished = true, []string{"admission, and what there is already: --offline"}
	return plan, nil
}

// countsUnavailable reports whether the controller of StatefulSets has maxUnavailable. If the version is not known, it is a new one.
func (u *User) countsUnavailable() bool {
	discovery, err := u.Config.ToDiscoveryClient()
	if err != nil {
		return true
	}
	server, err := discovery.ServerVersion()
	if err != nil {
		return true
	}
	minor, err := strconv.Atoi(strings.TrimSuffix(server.Minor, "+"))
	return err != nil || minor >= 37
}

// TryPatch lets the API server check a patch of a UnitedDeployment, and takes over what it makes of it. Without the right to patch
// one, it stays as it is.
func (u *User) TryPatch(ctx context.Context, c *Proposal, patch client.Patch) error {
	data, err := patch.Data(c.After)
	if err != nil {
		return err
	}
	answer := c.Before.DeepCopy()
	err = u.API.Patch(ctx, answer, client.RawPatch(patch.Type(), data), client.DryRunAll, client.FieldOwner("kubectl-united"), client.FieldValidation("Strict"))
	return c.Tried(err, answer)
}

// Tried takes over the answer to a dry run.
func (c *Proposal) Tried(err error, answer *v1alpha1.UnitedDeployment) error {
	switch {
	case undone.LacksRight(err):
		c.Unfinished = append(c.Unfinished, "admission of the UnitedDeployment: "+strings.TrimPrefix(Forbidden(err), "you have "))
		if c.Before != nil {
			c.After.Generation = c.Before.Generation + 1
		}
	case refuses(err):
		c.Refused = append(c.Refused, err.Error())
	case err != nil:
		return Explained(err)
	default:
		c.After = answer
	}
	return nil
}

// refuses reports whether an error is the API server's verdict on a request, and not a failure to get one.
func refuses(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	reason, final := undone.Classify(err) // some refusals are answered with 500
	return code >= 400 && code < 500 && code != 401 && code != 429 || final && reason == v1alpha1.ReasonApplyRefused
}

// tryChildren lets the API server check the children, as the manager would write them, and returns which it refuses, and which have
// the same pods as before: it writes them as they are already. What it could not check is added to the plan.
func (u *User) tryChildren(ctx context.Context, in *planner.Input, plan *foresee.Plan) (checked foresee.Options) {
	checked.Unchanged, checked.Refused = map[string]bool{}, map[string]string{}
	for _, w := range plan.Writes {
		child, live := w.Object.DeepCopy(), in.Children[w.Subset]
		if w.Creates {
			child.SetResourceVersion("1") // it must not exist
		} else if live != nil {
			child.SetUID(live.Object.GetUID())
		}
		err := u.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(child), client.DryRunAll, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
		switch {
		case undone.LacksRight(err):
			plan.Unfinished = append(plan.Unfinished, strings.TrimPrefix(Forbidden(err), "you have "))
			return checked
		case apierrors.IsConflict(err) && w.Creates:
			checked.Refused[w.Subset] = fmt.Sprintf("there is a %s %s already, which is not of this UnitedDeployment", child.GetKind(), child.GetName())
		case refuses(err), meta.IsNoMatchError(err):
			checked.Refused[w.Subset] = brief(err)
			if live != nil && undone.SaysImmutable(err.Error()) {
				if fixed := foresee.Fixed(in.Spec.Adapter, child, live.Object, err.Error()); fixed != "" {
					checked.Refused[w.Subset] = fixed + "; see " + undone.ImmutableDocs
				}
			}
		case err != nil:
			plan.Unfinished = append(plan.Unfinished, fmt.Sprintf("%s: %v", child.GetName(), err))
		case live != nil && live.Observed.SpecObserved && samePods(in.Spec.Adapter, child, live.Object):
			checked.Unchanged[w.Subset] = true
		}
	}
	return checked
}

// brief is the text of an error, without naming the object again that was applied.
func brief(err error) string {
	text := err.Error()
	if _, rest, found := strings.Cut(text, "): "); found && strings.HasPrefix(text, "failed to create typed patch object (") {
		return rest
	}
	return text
}

// refusals names the children that are refused, those with the same reason together.
func refusals(plan *foresee.Plan, refused map[string]string) (texts []string) {
	for _, reason := range slices.Compact(slices.Sorted(maps.Values(refused))) {
		var names []string
		for _, s := range plan.Subsets {
			if refused[s.Name] == reason {
				names = append(names, s.Workload)
			}
		}
		texts = append(texts, strings.Join(names, ", ")+": "+reason)
	}
	return texts
}

// samePods reports whether two workloads make the same pods.
func samePods(a adapters.Adapter, one, other *unstructured.Unstructured) bool {
	for _, path := range a.RevisionPaths() {
		first, _, _ := unstructured.NestedFieldNoCopy(one.Object, path...)
		second, _, _ := unstructured.NestedFieldNoCopy(other.Object, path...)
		if !equality.Semantic.DeepEqual(first, second) {
			return false
		}
	}
	return true
}

// PlanOf returns the plan of a deed.
func (u *User) PlanOf(ctx context.Context, parent *v1alpha1.UnitedDeployment, d *Deed) (*foresee.Plan, error) {
	was, err := json.Marshal(parent)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(d.Operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, err
	}
	is, err := patch.Apply(was)
	if err != nil {
		return nil, err
	}
	c := &Proposal{Before: parent, After: &v1alpha1.UnitedDeployment{}}
	if err := json.Unmarshal(is, c.After); err != nil {
		return nil, err
	}
	if err := u.TryPatch(ctx, c, client.RawPatch(types.JSONPatchType, raw)); err != nil {
		return nil, err
	}
	return u.Foreseen(ctx, c)
}
