// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
)

func (o *options) why() *cobra.Command {
	var output, manager string
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a rollout does not move, and what would end that",
		Long: "Say why a rollout does not move, in the order in which one would check: the manager, what the API server refuses, replicas " +
			"that are not available, nodes, what the rollout waits for, holds, approvals and pauses.\n\nIt gives a command only if the planner " +
			"of the manager says that it would end what was found.",
		Example: `  kubectl united why web
  kubectl united why web -o json`,
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			why := o.user().Why(cmd.Context(), parent, manager)
			if output != "" {
				return structured(o.Out, output, why, "uniteddeployment.apps.united.dev/"+parent.Name)
			}
			o.style().PrintWhy(o.Out, why)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name")
	cmd.Flags().StringVar(&manager, "manager-namespace", drive.ManagerNamespace, "the namespace of the manager")
	return cmd
}
