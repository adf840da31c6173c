// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

const (
	// LeaseName is the name of the Lease of the manager.
	LeaseName = "united-manager"
	// ManagerNamespace is where the manual installs it.
	ManagerNamespace = "united-system"
	// logTime is how long to wait for the log of a container: a kubelet may not answer.
	logTime = 3 * time.Second
)

// Why asks what the user may ask, and returns why a parent does not move. manager is the namespace of the manager.
func (u *User) Why(ctx context.Context, parent *v1alpha1.UnitedDeployment, manager string) *view.Why {
	now := time.Now()
	e := &evidence{User: u, Evidence: &view.Evidence{Nodes: map[string]*corev1.Node{}, Logs: map[view.Container]string{}, Warnings: map[string]string{}}}
	e.lease(ctx, manager)
	in, err := u.Looker.World(ctx, parent, now)
	if err != nil {
		e.unseen("replicas, so that what follows is what the manager said last", err)
		return view.WhyOf(parent, nil, e.Evidence, now)
	}
	e.answers(ctx, parent.Namespace, in)
	return view.WhyOf(parent, in, e.Evidence, now)
}

// evidence collects what the API server says beside the world. What it may not see it says.
type evidence struct {
	*User
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
	err := e.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: LeaseName}, lease)
	if apierrors.IsNotFound(err) {
		list := &coordinationv1.LeaseList{}
		if err = e.API.List(ctx, list, client.MatchingFields{"metadata.name": LeaseName}); err == nil {
			if len(list.Items) == 0 {
				e.Lease = &view.Lease{Namespace: namespace, Name: LeaseName}
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
		if err := e.API.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
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
	config, err := e.Config.ToRESTConfig()
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
	if err := e.API.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": child, "type": corev1.EventTypeWarning}); err != nil {
		return err
	}
	last := time.Time{}
	for i := range list.Items {
		event := &list.Items[i]
		if at := lastSeen(event); event.InvolvedObject.Kind != v1alpha1.Kind && !at.Before(last) {
			last, e.Warnings[child] = at, event.Message
		}
	}
	return nil
}

// lastSeen returns when an event was last observed. Those of events.k8s.io do not have LastTimestamp.
func lastSeen(event *corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	if event.EventTime.After(last) {
		last = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
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
