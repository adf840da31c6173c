// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has the commands of the plugin.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// Exit codes besides 0 and 1, which is for any other error.
const (
	codeTimeout = 2
	codeNobody  = 3
	codeUnasked = 4
	codeOther   = 1
)

// exit is an error with an exit code.
type exit struct {
	error
	code int
}

func (e exit) Unwrap() error { return e.error }

// Run runs the plugin, and returns its exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	log.SetLogger(logr.Discard())
	return finished(ctx, New(streams), args)
}

// finished runs a command, prints its error, and returns its exit code.
func finished(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(root.ErrOrStderr(), "error:", err)
	if coded := (exit{}); errors.As(err, &coded) {
		return coded.code
	}
	return codeOther
}

// options are what all commands share.
type options struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	// api is the client; tests may set it.
	api client.WithWatch
}

// New returns the root command.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	return (&options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}).root()
}

func (o *options) root() *cobra.Command {
	// What others wrote into the cluster must not reach a terminal as it is, wherever it is printed.
	o.Out, o.ErrOut = view.Terminal{Writer: o.Out}, view.Terminal{Writer: o.ErrOut}
	root := &cobra.Command{
		Use:          "kubectl-united",
		Short:        "See, drive and undo rollouts of UnitedDeployments",
		Long:         "See, drive and undo rollouts of UnitedDeployments.\n\nEvery command that changes something prints the kubectl command that does the same, and is bound to the revision that you look at. kubectl's own options work too: see kubectl options.",
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl united"},
		SilenceUsage: true, SilenceErrors: true,
		// kubectl's own form is allowed, too: united/web.
		PersistentPreRun: func(cmd *cobra.Command, args []string) {
			if len(args) > 0 && strings.Contains(cmd.Use, " NAME") || strings.Contains(cmd.Use, "[NAME]") {
				unqualify(args)
			}
		},
	}
	root.AddGroup(groups...)
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	o.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "namespace" && f.Name != "context" })
	root.AddCommand(o.commands()...)
	return root
}

// groups are how the help is ordered.
var groups = []*cobra.Group{
	{ID: "see", Title: "See:"}, {ID: "manual", Title: "Release (type Manual):"}, {ID: "rolling", Title: "Move on (type RollingUpdate):"},
	{ID: "change", Title: "Change:"}, {ID: "check", Title: "Check, in a pipeline:"},
}

// written checks the arguments of a command, and otherwise says how it is written, where cobra only counts.
func written(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "kubectl united ")
		usage := "write: kubectl united " + strings.TrimSuffix(path, cmd.Name()) + cmd.Use
		if len(args) > 0 {
			usage += ", and not: " + path + " " + strings.Join(args, " ")
		}
		return errors.New(usage)
	}
}

// unqualify takes away the resource from the first argument, RESOURCE/NAME.
func unqualify(args []string) {
	for i := range min(1, len(args)) {
		if resource, name, found := strings.Cut(args[i], "/"); found && (resource == "united" || strings.HasPrefix(resource, "uniteddeployment")) {
			args[i] = name
		}
	}
}

// commands are the commands, in the order of the help.
func (o *options) commands() []*cobra.Command {
	return slices.Concat(
		grouped("see", o.status(), o.why(), o.plan(), o.history(), o.diff(), o.dashboard(), o.world()),
		grouped("manual", o.release(), o.hold(), o.partition()),
		grouped("rolling", o.approve(), o.promote(), o.force(), o.retry()),
		grouped("change", o.set(), o.restart(), o.undo(), o.pause(), o.resume()),
		grouped("check", o.wait(), o.lint(), o.version()),
	)
}

func grouped(id string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = id
	}
	return commands
}

// scheme has the kinds that the plugin reads.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// client returns the client, with the rights of the user.
func (o *options) client() (client.WithWatch, error) {
	if o.api != nil {
		return o.api, nil
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	o.api, err = o.clientOf(config)
	return o.api, err
}

// clientOf returns a client with a configuration.
func (o *options) clientOf(config *rest.Config) (client.WithWatch, error) {
	// kubectl's own limits.
	config.QPS, config.Burst = 50, 300
	// As kubectl does.
	config.WarningHandler = rest.NewWarningWriter(o.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	kinds, err := scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := o.config.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: kinds, Mapper: mapper})
}

// user is who runs the command; client must have been called.
func (o *options) user() *drive.User { return drive.NewUser(o.api, o.config) }

func (o *options) namespace() (string, error) {
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// one reads the UnitedDeployment of a name.
func (o *options) one(ctx context.Context, name string) (*v1alpha1.UnitedDeployment, error) {
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	api, err := o.client()
	if err != nil {
		return nil, err
	}
	parent, err := look.One(ctx, api, namespace, name)
	switch {
	case apierrors.IsNotFound(err) && !drive.Unserved(err):
		return nil, o.notFound(ctx, api, namespace, name)
	case err != nil:
		return nil, drive.Explained(err)
	}
	return parent, nil
}

// notFound is the error for a name that there is not; it suggests the nearest one.
func (o *options) notFound(ctx context.Context, api client.Reader, namespace, name string) error {
	list := &v1alpha1.UnitedDeploymentList{}
	var names []string
	if api.List(ctx, list, client.InNamespace(namespace)) == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return fmt.Errorf("there is no UnitedDeployment %s in the namespace %s%s", name, namespace, drive.Suggestion(name, names))
}

// style is how text is written to the output.
func (o *options) style() view.Style {
	s := view.Style{ASCII: !utf8Locale(), Scope: o.scope()}
	out, _ := o.Out.(view.Terminal)
	if file, ok := out.Writer.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		_, none := os.LookupEnv("NO_COLOR")
		s.Color = !none && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			s.Width = width
		}
	}
	return s
}

// scope are the flags that a command needs to reach the same objects.
func (o *options) scope() string {
	var flags []string
	for flag, value := range map[string]*string{"-n ": o.config.Namespace, "--context ": o.config.Context, "--kubeconfig ": o.config.KubeConfig} {
		if value != nil && *value != "" {
			flags = append(flags, flag+*value)
		}
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}

// utf8Locale reports whether the terminal shows more than ASCII, as far as the environment says so.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// names completes the names of UnitedDeployments.
func (o *options) names(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := o.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	api, err := o.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list := &v1alpha1.UnitedDeploymentList{}
	if err := api.List(cmd.Context(), list, client.InNamespace(namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
