// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// TestUpgradeUnderWay upgrades a release of an earlier version, with its CRD of fewer fields, rolls it back, and upgrades it
// again, while rollouts are under way. As in a Deployment, the next manager starts before the last one stops. What rests
// stays so; what moves goes on, and restarts each pod once.
//
// It needs the CRD exclusively, as TestLifecycle does.
func TestUpgradeUnderWay(t *testing.T) {
	e := NewEnv(t)
	earlier := lastWord(runMake(e, "earlier"))
	if earlier == "" {
		t.Skip("this clone does not have the commit of the earlier version: git fetch --unshallow")
	}
	u := &upgraded{Env: e, system: "upgrade-system", work: "upgrade", before: map[string]map[string]PodState{}}
	old := version{chart: filepath.Join(earlier, "chart"), program: filepath.Join(earlier, "united-manager")}
	e.Namespace(u.system, nil)
	e.Namespace(u.work, nil)

	e.Step("rollouts of the earlier version", func() {
		u.helm("install", "united", old.chart)
		u.fieldsOfTheCRD(old)
		u.takeOver(old)
		u.begin()
	})
	for i, change := range []struct {
		name string
		to   version
		helm []string
	}{
		{"upgrade", version{}, []string{"upgrade", "united", e.Chart("united"), "--set=workers=3,log.level=debug"}},
		{"roll back", old, []string{"rollback", "united", "1"}},
		{"upgrade again", version{}, []string{"upgrade", "united", e.Chart("united")}},
	} {
		e.Step(change.name, func() {
			mark := auditMark(e)
			u.helm(change.helm[0], change.helm[1:]...)
			u.fieldsOfTheCRD(change.to)
			u.takeOver(change.to)
			u.rests(mark)
			u.advances(int32(i + 1))
			u.movesWithFewWrites(mark)
			u.fieldOf(change.to)
		})
	}
	e.Step("everything goes on", u.end)
	e.Step("remove", func() {
		u.helm("upgrade", "united", e.Chart("united"), "--set=crds.keep=false")
		e.Helm("uninstall", "united", "--namespace="+u.system)
		e.Expect(u.manager.Kill()).To(Succeed())
		e.Eventually(func() error { return e.Get(e.Ctx, types.NamespacedName{Name: CRDName}, CRD()) }).ShouldNot(Succeed())
	})
}

// version is a build of the manager with its chart. The zero value is this one.
type version struct{ chart, program string }

// upgraded is a release that is upgraded, with its UnitedDeployments.
type upgraded struct {
	*Env
	// system is the namespace of the release, and work that of the UnitedDeployments.
	system, work string
	manager      *install.Manager
	starts       int
	// handover is when the last manager had stopped; earlier: the present one is of the earlier version.
	handover time.Time
	earlier  bool
	// began is before the first change.
	began int64
	// before are the pods of what rests.
	before map[string]map[string]PodState
	// used is the generation in which "gated" got a field that only this version has; 0 before.
	used int64
}

func (u *upgraded) helm(verb string, args ...string) {
	u.T.Helper()
	args = append([]string{verb}, append(args, "--namespace="+u.system, "--wait", "--timeout=3m")...)
	if verb != "rollback" {
		args = append(args, "--set=leaderElection.leaseDuration=15s,leaderElection.renewDeadline=13s,leaderElection.retryPeriod=500ms")
	}
	u.Helm(args...)
}

// fieldsOfTheCRD checks that the CRD is that of the version: only this one has spec.versionLabel.
func (u *upgraded) fieldsOfTheCRD(v version) {
	u.T.Helper()
	installed := CRD()
	u.Expect(u.Get(u.Ctx, types.NamespacedName{Name: CRDName}, installed)).To(Succeed())
	raw, err := json.Marshal(installed)
	u.Expect(err).NotTo(HaveOccurred())
	u.Expect(strings.Contains(string(raw), `"versionLabel":{`)).To(Equal(v == version{}), "spec.versionLabel in the CRD")
}

// fieldOf sets a field of "gated" that only this version has, which restarts nothing. While the earlier version is installed,
// the API server does not show it, and drops it with the next write: it does not come back.
func (u *upgraded) fieldOf(v version) {
	u.T.Helper()
	field := func() *intstr.IntOrString {
		return u.get("gated").Spec.UpdateStrategy.RollingUpdate.MaxUnavailablePerSubset
	}
	if u.used == 0 {
		u.Expect(Patch(u.Ctx, u.work, "gated", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailablePerSubset":1}}}}`)).To(Succeed())
		u.Expect(field()).To(HaveValue(Equal(intstr.FromInt32(1))), "positive control")
		u.phase("gated", v1alpha1.RolloutAwaitingApproval)
		u.used = u.get("gated").Generation
		return
	}
	u.Expect(field()).To(BeNil())
	u.Expect(u.get("gated").Generation).To(Equal(u.used))
	if v != (version{}) {
		u.Expect(Patch(u.Ctx, u.work, "gated", `{"metadata":{"annotations":{"example.com/written":"by the earlier version"}}}`)).To(Succeed())
	}
	u.phase("gated", v1alpha1.RolloutAwaitingApproval)
	u.Expect(Moved(u.before["gated"], u.Pods(u.work, "gated"))).To(BeEmpty())
}

// takeOver starts a manager as the release says, and stops the one before.
func (u *upgraded) takeOver(v version) {
	u.T.Helper()
	d, err := install.FromChart(u.Ctx, Shared.Cluster, u.system, "united-manager")
	u.Expect(err).NotTo(HaveOccurred())
	d.Program = v.program
	u.starts++
	next, err := d.Launch(u.Ctx, Shared.Cluster, fmt.Sprintf("%s-%d", u.work, u.starts))
	u.Expect(err).NotTo(HaveOccurred())
	u.CleanUp(next)
	if u.manager != nil {
		u.Expect(u.manager.Stop()).To(Succeed())
	}
	u.handover, u.earlier = time.Now(), v != version{}
	u.Eventually(next.Leads).Should(BeTrue())
	u.manager = next
}

func (u *upgraded) get(name string) *v1alpha1.UnitedDeployment {
	u.T.Helper()
	d := &v1alpha1.UnitedDeployment{}
	u.Expect(u.Get(u.Ctx, types.NamespacedName{Namespace: u.work, Name: name}, d)).To(Succeed())
	return d
}

// create creates a UnitedDeployment with a coordinated rollout over two subsets.
func (u *upgraded) create(name string, replicas int32, strategy v1alpha1.RollingUpdate) {
	u.T.Helper()
	d, err := fixtures.New(name, fixtures.Namespace(u.work), fixtures.Replicas(replicas), fixtures.Policy(appsv1.ParallelPodManagement),
		fixtures.OnAnyNode("zone-a", ""), fixtures.OnAnyNode("zone-b", "")).Object()
	u.Expect(err).NotTo(HaveOccurred())
	d.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &strategy}
	u.Expect(u.Create(u.Ctx, d)).To(Succeed())
}

// begin creates what rests in the middle of a release, awaiting approval, after a failure, and when it is done; and what
// moves.
func (u *upgraded) begin() {
	u.T.Helper()
	u.Expect(u.Create(u.Ctx, NewParent(u.work, "held", "v1", 4))).To(Succeed())
	u.Expect(u.Create(u.Ctx, NewParent(u.work, "done", "v1", 4))).To(Succeed())
	u.create("gated", 4, v1alpha1.RollingUpdate{Steps: []v1alpha1.RolloutStep{
		{Subsets: []string{"zone-a"}, Partition: ptr.To(intstr.FromString("0%")), Pause: &v1alpha1.RolloutPause{}},
	}})
	u.create("failed", 4, v1alpha1.RollingUpdate{})
	u.create("moving", 6, v1alpha1.RollingUpdate{})
	for name, tag := range map[string]string{"held": "v2", "done": "v2", "gated": "v2", "failed": "broken-v2"} {
		u.Settle(u.work, name, 4)
		u.Expect(SetImage(u.Ctx, u.work, name, tag)).To(Succeed())
	}
	u.Expect(Patch(u.Ctx, u.work, "held", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}}`)).To(Succeed())
	u.Expect(Patch(u.Ctx, u.work, "done", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0,"zone-b":0}}}}}`)).To(Succeed())
	u.Settle(u.work, "held", 4)
	u.Settle(u.work, "done", 4)
	u.phase("gated", v1alpha1.RolloutAwaitingApproval)
	u.phase("failed", v1alpha1.RolloutFailed)
	for _, name := range []string{"held", "done", "gated", "failed"} {
		u.before[name] = u.Pods(u.work, name)
	}
	u.Settle(u.work, "moving", 6)
	u.began = auditMark(u.Env)
	u.Expect(SetImage(u.Ctx, u.work, "moving", "quiet-v2")).To(Succeed())
	u.inFlight(0)
}

// inFlight waits until so many replicas of what moves have been updated, and the next one is up and only has to become ready.
func (u *upgraded) inFlight(ready int32) (name string) {
	u.T.Helper()
	u.Eventually(func(g Gomega) {
		list := &corev1.PodList{}
		g.Expect(u.List(u.Ctx, list, client.InNamespace(u.work), client.MatchingLabels{v1alpha1.LabelName: "moving"})).To(Succeed())
		var starting []string
		for _, p := range list.Items {
			if strings.HasSuffix(p.Spec.Containers[0].Image, ":quiet-v2") && p.Status.Phase == corev1.PodRunning && !isReady(&p) {
				starting = append(starting, p.Name)
			}
		}
		g.Expect(starting).To(HaveLen(1))
		name = starting[0]
		g.Expect(u.get("moving").Status.UpdatedReadyReplicas).To(Equal(ready))
	}).Should(Succeed())
	return name
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// advances lets the n-th replica of what moves become ready: the manager of the moment has to release the next one.
func (u *upgraded) advances(n int32) {
	u.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.work, Name: u.inFlight(n - 1)}}
	u.Expect(u.Client.Status().Patch(u.Ctx, p, client.RawPatch(types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))))).To(Succeed())
	if n < 6 {
		u.inFlight(n)
	}
}

func (u *upgraded) phase(name string, phase v1alpha1.RolloutPhase) {
	u.T.Helper()
	u.Eventually(func(g Gomega) {
		d := u.get(name)
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
		g.Expect(d.Status.Rollout).NotTo(BeNil())
		g.Expect(d.Status.Rollout.Phase).To(Equal(phase), d.Status.Rollout.Message)
	}).Should(Succeed())
}

// rests checks that what rests is as before, and that a new manager has written little: a few times what it says in other
// words, and then nothing.
func (u *upgraded) rests(since int64) {
	u.T.Helper()
	u.phase("gated", v1alpha1.RolloutAwaitingApproval)
	u.phase("failed", v1alpha1.RolloutFailed)
	var last int64
	u.Eventually(func(g Gomega) {
		last = auditMark(u.Env)
		g.Consistently(func() []cluster.Event { return u.resting(last) }, 2*time.Second).Should(BeEmpty())
	}).Should(Succeed())
	for name, before := range u.before {
		u.Expect(Moved(before, u.Pods(u.work, name))).To(BeEmpty(), name)
	}
	wrote := map[string][]cluster.Event{}
	for _, w := range u.resting(since) {
		what := w.Resource + "/" + w.Subresource + " " + w.Name
		wrote[what] = append(wrote[what], w)
	}
	for what, writes := range wrote {
		limit := 1
		if writes[0].Subresource == "status" {
			limit += 2 // for each subset, whose child has to be observed when it was written
			writes = u.stands(writes)
		}
		u.Expect(len(writes)).To(BeNumerically("<=", limit), "%s: %s", what, writes)
	}
}

// stands returns the writes of a status without those that the CRD of the earlier version undid. Trap: while a release is
// rolled back, the newer manager runs with that CRD until it stops. It has fields in the status that the API server drops,
// so it repeats the write, ten times at once, and then once in a second.
func (u *upgraded) stands(writes []cluster.Event) []cluster.Event {
	u.T.Helper()
	next := slices.IndexFunc(writes, func(w cluster.Event) bool { return w.Time.After(u.handover) })
	if next < 0 {
		next = len(writes)
	}
	if next == 0 || !u.earlier {
		return writes
	}
	undone := writes[:next]
	seconds := int(undone[next-1].Time.Sub(undone[0].Time).Seconds())
	u.Expect(len(undone)).To(BeNumerically("<=", 10+seconds), "%s", undone)
	return writes[next:]
}

// movesWithFewWrites checks that a change of the manager, with one replica that goes on, writes the status of what moves only
// a few times.
func (u *upgraded) movesWithFewWrites(since int64) {
	u.T.Helper()
	status := slices.DeleteFunc(u.writes(since), func(w cluster.Event) bool { return w.Name != "moving" || w.Subresource != "status" })
	u.Expect(status).NotTo(BeEmpty())
	u.Expect(len(u.stands(status))).To(BeNumerically("<=", 8), "%s", status)
}

// resting returns the writes to what rests.
func (u *upgraded) resting(since int64) []cluster.Event {
	u.T.Helper()
	return slices.DeleteFunc(u.writes(since), func(w cluster.Event) bool { return strings.HasPrefix(w.Name, "moving") })
}

// writes returns the writes of the managers to objects of United.
func (u *upgraded) writes(since int64) []cluster.Event {
	u.T.Helper()
	manager := cluster.ByServiceAccount(u.system, install.ServiceAccount)
	writes, err := Shared.Cluster.Writes(u.Ctx, since, func(w cluster.Event) bool {
		return manager(w) && w.Namespace == u.work && w.Resource != "events"
	})
	u.Expect(err).NotTo(HaveOccurred())
	return writes
}

func auditMark(e *Env) int64 {
	e.T.Helper()
	mark, err := Shared.Cluster.AuditMark(e.Ctx)
	e.Expect(err).NotTo(HaveOccurred())
	return mark
}

// end lets everything go on, and counts the restarts.
func (u *upgraded) end() {
	u.T.Helper()
	u.Expect(Patch(u.Ctx, u.work, "gated", `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApproved, u.get("gated").Status.Rollout.ApprovalKey)).To(Succeed())
	u.Expect(Patch(u.Ctx, u.work, "held", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":1}}}}}`)).To(Succeed())
	u.Expect(SetImage(u.Ctx, u.work, "failed", "v3")).To(Succeed())
	for n := range int32(3) {
		u.advances(n + 4)
	}
	for _, name := range []string{"gated", "failed", "moving"} {
		u.phase(name, v1alpha1.RolloutDone)
	}
	u.Settle(u.work, "held", 4)
	u.Expect(u.resting(u.began)).NotTo(BeEmpty(), "positive control")
	u.Expect(Moved(u.before["held"], u.Pods(u.work, "held"))).To(Equal([]string{"held-zone-b-1"}))
	u.Expect(Moved(u.before["gated"], u.Pods(u.work, "gated"))).To(Equal([]string{"gated-zone-b-0", "gated-zone-b-1"}))
	u.Expect(Moved(u.before["done"], u.Pods(u.work, "done"))).To(BeEmpty())

	deleted, err := Shared.Cluster.Writes(u.Ctx, u.began, func(w cluster.Event) bool {
		return w.Namespace == u.work && w.Resource == "pods" && w.Verb == "delete" && w.Code < 300 && strings.HasPrefix(w.Name, "moving-")
	})
	u.Expect(err).NotTo(HaveOccurred())
	times := map[string]int{}
	for _, w := range deleted {
		if w.User != "kwok" { // a kubelet deletes each pod again, when it has stopped
			times[w.Name]++
		}
	}
	u.Expect(times).To(HaveLen(6))
	for name, n := range times {
		u.Expect(n).To(Equal(1), "%s is restarted once", name)
	}
}
