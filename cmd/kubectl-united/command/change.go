// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

func (o *options) undo() *cobra.Command {
	a, to := &acting{}, ""
	cmd := &cobra.Command{
		Use:   "undo NAME",
		Short: "Go back to an earlier revision, patches and tolerations of subsets included",
		Long: `Go back to an earlier revision. During a rollout that is the current revision, at rest the one that was current before.

It sets the pod template, versionLabel and colocation, and the patch and tolerations of each subset as far as they change pods. With
type Manual, partitions that are for the revision that is left become a hold. Everything else stays as
it is, and where that is what stalls, it says which field to set back.`,
		Example: `  kubectl united undo web
  kubectl united undo web --to-revision 3
  kubectl united undo web --dry-run`,
		Args: written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.goBack(cmd.Context(), args[0], to, a)
		},
	}
	a.addTo(cmd)
	cmd.Flags().StringVar(&to, "to-revision", "", "the number or name of the revision to go to")
	o.completesRevision(cmd, "to-revision")
	return cmd
}

func (o *options) goBack(ctx context.Context, name, to string, a *acting) error {
	read := o.inView
	if to != "" { // then it does not matter what a manager has seen
		read = o.anyway
	}
	parent, err := read(ctx, name, a)
	if err != nil {
		return err
	}
	revisions, err := o.user().Revisions(ctx, parent)
	if err != nil {
		return err
	}
	in, _ := o.user().World(ctx, parent)
	d, err := drive.GoBack(parent, in, revisions, to)
	if err != nil {
		return err
	}
	return o.changePods(ctx, parent, d, a)
}

func (o *options) restart() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Make a new revision of the same pods, so that they are replaced",
		Long: `Make a new revision of the same pods, with an annotation in all pod templates. It is rolled out like any other: with type Manual the
partitions hold it, and with type RollingUpdate it goes through the steps.`,
		Example: `  kubectl united restart web`,
		Args:    written(cobra.ExactArgs(1)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			after, notes, err := change.Restart(parent, time.Now())
			if err != nil {
				return err
			}
			d, err := drive.Pods(parent, after, notes, "restarts")
			if err != nil {
				return err
			}
			return o.changePods(cmd.Context(), parent, d, a)
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) set() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set", Short: "Change images or environment variables of the pod templates",
		// Without these, cobra answers an unknown command with the help, and the exit code 0.
		Args: notSet, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(o.setImage(), o.setEnv())
	return cmd
}

// notSet is the error for what is no command of set, such as the name of a UnitedDeployment.
func notSet(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	if len(args) > 1 && !strings.Contains(args[1], "=") {
		name = args[1]
	}
	return fmt.Errorf("set has no command %s; write: kubectl united set image %s CONTAINER=IMAGE, or kubectl united set env %s KEY=VALUE", args[0], name, name)
}

func (o *options) setImage() *cobra.Command {
	a := &acting{}
	cmd := &cobra.Command{
		Use:     "image NAME CONTAINER=IMAGE...",
		Short:   "Change the images of containers and init containers, by their names, in all pod templates",
		Example: `  kubectl united set image web web=registry.example/web:v2`,
		Args:    written(cobra.MinimumNArgs(2)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := imagesOf(args[1:])
			if err != nil {
				return err
			}
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			after, notes, err := change.SetImages(parent, images)
			if err != nil {
				return err
			}
			d, err := drive.Pods(parent, after, notes, "changes images: "+strings.Join(args[1:], ", "))
			if err != nil {
				return err
			}
			return o.changePods(cmd.Context(), parent, d, a)
		},
	}
	a.addTo(cmd)
	return cmd
}

func (o *options) setEnv() *cobra.Command {
	a, container := &acting{}, ""
	cmd := &cobra.Command{
		Use:   "env NAME KEY=VALUE... KEY-...",
		Short: "Set environment variables, or remove them, in all containers or one, in all pod templates",
		Example: `  kubectl united set env web LOG=debug
  kubectl united set env web -c web LOG-`,
		Args: written(cobra.MinimumNArgs(2)), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			variables, err := variablesOf(args[1:])
			if err != nil {
				return err
			}
			parent, err := o.inView(cmd.Context(), args[0], a)
			if err != nil {
				return err
			}
			after, notes, err := change.SetEnv(parent, container, variables)
			if err != nil {
				return err
			}
			d, err := drive.Pods(parent, after, notes, "changes environment variables: "+strings.Join(args[1:], ", "))
			if err != nil {
				return err
			}
			return o.changePods(cmd.Context(), parent, d, a)
		},
	}
	a.addTo(cmd)
	cmd.Flags().StringVarP(&container, "container", "c", "", "only in the container, or init container, with this name")
	return cmd
}

// variablesOf reads KEY=VALUE and KEY-.
func variablesOf(args []string) (variables []change.Variable, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		name, value, sets := strings.Cut(arg, "=")
		v := change.Variable{Name: name, Value: value}
		if !sets {
			v.Name, v.Remove = strings.CutSuffix(arg, "-")
			if !v.Remove {
				return nil, fmt.Errorf("%s: it must be KEY=VALUE, or KEY- to remove it", arg)
			}
		}
		if faults := validation.IsEnvVarName(v.Name); len(faults) > 0 {
			return nil, fmt.Errorf("%s: %s", arg, strings.Join(faults, "; "))
		}
		if seen[v.Name] {
			return nil, fmt.Errorf("%s is there twice", v.Name)
		}
		seen[v.Name] = true
		variables = append(variables, v)
	}
	return variables, nil
}

// changePods makes a change of the pods, and says what it leads to.
func (o *options) changePods(ctx context.Context, parent *v1alpha1.UnitedDeployment, d *drive.Deed, a *acting) error {
	if len(d.Operations) == 0 && a.output == "" {
		_, err := fmt.Fprintf(o.Out, "%s: its pods are like that already: nothing was done\n", parent.Name)
		return err
	}
	// Look before acting: afterwards the manager may be halfway through.
	in, unseen := o.user().World(ctx, d.After)
	if err := o.act(ctx, parent, a, d); err != nil || a.output != "" {
		return err
	}
	if in == nil {
		_, err := fmt.Fprintf(o.ErrOut, "What is held is not known (%s): see kubectl united status %s\n", unseen, parent.Name)
		return err
	}
	o.style().PrintOutcome(o.Out, parent.Name, view.OutcomeOf(in))
	return nil
}
