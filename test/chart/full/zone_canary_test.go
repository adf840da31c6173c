// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
)

// TestZoneCanary runs the commands of charts/zone-canary/README.md, and checks the pods.
func TestZoneCanary(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	const home, work = "canary-system", "canary"
	e.Namespace(home, nil)
	e.Namespace(work, nil)
	e.Helm("install", "canary", e.Chart("united"), "--namespace="+home, "--wait",
		"--set="+RestIsInstalled+",rbac.aggregate=false,fullnameOverride=canary,replicas=1,watchNamespaces={"+work+"}")
	e.Start(home, "canary-manager", "canary")

	helm := func(verb string, args ...string) []string {
		return append([]string{verb, "web", e.Chart("zone-canary"), "--namespace=" + work, "--wait", "--timeout=2m"}, args...)
	}
	live := func() *v1alpha1.UnitedDeployment {
		d := &v1alpha1.UnitedDeployment{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: work, Name: "web"}, d)).To(Succeed())
		return d
	}
	var before map[string]PodState
	nothingMoved := func() {
		e.T.Helper()
		e.Expect(Moved(before, e.Pods(work, "web"))).To(BeEmpty())
	}
	onlyReleased := func(image string) {
		e.T.Helper()
		after := e.Pods(work, "web")
		e.Expect(Moved(before, after)).To(Equal([]string{"web-zone-a-1", "web-zone-b-1"}))
		e.Expect(after["web-zone-a-1"].Image).To(Equal(image))
		e.Expect(after["web-zone-b-1"].Image).To(Equal(image))
	}
	partitions := map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(1), "zone-b": intstr.FromString("50%")}
	untouched := func() {
		e.T.Helper()
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(6))
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.Partitions).To(Equal(partitions))
	}

	e.Step("the first install holds all zones, with one replica", func() {
		e.Helm(helm("install")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(1))
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.DefaultPartition).To(HaveValue(Equal(intstr.FromString("100%"))))
		e.Expect(e.Pods(work, "web")).To(HaveLen(1))
	})
	e.Step("kubectl scale", func() {
		kubectl(e, "-n", work, "scale", "united", "web", "--replicas=6")
		e.Settle(work, "web", 6)
		before = e.Pods(work, "web")
		e.Expect(before).To(HaveLen(6))
	})
	e.Step("helm upgrade with a new image stages it and moves nothing", func() {
		e.Helm(helm("upgrade", "--set=image.tag=v2")...)
		e.Expect(live().Status.ObservedGeneration).To(Equal(live().Generation), "--wait waited")
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(6))
		nothingMoved()
	})
	e.Step("kubectl patch releases partitions of a revision", func() {
		kubectl(e, "-n", work, "patch", "united", "web", "--type=json", "-p", fmt.Sprintf(
			`[{"op":"add","path":"/spec/updateStrategy/manualUpdate","value":{"revision":%q,"partitions":{"zone-a":1,"zone-b":"50%%"}}}]`,
			live().Status.UpdateRevision))
		e.Settle(work, "web", 6)
		onlyReleased("v2")
	})
	e.Step("helm upgrade does not conflict, and the next image is held", func() {
		e.Helm(helm("upgrade", "--set=image.tag=v3")...)
		untouched()
		onlyReleased("v2")
	})
	e.Step("helm rollback neither", func() {
		e.Helm("rollback", "web", "--namespace="+work, "--wait")
		untouched()
		onlyReleased("v2")
	})
	e.Step("positive control: bound to no revision, the partitions release the next image", func() {
		kubectl(e, "-n", work, "patch", "united", "web", "--type=merge", "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"revision":null}}}}`)
		e.Helm(helm("upgrade", "--set=image.tag=v3")...)
		untouched()
		onlyReleased("v3")
	})
	e.Step("holding again lets the next image wait", func() {
		kubectl(e, "-n", work, "patch", "united", "web", "--type=merge", "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`)
		e.Settle(work, "web", 6)
		before = e.Pods(work, "web")
		e.Helm(helm("upgrade", "--set=image.tag=v4")...)
		e.Expect(live().Spec.UpdateStrategy.ManualUpdate.Partitions).To(BeEmpty())
		nothingMoved()
	})
	e.Step("positive control: a chart that renders partitions conflicts", func() {
		kubectl(e, "-n", work, "patch", "united", "web", "--type=merge",
			"-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":2}}}}}`)
		args := helm("upgrade", "--set=image.tag=v5")
		args[2] = chartWithPartition(e)
		e.Expect(helmRefuses(e, args...)).To(And(ContainSubstring("conflict"), ContainSubstring("zone-a")))
		nothingMoved()
	})
	e.Step("positive control: one that renders the replicas undoes kubectl scale", func() {
		e.Helm(helm("upgrade", "--set=replicas=5,image.tag=v4")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(5), "the scale subresource leaves no owner that would conflict")
		kubectl(e, "-n", work, "scale", "united", "web", "--replicas=6")
	})
	e.Step("an autoscaler scales, and upgrades do not conflict", func() {
		e.Helm(helm("upgrade", "--set=image.tag=v4,autoscaling.enabled=true,autoscaling.minReplicas=7")...)
		e.Settle(work, "web", 7) // this is the real HPA controller: below its minimum it needs no metrics
		e.Helm(helm("upgrade", "--set=image.tag=v5,autoscaling.enabled=true,autoscaling.minReplicas=7")...)
		e.Expect(*live().Spec.Replicas).To(BeEquivalentTo(7))
	})
}

// TestZoneCanaryHandover hands the number of replicas over from helm to kubectl: the chart refuses to
// drop it, and accepts once the field has another owner.
func TestZoneCanaryHandover(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	const work = "handover" // no controller runs here: the test is only about the spec
	e.Namespace(work, nil)
	helm := func(verb string, args ...string) []string {
		return append([]string{verb, "web", e.Chart("zone-canary"), "--namespace=" + work}, args...)
	}
	replicas := func() int32 {
		d := &v1alpha1.UnitedDeployment{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: work, Name: "web"}, d)).To(Succeed())
		return *d.Spec.Replicas
	}
	e.Helm(helm("install", "--set=replicas=6")...)
	e.Expect(helmRefuses(e, helm("upgrade", "--set=replicas=null")...)).To(ContainSubstring("the API server would reset it to 1"))
	e.Expect(replicas()).To(BeEquivalentTo(6))
	e.Helm(helm("upgrade", "--set=replicas=8")...)
	e.Expect(replicas()).To(BeEquivalentTo(8))
	kubectl(e, "-n", work, "scale", "united", "web", "--replicas=9")
	e.Helm(helm("upgrade", "--set=replicas=null")...)
	e.Expect(replicas()).To(BeEquivalentTo(9))
}

// chartWithPartition returns a copy of the chart that renders a partition.
func chartWithPartition(e *Env) string {
	e.T.Helper()
	dir := filepath.Join(e.T.TempDir(), "zone-canary")
	e.Expect(os.CopyFS(dir, os.DirFS(e.Chart("zone-canary")))).To(Succeed())
	file := filepath.Join(dir, "templates", "uniteddeployment.yaml")
	content, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	changed := strings.Replace(string(content), "manualUpdate: {}", "manualUpdate: {partitions: {zone-a: 0}}", 1)
	e.Expect(changed).NotTo(Equal(string(content)))
	e.Expect(os.WriteFile(file, []byte(changed), 0o600)).To(Succeed())
	return dir
}
