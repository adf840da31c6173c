// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
)

// acting are the flags of all commands that change something.
type acting struct {
	dryRun, yes bool
	output      string
	revision    string
}

func (a *acting) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "let the API server check the change, and do not make it")
	cmd.Flags().StringVarP(&a.output, "output", "o", "", "show the object after the change: json, yaml or name")
	cmd.Flags().StringVar(&a.revision, "revision", "", "do it only if this is the update revision")
}

// ask adds --yes, for what asks first.
func (a *acting) ask(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
}

// inView reads a UnitedDeployment on which a command acts: the manager must have seen what the user sees.
func (o *options) inView(ctx context.Context, name string, a *acting) (*v1alpha1.UnitedDeployment, error) {
	return drive.InView(ctx, func(ctx context.Context) (*v1alpha1.UnitedDeployment, error) { return o.one(ctx, name) }, a.revision)
}

// act makes a change, if nobody has changed the spec since the parent was read, and prints the kubectl command that does the same.
func (o *options) act(ctx context.Context, parent *v1alpha1.UnitedDeployment, a *acting, d *drive.Deed) error {
	after, err := o.user().Act(ctx, parent, d, a.dryRun)
	if err != nil {
		return err
	}
	what := d.What
	if a.dryRun {
		what += " (dry run: nothing was changed)"
	}
	if a.output != "" {
		after.ManagedFields = nil
		after.APIVersion, after.Kind = v1alpha1.GroupVersion.String(), "UnitedDeployment"
		return structured(o.Out, a.output, after, "uniteddeployment.apps.united.dev/"+after.Name)
	}
	command, err := d.Command(parent)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "$ %s\n%s: %s\n", command, parent.Name, what)
	for _, note := range d.Notes {
		_, _ = fmt.Fprintln(o.ErrOut, "Note:", note)
	}
	return err
}

// reading reads a UnitedDeployment to act on.
type reading func(ctx context.Context, name string, a *acting) (*v1alpha1.UnitedDeployment, error)

// deciding returns what is to be done to a UnitedDeployment.
type deciding func(*v1alpha1.UnitedDeployment) (*drive.Deed, error)

// does acts on the UnitedDeployment in view.
func (o *options) does(ctx context.Context, name string, a *acting, of deciding) error {
	return o.doesTo(ctx, o.inView, name, a, of)
}

// brakes acts on a UnitedDeployment whether a manager has seen it or not: what stops a rollout must always work.
func (o *options) brakes(ctx context.Context, name string, a *acting, of deciding) error {
	return o.doesTo(ctx, o.anyway, name, a, of)
}

// anyway reads a UnitedDeployment whether a manager has seen it or not, unless the user says which revision must be in view.
func (o *options) anyway(ctx context.Context, name string, a *acting) (*v1alpha1.UnitedDeployment, error) {
	if a.revision != "" {
		return o.inView(ctx, name, a)
	}
	return o.one(ctx, name)
}

func (o *options) doesTo(ctx context.Context, read reading, name string, a *acting, of deciding) error {
	parent, err := read(ctx, name, a)
	if err != nil {
		return err
	}
	d, err := of(parent)
	if err != nil {
		return err
	}
	return o.act(ctx, parent, a, d)
}

// confirmed asks on a terminal. Without one, --yes is needed.
func (o *options) confirmed(a *acting, question string) error {
	if a.yes || a.dryRun {
		return nil
	}
	file, ok := o.In.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return errors.New(question + " To do it without a terminal, add --yes")
	}
	_, _ = fmt.Fprint(o.ErrOut, question+" [y/N] ")
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
