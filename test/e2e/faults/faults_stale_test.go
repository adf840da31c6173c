// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// staleWrite is a write that a leader decided on, and that reaches the API server after another one has
// led for a while.
type staleWrite struct {
	name string
	// before brings the workload to the state in which cause triggers the leader's write.
	before func(w *Workload)
	is     func(c *Call) bool
	cause  func(w *Workload)
	// meanwhile is what the users do next.
	meanwhile func(w *Workload)
	// runs are the images in the end; forbidden are rules that ban pods from cause on.
	runs      Images
	forbidden []Rule
	// after continues when the stale leader is gone, and leads to the same images.
	after func(w *Workload)
}

func nothing(*Workload) {}

// heldCanary stages v2: zone-a has finished it, zone-b has it from ordinal 2 on, and zone-c does not
// have it.
func heldCanary(w *Workload) {
	w.SetImage("v2")
	w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
	w.Settle()
	w.SetPartitions(Parts{"zone-a": nil})
	w.Settle()
}

// canaryOfV3 stages v3: only the last replica of zone-b has it.
func canaryOfV3(w *Workload) {
	w.SetImage("v3")
	w.SetPartitions(Parts{"zone-b": 3})
	w.Settle()
}

func isWriteOf(c *Call, name string) bool {
	return c.Child() != nil && strings.HasSuffix(c.URL.Path, "/"+name)
}

// never forbids an image everywhere.
func never(image string) Rule {
	return func(i Incarnation) string {
		if i.Image == image {
			return "nothing may run " + image
		}
		return ""
	}
}

var allOpen = Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0}

var staleWrites = []staleWrite{
	{
		name:      "a lower partition",
		before:    func(w *Workload) { w.SetImage("v2"); w.Settle() },
		is:        func(c *Call) bool { return isWriteOf(c, "web-zone-b") },
		cause:     func(w *Workload) { w.SetPartitions(Parts{"zone-b": 2}) },
		meanwhile: canaryOfV3,
		runs:      Images{"zone-a": "v1 v1 v1", "zone-b": "v1 v1 v1 v3", "zone-c": "v1 v1"},
		forbidden: []Rule{never("v2"), Protect("zone-a", Everything, "v1"), Protect("zone-b", 3, "v1"), Protect("zone-c", Everything, "v1")},
		after:     nothing,
	},
	ofSeed("a seed", true),
	ofSeed("the release of a seed", false),
	{
		// It says that the zones protect v1, but they have finished v2 since.
		name:   "a status",
		before: nothing,
		is:     func(c *Call) bool { return isStatus(c, nil) },
		cause: func(w *Workload) {
			w.SetPartitions(allOpen)
			w.SetImage("v2")
		},
		meanwhile: func(w *Workload) {
			w.Settle()
			w.SetPartitions(Parts{"zone-a": nil, "zone-b": nil, "zone-c": nil})
			w.SetImage("v3")
			w.Settle()
		},
		runs:      Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2 v2", "zone-c": "v2 v2"},
		forbidden: []Rule{never("v3")},
		after:     nothing,
	},
	{
		// It deletes the revision of v1, which was unused and is in use again.
		name: "the end of a revision",
		before: func(w *Workload) {
			w.Patch(`{"spec":{"revisionHistoryLimit":0}}`)
			w.SetPartitions(allOpen)
			w.SetImage("v2")
			w.Settle()
		},
		is:    func(c *Call) bool { return c.On(http.MethodDelete, "controllerrevisions") },
		cause: func(w *Workload) { w.SetImage("v2b") },
		meanwhile: func(w *Workload) {
			w.SetImage("v1")
			w.Settle()
			w.SetPartitions(Parts{"zone-a": nil, "zone-b": nil, "zone-c": nil})
			w.SetImage("v3")
			w.Settle()
		},
		runs:      Images{"zone-a": "v1 v1 v1", "zone-b": "v1 v1 v1 v1", "zone-c": "v1 v1"},
		forbidden: []Rule{never("v3")},
		after:     deleteZoneB,
	},
	{
		name: "the end of a stuck replica",
		before: func(w *Workload) {
			w.SetImage("broken")
			w.SetPartitions(Parts{"zone-b": 2})
			w.Eventually(w.Images).Should(HaveKeyWithValue("zone-b", "v1 v1 v1 broken"))
		},
		is:    func(c *Call) bool { return c.On(http.MethodDelete, "pods") },
		cause: func(w *Workload) { w.SetImage("v2") },
		meanwhile: func(w *Workload) {
			w.SetImage("v3")
			w.Settle()
		},
		runs:      Images{"zone-a": "v1 v1 v1", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1"},
		forbidden: []Rule{Protect("zone-a", Everything, "v1"), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1")},
		after:     nothing,
	},
}

// ofSeed returns one of the two writes that recreate a deleted child: the write that seeds it, or the
// write that then releases it.
func ofSeed(name string, seeds bool) staleWrite {
	return staleWrite{
		name:      name,
		before:    heldCanary,
		is:        func(c *Call) bool { return isWriteOf(c, "web-zone-b") && c.Child().Seeds() == seeds },
		cause:     deleteZoneB,
		meanwhile: canaryOfV3,
		runs:      Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1 v3", "zone-c": "v1 v1"},
		forbidden: []Rule{never("v2"), Protect("zone-a", Everything, "v2"), Protect("zone-b", 3, "v1"), Protect("zone-c", Everything, "v1")},
		after:     nothing,
	}
}

// staleLeader stops the leading manager (SIGSTOP) when it has decided on a write, and delays that
// write. The Lease expires, the other manager takes over, and the users continue. Then the write
// reaches the API server, and the stopped manager continues too (SIGCONT).
func staleLeader(t *testing.T, c *Plane) {
	t.Parallel()
	for _, s := range staleWrites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			k := c.NewManagerPair(t)
			w := canary(k, appsv1.OrderedReadyPodManagement)
			s.before(w)
			line := w.History.Forbid(s.forbidden...)
			h := k.HoldAt(s.is, func() { s.cause(w) })
			k.Expect(h.Process.Signal(syscall.SIGSTOP)).To(Succeed())
			byOther := k.Other(h.Replica).Accepted()
			s.meanwhile(w)
			k.Expect(w.Images()).To(Equal(s.runs))
			k.Expect(k.Other(h.Replica).Accepted()).To(BeNumerically(">", byOther), "the other one has led")
			want, writes := w.EndAtRest(), len(h.Replica.Writes(h.Process))

			refused := http.StatusConflict
			if strings.HasSuffix(h.URL.Path, "/status") {
				refused = http.StatusUnprocessableEntity // its test fails
			}
			k.Expect(h.Release(k.Env)).To(Equal(refused), "%s", h.Call)
			k.Expect(h.Process.Signal(syscall.SIGCONT)).To(Succeed())
			k.Eventually(h.Process.Done()).Should(BeClosed(), "it ends by itself")
			k.Expect(k.Kills()).To(BeZero())
			for _, late := range h.Replica.Writes(h.Process)[writes:] {
				if !strings.HasSuffix(late.Call, "/status") { // it may have read the parent again just before it was stopped
					k.Expect(late.Code).To(BeNumerically(">=", 400), late.Call)
				}
			}
			k.Eventually(func() string { return cmp.Diff(want, w.End()) }).Should(BeEmpty())
			s.after(w)
			w.Settle()
			k.Expect(w.Images()).To(Equal(s.runs))
			line.Holds()

			w.SetImage("v3")
			w.SetPartitions(allOpen)
			w.Settle()
			line.Fires()
		})
	}
}
