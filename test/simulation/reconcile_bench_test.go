// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// BenchmarkReconcile measures a pass that finds nothing to do: 5 subsets of 10 replicas in the middle of a canary, with a
// template of ordinary size. It does not include writes, waiting for the API server, or the oracle.
func BenchmarkReconcile(b *testing.B) {
	subsets := []string{"a", "b", "c", "d", "e"}
	s := New(b, "Parallel", subsets...)
	s.Edit("v1", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Replicas = ptr.To[int32](50)
		spec.Template = ordinaryTemplate(b, "v1")
		for i := range spec.Topology.Subsets {
			spec.Topology.Subsets[i].NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{subsets[i]},
				}},
			}}}
		}
	})
	s.Settle()
	s.Edit("v2", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Template = ordinaryTemplate(b, "v2")
		spec.UpdateStrategy.ManualUpdate.Partitions = map[string]intstr.IntOrString{"a": intstr.FromInt32(0), "b": intstr.FromString("50%")}
	})
	s.Settle()
	s.API.Refresh()
	written := len(s.API.Writes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.pass(); err != nil {
			b.Fatal(err)
		}
	}
	if len(s.API.Writes) != written {
		b.Fatalf("it found something to do: %v", s.API.Writes[written:])
	}
}

// ordinaryTemplate returns a template with two typical containers.
func ordinaryTemplate(b *testing.B, tag string) v1alpha1.WorkloadTemplate {
	b.Helper()
	container := func(name string) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example/" + name + ":" + tag,
			Args:  []string{"--config=/etc/app/config.yaml", "--listen=:8080"},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "data", MountPath: "/data"}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}},
		}
		for i := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "a value of some length"})
		}
		return c
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{
		"podManagementPolicy": "Parallel", "serviceName": "web",
		"template": corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"prometheus.io/scrape": "true"}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("web"), container("proxy")},
				Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}},
				}}},
			},
		},
		"volumeClaimTemplates": []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
			},
		}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: raw}}
}
