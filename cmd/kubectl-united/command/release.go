// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
)

const (
	manualPath     = "/spec/updateStrategy/manualUpdate"
	strategyIsAuto = "%s is of type RollingUpdate, so the controller releases: use approve, promote or pause"
)

func (o *options) release() *cobra.Command {
	a, canary := &acting{}, false
	cmd := &cobra.Command{
		Use:   "release NAME SUBSET[=30%|=N]...",
		Short: "Release subsets (type Manual): all of a subset, a percentage, or a number of its replicas",
		Long: "Release subsets of a UnitedDeployment of type Manual. The value is how much gets updated: zone-a=30% is the partition \"70%\". " +
			"The release is bound to the update revision that you look at: a template that changes in between is not released.",
		Example: `  kubectl united release web zone-a
  kubectl united release web zone-b=50% zone-c=1
  kubectl united release web zone-a --canary`,
		Args: cobra.MinimumNArgs(2), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.setPartitions(cmd, a, args, func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error) {
				return change.Release(parent, subset, value, canary)
			})
		},
	}
	a.addTo(cmd)
	cmd.Flags().BoolVar(&canary, "canary", false, "release one replica of each subset")
	return cmd
}

func (o *options) partition() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:     "partition NAME SUBSET=PARTITION...",
		Short:   "Set the partitions of subsets (type Manual), as in spec.updateStrategy.manualUpdate.partitions",
		Example: `  kubectl united partition web zone-a=0 zone-b=50%`,
		Args:    cobra.MinimumNArgs(2), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.setPartitions(cmd, a, args, change.Set)
		},
	}
	a.addTo(cmd)
	return cmd
}

// setPartitions binds partitions to the update revision in view.
func (o *options) setPartitions(cmd *cobra.Command, a *acting, args []string, of func(*v1alpha1.UnitedDeployment, string, string) (change.Partition, error)) error {
	parent, err := o.inView(cmd.Context(), args[0], a)
	if err != nil {
		return err
	}
	if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		return fmt.Errorf(strategyIsAuto, parent.Name)
	}
	var partitions []change.Partition
	var said []string
	for _, arg := range args[1:] {
		subset, value, _ := strings.Cut(arg, "=")
		if err := o.known(parent, subset); err != nil {
			return err
		}
		p, err := of(parent, subset, value)
		if err != nil {
			return err
		}
		partitions, said = append(partitions, p), append(said, p.Text)
	}
	update := parent.Status.UpdateRevision
	return o.act(cmd.Context(), parent, a, strings.Join(said, "; ")+", of "+update,
		operation{"add", manualPath, change.Bound(parent, partitions)})
}

func (o *options) hold() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:   "hold NAME [SUBSET...]",
		Short: "Hold subsets (type Manual), or all of them: what is not updated yet stays",
		Example: `  kubectl united hold web
  kubectl united hold web zone-b`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
				return fmt.Errorf(strategyIsAuto, parent.Name)
			}
			for _, subset := range args[1:] {
				if err := o.known(parent, subset); err != nil {
					return err
				}
			}
			what := "all subsets are held"
			if len(args) > 1 {
				what = strings.Join(args[1:], ", ") + " held"
			}
			return o.act(cmd.Context(), parent, a, what, operation{"add", manualPath, change.Hold(parent, args[1:])})
		},
	}
	a.addTo(cmd)
	return cmd
}

// known returns an error if the spec does not have a subset.
func (o *options) known(parent *v1alpha1.UnitedDeployment, subset string) error {
	var names []string
	for i := range parent.Spec.Topology.Subsets {
		names = append(names, parent.Spec.Topology.Subsets[i].Name)
	}
	if slices.Contains(names, subset) {
		return nil
	}
	return fmt.Errorf("%s has no subset %s%s", parent.Name, subset, suggestion(subset, names))
}

// namesAndSubsets completes a name, and then the subsets of that one.
func (o *options) namesAndSubsets(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return o.names(cmd, args, toComplete)
	}
	parent, err := o.one(cmd.Context(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range parent.Spec.Topology.Subsets {
		if name := parent.Spec.Topology.Subsets[i].Name; !slices.Contains(args[1:], name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
