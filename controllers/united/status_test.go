// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	errRefused = apierrors.NewBadRequest("spec.replcas: no such field")
	errAway    = apierrors.NewInternalError(errors.New("etcd is away"))
)

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		want string
	}{
		{"fresh", func(s *scene) *scene { return s.pass() }, `
InProgress: 0/0/0/0/0 of 4; current v1, update v1
Ready False RollingOut: a: creating web-a on v1; b: creating web-b on v1
Available False ReplicasUnavailable
Progressing True
Initialized False WaitingForFirstReplica
a Updating: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v1; creating web-a on v1
b Updating: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v1; creating web-b on v1
`},
		{"coming up", func(s *scene) *scene { return s.pass().moves("a", "b").kubelets("a-0").pass() }, `
InProgress: 4/1/1/4/1 of 4; current v1, update v1
Ready False ReplicasUnavailable: a: waiting for web-a-1 (not ready since then); b: waiting for web-b-0 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Unavailable: 2/1/1/2/1 of 2; partition 2 lets 0; v1 -> v1; waiting for web-a-1 (not ready since then)
b Unavailable: 2/0/0/2/0 of 2; partition 2 lets 0; v1 -> v1; waiting for web-b-0 (not ready since then)
`},
		{"coming up, and then one of it fails", func(s *scene) *scene { return s.image("broken1").pass().moves("a", "b").kubelets("a-0").pass() }, `
InProgress: 4/0/0/4/0 of 4; current broken1, update broken1
Ready False ReplicasUnavailable: a: waiting for web-a-0 (not ready since then); b: waiting for web-b-0 (not ready since then)
Available False ReplicasUnavailable
Progressing True
Initialized False WaitingForFirstReplica
a Unavailable: 2/0/0/2/0 of 2; partition 2 lets 0; broken1 -> broken1; waiting for web-a-0 (not ready since then)
b Unavailable: 2/0/0/2/0 of 2; partition 2 lets 0; broken1 -> broken1; waiting for web-b-0 (not ready since then)
`},
		{"complete", func(s *scene) *scene { return s.settled() }, `
Current: 4/4/4/4/4 of 4; current v1, update v1
Ready True RolloutComplete: 4 of 4 replicas run v1 (v1)
Progressing False
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"held", func(s *scene) *scene { return s.settled().image("v2").settled() }, `
Current: 4/4/4/0/0 of 4; current v1, update v2
Ready True RolloutHeld: 0 of 4 replicas run v2 (v2); to release, set manualUpdate.partitions
Progressing False
a Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"held in part", func(s *scene) *scene { return s.settled().image("v2").partition("a", "1").settled() }, `
Current: 4/4/4/1/1 of 4; current v1, update v2
Ready True RolloutHeld: 1 of 4 replicas run v2 (v2); partitions hold 3
Progressing False
a Held: 2/2/2/1/1 of 2; partition 1 lets 1; v1 -> v2; partition 1 of 2 replicas protects 1
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"updating", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").pass().moves("a", "b").kubelets("a-1").moves("a").pass()
		}, `
InProgress: 4/3/3/1/0 of 4; current v1, update v2
Ready False RollingOut: a: waiting for web-a-1 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Updating: 2/1/1/1/0 of 2; partition 0 lets 2; v1 -> v2; waiting for web-a-1 (not ready since then)
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"released, and not seen by the StatefulSet controller", func(s *scene) *scene { return s.settled().image("v2").partition("a", "0").pass() }, `
InProgress: 4/4/4/0/0 of 4; current v1, update v2
Ready False RollingOut: a: waiting for the controller of web-a to observe its latest spec; b: waiting for the controller of web-b to observe its latest spec
Progressing True
a Updating: 2/2/2/0/0 of 2; partition 0 lets 2; v1 -> v2; waiting for the controller of web-a to observe its latest spec
b Updating: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; waiting for the controller of web-b to observe its latest spec
`},
		{"updated", func(s *scene) *scene { return s.settled().image("v2").partition("", "0").settled() }, `
Current: 4/4/4/4/4 of 4; current v2, update v2
Ready True RolloutComplete: 4 of 4 replicas run v2 (v2)
Progressing False
a Complete: 2/2/2/2/2 of 2; partition 0 lets 2; v2 -> v2;
b Complete: 2/2/2/2/2 of 2; partition 0 lets 2; v2 -> v2;
`},
		{"updating to what fails", func(s *scene) *scene { return s.settled().image("broken1").partition("a", "1").settled() }, `
InProgress: 4/3/3/1/0 of 4; current v1, update broken1
Ready False RollingOut: a: waiting for web-a-1 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Updating: 2/1/1/1/0 of 2; partition 1 lets 1; v1 -> broken1; waiting for web-a-1 (not ready since then)
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> broken1; default partition "100%" holds all replicas
`},
		{"scaling up", func(s *scene) *scene { return s.settled().replicas(6).pass().moves("a", "b").pass() }, `
InProgress: 6/4/4/6/4 of 6; current v1, update v1
Ready False ReplicasUnavailable: a: waiting for web-a-2 (not ready since then); b: waiting for web-b-2 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Unavailable: 3/2/2/3/2 of 3; partition 3 lets 0; v1 -> v1; waiting for web-a-2 (not ready since then)
b Unavailable: 3/2/2/3/2 of 3; partition 3 lets 0; v1 -> v1; waiting for web-b-2 (not ready since then)
`},
		{"scaling down", func(s *scene) *scene { return s.settled().replicas(2).pass().moves("a", "b").pass() }, `
InProgress: 4/2/2/2/2 of 2; current v1, update v1
Ready False Scaling: a: waiting for web-a-1 (terminating since then); b: waiting for web-b-1 (terminating since then)
Progressing True
a Scaling: 2/1/1/1/1 of 1; partition 1 lets 0; v1 -> v1; waiting for web-a-1 (terminating since then)
b Scaling: 2/1/1/1/1 of 1; partition 1 lets 0; v1 -> v1; waiting for web-b-1 (terminating since then)
`},
		{"unavailable", func(s *scene) *scene { return s.settled().ready("b-1", false).pass() }, `
InProgress: 4/3/3/4/3 of 4; current v1, update v1
Ready False ReplicasUnavailable: b: waiting for web-b-1 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Unavailable: 2/1/1/2/1 of 2; partition 2 lets 0; v1 -> v1; waiting for web-b-1 (not ready since then)
`},
		{"ready for too short a time", func(s *scene) *scene { return s.settled().minReady(60).settled().ready("b-1", true).pass() }, `
InProgress: 4/4/3/4/4 of 4; current v1, update v1
Ready False ReplicasUnavailable: b: waiting for web-b-1 (ready since then, not available yet)
Available False ReplicasUnavailable
Progressing True
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Unavailable: 2/2/1/2/2 of 2; partition 2 lets 0; v1 -> v1; waiting for web-b-1 (ready since then, not available yet)
`},
		{"a replica is being deleted", func(s *scene) *scene {
			s.settled().API.DeletePod(s.API.Live.Pods["web-a-0"])
			return s.pass()
		}, `
InProgress: 4/3/3/3/3 of 4; current v1, update v1
Ready False ReplicasUnavailable: a: waiting for web-a-0 (terminating since then)
Available False ReplicasUnavailable
Progressing True
a Unavailable: 2/1/1/1/1 of 2; partition 2 lets 0; v1 -> v1; waiting for web-a-0 (terminating since then)
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"refused", func(s *scene) *scene {
			return s.settled().refuses("a", errRefused).image("v2").pass().moves("b").pass()
		}, `
Failed: 4/4/4/0/0 of 4; current v1, update v2
Ready False ApplyRefused: a: spec.replcas: no such field
Progressing False
Stalled True ApplyRefused
a Stalled: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; spec.replcas: no such field
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"accepted again", func(s *scene) *scene {
			return s.settled().refuses("a", errRefused).image("v2").settled().refuses("a", nil).settled()
		}, `
Current: 4/4/4/0/0 of 4; current v1, update v2
Ready True RolloutHeld: 0 of 4 replicas run v2 (v2); to release, set manualUpdate.partitions
Progressing False
a Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"failing quietly", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").pass().moves("b").pass() }, `
InProgress: 4/4/4/0/0 of 4; current v1, update v2
Ready False RollingOut: a: Internal error occurred: etcd is away
Progressing True
a Updating: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; Internal error occurred: etcd is away
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"failing for long", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").settled().passes(9) }, `
Failed: 4/4/4/0/0 of 4; current v1, update v2
Ready False ApplyFailed: a: Internal error occurred: etcd is away
Progressing False
Stalled True ApplyFailed
a Stalled: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; Internal error occurred: etcd is away
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; default partition "100%" holds all replicas
`},
		{"gone, and not collected yet", func(s *scene) *scene { return s.settled().delete("a", false).pass() }, `
InProgress: 2/2/2/2/2 of 4; current v1, update v1
Ready False Reconciling: a: waiting: the garbage collector has yet to delete revision web-a-08f5b of the previous web-a
Available False ReplicasUnavailable
Progressing True
a Pending: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v1; waiting: the garbage collector has yet to delete revision web-a-08f5b of the previous web-a
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"a third template over a canary that is held", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "1").settled().partition("a", "100%").image("v3").settled()
		}, `
Current: 4/4/4/0/0 of 4; current v1, update v3
Ready True RolloutHeld: 0 of 4 replicas run v3 (v3); to release, set manualUpdate.partitions
Progressing False
a Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v3; partition "100%" holds all replicas; 1 replica (web-a-1) runs web-a-1ef59, which is neither v3 nor v1: to update, set the partition to 1; to get back v1, delete the pod
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v3; default partition "100%" holds all replicas
`},
		{"another's", func(s *scene) *scene { return s.stranger("web-a").pass() }, `
Failed: 0/0/0/0/0 of 4; current v1, update v1
Ready False NameConflict: a: StatefulSet web-a exists and is not controlled by this UnitedDeployment; United leaves it alone: choose another name for the subset
Available False ReplicasUnavailable
Progressing False
Stalled True NameConflict
Initialized False WaitingForFirstReplica
a Stalled: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v1; StatefulSet web-a exists and is not controlled by this UnitedDeployment; United leaves it alone: choose another name for the subset
b Updating: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v1; creating web-b on v1
`},
		{"gone, and what it protects is lost", func(s *scene) *scene {
			return s.settled().image("v2").settled().lose("v1").delete("a", false).settled()
		}, `
Failed: 2/2/2/0/0 of 4; current web-k0tcrzwmpetnx9dxgc9v7cjgs8, update v2
Ready False RevisionLost: a: revision web-k0tcrzwmpetnx9dxgc9v7cjgs8, which the protected replicas of web-a run, is lost; to move to v2, lower the partition to 0 with updateStrategy.type Manual
Available False ReplicasUnavailable
Progressing False
Stalled True RevisionLost
a Stalled: 0/0/0/0/0 of 2; partition 2 lets 0; web-k0tcrzwmpetnx9dxgc9v7cjgs8 -> v2; revision web-k0tcrzwmpetnx9dxgc9v7cjgs8, which the protected replicas of web-a run, is lost; to move to v2, lower the partition to 0 with updateStrategy.type Manual
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; web-k0tcrzwmpetnx9dxgc9v7cjgs8 -> v2; default partition "100%" holds all replicas
`},
		{"paused, gone, and what it protects is lost", func(s *scene) *scene {
			return s.settled().paused(true).image("v2").settled().lose("v1").delete("a", false).settled()
		}, `
Failed: 2/2/2/0/0 of 4; current web-k0tcrzwmpetnx9dxgc9v7cjgs8, update v2
Ready False RevisionLost: All subsets: the rollout is paused, and the revision of web-* is lost
Available False ReplicasUnavailable
Progressing False
Stalled True RevisionLost
a Stalled: 0/0/0/0/0 of 2; partition 2 lets 0; web-k0tcrzwmpetnx9dxgc9v7cjgs8 -> v2; the rollout is paused, and the revision of web-a is lost
b Stalled: 2/2/2/0/0 of 2; partition 2 lets 0; web-k0tcrzwmpetnx9dxgc9v7cjgs8 -> v2; the rollout is paused, and the revision of web-b is lost
`},
		{"paused", func(s *scene) *scene { return s.settled().paused(true).settled() }, `
Current: 4/4/4/4/4 of 4; current v1, update v1
Ready True Paused: 4 of 4 replicas run v1 (v1); the rollout is paused
Progressing False
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"paused with another template", func(s *scene) *scene { return s.settled().paused(true).image("v2").settled() }, `
Current: 4/4/4/0/0 of 4; current v1, update v2
Ready True Paused: 0 of 4 replicas run v2 (v2); the rollout is paused
Progressing False
a Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused; default partition "100%" holds all replicas
b Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused; default partition "100%" holds all replicas
`},
		{"paused with another template that would be released", func(s *scene) *scene {
			return s.settled().partition("a", "0").partition("b", "1").settled().paused(true).image("v2").settled()
		}, `
Current: 4/4/4/0/0 of 4; current v1, update v2
Ready True Paused: 0 of 4 replicas run v2 (v2); the rollout is paused
Progressing False
a Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused: v2 is not applied yet, and replicas come back as they are
b Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused: v2 is not applied yet, and replicas come back as they are
`},
		{"paused in the middle", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").pass().moves("a").kubelets("a-1").paused(true).settled()
		}, `
Current: 4/4/4/0/0 of 4; current v1, update v2
Ready True Paused: 0 of 4 replicas run v2 (v2); the rollout is paused
Progressing False
a Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused: the partition stays at 2 instead of 0
b Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; paused; default partition "100%" holds all replicas
`},
		{"paused while it is held, and back", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "1").settled().paused(true).image("v1").settled()
		}, `
Current: 4/4/4/3/3 of 4; current v1, update v1
Ready True Paused: 3 of 4 replicas run v1 (v1); the rollout is paused
Progressing False
a Paused: 2/2/2/1/1 of 2; partition 1 lets 1; v1 -> v1; paused; going back to v1: partitions protect nothing from it
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"a third template over a canary, and the partitions are for another", func(s *scene) *scene {
			s.settled().image("v2").partition("a", "1").settled()
			s.Edit("bound", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.UpdateStrategy.ManualUpdate.Revision = s.status().UpdateRevision
			})
			return s.image("v3").settled()
		}, `
Current: 4/4/4/0/0 of 4; current v1, update v3
Ready True RolloutHeld: 0 of 4 replicas run v3 (v3); partitions are for web-a2bs7zqp1p, so v3 is held
Progressing False
a Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v3; partitions are for web-a2bs7zqp1p, so v3 is held; 1 replica (web-a-1) runs web-a-1ef59, which is neither v3 nor v1: to update, set manualUpdate.revision to v3 and the partition to 1; to get back v1, delete the pod
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v3; partitions are for web-a2bs7zqp1p, so v3 is held
`},
		{"no progress", func(s *scene) *scene {
			return s.deadline(60).settled().image("broken1").partition("a", "0").settled().later(time.Minute).pass()
		}, `
Failed: 4/3/3/1/0 of 4; current v1, update broken1
Ready False ReplicaFailed: web-a-1 (not ready since then) failed; fix the template, or go back to the previous one
Available False ReplicasUnavailable
Progressing False
Stalled True ReplicaFailed
a Updating: 2/1/1/1/0 of 2; partition 0 lets 2; v1 -> broken1; waiting for web-a-1 (not ready since then)
b Held: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> broken1; default partition "100%" holds all replicas
`},
		{"no progress while paused", func(s *scene) *scene {
			return s.deadline(60).settled().image("broken1").partition("a", "0").settled().paused(true).settled().later(time.Hour).pass()
		}, `
InProgress: 4/3/3/1/0 of 4; current v1, update broken1
Ready False ReplicasUnavailable: a: waiting for web-a-1 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Unavailable: 2/1/1/1/0 of 2; partition 1 lets 1; v1 -> broken1; waiting for web-a-1 (not ready since then)
b Paused: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> broken1; paused; default partition "100%" holds all replicas
`},
		{"no progress, then another template", func(s *scene) *scene {
			return s.deadline(60).settled().image("broken1").partition("a", "0").settled().later(time.Minute).pass().image("v3").pass()
		}, `
InProgress: 4/3/3/0/0 of 4; current v1, update v3
Ready False RollingOut: a: waiting for the controller of web-a to observe its latest spec; b: waiting for the controller of web-b to observe its latest spec
Available False ReplicasUnavailable
Progressing True
a Updating: 2/1/1/0/0 of 2; partition 0 lets 2; v1 -> v3; waiting for the controller of web-a to observe its latest spec
b Updating: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v3; waiting for the controller of web-b to observe its latest spec
`},
		{"no subsets", func(s *scene) *scene { return s.comeOrGo("a").comeOrGo("b").settled() }, `
Failed: 0/0/0/0/0 of 4; current v1, update v1
Ready False NoSubsets: spec.topology.subsets is empty, so the 4 replicas of spec.replicas cannot be placed: add a subset
Available False ReplicasUnavailable
Progressing False
Stalled True NoSubsets
Initialized False WaitingForFirstReplica
ReplicasHonored False ScaledInProportion
`},
		{"no replicas", func(s *scene) *scene { return s.replicas(0).settled() }, `
Current: 0/0/0/0/0 of 0; current v1, update v1
Ready True RolloutComplete: There are no replicas
Progressing False
Initialized False WaitingForFirstReplica
a Complete: 0/0/0/0/0 of 0; partition 0 lets 0; v1 -> v1;
b Complete: 0/0/0/0/0 of 0; partition 0 lets 0; v1 -> v1;
`},
		{"no replicas any more", func(s *scene) *scene { return s.settled().image("v2").replicas(0).settled() }, `
Current: 0/0/0/0/0 of 0; current v1, update v2
Ready True RolloutHeld: There are no replicas, so the rollout of v2 (v2) continues when there are
Progressing False
a Complete: 0/0/0/0/0 of 0; partition 0 lets 0; v1 -> v2;
b Complete: 0/0/0/0/0 of 0; partition 0 lets 0; v1 -> v2;
`},
		{"back from 0", func(s *scene) *scene { return s.settled().image("v2").replicas(0).settled().replicas(4).pass() }, `
InProgress: 0/0/0/0/0 of 4; current v1, update v2
Ready False Reconciling: a: returning web-a to v1 first, because its protected replicas run that; b: returning web-b to v1 first, because its protected replicas run that
Available False ReplicasUnavailable
Progressing True
a Seeding: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v2; returning web-a to v1 first, because its protected replicas run that
b Seeding: 0/0/0/0/0 of 2; partition 2 lets 0; v1 -> v2; returning web-b to v1 first, because its protected replicas run that
`},
		{"a subset is new", func(s *scene) *scene { return s.settled().image("v2").comeOrGo("c").pass() }, `
InProgress: 4/4/4/0/0 of 4; current v1, update v2
Ready False Reconciling: c: creating web-c on v1 first, because its protected replicas run that
Progressing True
a Updating: 2/2/2/0/0 of 2; partition 2 lets 0; v1 -> v2; waiting for the controller of web-a to observe its latest spec
b Scaling: 2/2/2/0/0 of 1; partition 1 lets 0; v1 -> v2; scaling down: 2 replicas, 1 wanted
c Seeding: 0/0/0/0/0 of 1; partition 1 lets 0; v1 -> v2; creating web-c on v1 first, because its protected replicas run that
`},
		{"a subset goes", func(s *scene) *scene { return s.settled().comeOrGo("b").pass() }, `
InProgress: 2/2/2/2/2 of 4; current v1, update v1
Ready False Scaling: a: scaling up: 2 of 4 replicas exist
Available False ReplicasUnavailable
Progressing True
a Scaling: 2/2/2/2/2 of 4; partition 4 lets 0; v1 -> v1; scaling up: 2 of 4 replicas exist
`},
		{"wishes that do not fit", func(s *scene) *scene { return s.wish("a", "3").wish("b", "3").settled() }, `
Current: 4/4/4/4/4 of 4; current v1, update v1
Ready True ReplicasNotHonored: 4 of 4 replicas run v1 (v1); the subsets ask for 6 replicas, but spec.replicas is 4; replicas are split in proportion; a gets 2 (asks for 3), b gets 2 (asks for 3)
Progressing False
ReplicasHonored False ScaledInProportion
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1; asks for 3 replicas, gets 2
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1; asks for 3 replicas, gets 2
`},
		{"a spec that is not understood", func(s *scene) *scene { return s.settled().partition("a", "200%").pass() }, `
Failed: 4/4/4/4/4 of 4; current v1, update v1
Ready False InvalidSpec: spec.updateStrategy.manualUpdate: Invalid value: "a": spec.updateStrategy.manualUpdate.partitions[a]: "200%" is neither a number of at least 0 nor a percentage from "0%" to "100%"
Available Unknown InvalidSpec
Progressing False
Stalled True InvalidSpec
Initialized is of another generation
ReplicasHonored is of another generation
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"coordinated, and paused from the start", func(s *scene) *scene { return s.rolling().paused(true).settled() }, `
Current: 4/4/4/4/4 of 4; current v1, update v1
Ready True Paused: 4 of 4 replicas run v1 (v1); the rollout is paused
Progressing False
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"a revision that cannot be kept for a moment", func(s *scene) *scene {
			s.settled().image("v2").API.Fail = errAway
			return s.pass()
		}, `
InProgress: 4/4/4/4/4 of 4; current v1, update v1
Ready False ApplyFailed: Create revision web-a2bs7zqp1pqynx82k9zf1gbgww: Internal error occurred: etcd is away
Progressing True
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
`},
		{"a spec that is not understood, and then is", func(s *scene) *scene {
			return s.settled().partition("a", "200%").pass().ready("b-1", false).pass().partition("a", "2").pass()
		}, `
InProgress: 4/3/3/4/3 of 4; current v1, update v1
Ready False ReplicasUnavailable: b: waiting for web-b-1 (not ready since then)
Available False ReplicasUnavailable
Progressing True
a Complete: 2/2/2/2/2 of 2; partition 2 lets 0; v1 -> v1;
b Unavailable: 2/1/1/2/1 of 2; partition 2 lets 0; v1 -> v1; waiting for web-b-1 (not ready since then)
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			got := tc.play(s).told()
			if diff := cmp.Diff(strings.TrimSpace(tc.want), got); diff != "" {
				t.Errorf("want -, have +\n%s\nGOT\n%s", diff, got)
			}
			resting(t, s)
		})
	}
}

// TestMessagesAreCut: the error for a template can have more text than a status may have for all subsets, and the
// reason of a pod can have any length.
func TestMessagesAreCut(t *testing.T) {
	words := strings.Repeat("spec.template.spec.containers[0].name: Invalid value; ", 600)
	s := newScene(t)
	for i := range 98 {
		s.comeOrGo(fmt.Sprintf("s%d", i))
	}
	s.API.Refuse = map[string]error{}
	for _, sub := range s.Parent().Spec.Topology.Subsets {
		s.API.Refuse[sub.Name] = apierrors.NewBadRequest(words)
	}
	s.pass()
	if raw, err := json.Marshal(s.status()); err != nil || len(raw) > 200_000 {
		t.Errorf("the status has %d bytes, %v", len(raw), err)
	}
	if m := s.status().Subsets[0].Message; !strings.HasPrefix(m, words[:1000]) || !strings.HasSuffix(m, "...") {
		t.Error(m)
	}

	s = newScene(t).rolling()
	s.settled().image("broken1").settled()
	failed := s.API.Live.Pods["web-a-1"].DeepCopy()
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, words
	s.API.PutPod(failed)
	s.pass()
	if m := s.status().Rollout.Message; !strings.HasPrefix(m, "web-a-1 (spec.template") || len(m) > 1024 {
		t.Error(len(m), m)
	}

	s, c := checked(t)
	for i, shout := range []string{"\x1b[2J", "<", "\u202e\n"} {
		c.CheckResult = known.CheckResult{Seen: true, Message: "mysql says: " + strings.Repeat(shout, 1<<20)}
		s.image(fmt.Sprint("v", i+2)).goOn(3)
		raw, err := json.Marshal(s.status())
		if err != nil || len(raw) > 20_000 {
			t.Errorf("the status has %d bytes, %v", len(raw), err)
		}
		if m := s.status().Rollout.Checks[0].Message; !strings.HasPrefix(m, "mysql says:") || strings.ContainsAny(string(raw)+strings.Join(s.heard(), ""), "\x1b\u202e\n") || strings.Contains(string(raw), "u001b") {
			t.Errorf("%.200q", m)
		}
		resting(t, s)
	}
}

// resting checks that a pass without changes writes nothing.
func resting(t *testing.T, s *scene) {
	t.Helper()
	s.pass()
	before := len(s.API.Writes)
	s.Reconcile()
	if rest := s.API.Writes[before:]; len(rest) > 0 {
		t.Errorf("it writes again: %v", rest)
	}
}
