// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
)

func (o *options) approve() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: "approve NAME", Short: "Approve the step that waits for it (type RollingUpdate)",
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.does(cmd.Context(), args[0], a, drive.Approve)
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) pause() *cobra.Command {
	return o.pausing("pause NAME", "Pause a rollout: nothing is released, scaling and repair go on", true)
}

func (o *options) resume() *cobra.Command {
	return o.pausing("resume NAME", "Resume a paused rollout", false)
}

func (o *options) pausing(use, short string, paused bool) *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			act := o.does // resuming releases what is in view
			if paused {
				act = o.brakes
			}
			return act(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) { return drive.Pause(parent, paused) })
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) force() *cobra.Command {
	return o.moving("force NAME", "Roll out the update revision even if replicas are unhealthy (type RollingUpdate)", drive.Force)
}

func (o *options) promote() *cobra.Command {
	return o.moving("promote NAME", "Pass the steps of the update revision, with their pauses and approvals (type RollingUpdate)", drive.Promote)
}

func (o *options) retry() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: "retry NAME", Short: "Measure the checks of the rollout anew, or roll out a rejected revision once more (type RollingUpdate)",
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.does(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) { return drive.Retry(parent, time.Now()) })
		},
	}
	a.addTo(cmd)
	return cmd
}

// moving moves the rollout to the update revision in view, after a question.
func (o *options) moving(use, short string, m drive.Move) *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.does(cmd.Context(), args[0], a, func(parent *v1alpha1.UnitedDeployment) (*drive.Deed, error) {
				d, err := m.Of(parent, time.Now())
				if err != nil {
					return nil, err
				}
				return d, o.confirmed(a, m.Question(parent))
			})
		},
	}
	a.addTo(cmd)
	a.ask(cmd)
	return cmd
}
