// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
)

func (o *options) history() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the revisions, their images, and who runs them",
		Example: `  kubectl united history web
  kubectl annotate controllerrevision web-vyk40fz0j037rfbdyk3fd6k47p kubernetes.io/change-cause="new cache"`,
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.showHistory(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name")
	return cmd
}

func (o *options) showHistory(ctx context.Context, name, output string) error {
	parent, err := o.one(ctx, name)
	if err != nil {
		return err
	}
	revisions, err := o.user().Revisions(ctx, parent)
	if err != nil {
		return err
	}
	in, unseen := o.user().World(ctx, parent)
	h := view.HistoryOf(parent, revisions, in, unseen)
	if output != "" {
		var names []string
		for i := range h.Revisions {
			names = append(names, "controllerrevision.apps/"+h.Revisions[i].Name)
		}
		return structured(o.Out, output, h, strings.Join(names, "\n"))
	}
	if len(h.Revisions) == 0 {
		_, err = fmt.Fprintf(o.ErrOut, "%s has no revision yet; see kubectl united status %s\n", name, name)
		return err
	}
	o.style().PrintHistory(o.Out, h, time.Now())
	return nil
}

// completesRevision completes a flag with the names of the revisions of the UnitedDeployment in the arguments.
func (o *options) completesRevision(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		parent, err := o.one(cmd.Context(), args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		revisions, err := o.user().Revisions(cmd.Context(), parent)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, r := range revisions {
			names = append(names, r.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

func (o *options) diff() *cobra.Command {
	var from, to, output string
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show how the pods of two revisions differ, those of subsets too",
		Long: `Show how the pods of two revisions differ: the template, and for each subset what its patch and tolerations change in it.

Without flags these are the current and the update revision.`,
		Example: `  kubectl united diff web
  kubectl united diff web --revision 3
  kubectl united diff web --revision web-vyk40fz0j0 --to 5`,
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.showDiff(cmd.Context(), args[0], from, to, output)
		},
	}
	cmd.Flags().StringVar(&from, "revision", "", "the number or name of the revision to begin with; without it the current one")
	cmd.Flags().StringVar(&to, "to", "", "the number or name of the revision to compare with; without it the update revision")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	o.completesRevision(cmd, "revision")
	o.completesRevision(cmd, "to")
	return cmd
}

func (o *options) showDiff(ctx context.Context, name, from, to, output string) error {
	parent, err := o.one(ctx, name)
	if err != nil {
		return err
	}
	revisions, err := o.user().Revisions(ctx, parent)
	if err != nil {
		return err
	}
	if from == "" && to == "" && parent.Status.CurrentRevision == parent.Status.UpdateRevision && output == "" {
		_, err := fmt.Fprintf(o.ErrOut, "%s has no other revision than %s to run. To compare others: kubectl united diff %s --revision N [--to N]; see kubectl united history %s\n", name, known.Short(parent.Status.UpdateRevision), name, name)
		return err
	}
	d, err := drive.Diff(parent, revisions, from, to)
	if err != nil {
		return err
	}
	if parent.Status.ObservedGeneration != parent.Generation {
		_, _ = fmt.Fprintf(o.ErrOut, "No manager has seen the last change of %s yet: it may make another revision.\n", name)
	}
	switch {
	case output != "":
		return structured(o.Out, output, d, "uniteddeployment.apps.united.dev/"+name)
	case len(d.Parts) == 0:
		_, err = fmt.Fprintf(o.ErrOut, "%s and %s make the same pods.\n", known.Short(d.From), known.Short(d.To))
		return err
	}
	o.style().PrintDiff(o.Out, d)
	return nil
}
