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

// Versions are all of them, the oldest first.
func Versions() []Version { return []Version{Kubernetes136, Kubernetes137} }

func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// VersionOf is the version of an API server. One that is not simulated is an error.
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

// replaceOne is the end of updateStatefulSet without maxUnavailable: from the top,
// and never past an unavailable replica that has been replaced already.
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

// replaceWithin is updateStatefulSetAfterInvariantEstablished. Trap: a protected
// replica that is unavailable uses up the budget as well, so it bars all others. And of a
// Parallel set the unavailable ones, also those that are ready and not available yet, are
// outside of the budget: all that are released go at once.
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
		// Of an OrderedReady set none is unavailable here: it waits for all of them before.
		if pod := p.replicas[target]; p.old(pod) && !p.unavailable(pod) {
			p.delete(pod, "update")
			budget--
		}
	}
}
