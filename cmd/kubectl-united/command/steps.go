// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

const annotationsPath = "/metadata/annotations"

// annotate is the operation that sets an annotation.
func annotate(parent *v1alpha1.UnitedDeployment, key, value string) operation {
	if parent.Annotations == nil {
		return operation{"add", annotationsPath, map[string]string{key: value}}
	}
	return operation{"add", annotationsPath + "/" + escaped(key), value}
}

func (o *options) approve() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: "approve NAME", Short: "Approve the step that waits for it (type RollingUpdate)",
		Args: cobra.ExactArgs(1), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			r := parent.Status.Rollout
			if r == nil || r.Phase != v1alpha1.RolloutAwaitingApproval || r.ApprovalKey == "" {
				return fmt.Errorf("%s waits for no approval%s", parent.Name, phaseText(r))
			}
			return o.act(cmd.Context(), parent, a, fmt.Sprintf("step %d of %s is approved", r.Step+1, parent.Status.UpdateRevision),
				annotate(parent, v1alpha1.AnnotationApproved, r.ApprovalKey))
		},
	}
	a.addTo(cmd)
	return cmd
}

func phaseText(r *v1alpha1.RolloutStatus) string {
	if r == nil || r.Phase == "" {
		return ": it is of type Manual, so release its subsets"
	}
	return fmt.Sprintf(": its rollout is %s, %s", r.Phase, r.Message)
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
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Pausing must always work; resuming releases what is in view.
			read := o.one
			if !paused || a.revision != "" {
				read = func(ctx context.Context, name string) (*v1alpha1.UnitedDeployment, error) {
					return o.inView(ctx, name, a)
				}
			}
			parent, err := read(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			state := map[bool]string{true: "paused", false: "not paused"}[paused]
			if parent.Spec.Paused == paused {
				return fmt.Errorf("%s is %s already", parent.Name, state)
			}
			return o.act(cmd.Context(), parent, a, state, operation{"add", "/spec/paused", paused})
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) force() *cobra.Command {
	return o.moving("force NAME", "Roll out the update revision even if replicas are unhealthy (type RollingUpdate)", v1alpha1.AnnotationForceUpdate,
		"Force %s of %s? It ignores failed and unavailable replicas and maxSkew; the floor, the steps and their approvals stay.")
}

func (o *options) promote() *cobra.Command {
	return o.moving("promote NAME", "Pass the steps of the update revision, with their pauses and approvals (type RollingUpdate)", v1alpha1.AnnotationPromote,
		"Promote %s of %s? It passes all steps, with their pauses and approvals; the floor, maxUnavailable and failures still count.")
}

// moving sets an annotation that moves the rollout to the update revision in view, after a question.
func (o *options) moving(use, short, annotation, question string) *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			if parent.Spec.UpdateStrategy.Type != v1alpha1.RollingUpdateStrategy {
				return fmt.Errorf("%s is of type Manual, so there is nothing to %s: release its subsets", parent.Name, cmd.Name())
			}
			update := parent.Status.UpdateRevision
			if err := o.confirmed(a, fmt.Sprintf(question, update, parent.Name)); err != nil {
				return err
			}
			return o.act(cmd.Context(), parent, a, cmd.Name()+" "+update, annotate(parent, annotation, update))
		},
	}
	a.addTo(cmd)
	a.ask(cmd)
	return cmd
}
