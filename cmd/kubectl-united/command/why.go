// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

const (
	// leaseName is the name of the Lease of the manager.
	leaseName = "united-manager"
	// logTime is how long to wait for the log of a container: a kubelet may not answer.
	logTime = 3 * time.Second
)

func (o *options) why() *cobra.Command {
	var output, manager string
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a rollout does not move, and what would end that",
		Long: "Say why a rollout does not move, in the order in which one would check: the manager, what the API server refuses, replicas " +
			"that are not available, nodes, what the rollout waits for, holds, approvals and pauses.\n\nIt gives a command only if the planner " +
			"of the manager says that it would end what was found.",
		Example: `  kubectl united why web
  kubectl united why web -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			parent, err := o.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			why := o.whyOf(cmd.Context(), parent, manager)
			if output != "" {
				return structured(o.Out, output, why, "uniteddeployment.apps.united.dev/"+parent.Name)
			}
			o.style().PrintWhy(o.Out, why)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name")
	cmd.Flags().StringVar(&manager, "manager-namespace", "united-system", "the namespace of the manager")
	return cmd
}

// whyOf asks what the user may ask, and returns why a parent does not move.
func (o *options) whyOf(ctx context.Context, parent *v1alpha1.UnitedDeployment, manager string) *view.Why {
	now := time.Now()
	e := &evidence{options: o, Evidence: &view.Evidence{Nodes: map[string]*corev1.Node{}, Logs: map[view.Container]string{}, Warnings: map[string]string{}}}
	e.lease(ctx, manager)
	in, err := look.World(ctx, o.api, parent, now)
	if err != nil {
		e.unseen("replicas, so that what follows is what the manager said last", err)
		return view.WhyOf(parent, nil, e.Evidence, now)
	}
	e.answers(ctx, parent.Namespace, in)
	return view.WhyOf(parent, in, e.Evidence, now)
}

// evidence collects what the API server says beside the world. What it may not see it says.
type evidence struct {
	*options
	*view.Evidence
}

func (e *evidence) unseen(what string, err error) {
	why := err.Error()
	if apierrors.IsForbidden(err) {
		why = "you may not"
		if _, right, found := strings.Cut(err.Error(), " cannot "); found {
			right, _, _ = strings.Cut(strings.Replace(right, "resource ", "", 1), " in API group")
			why += " " + strings.ReplaceAll(right, `"`, "")
		}
	}
	if text := what + ": " + why; !slices.Contains(e.Unseen, text) {
		e.Unseen = append(e.Unseen, text)
	}
}

// lease reads the Lease of the manager: in the given namespace, otherwise wherever there is one.
func (e *evidence) lease(ctx context.Context, namespace string) {
	lease := &coordinationv1.Lease{}
	err := e.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	if apierrors.IsNotFound(err) {
		list := &coordinationv1.LeaseList{}
		if err = e.api.List(ctx, list, client.MatchingFields{"metadata.name": leaseName}); err == nil {
			if len(list.Items) == 0 {
				e.Lease = &view.Lease{Namespace: namespace, Name: leaseName}
				return
			}
			lease = &list.Items[0]
		}
	}
	if err != nil {
		e.unseen("whether a manager leads", err)
		return
	}
	e.Lease = &view.Lease{
		Namespace: lease.Namespace, Name: lease.Name, Holder: ptr.Deref(lease.Spec.HolderIdentity, ""),
		Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}
	if lease.Spec.RenewTime != nil {
		e.Lease.Renewed = lease.Spec.RenewTime.Time
	}
}

// answers asks what a look at the world makes one ask.
func (e *evidence) answers(ctx context.Context, namespace string, in *planner.Input) {
	nodes, containers, children := view.Questions(in)
	for _, name := range nodes {
		node := &corev1.Node{}
		if err := e.api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			e.unseen("whether nodes are ready", err)
			break
		}
		e.Nodes[name] = node
	}
	for _, child := range children {
		if err := e.warning(ctx, namespace, child); err != nil {
			e.unseen("why replicas are missing", err)
			break
		}
	}
	if len(containers) == 0 {
		return
	}
	config, err := e.config.ToRESTConfig()
	if err != nil {
		e.unseen("the logs of containers", err)
		return
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		e.unseen("the logs of containers", err)
		return
	}
	for _, c := range containers {
		if e.Logs[c], err = lastLine(ctx, core, namespace, c); err != nil {
			e.unseen("the log of container "+c.Name+" of "+c.Pod, err)
			break // with the next ones it would be the same
		}
	}
}

// warning reads the last warning about a child.
func (e *evidence) warning(ctx context.Context, namespace, child string) error {
	list := &corev1.EventList{}
	if err := e.api.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": child, "type": corev1.EventTypeWarning}); err != nil {
		return err
	}
	last := time.Time{}
	for i := range list.Items {
		event := &list.Items[i]
		if at := event.LastTimestamp.Time; event.InvolvedObject.Kind != v1alpha1.Kind && !at.Before(last) {
			last, e.Warnings[child] = at, event.Message
		}
	}
	return nil
}

// lastLine returns the last line that a container wrote.
func lastLine(ctx context.Context, core kubernetes.Interface, namespace string, c view.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	const most = 4096
	stream, err := core.CoreV1().Pods(namespace).GetLogs(c.Pod, &corev1.PodLogOptions{
		Container: c.Name, Previous: c.Previous, TailLines: ptr.To(int64(1)), LimitBytes: ptr.To(int64(most)),
	}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(io.LimitReader(stream, most))
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
