// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"
)

// Version is a minor version of Kubernetes 1.
type Version int

// The versions whose StatefulSet controllers are simulated: 1.36.3 and 1.37.1.
const (
	Kubernetes136 Version = 36
	// In Kubernetes137 the feature gate MaxUnavailableStatefulSet is on.
	Kubernetes137 Version = 37
	Newest                = Kubernetes137
)

// Versions returns all simulated versions, oldest first.
func Versions() []Version { return []Version{Kubernetes136, Kubernetes137} }

func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// VersionOf returns the version of an API server. If that is not simulated, it returns an error.
func VersionOf(server *version.Info) (Version, error) {
	// The minor version of some distributions ends in a plus.
	minor, err := strconv.Atoi(strings.TrimSuffix(server.Minor, "+"))
	if err != nil {
		return 0, fmt.Errorf("version %q: %w", server.GitVersion, err)
	}
	for _, v := range Versions() {
		if server.Major == "1" && Version(minor) == v {
			return v, nil
		}
	}
	return 0, fmt.Errorf("version %q is not simulated, but %v are", server.GitVersion, Versions())
}

func (v Version) maxUnavailable() bool { return v >= Kubernetes137 }

// maxUnavailable is getStatefulSetMaxUnavailable.
func (p *pass) maxUnavailable() int {
	n, err := intstr.GetScaledValueFromIntOrPercent(
		intstr.ValueOrDefault(p.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1)), len(p.replicas), false)
	if err != nil {
		panic(err)
	}
	return max(1, n)
}

// replaceOne is the end of updateStatefulSet without maxUnavailable: from the top, and never past an unavailable replica
// that has already been replaced.
func (p *pass) replaceOne() {
	for target := len(p.replicas) - 1; target >= int(p.partition()); target-- {
		pod := p.replicas[target]
		if p.old(pod) {
			p.delete(pod, "update")
			return
		}
		if p.unavailable(pod) {
			return
		}
	}
}

// replaceWithin is updateStatefulSetAfterInvariantEstablished. Trap: an unavailable protected replica uses up the budget
// too, and so stops all others. And in a Parallel set, unavailable replicas, including those that are ready but not
// available yet, do not count: all released ones among them are replaced at once.
func (p *pass) replaceWithin(budget int) {
	parallel := p.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	for _, pod := range p.replicas {
		if p.unavailable(pod) {
			budget--
		}
	}
	for target := len(p.replicas) - 1; target >= int(p.partition()) && parallel; target-- {
		if pod := p.replicas[target]; p.old(pod) && p.unavailable(pod) {
			p.delete(pod, "update")
		}
	}
	for target := len(p.replicas) - 1; target >= int(p.partition()) && budget > 0; target-- {
		// In an OrderedReady set no replica is unavailable here, because it has waited for all of them.
		if pod := p.replicas[target]; p.old(pod) && !p.unavailable(pod) {
			p.delete(pod, "update")
			budget--
		}
	}
}
