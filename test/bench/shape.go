// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// zones returns the zones of the cluster, as many as a UnitedDeployment has subsets here at most.
func zones() []string { return []string{"zone-a", "zone-b", "zone-c", "zone-d", "zone-e"} }

// shape describes a workload.
type shape struct {
	namespace, name string
	subsets         int
	each            int32
	policy          appsv1.PodManagementPolicyType
	tag             string
	strategy        v1alpha1.UpdateStrategy
}

func podTemplate(name, tag string, affinity *corev1.NodeSelector) corev1.PodTemplateSpec {
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers:                    []corev1.Container{{Name: "web", Image: fixtures.Image(tag)}},
		},
	}
	if affinity != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: affinity}}
	}
	return pod
}

// parent returns a UnitedDeployment. If it has more subsets than there are zones, several subsets share a zone.
func (s *shape) parent() (*v1alpha1.UnitedDeployment, error) {
	edits := []fixtures.Edit{
		fixtures.Namespace(s.namespace), fixtures.Replicas(int32(s.subsets) * s.each), fixtures.Policy(s.policy), fixtures.FirstImage(s.tag),
		func(d *fixtures.Draft) { d.Spec.UpdateStrategy = s.strategy },
	}
	for i := range s.subsets {
		zone := zones()[i%len(zones())]
		name := zone
		if i >= len(zones()) {
			name = fmt.Sprintf("%s-%d", zone, i/len(zones())+1)
		}
		edits = append(edits, fixtures.Subset(v1alpha1.Subset{Name: name, NodeSelector: fixtures.InZone(zone)}))
	}
	return fixtures.New(s.name, edits...).Object()
}

// bare returns a StatefulSet without an owner, like a child in the zone.
func (s *shape) bare(zone string, partition int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name + "-" + zone},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: s.name, Replicas: ptr.To(s.each), PodManagementPolicy: s.policy,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name + "-" + zone}},
			Template: podTemplate(s.name+"-"+zone, s.tag, fixtures.InZone(zone)),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(partition)},
			},
		},
	}
}

// rolls returns a patch that sets another image and strategy in a UnitedDeployment.
func rolls(tag string, strategy v1alpha1.UpdateStrategy) []byte {
	raw, err := json.Marshal(strategy)
	if err != nil {
		panic(fmt.Sprintf("a strategy is plain data: %v", err))
	}
	return fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/updateStrategy","value":%s}]`,
		fixtures.ImagePath, fixtures.Image(tag), raw)
}

// ready returns a function that reports whether everything matches the spec of that generation, or of a
// later one.
func ready(generation int64) func(*v1alpha1.UnitedDeployment) bool {
	return func(p *v1alpha1.UnitedDeployment) bool {
		return p.Generation >= generation && fixtures.WhyNotReady(p) == ""
	}
}

// whole reports whether all replicas of a StatefulSet exist, are ready, and run its template.
func whole(s *appsv1.StatefulSet) bool {
	replicas := ptr.Deref(s.Spec.Replicas, 1)
	return s.Status.ObservedGeneration == s.Generation && s.Status.ReadyReplicas == replicas && s.Status.UpdatedReplicas == replicas &&
		s.Status.CurrentRevision == s.Status.UpdateRevision
}

func partitionOf(s *appsv1.StatefulSet) int32 {
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return ptr.Deref(rolling.Partition, 0)
	}
	return 0
}
