// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// SpotTaint is the taint of the spot node of Furnish.
var SpotTaint = corev1.Taint{Key: "example.com/spot", Effect: corev1.TaintEffectNoSchedule}

// Furnish adds what the samples need beside nodes in zones: the StorageClasses "standard" and "fast" with so many static volumes
// of 20Gi of each, and two nodes in the first zone with the labels of Karpenter and of EKS, "on-demand-1", and "spot-1", which is tainted.
func (c *Cluster) Furnish(ctx context.Context, volumes int) error {
	for _, class := range []string{"standard", "fast"} {
		if err := c.AddVolumes(ctx, class, class, volumes); err != nil {
			return err
		}
	}
	for _, pool := range []struct {
		name, karpenter, eks string
		taints               []corev1.Taint
	}{
		{"on-demand-1", "on-demand", "ON_DEMAND", nil},
		{"spot-1", "spot", "SPOT", []corev1.Taint{SpotTaint}},
	} {
		if err := c.AddNode(ctx, c.opts.Zones[0], pool.name, pool.taints...); err != nil {
			return err
		}
		labels := fmt.Appendf(nil, `{"metadata":{"labels":{"karpenter.sh/capacity-type":%q,"eks.amazonaws.com/capacityType":%q}}}`, pool.karpenter, pool.eks)
		if _, err := c.client.CoreV1().Nodes().Patch(ctx, pool.name, types.MergePatchType, labels, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("labels of node %s: %w", pool.name, err)
		}
	}
	return nil
}

// AddVolumes creates a StorageClass without a provisioner, and as many static volumes of 20Gi of it, whose names begin with the prefix.
func (c *Cluster) AddVolumes(ctx context.Context, class, prefix string, volumes int) error {
	if _, err := c.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: class},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("StorageClass %s: %w", class, err)
	}
	for i := range volumes {
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName:       class,
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		}
		if _, err := c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}
