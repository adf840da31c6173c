// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kruise has what the adapters for OpenKruise's workloads share.
package kruise

import (
	"strings"
	"time"

	appspub "github.com/openkruise/kruise-api/apps/pub"
	kruisev1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/pods"
)

// Replica reads a pod of the named workload. A pod whose lifecycle state is not Normal is not a serving replica,
// whatever its condition: it is being prepared, updated in place, or deleted, and the controller of the kind does not
// count it as available either. marked: that controller has chosen to delete it.
//
// Trap: if a pod served until its controller started to delete or update it, the time of its condition Ready is when
// it started to serve. That does not show how long the deletion or update has taken. It may wait for a hook of the
// user that takes its time, so this does not count as a failure.
func Replica(workload string, pod *corev1.Pod, position int32) (r adapters.Replica, marked bool) {
	r = pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey)
	if r.Hash != "" && !strings.HasPrefix(r.Hash, workload+"-") {
		r.Hash = workload + "-" + r.Hash // with the feature CloneSetShortHash, the label does not have the name
	}
	marked = pod.Labels[kruisev1alpha1.SpecifiedDeleteKey] != ""
	state := appspub.LifecycleStateType(pod.Labels[appspub.LifecycleStateKey])
	if marked || state != "" && state != appspub.LifecycleStateNormal {
		if r.Ready {
			r.Since, r.Leaving = r.ReadySince, marked || leaves(state)
		}
		r.Ready, r.ReadySince = false, time.Time{}
	}
	return r, marked
}

// leaves reports whether a pod in a lifecycle state served until its controller began to delete or update it.
func leaves(state appspub.LifecycleStateType) bool {
	switch state {
	case appspub.LifecycleStatePreparingDelete, appspub.LifecycleStatePreparingUpdate, appspub.LifecycleStateUpdating:
		return true
	}
	return false
}
