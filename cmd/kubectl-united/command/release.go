// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
)

func (o *options) release() *cobra.Command {
	a, canary, all := &acting{}, false, false
	cmd := &cobra.Command{
		Use:   "release NAME SUBSET[=30%|=N]...",
		Short: "Release subsets (type Manual): all of a subset, a percentage, or a number of its replicas",
		Long: "Release subsets of a UnitedDeployment of type Manual. The value is how much gets updated: zone-a=30% is the partition \"70%\". " +
			"The release is bound to the update revision that you look at: a template that changes in between is not released.",
		Example: `  kubectl united release web zone-a
  kubectl united release web zone-b=50% zone-c=1
  kubectl united release web zone-a --canary
  kubectl united release web --all`,
		Args: written(cobra.MinimumNArgs(1)), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.does(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) {
				subsets := args[1:]
				switch {
				case all && len(subsets) > 0:
					return nil, errors.New("--all releases all subsets, so it takes no subset")
				case all:
					subsets = drive.SubsetNames(parent)
				}
				return drive.Partitions(parent, subsets, func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error) {
					return change.Release(parent, subset, value, canary)
				})
			})
		},
	}
	a.addTo(cmd)
	cmd.Flags().BoolVar(&canary, "canary", false, "release one replica of each subset")
	cmd.Flags().BoolVar(&all, "all", false, "release all subsets")
	return cmd
}

func (o *options) partition() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:     "partition NAME SUBSET=PARTITION...",
		Short:   "Set the partitions of subsets (type Manual), as in spec.updateStrategy.manualUpdate.partitions",
		Example: `  kubectl united partition web zone-a=0 zone-b=50%`,
		Args:    written(cobra.MinimumNArgs(1)), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.does(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) {
				return drive.Partitions(parent, args[1:], change.Set)
			})
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) hold() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:   "hold NAME [SUBSET...]",
		Short: "Hold subsets (type Manual), or all of them: what is not updated yet stays",
		Example: `  kubectl united hold web
  kubectl united hold web zone-b`,
		Args: written(cobra.MinimumNArgs(1)), ValidArgsFunction: o.namesAndSubsets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.brakes(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) {
				return drive.Hold(parent, args[1:])
			})
		},
	}
	a.addTo(cmd)
	return cmd
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
	names := slices.DeleteFunc(drive.SubsetNames(parent), func(name string) bool { return slices.Contains(args[1:], name) })
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
