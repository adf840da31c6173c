// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// planned is how many objects of each kind there are, plannedChanges how many changes of each.
var planned = flag.Int("planned", 2, "how many objects of each kind TestPlanForesees changes; make test-nightly: 8")

const plannedChanges = 8

// TestPlanForesees makes random changes of every kind, and expects that the plugin foresees what they do: which replicas are
// restarted, created and removed, in which order, and how it ends.
func TestPlanForesees(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		if k.Manager != nil {
			k.Manager(Shared, t)
		}
		moved := &atomic.Int64{}
		for i := range *planned {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				e := NewEnv(t)
				seed, name := SeedOfTest(e), fnv.New64a()
				_, _ = fmt.Fprint(name, k.Title, i)
				p := &proposer{Contracted: e.Workload("web").Of(k), random: rand.New(rand.NewPCG(seed, name.Sum64()))}
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("UNITED_E2E_SEED=%d %s\n%s", seed, p.policy, strings.Join(p.did, "\n"))
					}
				})
				p.draw()
				for range plannedChanges {
					p.change()
				}
				moved.Add(p.moved)
			})
		}
		t.Cleanup(func() {
			if !t.Failed() && moved.Load() == 0 {
				t.Error("nothing ever moved")
			}
		})
	})
}

// proposer changes a UnitedDeployment as its user does, after a look at the plan.
type proposer struct {
	*Contracted
	random *rand.Rand
	policy appsv1.PodManagementPolicyType
	spec   v1alpha1.UnitedDeploymentSpec
	image  string
	// slow: its Deployments replace one replica at a time under Manual, and not as they do by default.
	slow  bool
	did   []string
	moved int64
}

func pick[T any](p *proposer, from ...T) T { return from[p.random.IntN(len(from))] }

// draw creates the object.
func (p *proposer) draw() {
	p.T.Helper()
	p.image, p.policy = "v1", pick(p, appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement)
	p.slow = p.Whole && p.random.IntN(2) == 0
	p.spec.MinReadySeconds = pick[int32](p, 0, 0, 1)
	p.spec.Replicas = ptr.To(pick[int32](p, 2, 3, 4, 6))
	for i := range 1 + p.random.IntN(3) {
		p.spec.Topology.Subsets = append(p.spec.Topology.Subsets, fixtures.Zone(i, ""))
	}
	pick(p, p.manual, p.rolling)()
	manifest := p.manifest()
	p.Apply(manifest)
	p.did = append(p.did, "create "+AsJSON(p.spec))
	p.rests()
}

// manifest returns the object as its user has it in a file.
func (p *proposer) manifest() Git {
	p.T.Helper()
	d := NewDraft(p.Name, Policy(p.policy), FirstImage(p.image), p.Draft)
	if p.slow && p.spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy {
		Slowly()(d)
	}
	d.APIVersion, d.Kind = v1alpha1.GroupVersion.String(), v1alpha1.Kind
	selector := d.Spec.Selector
	p.spec.DeepCopyInto(&d.Spec)
	d.Spec.Selector = selector
	object, err := d.Object()
	p.Expect(err).NotTo(HaveOccurred())
	manifest := FromJSON[Git](p.Env, AsJSON(object))
	delete(manifest, "status")
	return manifest
}

// change plans a change, makes it, and compares.
func (p *proposer) change() {
	p.T.Helper()
	var plan foresee.Plan
	var do func()
	if p.random.IntN(3) == 0 {
		flag, patch := p.single()
		p.did = append(p.did, flag)
		plan, do = FromJSON[foresee.Plan](p.Env, p.Does("plan", p.Name, flag, "-o", "json")), patch
	} else {
		spec, image := p.spec.DeepCopy(), p.image
		for range 1 + p.random.IntN(2) {
			p.edit()
		}
		file := filepath.Join(p.T.TempDir(), "manifest.json")
		p.Expect(os.WriteFile(file, []byte(AsJSON(p.manifest())), 0o600)).To(Succeed())
		plan = FromJSON[foresee.Plan](p.Env, p.Plugin("plan", "-f", file, "-o", "json").Out)
		if len(plan.Refused) > 0 { // such as a partition that is only in the cluster, of a subset that is no longer in the file
			_, err := p.Cluster.Kubectl(p.Ctx, "-n", p.Namespace, "apply", "-f", file)
			p.Expect(err).To(HaveOccurred(), "%v", plan.Refused)
			p.spec, p.image = *spec, image
			return
		}
		do = func() { p.Kubectl("apply", "-f", file) }
	}
	p.Expect(plan.Unfinished).To(BeEmpty(), "%s", p.story(&plan))
	before, mark, from := p.Pods(), p.History.Mark(), len(p.History.Events(p.Name))
	do()
	p.rests()
	after := p.Pods()
	came := slices.DeleteFunc(p.History.Since(mark), func(i Incarnation) bool { return i.Leader != "" && i.Leader != i.Name })
	p.comparesReplicas(&plan, before, after)
	if !slices.ContainsFunc(plan.Assumed, func(text string) bool { return strings.Contains(text, "not on the earlier one first") }) {
		p.comparesCounts(&plan, before, after, came)
		p.comparesOrder(&plan, came, p.History.Events(p.Name)[from:])
	}
	p.comparesEnd(&plan)
	p.moved += int64(len(came))
}

// story is for messages.
func (p *proposer) story(plan *foresee.Plan) string {
	return fmt.Sprintf("%s\nplan %s", strings.Join(p.did, "\n"), AsJSON(plan))
}

// single draws a change that plan has a flag for, and returns the patch that makes it.
func (p *proposer) single() (flag string, patch func()) {
	switch p.random.IntN(4) {
	case 0:
		p.image = pick(p, "v1", "v2", "v3")
		return "--image=web=" + Image(p.image), func() { p.SetImages(p.image) }
	case 1:
		n := p.replicas()
		return fmt.Sprintf("--replicas=%d", n), func() { p.Scale(n) }
	case 2:
		if p.spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy {
			zone, to := p.release()
			return fmt.Sprintf("--set-partition=%s=%s", zone, to.String()), func() { p.SetPartitions(Parts{zone: to}) }
		}
	}
	p.spec.Paused = !p.spec.Paused
	return fmt.Sprintf("--paused=%t", p.spec.Paused), func() { p.Patch(`{"spec":{"paused":%t}}`, p.spec.Paused) }
}

// edit changes the file.
func (p *proposer) edit() {
	what, zone := "", fixtures.ZoneName(p.random.IntN(3))
	switch i := p.index(zone); p.random.IntN(9) {
	case 0, 1:
		p.image = pick(p, "v1", "v2", "v3")
		what = p.image
	case 2:
		what = fmt.Sprintf("replicas %d", p.replicas())
	case 3:
		if p.spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy {
			at, to := p.release()
			what = fmt.Sprintf("partition %s %s", at, to.String())
		}
	case 4:
		switch {
		case i < 0:
			p.spec.Topology.Subsets = append(p.spec.Topology.Subsets, fixtures.Zone(int(zone[len(zone)-1]-'a'), ""))
		case len(p.spec.Topology.Subsets) > 1:
			p.spec.Topology.Subsets = slices.Delete(p.spec.Topology.Subsets, i, i+1)
			if manual := p.spec.UpdateStrategy.ManualUpdate; manual != nil {
				delete(manual.Partitions, zone)
			}
			p.rollingWithout(zone)
		}
		what = "come or go " + zone
	case 5:
		if i >= 0 {
			share := pick(p, "", "1", "50%")
			p.spec.Topology.Subsets[i].Replicas = fixtures.Zone(i, share).Replicas
			what = fmt.Sprintf("share of %s: %q", zone, share)
		}
	case 6:
		p.manual()
		what = AsJSON(p.spec.UpdateStrategy)
	case 7:
		p.rolling()
		what = AsJSON(p.spec.UpdateStrategy)
	case 8:
		p.spec.Paused = !p.spec.Paused && p.random.IntN(2) == 0
		what = fmt.Sprintf("paused %t", p.spec.Paused)
	}
	p.did = append(p.did, what)
}

func (p *proposer) index(zone string) int {
	return slices.IndexFunc(p.spec.Topology.Subsets, func(s v1alpha1.Subset) bool { return s.Name == zone })
}

func (p *proposer) replicas() int32 {
	p.spec.Replicas = ptr.To(pick[int32](p, 0, 2, 3, 4, 5, 6, 7))
	return *p.spec.Replicas
}

func (p *proposer) release() (zone string, to *intstr.IntOrString) {
	zone, to = pick(p, p.spec.Topology.Subsets...).Name, p.amount("0", "0", "1", "2", "50%", "100%")
	manual := p.spec.UpdateStrategy.ManualUpdate
	if manual.Partitions == nil {
		manual.Partitions = map[string]intstr.IntOrString{}
	}
	manual.Partitions[zone] = *to
	return zone, to
}

// manual draws a strategy. It may be bound to the revision that is the update revision now.
func (p *proposer) manual() {
	manual := &v1alpha1.ManualUpdate{DefaultPartition: p.amount("0", "50%", "100%", "100%")}
	p.spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: manual}
	if len(p.did) > 0 && p.random.IntN(3) == 0 {
		manual.Revision = p.Parent().Status.UpdateRevision
	}
	if p.random.IntN(2) == 0 {
		p.release()
	}
}

// amount draws a number or a percentage, or nil for "". What is released as a whole has only 0 and "100%".
func (p *proposer) amount(from ...string) *intstr.IntOrString {
	if p.Whole {
		from = slices.DeleteFunc(from, func(text string) bool { return text != "" && text != "0" && text != "100%" })
	}
	if text := pick(p, from...); text != "" {
		return ptr.To(intstr.Parse(text))
	}
	return nil
}

func (p *proposer) rolling() {
	r := &v1alpha1.RollingUpdate{
		MaxUnavailable: ptr.To(intstr.Parse(pick(p, "1", "1", "2", "50%", "100%"))), Partition: p.amount("", "", "1", "50%"),
		Order: pick(p, v1alpha1.ParallelOrder, v1alpha1.SequentialOrder),
	}
	if r.Order == v1alpha1.ParallelOrder && !p.Whole {
		r.MaxSkew = pick(p, "", "10%", "50%")
	}
	for range p.random.IntN(3) {
		r.Steps = append(r.Steps, v1alpha1.RolloutStep{
			Subsets: []string{pick(p, v1alpha1.AllSubsets, pick(p, p.spec.Topology.Subsets...).Name)}, Partition: p.amount("0", "1", "50%", "90%"),
			Pause: pick(p, nil, nil, &v1alpha1.RolloutPause{}),
		})
	}
	p.spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: r}
}

// rollingWithout takes a subset out of the steps.
func (p *proposer) rollingWithout(zone string) {
	if r := p.spec.UpdateStrategy.RollingUpdate; r != nil {
		r.Steps = slices.DeleteFunc(r.Steps, func(s v1alpha1.RolloutStep) bool { return slices.Contains(s.Subsets, zone) })
	}
}

// rests waits until the manager says so, and all replicas are there and ready.
func (p *proposer) rests() {
	p.T.Helper()
	p.Eventually(func(g Gomega) {
		g.Expect(fixtures.WhyNotReady(p.Parent())).To(BeEmpty())
		pods := p.Pods()
		g.Expect(pods).To(HaveLen(int(*p.spec.Replicas)))
		for _, pod := range pods {
			g.Expect(pod.Ready && !pod.Terminating).To(BeTrue(), pod.Name)
		}
	}).WithTimeout(RolloutTimeout).Should(Succeed(), "%s", strings.Join(p.did, "\n"))
}
