// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// stepTimeout bounds a step, which takes about a second.
const stepTimeout = time.Minute

// picture is the state of the cluster at rest.
type picture struct {
	parent *v1alpha1.UnitedDeployment
	// templates are the images in the children's templates, by child.
	templates map[string]string
	pods      map[string]pod
}

// pod is the relevant part of a pod.
type pod struct {
	uid                       types.UID
	image, node, zone, subset string
	ready                     bool
}

// reader reads the workload of the demo.
type reader struct {
	client client.Client
	// ended is closed if the manager ends, which it never should.
	ended <-chan struct{}
}

func newReader(config *rest.Config, ended <-chan struct{}) (*reader, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return &reader{client: c, ended: ended}, err
}

// settled waits until United has observed the current spec and reports Ready. Then every child's own
// controller has also observed its child, so a pod that has not moved by now will not move.
func (r *reader) settled(ctx context.Context) (*v1alpha1.UnitedDeployment, error) {
	parent := &v1alpha1.UnitedDeployment{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stepTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.ended:
			return false, errors.New("the manager ended by itself")
		default:
		}
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, parent); err != nil {
			return false, err
		}
		return fixtures.WhyNotReady(parent) == "", nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("not Ready after %s (generation %d, observed %d): %s",
			stepTimeout, parent.Generation, parent.Status.ObservedGeneration, readyMessage(parent))
	}
	return parent, err
}

func readyMessage(parent *v1alpha1.UnitedDeployment) string {
	ready := meta.FindStatusCondition(parent.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "there is no condition Ready"
	}
	return ready.Reason + ", " + ready.Message
}

func (r *reader) picture(ctx context.Context, parent *v1alpha1.UnitedDeployment) (*picture, error) {
	ours := []client.ListOption{client.InNamespace(parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: parent.Name}}
	children, pods, nodes := &appsv1.StatefulSetList{}, &corev1.PodList{}, &corev1.NodeList{}
	err := errors.Join(r.client.List(ctx, children, ours...), r.client.List(ctx, pods, ours...), r.client.List(ctx, nodes))
	if err != nil {
		return nil, err
	}
	p := &picture{parent: parent, templates: map[string]string{}, pods: map[string]pod{}}
	for i := range children.Items {
		p.templates[children.Items[i].Name] = firstImage(&children.Items[i].Spec.Template.Spec)
	}
	zones := map[string]string{}
	for i := range nodes.Items {
		zones[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
	}
	for i := range pods.Items {
		item := &pods.Items[i]
		p.pods[item.Name] = pod{
			uid: item.UID, image: firstImage(&item.Spec), subset: item.Labels[v1alpha1.LabelSubset],
			node: item.Spec.NodeName, zone: zones[item.Spec.NodeName],
			ready: item.DeletionTimestamp == nil && slices.ContainsFunc(item.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}),
		}
	}
	return p, nil
}

func firstImage(spec *corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}

// show prints the subsets and the pods, and marks those that differ from the previous picture.
func show(out io.Writer, before, after *picture) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  SUBSET\tREPLICAS\tUPDATED\tREADY\tPARTITION\tPHASE")
	for _, s := range after.parent.Status.Subsets {
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\t%s\n", s.Name, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.Partition, s.Phase)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  POD\tNODE\tIMAGE")
	for _, name := range slices.Sorted(maps.Keys(after.pods)) {
		p, mark := after.pods[name], ""
		if before != nil && before.pods[name].uid != p.uid {
			mark = "   <- updated"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s%s\n", name, p.node, p.image, mark)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
}
