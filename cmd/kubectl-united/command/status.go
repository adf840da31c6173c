// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// lookEvery is how often --watch looks.
const lookEvery = time.Second

func (o *options) status() *cobra.Command {
	var pods, watch, everywhere bool
	var output string
	cmd := &cobra.Command{
		Use: "status [NAME]", Aliases: []string{"get"},
		Short: "Show a rollout on one screen, or all of a namespace, worst first",
		Example: `  kubectl united status
  kubectl united status web
  kubectl united status web --pods
  kubectl united status web --watch`,
		Args:              func(cmd *cobra.Command, args []string) error { return cobra.MaximumNArgs(1)(cmd, named(args)) },
		ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = named(args)
			show := func(ctx context.Context, w io.Writer, style view.Style) (line string, err error) {
				if len(args) == 0 {
					return "", o.showAll(ctx, w, style, everywhere, output)
				}
				return o.showOne(ctx, w, style, args[0], pods, output)
			}
			if watch {
				if output != "" || len(args) == 0 {
					return errors.New("--watch needs a NAME, and cannot be used with --output")
				}
				return o.watch(cmd.Context(), show)
			}
			_, err := show(cmd.Context(), o.Out, o.style())
			return err
		},
	}
	cmd.Flags().BoolVar(&pods, "pods", false, "show the replicas one by one")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on: redraw on a terminal, otherwise print a line for each change")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "show those of all namespaces")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name")
	return cmd
}

// named takes away what others want before a name, as in kubectl get united web.
func named(args []string) []string {
	if len(args) > 1 && slices.Contains([]string{"rollout", "rollouts", "ro", "united", "uniteddeployment", "uniteddeployments"}, args[0]) {
		return args[1:]
	}
	return args
}

func (o *options) showOne(ctx context.Context, w io.Writer, style view.Style, name string, pods bool, output string) (line string, err error) {
	parent, err := o.one(ctx, name)
	if err != nil {
		return "", err
	}
	st := o.user().Status(ctx, parent)
	if output != "" {
		return "", structured(w, output, st, "uniteddeployment.apps.united.dev/"+name)
	}
	style.Print(w, st, pods)
	return view.Line(st), nil
}

func (o *options) showAll(ctx context.Context, w io.Writer, style view.Style, everywhere bool, output string) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	api, err := o.client()
	if err != nil {
		return err
	}
	if everywhere {
		namespace = ""
	}
	list := &v1alpha1.UnitedDeploymentList{}
	if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return drive.Explained(err)
	}
	all, names := []*view.Status{}, ""
	for i := range list.Items {
		all = append(all, view.StatusOf(&list.Items[i], nil, ""))
	}
	slices.SortFunc(all, view.Worst)
	for i, st := range all {
		if i > 0 {
			names += "\n"
		}
		names += "uniteddeployment.apps.united.dev/" + st.Name
	}
	switch {
	case output != "":
		return structured(w, output, all, names)
	case len(all) == 0 && everywhere:
		_, err = fmt.Fprintln(o.ErrOut, "There is no UnitedDeployment.")
		return err
	case len(all) == 0:
		_, err = fmt.Fprintf(o.ErrOut, "There is no UnitedDeployment in the namespace %s.\n", namespace)
		return err
	}
	style.PrintList(w, all, everywhere)
	return nil
}

// structured writes a value as JSON or YAML, or the names of what it is about.
func structured(w io.Writer, output string, value any, names string) error {
	var text []byte
	var err error
	switch output {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = []byte(view.Escaped(string(text), false))
	case "yaml":
		text, err = asYAML(value)
	case "name":
		text = []byte(names)
	default:
		return fmt.Errorf("--output %s: it can be json, yaml or name", output)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, string(bytes.TrimRight(text, "\n")))
	return err
}

// asYAML returns a value as YAML. If that has characters that a terminal would obey or hide, it is JSON, which is YAML too, where they
// can be escaped wherever they are.
func asYAML(value any) ([]byte, error) {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, err
	}
	raw = []byte(view.Escaped(string(raw), true)) // without that, control characters would be refused
	text, err := yaml.JSONToYAML(raw)
	if err == nil && view.Escaped(string(text), true) != string(text) {
		return raw, nil
	}
	return text, err
}

// watch shows again and again, until it is interrupted.
func (o *options) watch(ctx context.Context, show func(context.Context, io.Writer, view.Style) (string, error)) error {
	style, last, seen := o.style(), "", false
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		screen := &bytes.Buffer{}
		line, err := show(ctx, screen, style)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (!seen || lasting(err) || apierrors.IsNotFound(err)):
			return err
		case err != nil:
			line = "the API server does not answer: " + err.Error()
			screen = bytes.NewBufferString(line + "\n")
		}
		seen = true
		switch {
		case style.Width > 0: // a terminal: home, the screen with each line cleared to its end, and clear what is left
			_, _ = fmt.Fprint(o.Out, view.Redrawn(screen.String()))
		case line != last:
			_, _ = fmt.Fprintln(o.Out, time.Now().UTC().Format(time.RFC3339), line)
			last = line
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
