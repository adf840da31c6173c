// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
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
		Args: func(cmd *cobra.Command, args []string) error {
			if other, _, err := cmd.Root().Find(args); len(args) > 1 && err == nil && other != cmd.Root() {
				return notPlanned(args)
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		ValidArgsFunction: o.names,
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

// notPlanned is the error for another command after plan: it says what plans, or at least checks, the same.
func notPlanned(args []string) error {
	if args[0] == "release" && len(args) > 2 && !slices.ContainsFunc(args[2:], func(arg string) bool { return strings.Contains(arg, "=") }) {
		return fmt.Errorf("the changes of a plan are flags: kubectl united plan %s --set-partition %s", args[1], strings.Join(args[2:], "=0,")+"=0")
	}
	return fmt.Errorf("the changes of a plan are flags, such as --set-partition; to let the API server check this one: kubectl united %s --dry-run", strings.Join(args, " "))
}

func (o *options) planName(ctx context.Context, name string, p *planned) error {
	before, err := o.one(ctx, name)
	if err != nil {
		return err
	}
	c := &drive.Proposal{Before: before, After: before.DeepCopy()}
	if err := p.edits.apply(c.After); err != nil {
		return err
	}
	if err := o.user().TryPatch(ctx, c, client.MergeFrom(before)); err != nil {
		return err
	}
	plan, err := o.user().Foreseen(ctx, c)
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
