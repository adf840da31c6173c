// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/pods"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Observe reads a Deployment, those ReplicaSets that it controls, and their pods.
//
// Its revisions are its ReplicaSets, named by their label pod-template-hash. Its update
// revision is the one with its template, as its own controller looks for it. Its current
// revision is the same once it has finished, and until then none: what its replicas ran
// before is not its business, for it is not given another template before all of it may
// change.
//
// It has no partition but that on record. Its replicas have no ranks, so they are counted
// from the best on: a replica that is available has a lower position than one that is not.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	d, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            d.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        ptr.Deref(d.Spec.Replicas, 1), // what the API server makes of an absent one
		MinReadySeconds: d.Spec.MinReadySeconds,
		Paused:          d.Spec.Paused,
		SpecObserved:    d.Status.ObservedGeneration == d.Generation,
	}
	o.Partition = partitionOnRecord(d)
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil && d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		o.Pace = paceOf(rolling, o.Replicas)
	}
	own := map[types.UID]string{}
	for _, set := range have.Related {
		owner := metav1.GetControllerOfNoCopy(set)
		if owner != nil && owner.UID == d.UID && set.GetNamespace() == d.Namespace {
			own[set.GetUID()] = set.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	o.Surplus = surplusOf(d, have.Related, own)
	o.UpdateHash = updateHash(child, have.Related, own)
	for _, pod := range have.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || pod.Namespace != d.Namespace || terminated(pod) {
			continue
		}
		if _, ok := own[owner.UID]; ok {
			o.Pods = append(o.Pods, pods.Replica(pod, 0, appsv1.DefaultDeploymentUniqueLabelKey))
		}
	}
	assignPositions(o)
	o.SpecObserved = o.SpecObserved || conforms(o, have.Related, own)
	if finished(d, o) {
		o.CurrentHash = o.UpdateHash
	}
	return o, nil
}

// conforms reports whether all is as the Deployment's spec asks for, so that its controller has nothing
// left to do for it, whether or not it has said so yet.
//
// Trap: any change of an annotation raises a Deployment's generation, and its controller
// observes that a moment later. A Deployment at rest would cease to be so each time.
func conforms(o *adapters.Observed, related []*unstructured.Unstructured, own map[types.UID]string) bool {
	if o.UpdateHash == "" || len(o.Pods) != int(o.Replicas) {
		return false
	}
	for _, set := range related {
		hash, ok := own[set.GetUID()]
		if !ok {
			continue
		}
		replicas, _, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
		if wanted := int64(o.Replicas); err != nil || hash == o.UpdateHash && replicas != wanted || hash != o.UpdateHash && replicas != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(o.Pods, func(r adapters.Replica) bool { return !r.Ready || r.Terminating || r.Hash != o.UpdateHash })
}

// surplusOf is how many replicas a Deployment that is paused keeps beyond those it is asked for; or how many it has, if it
// is not paused.
func surplusOf(d *appsv1.Deployment, related []*unstructured.Unstructured, own map[types.UID]string) int32 {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	if d.Spec.Paused {
		return maxSurge(d, wanted)
	}
	have := int64(0)
	for _, set := range related {
		if _, ok := own[set.GetUID()]; ok {
			replicas, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
			have += replicas
		}
	}
	return int32(max(0, have-int64(wanted)))
}

// maxSurge is what a Deployment's controller makes of that field.
func maxSurge(d *appsv1.Deployment, replicas int32) int32 {
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling == nil || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return 0
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(rolling.MaxSurge, intstr.FromString("25%"))), int(replicas), true)
	if err != nil {
		return 0
	}
	return int32(min(surge, math.MaxInt32))
}

// terminated reports whether the pod has ended. Its ReplicaSet has made another one in its place, under another
// name; this one stays for people to read, and is no replica.
func terminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// assignPositions gives the replicas positions: first those that are ready, the longest first, then
// those that are not, and last those that are being deleted. Among equals those of the
// template come last, as those of a StatefulSet do. It is how a Deployment chooses too: the
// worst go first.
func assignPositions(o *adapters.Observed) {
	class := func(r *adapters.Replica) int {
		switch {
		case r.Terminating:
			return 2
		case !r.Ready:
			return 1
		}
		return 0
	}
	updated := func(r *adapters.Replica) int {
		if r.Hash == o.UpdateHash {
			return 1
		}
		return 0
	}
	slices.SortFunc(o.Pods, func(a, b adapters.Replica) int {
		return cmp.Or(cmp.Compare(class(&a), class(&b)), cmp.Compare(updated(&a), updated(&b)),
			a.ReadySince.Compare(b.ReadySince), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	for i := range o.Pods {
		o.Pods[i].Position = int32(i)
	}
}

// finished reports whether all replicas are of the template, and are, or were, available. Its controller
// says so with a condition, which stays when one ceases to be; that is not there without a
// progress deadline, nor while it is paused.
func finished(d *appsv1.Deployment, o *adapters.Observed) bool {
	if !o.SpecObserved || o.UpdateHash == "" || o.Replicas == 0 {
		return false
	}
	ready := int32(0)
	for i := range o.Pods {
		if o.Pods[i].Hash != o.UpdateHash {
			return false
		}
		if o.Pods[i].Ready && !o.Pods[i].Terminating {
			ready++
		}
	}
	if ready >= o.Replicas {
		return true
	}
	said := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionTrue && c.Reason == newReplicaSetAvailable
	})
	return said && d.Status.UpdatedReplicas == d.Status.Replicas && d.Status.UpdatedReplicas > 0
}

// newReplicaSetAvailable is the reason of the condition Progressing of a Deployment that has
// finished (deploymentutil.NewRSAvailableReason).
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// updateHash is the hash of the ReplicaSet that has the Deployment's template; "" when there
// is none yet. Of several it is the oldest, as for the Deployment's controller.
func updateHash(child *unstructured.Unstructured, related []*unstructured.Unstructured, own map[types.UID]string) string {
	wanted := podTemplate(child)
	var found *unstructured.Unstructured
	for _, set := range related {
		if _, ok := own[set.GetUID()]; !ok || !equality.Semantic.DeepEqual(podTemplate(set), wanted) {
			continue
		}
		if found == nil || set.GetCreationTimestamp().Time.Before(found.GetCreationTimestamp().Time) {
			found = set
		}
	}
	if found == nil {
		return ""
	}
	return own[found.GetUID()]
}

// podTemplate is the pod template less the label that tells ReplicaSets apart.
func podTemplate(u *unstructured.Unstructured) map[string]any {
	template, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	pods, ok := template.(map[string]any)
	if !ok {
		return nil
	}
	pods = maps.Clone(pods)
	metadata, _ := pods["metadata"].(map[string]any)
	if labels, ok := metadata["labels"].(map[string]any); ok && labels[appsv1.DefaultDeploymentUniqueLabelKey] != nil {
		metadata, labels = maps.Clone(metadata), maps.Clone(labels)
		delete(labels, appsv1.DefaultDeploymentUniqueLabelKey)
		metadata["labels"], pods["metadata"] = labels, metadata
	}
	return pods
}

// partitionOnRecord is what United wrote last; all is protected where that cannot be read.
func partitionOnRecord(d *appsv1.Deployment) int32 {
	n, err := strconv.ParseInt(d.Annotations[v1alpha1.AnnotationPartition], 10, 32)
	if err != nil || n < 0 {
		return ptr.Deref(d.Spec.Replicas, 1)
	}
	return int32(n)
}

// paceOf are the bounds of a rolling update in replicas, rounded as the Deployment's
// controller rounds them.
func paceOf(rolling *appsv1.RollingUpdateDeployment, replicas int32) *adapters.Pace {
	quarter := intstr.FromString("25%")
	unavailable, errUnavailable := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(rolling.MaxUnavailable, quarter)), int(replicas), false)
	surge, errSurge := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(rolling.MaxSurge, quarter)), int(replicas), true)
	if errUnavailable != nil || errSurge != nil {
		return nil
	}
	if unavailable == 0 && surge == 0 {
		unavailable = 1
	}
	return &adapters.Pace{MaxUnavailable: int32(min(unavailable, int(replicas)))}
}

// typed reads a child less the templates in it.
func (a adapter) typed(child *unstructured.Unstructured) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, owned.Read(child, a.GroupVersionKind(), d, "template")
}
