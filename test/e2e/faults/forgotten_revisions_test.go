// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

const (
	// restarts is the number of API server restarts in TestForgottenRevisions, and disturbedAtOnce how many
	// UnitedDeployments of each pod management policy get a disturbance after each.
	restarts        = 10
	disturbedAtOnce = 8
	// soon and late bound, in turn, the wait between two restarts for the disturbance after the first
	// of them. Trap: the controllers resume their watches after a delay that grows with each failure
	// and differs for each kind, which is how one watch gets ahead of another. If the next restart
	// always comes soon, no watch resumes at all.
	soon, late = 3 * time.Second, 18 * time.Second
)

// TestForgottenRevisions restarts the API server again and again. In the seconds after each restart the
// StatefulSet controller does not see all ControllerRevisions, and a child that is staged then can
// forget what its protected replicas run. In these seconds, in the middle of a canary, the test adds
// subsets, deletes and orphans children, and scales subsets to 0 and back; it deletes protected pods
// then and later.
//
// A pod of such a child can come up on the update revision: United does not cause that, and cannot
// prevent it. No pod stays on it.
//
// The manager keeps its Lease over the restarts.
func TestForgottenRevisions(t *testing.T) {
	t.Parallel()
	plane := NewPlaneOf(t)
	plane.NewEnv(t).RestartManager(func() {}, "--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s")
	asInTheChart := plane.NewEnv(t)
	asInTheChart.Ctx = context.WithoutCancel(t.Context())
	t.Cleanup(func() { asInTheChart.RestartManager(func() {}) }) // also if the test fails: other tests follow
	var all []*disturbed
	var bans []*Ban
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		e := plane.NewEnv(t)
		for i := range disturbedAtOnce {
			all = append(all, newDisturbed(e, fmt.Sprint("web", i), p, i))
		}
		bans = append(bans, e.History.Forbid(Protect("one", 2, "v1"), Protect("two", Everything, "v1"), Protect("three", Everything, "v1")))
	}
	e := all[0].Env
	mark := e.AuditMark()
	for i := range restarts {
		restartAPIServer(e)
		for _, d := range all {
			d.disturb()
		}
		enough := time.Now().Add([]time.Duration{soon, late}[i%2])
		for _, d := range all {
			d.back(enough)
		}
	}
	for _, d := range all {
		d.Eventually(d.astray).Should(BeEmpty(), d.Name)
		for _, name := range []string{"one-0", "one-1", "two-0", "two-1"} {
			d.deletePod(name)
		}
	}
	for _, d := range all {
		d.Eventually(d.astray).Should(BeEmpty(), d.Name)
	}
	for i, ban := range bans {
		tellForgotten(ban.History.E, mark, ban)
		all[i*disturbedAtOnce].forgetUnseen(ban)
	}
}

// disturbed is a UnitedDeployment in mid-canary that gets another disturbance after each restart of the
// API server.
type disturbed struct {
	*Workload
	next int
	// touched is the subset that was disturbed last, and how.
	touched string
	// before is the UID of its child that was deleted, if any.
	before types.UID
	third  bool // whether the third subset exists
	nudged time.Time
}

// nudgedImages returns what runs, as Images does. Trap: if the API server is away in the moment in which a pod
// should end or become ready, kwok gives up on the pod until it changes; a kubelet would retry.
func (d *disturbed) nudgedImages() Images {
	d.T.Helper()
	if time.Since(d.nudged) > time.Second {
		d.nudged = time.Now()
		for _, p := range d.Pods() {
			if !p.Terminating && p.Ready {
				continue
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: p.Name}}
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{"united.dev/e2e-nudged":%q}}}`, p.UID, d.nudged.Format(time.RFC3339))
			err := d.Client.Patch(d.Ctx, pod, client.RawPatch(types.MergePatchType, patch))
			d.Expect(err == nil || PodIsAnother(err)).To(BeTrue(), "nudge %s: %v", p.Name, err)
		}
	}
	return d.Images()
}

// disturbances are the disturbances in order.
var disturbances = []func(d *disturbed){
	func(d *disturbed) { // add a subset
		d.third, d.touched = true, "three"
		d.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"three","replicas":2}},{"op":"replace","path":"/spec/replicas","value":7}]`)
	},
	func(d *disturbed) { d.remove("one", metav1.DeletePropagationBackground) },
	func(d *disturbed) { d.remove("two", metav1.DeletePropagationOrphan) },
	func(d *disturbed) { // scale a subset to 0; see back
		d.touched = "two"
		d.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/1/replicas","value":0},{"op":"replace","path":"/spec/replicas","value":3}]`)
	},
}

func newDisturbed(e *Env, name string, p appsv1.PodManagementPolicyType, first int) *disturbed {
	w := e.Create(NewDraft(name, Replicas(5), Policy(p), Plain("one", "3"), Plain("two", "2"), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.SetPartitions(Parts{"one": 2})
	w.Settle()
	return &disturbed{Workload: w, next: first}
}

// disturb runs the next disturbance, after it has removed an added subset.
func (d *disturbed) disturb() {
	d.T.Helper()
	if d.third {
		d.third = false
		d.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"},{"op":"replace","path":"/spec/replicas","value":5}]`)
	}
	d.before = ""
	disturbances[d.next%len(disturbances)](d)
	d.next++
}

func (d *disturbed) remove(subset string, propagation metav1.DeletionPropagation) {
	d.T.Helper()
	d.touched = subset
	child := d.find(subset)
	d.before = child.UID
	d.Expect(client.IgnoreNotFound(d.Delete(d.Ctx, child, client.PropagationPolicy(propagation)))).To(Succeed())
}

// find returns the child of a subset; without a UID if there is none.
func (d *disturbed) find(subset string) *appsv1.StatefulSet {
	d.T.Helper()
	child := &appsv1.StatefulSet{}
	d.Expect(client.IgnoreNotFound(d.Get(d.Ctx, d.Key(d.Name+"-"+subset), child))).To(Succeed())
	child.Namespace, child.Name = d.Namespace, d.Name+"-"+subset
	return child
}

// staged reports whether the disturbed child exists again, and has got the update revision: from then
// on its memory matters.
func (d *disturbed) staged() bool {
	d.T.Helper()
	child := d.find(d.touched)
	return child.UID != "" && child.UID != d.before && *child.Spec.Replicas > 0 &&
		TagOf(child.Spec.Template.Spec.Containers[0].Image) == "v2" && child.Status.ObservedGeneration == child.Generation
}

// back scales a subset back from 0, waits for a while until the disturbed child is staged, and deletes
// a protected replica of it, and one of another child.
func (d *disturbed) back(enough time.Time) {
	d.T.Helper()
	if *d.Parent().Spec.Replicas == 3 {
		d.await(enough, func() bool { return d.nudgedImages()["two"] == "" })
		d.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/1/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":5}]`)
	}
	d.await(enough, func() bool { d.nudgedImages(); return d.staged() })
	d.deletePod(d.touched + "-0")
	other := map[string]string{"one": "two", "two": "one", "three": "one"}[d.touched]
	d.deletePod(other + "-1")
}

// await waits until a condition is true, but not for too long.
func (d *disturbed) await(enough time.Time, is func() bool) {
	d.T.Helper()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for !is() && time.Now().Before(enough) {
		select {
		case <-tick.C:
		case <-d.Ctx.Done():
			return
		}
	}
}

func (d *disturbed) deletePod(name string) {
	d.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + name}}
	err := d.Delete(d.Ctx, p)
	d.Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "delete %s: %v", name, err)
}

// astray describes which replicas do not match the partitions.
func (d *disturbed) astray() string {
	d.T.Helper()
	want := Images{"one": "v1 v1 v2", "two": "v1 v1"}
	if d.third {
		want["three"] = "v1 v1"
	}
	got := d.nudgedImages()
	for subset, text := range want {
		if got[subset] != text {
			return fmt.Sprintf("%s-%s runs %q, and is to run %q", d.Name, subset, got[subset], text)
		}
	}
	return fixtures.WhyNotReady(d.Parent())
}

// tellForgotten logs how often a child forgot, and the consequences.
func tellForgotten(e *Env, mark int64, ban *Ban) {
	e.T.Helper()
	log, err := os.ReadFile(e.Manager.LogPath())
	e.Expect(err).NotTo(HaveOccurred())
	reminded := 0
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(`"reminded"`)) && bytes.Contains(line, []byte(e.Namespace)) {
			reminded++
		}
	}
	undone := 0
	for _, w := range e.Writes(mark, "pods") {
		if w.Code < 300 {
			undone++
		}
	}
	for _, w := range e.Writes(mark, Children) {
		if w.Verb == "delete" {
			e.Expect(w.Name).To(HaveSuffix("-three"), "no child but that of a subset that is gone is deleted: %v", w)
			e.Expect(string(w.Request)).NotTo(ContainSubstring("Orphan"))
		}
	}
	e.T.Logf("%s: reminded %d times, %d pods came up where they do not belong, %d pods deleted by United", e.Namespace, reminded, len(ban.Broken()), undone)
}

// forgets makes a child forget, deletes a protected pod of it, and returns what runs then. A controller that has not seen the
// change yet writes what it knew again.
func (d *disturbed) forgets() string {
	d.T.Helper()
	child := d.Child("one")
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, child.Status.UpdateRevision))
	d.Expect(d.Client.Status().Patch(d.Ctx, child, patch)).To(Succeed())
	d.DeletePod("one", 0)
	var runs string
	d.Eventually(func() string { runs = d.nudgedImages()["one"]; return runs }).Should(BeElementOf("v2 v1 v2", "v1 v1 v2"))
	return runs
}

// forgetUnseen is the positive control: if a child forgets while no manager runs, a protected replica
// gets the wrong version, which the test sees, and the manager repairs it. The manager also repairs it
// if the child is then deleted, and the replica outlives it.
func (d *disturbed) forgetUnseen(ban *Ban) {
	d.T.Helper()
	for _, orphan := range []bool{false, true} {
		before := len(ban.Broken())
		d.RestartManager(func() {
			d.Eventually(d.forgets).Should(Equal("v2 v1 v2"))
			d.Consistently(d.astray, 3*time.Second).Should(HavePrefix(d.Name+`-one runs "v2 v1 v2"`), "without a manager it stays")
			if orphan {
				d.remove("one", metav1.DeletePropagationOrphan)
				d.Eventually(func() types.UID { return d.find("one").UID }).Should(BeEmpty())
			}
		}, "--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s")
		d.Expect(len(ban.Broken())).To(BeNumerically(">", before))
		d.Eventually(d.astray).Should(BeEmpty())
		d.Expect(d.Child("one").Status.CurrentRevision).NotTo(Equal(d.Child("one").Status.UpdateRevision))
	}
	ban.Fires()
}
