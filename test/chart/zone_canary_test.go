// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestZoneCanary runs the commands of charts/zone-canary/README.md, and checks the pods.
func TestZoneCanary(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.needCRD()
	const home, work = "canary-system", "canary"
	e.namespace(home, nil)
	e.namespace(work, nil)
	e.helm("install", "canary", e.chart("united"), "--namespace="+home, "--wait",
		"--set="+restIsInstalled+",rbac.aggregate=false,fullnameOverride=canary,replicas=1,watchNamespaces={"+work+"}")
	e.start(home, "canary-manager", "canary")

	helm := func(verb string, args ...string) []string {
		return append([]string{verb, "web", e.chart("zone-canary"), "--namespace=" + work, "--wait", "--timeout=2m"}, args...)
	}
	live := func() *v1alpha1.UnitedDeployment {
		d := &v1alpha1.UnitedDeployment{}
		e.Expect(e.Get(e.ctx, types.NamespacedName{Namespace: work, Name: "web"}, d)).To(Succeed())
		return d
	}
	var before map[string]podState
	nothingMoved := func() {
		e.t.Helper()
		e.Expect(moved(before, e.pods(work, "web"))).To(BeEmpty())
	}
	onlyReleased := func(image string) {
		e.t.Helper()
		after := e.pods(work, "web")
		e.Expect(moved(before, after)).To(Equal([]string{"web-zone-a-1", "web-zone-b-1"}))
		e.Expect(after["web-zone-a-1"].Image).To(Equal(image))
		e.Expect(after["web-zone-b-1"].Image).To(Equal(image))
	}
	partitions := map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(1), "zone-b": intstr.FromString("50%")}
	untouched := func() {
		e.t.Helper()
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(6))
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.Partitions).To(Equal(partitions))
	}

	e.step("the first install holds all zones, with one replica", func() {
		e.helm(helm("install")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(1))
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.DefaultPartition).To(HaveValue(Equal(intstr.FromString("100%"))))
		e.Expect(e.pods(work, "web")).To(HaveLen(1))
	})
	e.step("kubectl scale", func() {
		e.kubectl("-n", work, "scale", "united", "web", "--replicas=6")
		e.settle(work, "web", 6)
		before = e.pods(work, "web")
		e.Expect(before).To(HaveLen(6))
	})
	e.step("helm upgrade with a new image stages it and moves nothing", func() {
		e.helm(helm("upgrade", "--set=image.tag=v2")...)
		e.Expect(live().Status.ObservedGeneration).To(Equal(live().Generation), "--wait waited")
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(6))
		nothingMoved()
	})
	e.step("kubectl patch of partitions releases", func() {
		e.kubectl("-n", work, "patch", "united", "web", "--type=merge",
			"-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1,"zone-b":"50%"}}}}}`)
		e.settle(work, "web", 6)
		onlyReleased("v2")
	})
	e.step("helm upgrade does not conflict and moves what is released only", func() {
		e.helm(helm("upgrade", "--set=image.tag=v3")...)
		untouched()
		onlyReleased("v3")
	})
	e.step("helm rollback neither", func() {
		e.helm("rollback", "web", "--namespace="+work, "--wait")
		untouched()
		onlyReleased("v2")
	})
	e.step("holding again lets the next image wait", func() {
		e.kubectl("-n", work, "patch", "united", "web", "--type=merge", "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`)
		e.settle(work, "web", 6)
		before = e.pods(work, "web")
		e.helm(helm("upgrade", "--set=image.tag=v4")...)
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.Partitions).To(BeEmpty())
		nothingMoved()
	})
	e.step("positive control: a chart that renders partitions conflicts", func() {
		e.kubectl("-n", work, "patch", "united", "web", "--type=merge",
			"-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":2}}}}}`)
		args := helm("upgrade", "--set=image.tag=v5")
		args[2] = e.chartWithPartition()
		e.Expect(e.helmRefuses(args...)).To(And(ContainSubstring("conflict"), ContainSubstring("zone-a")))
		nothingMoved()
	})
	e.step("positive control: one that renders the replicas undoes kubectl scale", func() {
		e.helm(helm("upgrade", "--set=replicas=5,image.tag=v4")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(5), "the scale subresource leaves no owner that would conflict")
		e.kubectl("-n", work, "scale", "united", "web", "--replicas=6")
	})
	e.step("an autoscaler scales, and upgrades do not conflict", func() {
		e.helm(helm("upgrade", "--set=image.tag=v4,autoscaling.enabled=true,autoscaling.minReplicas=7")...)
		e.settle(work, "web", 7) // this is the real HPA controller: below its minimum it needs no metrics
		e.helm(helm("upgrade", "--set=image.tag=v5,autoscaling.enabled=true,autoscaling.minReplicas=7")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(7))
	})
}

// TestZoneCanaryHandover hands the number of replicas over from helm to kubectl: the chart refuses to
// drop it, and accepts once the field has another owner.
func TestZoneCanaryHandover(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.needCRD()
	const work = "handover" // no controller runs here: the test is only about the spec
	e.namespace(work, nil)
	helm := func(verb string, args ...string) []string {
		return append([]string{verb, "web", e.chart("zone-canary"), "--namespace=" + work}, args...)
	}
	replicas := func() int32 {
		d := &v1alpha1.UnitedDeployment{}
		e.Expect(e.Get(e.ctx, types.NamespacedName{Namespace: work, Name: "web"}, d)).To(Succeed())
		return *d.Spec.Replicas
	}
	e.helm(helm("install", "--set=replicas=6")...)
	e.Expect(e.helmRefuses(helm("upgrade", "--set=replicas=null")...)).To(ContainSubstring("the API server would reset it to 1"))
	e.Expect(replicas()).To(BeEquivalentTo(6))
	e.helm(helm("upgrade", "--set=replicas=8")...)
	e.Expect(replicas()).To(BeEquivalentTo(8))
	e.kubectl("-n", work, "scale", "united", "web", "--replicas=9")
	e.helm(helm("upgrade", "--set=replicas=null")...)
	e.Expect(replicas()).To(BeEquivalentTo(9))
}

// chartWithPartition returns a copy of the chart that renders a partition.
func (e *env) chartWithPartition() string {
	e.t.Helper()
	dir := filepath.Join(e.t.TempDir(), "zone-canary")
	e.Expect(os.CopyFS(dir, os.DirFS(e.chart("zone-canary")))).To(Succeed())
	file := filepath.Join(dir, "templates", "uniteddeployment.yaml")
	content, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	changed := strings.Replace(string(content), "manualUpdate: {}", "manualUpdate: {partitions: {zone-a: 0}}", 1)
	e.Expect(changed).NotTo(Equal(string(content)))
	e.Expect(os.WriteFile(file, []byte(changed), 0o600)).To(Succeed())
	return dir
}
