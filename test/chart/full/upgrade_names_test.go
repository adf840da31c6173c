// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"path/filepath"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
)

var (
	earlierName = regexp.MustCompile(`^[a-z]+-[a-z0-9]{10}$`)
	longName    = regexp.MustCompile(`^[a-z]+-[a-z0-9]{26}$`)
)

// TestUpgradeKeepsNames upgrades from a version whose names of revisions and approval keys are shorter, rolls it back, and upgrades
// again, each time with rollouts under way. What the earlier version has named keeps its name: no hold, release, approval or
// rejection is lost. The earlier version does not know the names that this one gives: it asks again, but restarts and releases
// nothing.
func TestUpgradeKeepsNames(t *testing.T) {
	e := NewEnv(t)
	earlier := lastWord(runMake(e, "earlier-names"))
	if earlier == "" {
		t.Skip("this clone does not have the commit of the earlier version: git fetch --unshallow")
	}
	u := &upgraded{Env: e, system: "names-system", work: "names", before: map[string]map[string]PodState{}}
	old := version{chart: filepath.Join(earlier, "chart"), program: filepath.Join(earlier, "united-manager")}
	e.Namespace(u.system, nil)
	e.Namespace(u.work, nil)
	names := []string{"held", "gated", "rejected"}
	// unmoved waits until a manager has nothing more to write, and expects that it has moved no pod.
	unmoved := func() {
		e.T.Helper()
		e.Eventually(func(g Gomega) {
			for _, name := range names {
				g.Expect(u.get(name).Status.ObservedGeneration).To(Equal(u.get(name).Generation), name)
			}
			last := auditMark(e)
			g.Consistently(func() []cluster.Event { return u.writes(last) }, 2*time.Second).Should(BeEmpty())
		}).Should(Succeed())
		for _, name := range names {
			e.Expect(Moved(u.before[name], u.Pods(u.work, name))).To(BeEmpty(), name)
		}
	}
	remember := func() {
		for _, name := range names {
			u.before[name] = u.Pods(u.work, name)
		}
	}
	rejected := func(name *regexp.Regexp) {
		e.T.Helper()
		e.Eventually(func(g Gomega) {
			r := u.get("rejected").Status.Rollout
			g.Expect(r).NotTo(BeNil())
			g.Expect(r.RejectedRevision).To(MatchRegexp(name.String()))
			g.Expect(r.Phase).To(Equal(v1alpha1.RolloutDone), r.Message)
		}).Should(Succeed())
		u.Settle(u.work, "gated", 4)
	}

	var was map[string]string
	e.Step("rollouts of the earlier version", func() {
		u.helm("install", "united", old.chart)
		u.takeOver(old)
		e.Expect(e.Create(e.Ctx, NewParent(u.work, "held", "v1", 4))).To(Succeed())
		u.create("gated", 4, v1alpha1.RollingUpdate{Steps: []v1alpha1.RolloutStep{
			{Subsets: []string{"zone-a"}, Partition: ptr.To(intstr.FromString("0%")), Pause: &v1alpha1.RolloutPause{}},
		}})
		u.create("rejected", 4, v1alpha1.RollingUpdate{OnFailure: v1alpha1.RollbackOnFailure})
		for name, tag := range map[string]string{"held": "v2", "gated": "v2", "rejected": "broken-v2"} {
			u.Settle(u.work, name, 4)
			e.Expect(SetImage(e.Ctx, u.work, name, tag)).To(Succeed())
		}
		u.Settle(u.work, "held", 4)
		e.Expect(Patch(e.Ctx, u.work, "held", `{"spec":{"updateStrategy":{"manualUpdate":{"revision":%q,"partitions":{"zone-a":0,"zone-b":1}}}}}`,
			u.get("held").Status.UpdateRevision)).To(Succeed())
		u.Settle(u.work, "held", 4)
		u.phase("gated", v1alpha1.RolloutAwaitingApproval)
		rejected(earlierName)
		was = u.named(names)
		e.Expect(was["held"]).To(MatchRegexp(earlierName.String()), "positive control")
		remember()
	})
	e.Step("upgrade", func() {
		u.helm("upgrade", "united", e.Chart("united"))
		u.takeOver(version{})
		unmoved()
		e.Expect(u.named(names)).To(Equal(was))
	})
	e.Step("what was approved with the key of the earlier version goes on, and the next rollouts have longer names", func() {
		e.Expect(Patch(e.Ctx, u.work, "gated", `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApproved, was["gated, key"])).To(Succeed())
		u.phase("gated", v1alpha1.RolloutDone)
		for name, tag := range map[string]string{"held": "v3", "gated": "v3", "rejected": "broken-v3"} {
			e.Expect(SetImage(e.Ctx, u.work, name, tag)).To(Succeed())
		}
		u.Settle(u.work, "held", 4)
		e.Expect(Moved(u.before["held"], u.Pods(u.work, "held"))).To(BeEmpty(), "the partitions are for v2")
		u.phase("gated", v1alpha1.RolloutAwaitingApproval)
		rejected(longName)
		for _, name := range names {
			e.Expect(u.get(name).Status.UpdateRevision).To(MatchRegexp(longName.String()), name)
		}
		e.Expect(u.get("gated").Status.Rollout.ApprovalKey).To(HaveLen(26))
		remember()
	})
	e.Step("roll back", func() {
		// What this version has rejected, the earlier one would try again: it does not know that name.
		e.Expect(Patch(e.Ctx, u.work, "rejected", `{"spec":{"paused":true}}`)).To(Succeed())
		u.helm("rollback", "united", "1")
		u.takeOver(old)
		unmoved()
		u.phase("gated", v1alpha1.RolloutAwaitingApproval)
	})
	e.Step("upgrade again", func() {
		u.helm("upgrade", "united", e.Chart("united"))
		u.takeOver(version{})
		unmoved()
		u.phase("gated", v1alpha1.RolloutAwaitingApproval)
	})
	e.Step("everything goes on", func() {
		e.Expect(Patch(e.Ctx, u.work, "gated", `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApproved, u.get("gated").Status.Rollout.ApprovalKey)).To(Succeed())
		e.Expect(Patch(e.Ctx, u.work, "held", `{"spec":{"updateStrategy":{"manualUpdate":{"revision":null,"partitions":{"zone-a":0,"zone-b":0}}}}}`)).To(Succeed())
		u.phase("gated", v1alpha1.RolloutDone)
		e.Eventually(func() int32 { return u.get("held").Status.UpdatedReadyReplicas }).Should(Equal(int32(4)))
		e.Expect(Moved(u.before["gated"], u.Pods(u.work, "gated"))).To(Equal([]string{"gated-zone-b-0", "gated-zone-b-1"}))
	})
	e.Step("remove", func() {
		u.helm("upgrade", "united", e.Chart("united"), "--set=crds.keep=false")
		e.Helm("uninstall", "united", "--namespace="+u.system)
		e.Expect(u.manager.Kill()).To(Succeed())
	})
}

// named returns which revisions and keys the status has.
func (u *upgraded) named(names []string) map[string]string {
	u.T.Helper()
	named := map[string]string{}
	for _, name := range names {
		status := u.get(name).Status
		named[name], named[name+", current"] = status.UpdateRevision, status.CurrentRevision
		if r := status.Rollout; r != nil {
			named[name+", key"], named[name+", rejected"] = r.ApprovalKey, r.RejectedRevision
		}
	}
	return named
}
