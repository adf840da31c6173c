// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

const (
	name     = "web"
	oldImage = "registry.example/web:v1"
	newImage = "registry.example/web:v2"
)

// step is one command and its expected result.
type step struct {
	title, why string
	// command are the arguments of kubectl.
	command []string
	// template is the image that the children's templates must have.
	template string
	// subsets are the expected rows of the status, in order.
	subsets []row
	// updated are the pods that must run the new image; the others run the old one. Pods that already
	// ran the new image must be the same pods as before, and so must those that still run the old one.
	updated []string
}

// row is what a table shows for one subset.
type row struct {
	name                                string
	replicas, updated, ready, partition int32
	phase                               v1alpha1.SubsetPhase
}

// script returns the whole demo. The numbers are literals, not computed: a reader of the sample expects
// exactly these.
func script(sample string) []step {
	const held, complete = v1alpha1.PhaseHeld, v1alpha1.PhaseComplete
	return []step{
		{
			title:    "six replicas over three zones",
			why:      "The sample asks for 1 replica in zone-a, 50% in zone-b and the rest in zone-c.",
			command:  []string{"apply", "-f", sample},
			template: oldImage,
			subsets:  []row{{"zone-a", 1, 1, 1, 1, complete}, {"zone-b", 3, 3, 3, 3, complete}, {"zone-c", 2, 2, 2, 2, complete}},
		},
		{
			title: "a new image is staged",
			why: "Every zone is held (defaultPartition: 100%), so the new image reaches the templates and no pod. It is set with a\n" +
				"JSON patch, because a merge patch would replace the whole list of containers.",
			command: []string{"patch", "united", name, "--type=json", "-p",
				`[{"op":"replace","path":"/spec/template/statefulSetTemplate/spec/template/spec/containers/0/image","value":"` + newImage + `"}]`},
			template: newImage,
			subsets:  []row{{"zone-a", 1, 0, 1, 1, held}, {"zone-b", 3, 0, 3, 3, held}, {"zone-c", 2, 0, 2, 2, held}},
		},
		{
			title:    "zone-a is released",
			why:      "The partition is how many replicas of a zone are protected. 0 protects none.",
			command:  release(`{"zone-a":0}`),
			template: newImage,
			subsets:  []row{{"zone-a", 1, 1, 1, 0, complete}, {"zone-b", 3, 0, 3, 3, held}, {"zone-c", 2, 0, 2, 2, held}},
			updated:  []string{"web-zone-a-0"},
		},
		{
			title: "half of zone-b is released",
			why: "A percentage protects that share of the zone, rounded up: 50% of 3 protects the 2 replicas with the lowest numbers.\n" +
				"The patch names zone-b alone, and zone-a stays as it is.",
			command:  release(`{"zone-b":"50%"}`),
			template: newImage,
			subsets:  []row{{"zone-a", 1, 1, 1, 0, complete}, {"zone-b", 3, 1, 3, 2, held}, {"zone-c", 2, 0, 2, 2, held}},
			updated:  []string{"web-zone-a-0", "web-zone-b-2"},
		},
		{
			title:    "everything is released",
			why:      "The rest of zone-b, and zone-c.",
			command:  release(`{"zone-b":0,"zone-c":0}`),
			template: newImage,
			subsets:  []row{{"zone-a", 1, 1, 1, 0, complete}, {"zone-b", 3, 3, 3, 0, complete}, {"zone-c", 2, 2, 2, 0, complete}},
			updated:  allPods(),
		},
		{
			title:    "every zone is held again, for the next release",
			why:      "Without partitions of their own, the zones use the default again, which holds them. Updated replicas stay updated.",
			command:  release("null"),
			template: newImage,
			subsets:  []row{{"zone-a", 1, 1, 1, 1, complete}, {"zone-b", 3, 3, 3, 3, complete}, {"zone-c", 2, 2, 2, 2, complete}},
			updated:  allPods(),
		},
	}
}

func allPods() []string {
	return []string{"web-zone-a-0", "web-zone-b-0", "web-zone-b-1", "web-zone-b-2", "web-zone-c-0", "web-zone-c-1"}
}

func release(partitions string) []string {
	return []string{"patch", "united", name, "--type=merge", "-p",
		`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":` + partitions + `}}}}`}
}

// shell formats arguments as a user types them.
func shell(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		if strings.ContainsAny(arg, " \"{}[]*?$&|;<>()'") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}
