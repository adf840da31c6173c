// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
)

func (o *options) world() *cobra.Command {
	output := "yaml"
	cmd := &cobra.Command{
		Use:   "world NAME",
		Short: "Write what a pass of the manager sees, for a bug report",
		Long: `Write what a pass of the manager sees as one file, from which its decision can be made again: the UnitedDeployment, its workloads, their pods, and its revisions.

The values of environment variables are left out (in messages those of four characters or more), and revisions have other names therefore. Commands, arguments, annotations, the short hashes in names and labels of
replicas, and all else are as they are: look through the file before you publish it. What only the manager knows is not in it: which writes have failed, and of the results of checks, what is newer than the status; nor is a workload that has lost its labels.`,
		Example: `  kubectl united world web > web.yaml`,
		Args:    written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			saved, err := look.Save(cmd.Context(), o.api, o.api.Scheme(), parent, time.Now().UTC())
			if err != nil {
				return drive.Explained(err)
			}
			return structured(o.Out, output, saved, "uniteddeployment.apps.united.dev/"+parent.Name)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "json or yaml")
	return cmd
}
