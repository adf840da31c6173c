// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// release is the version of a release: go build -ldflags '-X github.com/unitedworkloads/united/cmd/kubectl-united/command.release=v1.2.3'.
var release string

func (o *options) version() *cobra.Command {
	var output, namespace string
	var alone bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin and of the manager, and whether they fit",
		Args:  cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if alone {
				_, err := fmt.Fprintln(o.Out, build().Version)
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), lookTimeout)
			defer cancel()
			managers, unseen := o.managers(ctx, namespace)
			v := view.VersionOf(build(), managers, unseen, o.absent(ctx))
			if output != "" {
				return structured(o.Out, output, v, v.Plugin.Version)
			}
			return printVersion(o.Out, v)
		},
	}
	cmd.Flags().BoolVar(&alone, "client", false, "show the version of the plugin alone, without a cluster")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name")
	cmd.Flags().StringVar(&namespace, "manager-namespace", "", "the namespace of the manager; without it all that you may see")
	return cmd
}

func printVersion(w io.Writer, v *view.Version) error {
	_, _ = fmt.Fprintf(w, "Plugin:  %s\n", v.Plugin.Version)
	for _, m := range v.Managers {
		_, _ = fmt.Fprintf(w, "Manager: %s  %s/%s  %s\n", cmp.Or(m.Version, "?"), m.Namespace, m.Name, m.Image)
	}
	_, err := fmt.Fprintf(w, "Fit:     %s\n", v.Fit+prefixed(": ", v.Why))
	return err
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// build returns how the plugin was built.
func build() view.Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return view.Build{Version: cmp.Or(release, "(devel)")}
	}
	b := view.Build{Version: cmp.Or(release, info.Main.Version, "(devel)"), Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

// managers returns the Deployments of the manager that the user may see, of a namespace or without one of all, or why there are none to
// see.
func (o *options) managers(ctx context.Context, namespace string) (managers []view.Manager, unseen string) {
	api, err := o.client()
	if err != nil {
		return nil, err.Error()
	}
	selected := client.MatchingLabels{"app.kubernetes.io/name": "united"}
	list := &appsv1.DeploymentList{}
	err = api.List(ctx, list, selected, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) && namespace == "" {
		// Maybe in the namespace where the manual installs it.
		unseen = drive.Forbidden(err) + " of all namespaces, and there is no manager to see in " + drive.ManagerNamespace + ": give --manager-namespace"
		err = api.List(ctx, list, selected, client.InNamespace(drive.ManagerNamespace))
	}
	switch {
	case unseen != "" && (apierrors.IsForbidden(err) || len(list.Items) == 0):
		return nil, unseen
	case err != nil:
		return nil, err.Error()
	}
	for i := range list.Items {
		managers = append(managers, managerOf(&list.Items[i]))
	}
	slices.SortFunc(managers, func(a, b view.Manager) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return managers, ""
}

// absent says that the cluster does not have the kind; "" if it has, or if that cannot be seen.
func (o *options) absent(ctx context.Context) string {
	api, err := o.client()
	if err != nil {
		return ""
	}
	namespace, err := o.namespace()
	if err != nil {
		return ""
	}
	if err := api.List(ctx, &v1alpha1.UnitedDeploymentList{}, client.InNamespace(namespace), client.Limit(1)); drive.Unserved(err) {
		return drive.Explained(err).Error()
	}
	return ""
}

func managerOf(d *appsv1.Deployment) view.Manager {
	m := view.Manager{Namespace: d.Namespace, Name: d.Name}
	containers := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" }); i >= 0 {
		m.Image = containers[i].Image
	} else if len(containers) > 0 {
		m.Image = containers[0].Image // somebody's own manifests
	}
	m.Version = cmp.Or(view.Tag(m.Image), d.Labels["app.kubernetes.io/version"])
	return m
}
