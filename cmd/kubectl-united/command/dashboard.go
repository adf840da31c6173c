// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/cmd/kubectl-united/dashboard"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
)

func (o *options) dashboard() *cobra.Command {
	var everywhere bool
	var port int
	var manager string
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page on this machine that shows rollouts live, with buttons for the commands",
		Long: `Serve a page on 127.0.0.1 that shows rollouts live, zone by zone, with buttons for the commands, until Ctrl-C.

It uses your kubeconfig, and may do what you may do. Its address has a secret token: whoever has it acts with your rights.`,
		Example: `  kubectl united dashboard
  kubectl united dashboard --all-namespaces --port 8787`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, err := o.namespace()
			if err != nil {
				return err
			}
			if everywhere {
				namespace = ""
			}
			config, err := o.config.ToRESTConfig()
			if err != nil {
				return err
			}
			where := config.Host
			if raw, err := o.config.ToRawKubeConfigLoader().RawConfig(); err == nil {
				where = cmp.Or(ptr.Deref(o.config.Context, ""), raw.CurrentContext, where)
			}
			served := &dashboard.Options{
				Config: config, Getter: o.config, Namespace: namespace, ManagerNamespace: manager, Where: where,
				NewClient: func(config *rest.Config) (client.WithWatch, error) { return o.clientOf(config) },
			}
			return dashboard.Serve(cmd.Context(), served, port, func(url string) {
				_, _ = fmt.Fprintf(o.Out, "The dashboard is at %s\nIt acts with your rights. Ctrl-C ends it.\n", url)
			})
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "show those of all namespaces")
	cmd.Flags().IntVar(&port, "port", 0, "the port on 127.0.0.1; 0 takes a free one")
	cmd.Flags().StringVar(&manager, "manager-namespace", drive.ManagerNamespace, "the namespace of the manager")
	return cmd
}
