// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestRolloutKilled kills the manager at random in mid-rollout.
func TestRolloutKilled(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	seed := SeedOfTest(e)
	random := rand.New(rand.NewPCG(seed, 4))
	r := newRolls(e)
	for range 3 {
		r.startRollouts()
		for range 2 {
			events := random.IntN(60)
			r.awaitEvents(events)
			t.Logf("seed %d: %s: kills after %d events", seed, r.tag(), events)
			killManager(e)
		}
		r.end()
	}
}

// rolls are two UnitedDeployments, one for each policy, that roll out new images again and again during
// the faults of a test.
type rolls struct {
	*Env
	all     []*Workload
	ledgers []*Ledger
	round   int
}

func newRolls(e *Env) *rolls {
	e.T.Helper()
	r := &rolls{Env: e, round: 1}
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		w := e.Create(NewDraft("web-"+strings.ToLower(string(p)), Replicas(9), Policy(p), Zones("", "", ""), Rolling(`{maxUnavailable: 2}`)))
		w.Settle()
		r.all = append(r.all, w)
	}
	return r
}

func (r *rolls) tag() string { return fmt.Sprintf("v%d", r.round) }

// startRollouts starts to roll out the next image.
func (r *rolls) startRollouts() {
	r.T.Helper()
	r.round++
	r.ledgers = nil
	for _, w := range r.all {
		r.ledgers = append(r.ledgers, w.Ledger(9))
		w.SetImage(r.tag())
	}
}

// awaitEvents waits for n events of pods (a replica causes about 5), or for the end of the rollouts.
func (r *rolls) awaitEvents(n int) {
	r.T.Helper()
	r.Eventually(func() bool {
		seen, left := 0, ""
		for i, w := range r.all {
			seen += len(r.ledgers[i].Moments())
			left += fixtures.WhyNotReady(w.Parent())
		}
		return seen >= n || left == ""
	}).Should(BeTrue())
}

// end waits until everything is done, and checks that the rollouts kept their limits.
func (r *rolls) end() {
	r.T.Helper()
	tag := r.tag()
	for i, w := range r.all {
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		r.Expect(w.Images()).To(Equal(ThreeZones(tag + " " + tag + " " + tag)))
		for _, p := range w.Pods() {
			r.Expect(strings.Fields(r.History.CreatedOn(p.Name))).To(HaveLen(r.round), "%s is replaced once a round", p.Name)
		}
		r.Expect(r.ledgers[i].Most()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)), "%s", r.ledgers[i])
	}
}

// TestRolloutAPIServerKilled kills kube-apiserver in mid-rollout, at random.
func TestRolloutAPIServerKilled(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	seed := SeedOfTest(e)
	random := rand.New(rand.NewPCG(seed, 5))
	r := newRolls(e)
	for range 3 {
		r.startRollouts()
		events := random.IntN(60)
		r.awaitEvents(events)
		t.Logf("seed %d: %s: kills after %d events", seed, r.tag(), events)
		restartAPIServer(e)
		e.ReviveManager()
		for _, w := range r.all {
			w.Eventually(func() string {
				remindKubelets(w)
				return fixtures.WhyNotReady(w.Parent())
			}).Should(BeEmpty())
		}
		r.end()
	}
}

// restartAPIServer kills kube-apiserver, and starts it again. Trap: it takes long until kwok renews the
// Leases of the nodes again, and until then all nodes can become NotReady at any moment. So the test
// does not end before that.
func restartAPIServer(e *Env) {
	e.T.Helper()
	e.Expect(e.Cluster.RestartAPIServer(e.Ctx)).To(Succeed())
	since := time.Now()
	e.T.Cleanup(func() {
		ctx, eventually := context.WithoutCancel(e.Ctx), NewWithT(e.T).Eventually
		eventually(func(g Gomega) {
			leases, nodes := &coordinationv1.LeaseList{}, &corev1.NodeList{}
			g.Expect(e.List(ctx, leases, client.InNamespace(corev1.NamespaceNodeLease))).To(Succeed())
			for _, lease := range leases.Items {
				g.Expect(lease.Spec.RenewTime.After(since)).To(BeTrue(), lease.Name)
			}
			g.Expect(e.List(ctx, nodes)).To(Succeed())
			for _, node := range nodes.Items {
				i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
				g.Expect(node.Status.Conditions[i].Status).To(Equal(corev1.ConditionTrue), node.Name)
			}
		}).WithTimeout(2 * WaitTimeout).Should(Succeed())
	})
}

// remindKubelets completes for pods what kwok has begun and given up: kwok does not retry a request
// whose answer was lost. A kubelet would.
func remindKubelets(w *Workload) {
	w.T.Helper()
	for _, p := range w.Pods() {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		var err error
		switch {
		case p.Terminating:
			err = w.Delete(w.Ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		case !p.Running:
			err = w.Client.Patch(w.Ctx, object, client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{"example.com/seen":%q}}}`, p.UID, time.Now().String())))
		}
		if err != nil && !PodIsAnother(err) {
			w.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// TestRolloutZoneLost checks what happens when all nodes of a zone become NotReady in mid-rollout.
//
// The replicas of the zone are then unavailable, and use up the ledger. A rollout takes down no healthy
// replica elsewhere while a zone is lost: that is what maxUnavailable is for. If the rollout has not
// reached the lost zone, it is Blocked, and names a replica of the zone. If it has, the updated
// replicas may have failed because of the revision, as far as anybody can know: after
// progressDeadlineSeconds they count as failed. The user can wait until the zone is back, which lets
// the rollout continue by itself; raise maxUnavailable above the number of replicas in the zone; or
// force.
func TestRolloutZoneLost(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		width := 2
		if p == appsv1.OrderedReadyPodManagement {
			width = 1
		}
		dark := newDarkZone(e, 2)
		create := func(name string, subsets ...Edit) *Workload {
			w := e.Create(NewDraft(name, append(subsets, Replicas(9), Policy(p), Rolling(`{order: Sequential, maxUnavailable: 2}`))...))
			w.Settle()
			return w
		}
		lit, lost := Subset(Zone(0, "6")), Subset(dark.subset)
		raise, force, wait := create("raise", lit, lost), create("force", lit, lost), create("wait", lost, lit)
		all := []*Workload{raise, force, wait}
		ledgers := map[*Workload]*Ledger{}
		for _, w := range all {
			ledgers[w] = w.Ledger(9)
			w.SetImage("quiet-v2")
		}
		raise.RemindKubeletsUntil("zone-a", 1)
		force.RemindKubeletsUntil("zone-a", 1)
		wait.RemindKubeletsUntil("zone-dark", 3)
		for _, w := range all { // in the middle of the zone that is not lost
			w.Eventually(func() ([]string, string) { return w.Waiting() }).Should(HaveLen(width))
		}
		dark.switchOff(all...)

		e.Step("nothing that is well is taken down", func() {
			still := e.History.Forbid(AnyNewPod)
			for _, w := range all {
				w.RemindKubeletsOf("zone-a")
			}
			for _, w := range []*Workload{raise, force} {
				w.AwaitPhase(v1alpha1.RolloutBlocked, w.Name+"-zone-dark-0", "raise maxUnavailable")
				w.IsNotReady(v1alpha1.ReasonBlocked)
			}
			wait.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
			wait.StallsWhole(v1alpha1.ReasonReplicaFailed, "wait-zone-dark-")
			for _, w := range all {
				ComesToRest(w, "zone-dark", "zone-a")
				ledgers[w].TakenWithin(width)
			}
			still.Holds()
		})
		e.Step("the ways out", func() {
			wait.Patch(`{"spec":{"progressDeadlineSeconds":600}}`)
			raise.SetRolling(`{maxUnavailable: 5}`)
			force.Force(force.Parent().Status.UpdateRevision)
			for _, w := range []*Workload{raise, force} {
				w.RemindKubeletsUntil("zone-a", 6)
			}
		})
		dark.switchOn()
		for _, w := range all {
			w.Eventually(func() string {
				w.RemindKubeletsOf("") // as a kubelet does after it has come back
				return fixtures.WhyNotReady(w.Parent())
			}).Should(BeEmpty())
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			for _, p := range w.Pods() {
				e.Expect(p.Image).To(Equal("quiet-v2"))
			}
		}
	})
}

// darkZone is a zone that only this test uses, and whose nodes can be lost.
type darkZone struct {
	e      *Env
	nodes  []string
	subset v1alpha1.Subset
}

func newDarkZone(e *Env, nodes int) *darkZone {
	e.T.Helper()
	zone := "dark-" + e.Namespace
	d := &darkZone{e: e}
	for i := range nodes {
		node := fmt.Sprintf("%s-%d", zone, i)
		// The taint keeps pods of other tests away.
		e.Expect(e.Cluster.AddNode(e.Ctx, zone, node, corev1.Taint{Key: zone, Effect: corev1.TaintEffectNoSchedule})).To(Succeed())
		d.nodes = append(d.nodes, node)
	}
	three := intstr.FromInt32(3)
	d.subset = v1alpha1.Subset{
		Name: "zone-dark", NodeSelector: inZone(zone), Replicas: &three,
		Tolerations: []corev1.Toleration{{Key: zone, Operator: corev1.TolerationOpExists}},
	}
	return d
}

// switchOff waits until all replicas in the zone are unready. That takes the controller manager 50
// seconds.
func (d *darkZone) switchOff(all ...*Workload) {
	d.e.T.Helper()
	for _, node := range d.nodes {
		d.e.Expect(d.e.Cluster.StopKubelet(d.e.Ctx, node)).To(Succeed())
	}
	for _, w := range all {
		w.Disturbed()
		d.e.Eventually(func(g Gomega) {
			for _, p := range w.Pods() {
				g.Expect(p.Subset == d.subset.Name && p.Ready).To(BeFalse(), p.Name)
			}
		}).WithTimeout(2 * WaitTimeout).Should(Succeed())
	}
}

func (d *darkZone) switchOn() {
	d.e.T.Helper()
	for _, node := range d.nodes {
		d.e.Expect(d.e.Cluster.StartKubelet(d.e.Ctx, node)).To(Succeed())
	}
}
