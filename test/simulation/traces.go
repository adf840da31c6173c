// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "k8s.io/utils/ptr"

func create(image string, replicas, partition int32) Step {
	return Step{Verb: Create, Image: image, Replicas: &replicas, Partition: &partition}
}

func change(image string, replicas, partition int32) Step {
	return Step{Verb: Update, Image: image, Replicas: &replicas, Partition: &partition}
}

// stage returns an update of the template with a partition.
func stage(image string, partition int32) Step {
	return Step{Verb: Update, Image: image, Partition: &partition}
}

func image(tag string) Step  { return Step{Verb: Update, Image: tag} }
func scale(n int32) Step     { return Step{Verb: Update, Replicas: ptr.To(n)} }
func partition(n int32) Step { return Step{Verb: Update, Partition: ptr.To(n)} }

// available returns an update to minReadySeconds: an hour, so that no pod of a trace is available, or 0.
func available(seconds int32) Step { return Step{Verb: Update, MinReadySeconds: &seconds} }

// atMost returns an update of maxUnavailable.
func atMost(n int32) Step { return Step{Verb: Update, MaxUnavailable: &n} }

func on(verb Verb, of int32) Step     { return Step{Verb: verb, Ordinal: of} }
func only(verb Verb) Step             { return Step{Verb: verb} }
func trace(n string, s ...Step) Trace { return Trace{Name: n, Steps: s} }

func availabilityTraces() []Trace {
	return []Trace{
		trace("ready and not yet available",
			create("v1", 3, 0), available(3600), scale(4), image("v2"), on(DeletePod, 2), available(0)),
		trace("scaled down while not yet available",
			create("v1", 4, 0), available(3600), scale(2), scale(0), available(0)),
	}
}

// Traces returns the traces for which the simulated StatefulSet and the real one must agree. Each is played with both pod
// management policies.
func Traces() []Trace {
	var all []Trace
	for _, some := range [][]Trace{rolloutTraces(), failureTraces(), scalingTraces(), seedTraces(), terminationTraces(), availabilityTraces(), versionTraces()} {
		all = append(all, some...)
	}
	return all
}

// versionTraces returns traces that show differences between versions.
func versionTraces() []Trace {
	return []Trace{
		trace("an unready protected replica and a released one",
			create("v1", 4, 0), on(Unready, 1), stage("v2", 3), on(DeletePod, 3), partition(2), on(Ready, 1)),
		trace("an unready replica among the released ones",
			create("v1", 4, 0), on(Unready, 2), stage("v2", 1), on(DeletePod, 2), on(Ready, 2)),
		trace("unready released replicas, held while they go",
			create("v1", 5, 0), on(Unready, 1), on(Unready, 3), on(Hold, 1), on(Hold, 3), on(Hold, 4),
			image("v2"), on(Free, 4), on(Free, 3), on(Free, 1)),
		trace("unready replicas, released and protected",
			create("v1", 5, 0), on(Unready, 0), on(Unready, 2), on(Unready, 3), stage("v2", 2), on(DeletePod, 4), partition(0)),
		trace("a broken update, then another one, with the old ones unready",
			create("v1", 4, 0), image("broken-v2"), on(Unready, 0), on(Unready, 1), image("v3"), on(DeletePod, 2)),
		trace("released before they are available",
			create("v1", 4, 0), available(3600), on(Hold, 0), on(Hold, 2), stage("v2", 1), partition(0), on(Free, 2), available(0), on(Free, 0)),
		trace("a terminating protected replica and released ones",
			create("v1", 4, 0), on(Hold, 0), on(DeletePod, 0), stage("v2", 2), on(DeletePod, 3), on(Free, 0)),
		trace("two at a time",
			create("v1", 5, 0), atMost(2), on(Hold, 2), on(Hold, 3), on(Hold, 4), image("v2"), on(Free, 4), on(Free, 3), on(Free, 2)),
		trace("two at a time, one of them unready and protected",
			create("v1", 5, 0), atMost(2), on(Unready, 0), on(Hold, 3), on(Hold, 4), stage("v2", 1), on(Free, 4), on(Free, 3)),
	}
}

func rolloutTraces() []Trace {
	return []Trace{
		trace("all updated and ready",
			create("v1", 3, 0), image("v2"), stage("v3", 3), on(DeletePod, 0), partition(0), partition(3), on(DeletePod, 0)),
		trace("partition raised and lowered",
			create("v1", 4, 0), stage("v2", 3), partition(1), partition(3), on(DeletePod, 2), on(DeletePod, 3), partition(0)),
		trace("partition above the replicas",
			create("v1", 3, 9), image("v2"), on(DeletePod, 1), scale(5), partition(4), partition(0)),
		trace("template changed twice while held, and back",
			create("v1", 4, 0), stage("v2", 2), image("v3"), on(DeletePod, 0), image("v2"), image("v1"), on(DeletePod, 3), partition(0)),
		trace("template changed twice with all held",
			create("v1", 3, 0), stage("v2", 3), image("v3"), image("v1"), on(DeletePod, 1), image("v2"), partition(0)),
		trace("protected pods deleted in mid-canary",
			create("v1", 4, 0), stage("v2", 2), on(DeletePod, 0), on(DeletePod, 3), on(DeletePod, 1), partition(1), on(DeletePod, 0)),
	}
}

func failureTraces() []Trace {
	return []Trace{
		trace("unready low ordinal",
			create("v1", 4, 0), on(Unready, 1), image("v2"), on(DeletePod, 3), on(Ready, 1)),
		trace("unready low protected ordinal",
			create("v1", 4, 0), on(Unready, 0), stage("v2", 2), on(DeletePod, 2), partition(1), on(Ready, 0)),
		trace("scale-up is stuck",
			create("v1", 3, 0), on(Unready, 0), scale(5), on(DeletePod, 2), on(DeletePod, 1), on(Ready, 0)),
		trace("broken on top, then corrected",
			create("v1", 4, 0), stage("broken-v2", 3), image("v3"), on(DeletePod, 3), partition(0)),
		trace("broken, then back",
			create("v1", 4, 0), stage("broken-v2", 2), image("v1"), on(DeletePod, 3), partition(0)),
		trace("broken from the first",
			create("broken-v1", 3, 0), image("v2"), on(DeletePod, 0), on(DeletePod, 1), on(DeletePod, 2)),
		trace("broken and released, deleted by hand",
			create("v1", 3, 0), image("broken-v2"), on(DeletePod, 0), on(DeletePod, 2), image("v3"), on(DeletePod, 2), on(DeletePod, 0)),
		trace("unready and released, deleted by hand",
			create("v1", 4, 0), on(Unready, 1), on(Unready, 3), stage("v2", 1), on(DeletePod, 3), on(DeletePod, 1)),
	}
}

func scalingTraces() []Trace {
	return []Trace{
		trace("to 0 and back while held",
			create("v1", 3, 0), stage("v2", 3), scale(0), scale(3), on(DeletePod, 0)),
		trace("to 0 and back in mid-update",
			create("v1", 3, 0), stage("v2", 1), scale(0), scale(3), image("v3"), on(DeletePod, 0)),
		trace("down past the partition",
			create("v1", 5, 0), stage("v2", 3), scale(2), scale(5), scale(3), on(DeletePod, 2)),
		trace("up above the partition",
			create("v1", 2, 0), stage("v2", 1), scale(4), partition(3), scale(5), on(DeletePod, 1), on(DeletePod, 4)),
		trace("down to the updated ones",
			create("v1", 3, 0), stage("v2", 2), partition(1), scale(1), partition(0), scale(3)),
		trace("down with unready pods on top",
			create("v1", 5, 0), on(Unready, 2), on(Unready, 4), scale(1), on(Ready, 2), scale(3)),
		trace("down with an unready pod on top",
			create("v1", 4, 0), on(Unready, 3), scale(2), on(Unready, 0), scale(1), on(Ready, 0)),
		trace("scaled and updated in one write",
			create("v1", 3, 0), change("v2", 5, 2), change("v3", 2, 1), change("v4", 4, 4), partition(0)),
	}
}

func seedTraces() []Trace {
	return []Trace{
		trace("seeded from nothing",
			create("v1", 0, 0), change("v2", 4, 3), on(DeletePod, 0), on(DeletePod, 3), partition(0)),
		trace("created in mid-rollout without a seed",
			create("v2", 3, 2), on(DeletePod, 0)),
		trace("deleted with its pods, and seeded",
			create("v1", 3, 0), stage("v2", 2), only(Delete), create("v1", 0, 0), change("v2", 3, 2), on(DeletePod, 1)),
		trace("deleted with its pods, created without a seed",
			create("v1", 3, 0), stage("v2", 2), only(Delete), create("v2", 3, 2)),
		trace("orphans seeded",
			create("v1", 4, 0), stage("v2", 3), only(Orphan), create("v1", 4, 4), change("v2", 4, 3), on(DeletePod, 0), on(DeletePod, 3), partition(0)),
		trace("orphans with gaps seeded",
			create("v1", 4, 0), stage("v2", 2), only(Orphan), on(DeletePod, 0), on(DeletePod, 3), create("v1", 3, 3), change("v2", 4, 2), partition(0)),
		trace("unready orphans seeded",
			create("v1", 4, 0), stage("broken-v2", 2), only(Orphan), create("v1", 4, 4), change("broken-v2", 4, 2), on(DeletePod, 0), image("v3"), on(DeletePod, 3)),
		trace("orphans without a seed",
			create("v1", 3, 0), stage("v2", 2), only(Orphan), create("v2", 3, 2), on(DeletePod, 0)),
		trace("orphans above the replicas",
			create("v1", 4, 0), only(Orphan), create("v1", 2, 0)),
	}
}

func terminationTraces() []Trace {
	return []Trace{
		trace("terminating replica",
			create("v1", 4, 0), on(Hold, 2), on(DeletePod, 2), image("v2"), scale(5), on(Free, 2)),
		trace("terminating replica in mid-update",
			create("v1", 4, 0), on(Hold, 2), image("v2"), image("v3"), partition(2), on(Free, 2), on(DeletePod, 1), partition(0)),
		trace("terminating pods above the replicas",
			create("v1", 4, 0), on(Hold, 3), on(Hold, 1), scale(2), on(Free, 3), scale(0), stage("v2", 2), scale(2), on(Free, 1)),
		trace("seeded while an old pod terminates",
			create("v1", 3, 0), stage("v2", 2), on(Hold, 1), scale(0), image("v1"), change("v2", 3, 2), on(Free, 1)),
		trace("seeded after the old pod was gone",
			create("v1", 3, 0), stage("v2", 2), on(Hold, 1), scale(0), image("v1"), on(Free, 1), change("v2", 3, 2)),
		trace("old pod in the way of a new set",
			create("v1", 4, 0), on(Hold, 1), only(Delete), create("v1", 0, 0), change("v2", 4, 3), on(Free, 1)),
		trace("terminating orphan in the way of a new set",
			create("v1", 4, 0), on(Hold, 1), on(DeletePod, 1), only(Orphan), on(DeletePod, 2), on(DeletePod, 3), create("v1", 4, 0), on(Free, 1)),
		trace("left revision spoils the seed",
			create("v1", 2, 0), only(HoldRevisions), only(Delete), create("v1", 0, 0), change("v2", 2, 2), only(FreeRevisions), on(DeletePod, 0)),
	}
}
