// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// Observe reads a Deployment, the ReplicaSets that it controls, and their pods.
//
// Its revisions are its ReplicaSets, named by their label pod-template-hash. Its update revision is the one with its
// template, found in the same way as by its controller. Its current revision is the same after it has finished, and
// empty until then: what its replicas ran before does not matter, because it gets another template only when all of
// it may change.
//
// Its only partition is the recorded one. Its replicas have no ranks, so positions are assigned from the best replica
// on: an available replica has a lower position than an unavailable one.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	d, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            d.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        ptr.Deref(d.Spec.Replicas, 1), // the API server sets this default
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
	if o.UpdateHash, err = updateHash(child, have.Related, own); err != nil {
		return nil, fmt.Errorf("template of %s: %w", d.Name, err)
	}
	sets := setsOf(have.Related, own)
	countDesired(o, sets)
	setScaling(d, o, sets)
	o.Surplus = surplusOf(d, o)
	for _, pod := range have.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || pod.Namespace != d.Namespace || terminated(pod) {
			continue
		}
		if _, ok := own[owner.UID]; ok {
			o.Pods = append(o.Pods, pods.Replica(pod, 0, appsv1.DefaultDeploymentUniqueLabelKey))
		}
	}
	setLeaving(o, sets)
	a.Rank(o)
	o.Refused = refused(d, o, have.Related, own)
	o.SpecObserved = o.SpecObserved || conforms(o)
	if finished(d, o) {
		o.CurrentHash = o.UpdateHash
	}
	return o, nil
}

// conforms reports whether everything is as the Deployment's spec asks for, so that its controller has nothing left
// to do, whether or not the status says so yet.
//
// Trap: a change of any annotation increases a Deployment's generation, and its controller observes that a moment
// later. Without this check, a Deployment at rest would not be at rest each time.
func conforms(o *adapters.Observed) bool {
	if o.UpdateHash == "" || len(o.Pods) != int(o.Replicas) || o.DesiredUpdated != o.Replicas || o.DesiredOthers != 0 {
		return false
	}
	return !slices.ContainsFunc(o.Pods, func(r adapters.Replica) bool { return !r.Ready || r.Terminating || r.Hash != o.UpdateHash })
}

// replicaSet is what is read of a ReplicaSet.
type replicaSet struct {
	hash     string
	replicas int32
	// scaledFor is the number of replicas of the Deployment when its controller last scaled the ReplicaSet; -1 if it is
	// not recorded.
	scaledFor int32
	// available is the number of available replicas in its status.
	available int64
}

// annotationScaledFor is set by the Deployment controller (deploymentutil.DesiredReplicasAnnotation).
const annotationScaledFor = "deployment.kubernetes.io/desired-replicas"

func setsOf(related []*unstructured.Unstructured, own map[types.UID]string) (sets []replicaSet) {
	for _, object := range related {
		hash, ok := own[object.GetUID()]
		replicas, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		if !ok || !found { // the API server sets a default
			continue
		}
		set := replicaSet{hash: hash, replicas: int32(min(replicas, math.MaxInt32)), scaledFor: -1}
		if n, err := strconv.ParseInt(object.GetAnnotations()[annotationScaledFor], 10, 32); err == nil && n >= 0 {
			set.scaledFor = int32(n)
		}
		set.available, _, _ = unstructured.NestedInt64(object.Object, "status", "availableReplicas")
		sets = append(sets, set)
	}
	return sets
}

// countDesired sets how many replicas the ReplicaSets desire.
//
// Trap: the pods do not show that. A Deployment that was scaled to 0 and back, or orphaned, while it was being updated
// still has ReplicaSets of both versions, whose pods may not exist yet.
func countDesired(o *adapters.Observed, sets []replicaSet) {
	for _, set := range sets {
		desired := &o.DesiredOthers
		if set.hash == o.UpdateHash {
			desired = &o.DesiredUpdated
		}
		*desired = int32(min(int64(*desired)+int64(set.replicas), math.MaxInt32))
	}
}

// setScaling sets what the controller of a Deployment is yet to scale.
//
// Trap: as long as an active ReplicaSet was scaled for another number of replicas than that of the Deployment, its
// controller only scales, and updates nothing. If there is only one, and it happens to have the wanted size, it is not
// written, so this never ends (Missed). That comes from a scale-down between the first replica that an update takes down
// and the first that it creates (Crossing).
//
// Trap: during an update the controller adds up the available replicas in the statuses of the ReplicaSets, also those that
// a ReplicaSet is yet to delete after a scale-down, and takes as many others down (Overcounts).
func setScaling(d *appsv1.Deployment, o *adapters.Observed, sets []replicaSet) {
	active := slices.DeleteFunc(slices.Clone(sets), func(s replicaSet) bool { return s.replicas == 0 })
	o.Overcounts = slices.ContainsFunc(sets, func(s replicaSet) bool { return s.available > int64(s.replicas) })
	if len(active) == 1 && active[0].replicas == o.Replicas {
		only := active[0]
		o.Missed = only.hash != o.UpdateHash && only.scaledFor >= 0 && only.scaledFor != o.Replicas && !d.Spec.Paused
	} else {
		for _, set := range active {
			if set.scaledFor >= 0 {
				o.Unscaled = max(o.Unscaled, set.scaledFor-o.Replicas)
			}
		}
	}
	if len(active) != 1 || o.Missed || d.Spec.Paused && o.SpecObserved || active[0].hash == o.UpdateHash {
		return
	}
	refused := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Reason == replicaSetCreateError })
	o.Crossing = !refused || active[0].replicas != o.Replicas
}

// refused returns why replicas, or the ReplicaSet for the template, cannot be created; "" if nothing says so. The Deployment has
// the condition of its ReplicaSets as well, but not the present one while it is paused.
func refused(d *appsv1.Deployment, o *adapters.Observed, related []*unstructured.Unstructured, own map[types.UID]string) (why string) {
	for _, object := range related {
		hash, ok := own[object.GetUID()]
		if replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); !ok || replicas == 0 {
			continue
		}
		part, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "conditions")
		conditions, _ := part.([]any)
		for _, part := range conditions {
			c, _ := part.(map[string]any)
			if message, _ := c["message"].(string); c["type"] == string(appsv1.ReplicaSetReplicaFailure) && c["reason"] == failedCreate && (why == "" || hash == o.UpdateHash) {
				why = message
			}
		}
	}
	for _, c := range d.Status.Conditions {
		if why == "" && c.Reason == replicaSetCreateError && o.UpdateHash == "" {
			why = c.Message
		}
	}
	return why
}

// failedCreate is the reason that the ReplicaSet controller gives if it cannot create a pod.
const failedCreate = "FailedCreate"

// replicaSetCreateError is the reason of a condition if the ReplicaSet of the template cannot be created; then nothing
// is replaced (deploymentutil.FailedRSCreateReason).
const replicaSetCreateError = "ReplicaSetCreateError"

// setLeaving marks the ready replicas that their ReplicaSet is about to delete because it has too many. It deletes
// others first.
func setLeaving(o *adapters.Observed, sets []replicaSet) {
	excess := map[string]int32{}
	for _, set := range sets {
		excess[set.hash] = -set.replicas
		for i := range o.Pods {
			if r := &o.Pods[i]; r.Hash == set.hash && !r.Terminating {
				excess[set.hash]++
			}
		}
	}
	for _, ready := range []bool{false, true} {
		for i := range o.Pods {
			r := &o.Pods[i]
			if r.Ready != ready || r.Terminating || excess[r.Hash] <= 0 {
				continue
			}
			excess[r.Hash]--
			if ready {
				r.Since, r.Ready, r.ReadySince, r.Leaving = r.ReadySince, false, time.Time{}, true
			}
		}
	}
}

// surplusOf returns how many replicas a paused Deployment keeps beyond those of its spec; if it is not paused, how many it
// has beyond those.
func surplusOf(d *appsv1.Deployment, o *adapters.Observed) int32 {
	if d.Spec.Paused {
		return maxSurge(d, o.Replicas)
	}
	return int32(min(max(0, int64(o.DesiredUpdated)+int64(o.DesiredOthers)-int64(o.Replicas)), math.MaxInt32))
}

// maxSurge returns maxSurge in replicas, like the Deployment controller.
func maxSurge(d *appsv1.Deployment, replicas int32) int32 {
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling == nil || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return 0
	}
	surge, err := inReplicas(rolling.MaxSurge, replicas, true)
	if err != nil {
		return 0
	}
	return int32(min(surge, math.MaxInt32))
}

// terminated reports whether the pod has ended. Its ReplicaSet has created another one with another name; the old one
// only remains for people to inspect, and is not a replica.
func terminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// Rank assigns positions to the replicas: first ready ones, those that have been ready longest first, then
// unready ones, and then terminating ones. Among equals, those with the template come last, as in a StatefulSet. A
// Deployment chooses in the same way: the worst go first.
func (adapter) Rank(o *adapters.Observed) {
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
	slices.SortStableFunc(o.Pods, func(a, b adapters.Replica) int {
		return cmp.Or(cmp.Compare(class(&a), class(&b)), cmp.Compare(updated(&a), updated(&b)),
			a.ReadySince.Compare(b.ReadySince), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	for i := range o.Pods {
		o.Pods[i].Position = int32(i)
	}
}

// finished reports whether all replicas have the template, and are or were available. The Deployment controller
// reports that with a condition, which stays True when a replica becomes unavailable, and which does not exist
// without a progress deadline, or while the Deployment is paused.
func finished(d *appsv1.Deployment, o *adapters.Observed) bool {
	if !o.SpecObserved || o.UpdateHash == "" || o.Replicas == 0 {
		return false
	}
	ready := int32(0)
	for i := range o.Pods {
		if o.Pods[i].Hash != o.UpdateHash {
			return false
		}
		if o.Pods[i].Serves() {
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

// newReplicaSetAvailable is the reason of the condition Progressing of a Deployment that has finished
// (deploymentutil.NewRSAvailableReason).
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// updateHash returns the hash of the ReplicaSet with the Deployment's template; "" if it does not exist yet. If there
// are several, it is that of the oldest, as for the Deployment controller.
func updateHash(child *unstructured.Unstructured, related []*unstructured.Unstructured, own map[types.UID]string) (string, error) {
	wanted, err := adapters.TemplateHash(child)
	if err != nil {
		return "", err
	}
	var found *unstructured.Unstructured
	for _, set := range related {
		if _, ok := own[set.GetUID()]; !ok {
			continue
		}
		if has, err := adapters.TemplateHash(set); err != nil || has != wanted {
			continue
		}
		if found == nil || set.GetCreationTimestamp().Time.Before(found.GetCreationTimestamp().Time) {
			found = set
		}
	}
	if found == nil {
		return "", nil
	}
	return own[found.GetUID()], nil
}

// partitionOnRecord returns the partition that United wrote last; if it cannot be parsed, everything is protected.
func partitionOnRecord(d *appsv1.Deployment) int32 {
	n, err := strconv.ParseInt(d.Annotations[v1alpha1.AnnotationPartition], 10, 32)
	if err != nil || n < 0 {
		return ptr.Deref(d.Spec.Replicas, 1)
	}
	return int32(n)
}

// paceOf returns the bounds of a rolling update in replicas, rounded like the Deployment controller does.
func paceOf(rolling *appsv1.RollingUpdateDeployment, replicas int32) *adapters.Pace {
	unavailable, errUnavailable := inReplicas(rolling.MaxUnavailable, replicas, false)
	surge, errSurge := inReplicas(rolling.MaxSurge, replicas, true)
	if errUnavailable != nil || errSurge != nil {
		return nil
	}
	if unavailable == 0 && surge == 0 {
		unavailable = 1
	}
	return &adapters.Pace{MaxUnavailable: int32(min(unavailable, int(replicas)))}
}

// inReplicas returns a bound of a rolling update in replicas. Without a value, it is the default of the API server.
func inReplicas(bound *intstr.IntOrString, replicas int32, roundUp bool) (int, error) {
	return intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(bound, intstr.FromString("25%"))), int(replicas), roundUp)
}

// typed converts a child without its templates.
func (a adapter) typed(child *unstructured.Unstructured) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, owned.Read(child, a.GroupVersionKind(), d, "template")
}
