// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kruise reads what the workloads of OpenKruise have in common.
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

// Replica is what a pod of the workload of a name tells. One that is not in the state Normal
// is no replica that serves, whatever its condition says: it is being prepared, updated in
// place, or is to be deleted, and its controller does not count it as available either.
// marked: its controller has chosen to delete it.
//
// Trap: a pod that served until its controller took it in hand has a condition Ready that is as
// old as its service. It tells nothing of how long the pod has been on its way out, and that may
// be a hook of the user's that takes its time: it has not failed by that.
func Replica(workload string, pod *corev1.Pod, position int32) (r adapters.Replica, marked bool) {
	r = pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey)
	if r.Hash != "" && !strings.HasPrefix(r.Hash, workload+"-") {
		r.Hash = workload + "-" + r.Hash // the feature CloneSetShortHash leaves the name out
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

// leaves reports whether a pod in a state served until its controller began to delete it, or to update it.
func leaves(state appspub.LifecycleStateType) bool {
	switch state {
	case appspub.LifecycleStatePreparingDelete, appspub.LifecycleStatePreparingUpdate, appspub.LifecycleStateUpdating:
		return true
	}
	return false
}
