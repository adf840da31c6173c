// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	. "github.com/unitedworkloads/united/test/chart/env"
)

func foreignKinds() []Foreign {
	clones := schema.GroupVersionKind{Group: KruiseGroup, Version: "v1alpha1", Kind: "CloneSet"}
	advanced := schema.GroupVersionKind{Group: KruiseGroup, Version: "v1beta1", Kind: "StatefulSet"}
	groups := schema.GroupVersionKind{Group: LWSGroup, Version: "v1", Kind: "LeaderWorkerSet"}
	return []Foreign{
		{Name: "clones", Member: "cloneSetTemplate", Kind: clones, Memory: clones, Pods: []string{"template"}},
		{Name: "advanced", Member: "advancedStatefulSetTemplate", Kind: advanced, Memory: advanced, Pods: []string{"template"}},
		{
			Name: "groups", Member: "leaderWorkerSetTemplate", Kind: groups, Memory: appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
			Pods: []string{"leaderWorkerTemplate", "workerTemplate"},
		},
	}
}
