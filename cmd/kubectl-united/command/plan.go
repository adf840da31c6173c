// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
	"github.com/unitedworkloads/united/controllers/united/world"
)

// planned are the flags of plan.
type planned struct {
	files   []string
	offline bool
	edits   edits
	output  string
}

func (o *options) plan() *cobra.Command {
	p := &planned{}
	cmd := &cobra.Command{
		Use:   "plan (NAME [--set-partition SUBSET=VALUE] [--replicas N] [--image CONTAINER=IMAGE] [--paused=true|false] | -f FILE)",
		Short: "Show what a change would do, before it is made",
		Long: `Show what a change would do, before it is made: replicas per subset, the pods that would be restarted, created and removed, in
which order and why, what is held, and what would be refused. Nothing is written.

The decisions are those of the manager. A plan assumes that every new replica becomes ready.

The exit code is 1 if something would be refused.`,
		Example: `  kubectl united plan -f web.yaml
  kubectl united plan web --image web=registry.example/web:v2
  kubectl united plan web --set-partition zone-a=50%
  kubectl united plan web --replicas 12 -o json`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.edits.given = cmd.Flags().Changed
			switch {
			case len(args) == 0 && len(p.files) == 0, len(args) > 0 && len(p.files) > 0:
				return errors.New("plan needs either the NAME of a UnitedDeployment or a file (-f)")
			case len(args) > 0 && p.offline:
				return errors.New("--offline needs a file (-f)")
			case len(args) > 0:
				return o.planName(cmd.Context(), args[0], p)
			case p.edits.any():
				return errors.New("change the file, or give a NAME: --set-partition, --replicas, --image and --paused cannot be used with -f")
			}
			return o.planFiles(cmd.Context(), p)
		},
	}
	cmd.Flags().StringSliceVarP(&p.files, "filename", "f", nil, "files or directories with UnitedDeployments, as for kubectl apply; - is the standard input")
	cmd.Flags().BoolVar(&p.offline, "offline", false, "ask no API server: plan as if there was nothing yet")
	cmd.Flags().StringSliceVar(&p.edits.partitions, "set-partition", nil, "SUBSET=VALUE: with another partition of a subset (Manual)")
	cmd.Flags().StringSliceVar(&p.edits.images, "image", nil, "CONTAINER=IMAGE: with another image; * means all containers")
	cmd.Flags().Int32Var(&p.edits.replicas, "replicas", 0, "with another number of replicas")
	cmd.Flags().BoolVar(&p.edits.paused, "paused", false, "with the rollout paused or not")
	cmd.Flags().StringVarP(&p.output, "output", "o", "", "json, yaml or name")
	return cmd
}

// proposal is a UnitedDeployment as it is, nil if it is new, and as it would be.
type proposal struct {
	before, after      *v1alpha1.UnitedDeployment
	refused, unchecked []string
}

func (o *options) planName(ctx context.Context, name string, p *planned) error {
	before, err := o.one(ctx, name)
	if err != nil {
		return err
	}
	c := &proposal{before: before, after: before.DeepCopy()}
	if err := p.edits.apply(c.after); err != nil {
		return err
	}
	if err := o.tryPatch(ctx, c, client.MergeFrom(before)); err != nil {
		return err
	}
	plan, err := o.foreseen(ctx, c)
	if err != nil {
		return err
	}
	return o.showPlans(p, []*foresee.Plan{plan})
}

func (o *options) planFiles(ctx context.Context, p *planned) error {
	objects, err := o.parents(p.files)
	if err != nil {
		return err
	}
	var plans []*foresee.Plan
	for _, object := range objects {
		plan, err := o.planObject(ctx, object, p.offline)
		if err != nil {
			return err
		}
		plans = append(plans, plan)
	}
	return o.showPlans(p, plans)
}

// showPlans prints plans. The error says what would be refused.
func (o *options) showPlans(p *planned, plans []*foresee.Plan) error {
	var names, refused []string
	for i, plan := range plans {
		names = append(names, "uniteddeployment.apps.united.dev/"+plan.Name)
		if len(plan.Refused) > 0 {
			refused = append(refused, plan.Name)
		}
		if p.output == "" {
			if i > 0 {
				_, _ = fmt.Fprintln(o.Out)
			}
			o.style().PrintPlan(o.Out, plan)
		}
	}
	if p.output != "" {
		value := any(plans)
		if len(plans) == 1 {
			value = plans[0]
		}
		if err := structured(o.Out, p.output, value, strings.Join(names, "\n")); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return exit{errors.New("this would be refused: " + strings.Join(refused, ", ")), codeOther}
	}
	return nil
}

// foreseen returns the plan of a change, checked by the API server as far as the user may.
func (o *options) foreseen(ctx context.Context, c *proposal) (*foresee.Plan, error) {
	blank := &foresee.Plan{
		Namespace: c.after.Namespace, Name: c.after.Name, New: c.before == nil, Refused: c.refused, Unchecked: c.unchecked,
		Subsets: []foresee.Subset{}, Waves: []foresee.Wave{},
	}
	if len(c.refused) > 0 {
		return blank, nil
	}
	if _, err := spec.Read(c.after, all.Registry()); err != nil {
		blank.Refused = append(blank.Refused, err.Error())
		return blank, nil
	}
	in, err := look.World(ctx, o.api, c.after, time.Now())
	if apierrors.IsForbidden(err) {
		return nil, errors.New(forbidden(err) + ", so there is no plan; for one that asks no API server: -f FILE --offline")
	}
	if err != nil {
		return nil, err
	}
	opts := foresee.Options{CountsUnavailable: o.countsUnavailable()}
	plan, err := foresee.Of(in, opts)
	if err != nil {
		return nil, err
	}
	if checked := o.tryChildren(ctx, in, plan); len(checked.Unchanged)+len(checked.Refused) > 0 {
		opts.Unchanged, opts.Refused = checked.Unchanged, checked.Refused
		first := plan
		if plan, err = foresee.Of(in, opts); err != nil {
			return nil, err
		}
		plan.Refused, plan.Unchecked = append(plan.Refused, refusals(first, checked.Refused)...), first.Unchecked
	}
	plan.New, plan.Unchecked = c.before == nil, append(c.unchecked, plan.Unchecked...)
	if c.before != nil && c.before.Status.ObservedGeneration != c.before.Generation {
		plan.Assumed = append(plan.Assumed, fmt.Sprintf("a manager sees generation %d, which none has yet", c.before.Generation))
	}
	return plan, nil
}

// foreseenOffline returns the plan of a new UnitedDeployment in a cluster of which nothing is known.
func foreseenOffline(after *v1alpha1.UnitedDeployment) (*foresee.Plan, error) {
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
	plan.New, plan.Unchecked = true, []string{"admission, and what there is already: --offline"}
	return plan, nil
}

// countsUnavailable reports whether the controller of StatefulSets has maxUnavailable. If the version is not known, it is a new one.
func (o *options) countsUnavailable() bool {
	discovery, err := o.config.ToDiscoveryClient()
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

// tryPatch lets the API server check a patch of a UnitedDeployment, and takes over what it makes of it. Without the right to patch
// one, it stays as it is.
func (o *options) tryPatch(ctx context.Context, c *proposal, patch client.Patch) error {
	data, err := patch.Data(c.after)
	if err != nil {
		return err
	}
	answer := c.before.DeepCopy()
	err = o.api.Patch(ctx, answer, client.RawPatch(patch.Type(), data), client.DryRunAll, client.FieldOwner("kubectl-united"), client.FieldValidation("Strict"))
	return o.tried(c, err, answer)
}

// tried takes over the answer to a dry run.
func (o *options) tried(c *proposal, err error, answer *v1alpha1.UnitedDeployment) error {
	switch {
	case lacksRight(err):
		c.unchecked = append(c.unchecked, "admission of the UnitedDeployment: "+rightOf(err))
		if c.before != nil {
			c.after.Generation = c.before.Generation + 1
		}
	case refuses(err):
		c.refused = append(c.refused, err.Error())
	case err != nil:
		return explained(err)
	default:
		c.after = answer
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
	// A field that is not in the schema of an applied object is answered with 500.
	return code >= 400 && code < 500 && code != 401 && code != 429 || strings.Contains(err.Error(), "not declared in schema")
}

// lacksRight reports whether a request was refused because of who made it. Policies and webhooks may answer with the same code.
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// rightOf says which right is missing.
func rightOf(err error) string {
	status, verb := apierrors.APIStatus(nil), "write"
	if _, after, found := strings.Cut(err.Error(), " cannot "); found {
		verb, _, _ = strings.Cut(after, " ")
	}
	if errors.As(err, &status) && status.Status().Details != nil {
		return "no right to " + verb + " " + status.Status().Details.Kind
	}
	return err.Error()
}

// tryChildren lets the API server check the children, as the manager would write them, and returns which it refuses, and which have
// the same pods as before: it writes them as they are already. What it could not check is added to the plan.
func (o *options) tryChildren(ctx context.Context, in *planner.Input, plan *foresee.Plan) (checked foresee.Options) {
	checked.Unchanged, checked.Refused = map[string]bool{}, map[string]string{}
	for _, w := range plan.Writes {
		u, live := w.Object.DeepCopy(), in.Children[w.Subset]
		if w.Creates {
			u.SetResourceVersion("1") // it must not exist
		} else if live != nil {
			u.SetUID(live.Object.GetUID())
		}
		err := o.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.DryRunAll, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
		switch {
		case lacksRight(err):
			plan.Unchecked = append(plan.Unchecked, rightOf(err))
			return checked
		case apierrors.IsConflict(err) && w.Creates:
			checked.Refused[w.Subset] = fmt.Sprintf("there is a %s %s already, which is not of this UnitedDeployment", u.GetKind(), u.GetName())
		case refuses(err), meta.IsNoMatchError(err):
			checked.Refused[w.Subset] = brief(err)
		case err != nil:
			plan.Unchecked = append(plan.Unchecked, fmt.Sprintf("%s: %v", u.GetName(), err))
		case live != nil && live.Observed.SpecObserved && samePods(in.Spec.Adapter, u, live.Object):
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
