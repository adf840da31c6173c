// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestChaos does what users and accidents do, in random order and without waiting. During all of it
// zone-a protects v2 below 1, zone-b protects v1 below 2, and zone-c is held on v1.
func TestChaos(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		seed := SeedOfTest(e)
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		w.SetPartitions(Parts{"zone-a": nil})
		w.Settle()
		before := w.Parent().Status
		line := e.History.Forbid(Protect("zone-a", 1, "v2"), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))

		c := &chaos{Workload: w, random: rand.New(rand.NewPCG(seed, 0))}
		for range 5 {
			c.did = nil
			for range 8 {
				c.act()
			}
			t := e.T
			t.Logf("seed %d: %v", seed, c.did)
			w.Patch(`{"spec":{"paused":false}}`)
			w.Disturbed()
			w.Settle()
			line.Holds()
		}
		e.Expect(w.Parent().Status.CurrentRevision).To(Equal(before.CurrentRevision), "it never was on another as a whole")

		w.SetImage("last")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.Scale(6)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "last last", "zone-b": "last last", "zone-c": "last last"}))
		line.Fires()
	})
}

// chaos runs actions on a workload.
type chaos struct {
	*Workload
	random *rand.Rand
	did    []string
}

func (c *chaos) act() {
	c.T.Helper()
	subset := pick(c, "zone-a", "zone-b", "zone-c")
	switch c.random.IntN(12) {
	case 0, 1:
		n := pick(c, int32(0), 3, 6, 9, 12)
		c.note("scale to %d", n)
		c.Scale(n)
	case 2:
		c.note("scale to 0 and back")
		c.Scale(0)
		c.Scale(9)
	case 3, 4:
		tag := pick(c, "v2", "v3", "v4", "v5", "v6") // not v1, which is the current one: everything would go back to it
		c.note("stage %s", tag)
		c.SetImage(tag)
	case 5:
		p := pick[any](c, 1, 2, "50%", nil)
		c.note("zone-a at %v", p)
		c.SetPartitions(Parts{"zone-a": p})
	case 6:
		p := pick[any](c, 2, 3, 1000, "100%")
		c.note("zone-b at %v", p)
		c.SetPartitions(Parts{"zone-b": p})
	case 7:
		c.deletePod()
	case 8:
		c.deleteChild(subset, metav1.DeletePropagationBackground)
	case 9:
		c.deleteChild(subset, metav1.DeletePropagationOrphan)
	case 10:
		paused := pick(c, true, false)
		c.note("paused: %t", paused)
		c.Patch(`{"spec":{"paused":%t}}`, paused)
	case 11:
		c.note("wait")
		c.Eventually(func() int64 { return c.Parent().Status.ObservedGeneration }).Should(Equal(c.Parent().Generation))
	}
}

func (c *chaos) deletePod() {
	c.T.Helper()
	pods := c.Pods()
	if len(pods) == 0 {
		return
	}
	victim := pods[c.random.IntN(len(pods))]
	c.note("delete %s", victim.Name)
	_, err := c.Cluster.Kubectl(c.Ctx, "-n", c.Namespace, "delete", "pod", victim.Name, "--wait=false", "--ignore-not-found")
	c.Expect(err).NotTo(HaveOccurred())
}

func (c *chaos) deleteChild(subset string, propagation metav1.DeletionPropagation) {
	c.T.Helper()
	c.note("delete %s (%s)", subset, propagation)
	child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name + "-" + subset}}
	c.Expect(client.IgnoreNotFound(c.Delete(c.Ctx, child, client.PropagationPolicy(propagation)))).To(Succeed())
}

func (c *chaos) note(format string, args ...any) { c.did = append(c.did, fmt.Sprintf(format, args...)) }

func pick[T any](c *chaos, from ...T) T { return from[c.random.IntN(len(from))] }
