// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

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
	parent, err := o.observed(ctx, name)
	if err != nil {
		return nil, err
	}
	if parent.Status.UpdateRevision == "" {
		_, _, message := view.Headline(parent)
		return nil, fmt.Errorf("%s has no update revision: %s", name, message)
	}
	if a.revision != "" && a.revision != parent.Status.UpdateRevision {
		return nil, fmt.Errorf("the update revision of %s is %s, and no longer %s: nothing was done", name, parent.Status.UpdateRevision, a.revision)
	}
	return parent, nil
}

// observed reads a UnitedDeployment, and gives the manager a moment to see its last change, such as that of the command before.
func (o *options) observed(ctx context.Context, name string) (*v1alpha1.UnitedDeployment, error) {
	for range 5 {
		parent, err := o.one(ctx, name)
		if err != nil || parent.Status.ObservedGeneration == parent.Generation {
			return parent, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery / 2):
		}
	}
	return nil, fmt.Errorf("no manager has seen the last change of %s yet, so its update revision is not known: see kubectl united why %s", name, name)
}

// act makes a change, if nobody has changed the spec since the parent was read, and prints the kubectl command that does the same.
func (o *options) act(ctx context.Context, parent *v1alpha1.UnitedDeployment, a *acting, what string, operations ...operation) error {
	plain, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	bound, err := json.Marshal(append([]operation{{"test", "/metadata/uid", parent.UID}, {"test", "/metadata/generation", parent.Generation}}, operations...))
	if err != nil {
		return err
	}
	after := parent.DeepCopy()
	opts := []client.PatchOption{client.FieldOwner("kubectl-united")}
	if a.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	if a.output == "" {
		_, _ = fmt.Fprintf(o.Out, "$ kubectl patch united %s -n %s --type=json -p %s\n", parent.Name, parent.Namespace, quoted(string(plain)))
	}
	err = o.api.Patch(ctx, after, client.RawPatch(types.JSONPatchType, bound), opts...)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not do that: %w", err)
	// Trap: the API server does not say that a test of a JSON patch failed. Its answer is that of any patch that it cannot apply.
	case (apierrors.IsInvalid(err) || apierrors.IsConflict(err)) && o.changed(ctx, parent):
		return fmt.Errorf("somebody has changed %s since: nothing was done; look at it again: kubectl united status %s", parent.Name, parent.Name)
	case err != nil:
		return err
	}
	if a.dryRun {
		what += " (dry run: nothing was changed)"
	}
	if a.output != "" {
		after.ManagedFields = nil
		after.APIVersion, after.Kind = v1alpha1.GroupVersion.String(), "UnitedDeployment"
		return structured(o.Out, a.output, after, "uniteddeployment.apps.united.dev/"+after.Name)
	}
	_, err = fmt.Fprintf(o.Out, "%s: %s\n", parent.Name, what)
	return err
}

// changed reports whether somebody has changed the spec since the parent was read, or has deleted it.
func (o *options) changed(ctx context.Context, parent *v1alpha1.UnitedDeployment) bool {
	now, err := look.One(ctx, o.api, parent.Namespace, parent.Name)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != parent.UID || now.Generation != parent.Generation)
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

// quoted quotes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// escaped escapes a key for a JSON pointer.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
