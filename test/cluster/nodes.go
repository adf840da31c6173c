// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// maxNodes is the number of ranges of pod addresses; services have the first range.
const maxNodes = 1023

// createNodes creates the nodes of all zones; kwok makes them ready.
func (c *Cluster) createNodes(ctx context.Context) error {
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	for _, zone := range c.opts.Zones {
		for i := range c.opts.NodesPerZone {
			if err := c.createNode(ctx, zone, fmt.Sprintf("%s-%d", zone, i+1), version.GitVersion); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) createNode(ctx context.Context, zone, name, version string, taints ...corev1.Taint) error {
	index := int(c.nodes.Add(1))
	if index > maxNodes {
		return fmt.Errorf("creating node %s: at most %d are possible", name, maxNodes)
	}
	node := newNode(zone, name, index, version)
	node.Spec.Taints = taints
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating node %s: %w", node.Name, err)
	}
	return nil
}

// AddNode adds a node of a zone, and waits until it is ready. Taints keep the pods of other tests away.
func (c *Cluster) AddNode(ctx context.Context, zone, name string, taints ...corev1.Taint) error {
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	if err := c.createNode(ctx, zone, name, version.GitVersion, taints...); err != nil {
		return err
	}
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && isReady(node), err
	})
}

// StopKubelet simulates the loss of a node: its Lease is no longer renewed, and nothing happens to its pods; one that is
// deleted stays, terminating. After the grace period of the controller manager, 50 seconds, the node is NotReady and its
// pods are marked unready.
//
// kwok ignores a node whose Lease has another holder.
func (c *Cluster) StopKubelet(ctx context.Context, node string) error {
	c.kubelets.setLost(node, true)
	return c.handOver(ctx, node, "nobody", metav1.NowMicro(), math.MaxInt32)
}

// StartKubelet reverts StopKubelet. Pods that were marked unready stay unready: kwok makes pods ready only once.
func (c *Cluster) StartKubelet(ctx context.Context, node string) error {
	c.kubelets.setLost(node, false)
	return c.handOver(ctx, node, "nobody", metav1.NewMicroTime(time.Unix(0, 0)), 1)
}

func (c *Cluster) handOver(ctx context.Context, node, holder string, renewed metav1.MicroTime, seconds int32) error {
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &holder, &renewed, &seconds
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("the Lease of node %s: %w", node, err)
	}
	return nil
}

// newNode returns a node with room for 10,000 pods and with its own 16,384 addresses for them in 10.0.0.0/8, because
// kwok's own range has 256 for the whole cluster. index counts from 1.
func newNode(zone, name string, index int, version string) *corev1.Node {
	podCIDR := fmt.Sprintf("10.%d.%d.0/18", index/4, index%4*64)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("10000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelTopologyZone: zone,
			corev1.LabelHostname:     name,
			corev1.LabelOSStable:     "linux",
			corev1.LabelArchStable:   "amd64",
		}},
		Spec: corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", index/250, index%250+1)},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "kwok",
			},
		},
	}
}

// waitUsable waits until a pod can be created and started. The scheduler has no endpoint to ask, but the nodes must be
// ready and without taints (kwok and the controller manager do that), and the default namespace must have its
// ServiceAccount, without which no pod is admitted.
func (c *Cluster) waitUsable(ctx context.Context) error {
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, node := range nodes.Items {
			if len(node.Spec.Taints) > 0 || !isReady(&node) {
				return false, fmt.Errorf("node %s is not ready", node.Name)
			}
		}
		_, err = c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	}, c.components()...)
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (c *Cluster) components() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var components []*Process
	for _, p := range c.processes {
		if p.component {
			components = append(components, p)
		}
	}
	return components
}
