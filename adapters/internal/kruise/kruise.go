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
func Replica(workload string, pod *corev1.Pod, position int32) (r adapters.Replica, marked bool) {
	r = pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey)
	if r.Hash != "" && !strings.HasPrefix(r.Hash, workload+"-") {
		r.Hash = workload + "-" + r.Hash // the feature CloneSetShortHash leaves the name out
	}
	marked = pod.Labels[kruisev1alpha1.SpecifiedDeleteKey] != ""
	state := appspub.LifecycleStateType(pod.Labels[appspub.LifecycleStateKey])
	if marked || state != "" && state != appspub.LifecycleStateNormal {
		if r.Ready {
			r.Since = r.ReadySince
		}
		r.Ready, r.ReadySince = false, time.Time{}
	}
	return r, marked
}
