// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// mode is the schedule strategy.
type mode uint8

const (
	fixed mode = iota
	adaptive
	reserve
)

// topology is spec.topology: the bounds of the subsets in the form "min..max", by subset; "-" for a subset that does
// not exist.
type topology struct {
	mode   mode
	bounds []string
}

func (t *topology) has(k int) bool { return k < len(t.bounds) && t.bounds[k] != "-" }

// bounds returns the minimum and the maximum of a subset as the user wrote them, "" if absent.
func (t *topology) boundsOf(k int) (low, high string) {
	low, high, _ = strings.Cut(t.bounds[k], "..")
	return low, high
}

// setting is a world of subsets with bounds.
type setting struct {
	worlds.Setting
	cluster
}

// cluster is what the nodes, and the topologies, may be. The nodes of a subset may change to those of nodesTo.
type cluster struct {
	topologies []topology
	nodes      [3]uint8
	nodesTo    [3][]uint8
	kind       statefulset.Kind
}

// game is a setting with caches.
type game struct {
	*placement.World
	cluster
	// ahead is how often a subset that maxSkew does not bind was ahead of the others by more than that.
	ahead int
}

func newWorld(c *setting) *game {
	w := &game{cluster: c.cluster}
	c.Topologies = nil
	for i := range c.topologies {
		c.Topologies = append(c.Topologies, c.topologies[i].spec())
	}
	w.World = placement.New(&c.Setting, c.kind, c.nodes, func(version uint8) string { return fmt.Sprint("v", version) })
	w.TemplateOf = func(_ int, _ *adapters.Child, u *unstructured.Unstructured) statefulset.Version {
		containers, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "containers")
		if err != nil {
			panic(err)
		}
		return statefulset.Version(containers.([]any)[0].(map[string]any)["image"].(string)[1] - '0')
	}
	w.Becomes = func(statefulset.Version) statefulset.Phase { return statefulset.Ready }
	w.Ages = func(p *statefulset.Pod) bool { return p.Phase == statefulset.Ready }
	w.Label = func(*corev1.Pod, int, int, *statefulset.Pod) {}
	return w
}

// spec returns a topology as the user writes it.
func (t *topology) spec() v1alpha1.Topology {
	spec := v1alpha1.Topology{}
	if t.mode != fixed {
		spec.ScheduleStrategy = &v1alpha1.ScheduleStrategy{Type: v1alpha1.AdaptiveScheduleStrategy, Adaptive: &v1alpha1.AdaptiveScheduling{
			RescheduleAfterSeconds: ptr.To(int32(reschedule)), RetryAfterSeconds: ptr.To(int32(retry)), ReserveUnschedulablePods: t.mode == reserve,
		}}
	}
	for k := range t.bounds {
		if !t.has(k) {
			continue
		}
		sub := v1alpha1.Subset{Name: worlds.SubsetName(k)}
		low, high := t.boundsOf(k)
		if low != "" {
			sub.MinReplicas = ptr.To(intstr.Parse(low))
		}
		if high != "" {
			sub.MaxReplicas = ptr.To(intstr.Parse(high))
		}
		spec.Subsets = append(spec.Subsets, sub)
	}
	return spec
}
