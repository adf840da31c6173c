// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// with returns a manifest in which nothing is wrong, and then replaces texts in it.
func with(pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(`apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        serviceName: web
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: web, image: web}]}
  topology:
    subsets:
    - {name: zone-a, replicas: 3, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}
    - {name: pool}
  updateStrategy: {type: Manual, manualUpdate: {partitions: {zone-a: 100%}}}
`)
}

func said(t *testing.T, manifest string) (lines []string) {
	t.Helper()
	findings, _ := File("f", []byte(manifest))
	for _, f := range findings {
		lines = append(lines, f.String())
	}
	return lines
}

func TestRules(t *testing.T) {
	const zone = `nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}`
	const pod = "spec.template.statefulSetTemplate.spec.template"
	for name, tc := range map[string]struct {
		manifest string
		want     []string // what each line begins with
	}{
		"nothing":            {with(), nil},
		"an unknown field":   {with("replicas: 6", "replicas: 6\n  replica: 3"), []string{"f: web: spec.replica: a UnitedDeployment has no such field"}},
		"twice":              {with("replicas: 6", "replicas: 6\n  replicas: 7"), []string{`f: web: document 1, line 6: key "replicas" already set`}},
		"another type":       {with("replicas: 6", `replicas: "6"`), []string{"f: web: spec.replicas: is a string, and must be of type integer"}},
		"another version":    {with("v1alpha1", "v1beta1"), []string{"f: web: apiVersion: there is no version apps.united.dev/v1beta1: write apps.united.dev/v1alpha1"}},
		"another kind":       {with("kind: UnitedDeployment", "kind: UnitedDeploymnt"), []string{"f: web: kind: apps.united.dev has no kind UnitedDeploymnt: write UnitedDeployment"}},
		"no kind":            {with("kind: UnitedDeployment\n", ""), []string{`f: web: kind: is missing: write UnitedDeployment`}},
		"a name with a dot":  {with("name: web}\nspec", "name: w.eb}\nspec"), []string{"f: w.eb: Invalid value: metadata.name must be a DNS label"}},
		"no name":            {with("{name: web}\nspec", "{}\nspec"), []string{"f: metadata.name: is missing"}},
		"a field of a pod":   {with("image: web}", "image: web, imagePullPolice: Always}"), []string{"f: web: " + pod + ".spec.containers[0].imagePullPolice: a StatefulSet has no such field"}},
		"a type in a pod":    {with("image: web}", "image: web, tty: 1}"), []string{"f: web: " + pod + ".spec.containers[0].tty: is a number"}},
		"labels of the pods": {with("metadata: {labels: {app: web}}\n          spec", "metadata: {}\n          spec"), []string{"f: web: " + pod + ".metadata.labels: "}},
		"a CloneSet":         {with("statefulSetTemplate", "cloneSetTemplate", "serviceName: web", "scaleStrategy: {maxUnavailabel: 1}"), []string{"f: web: spec.template.cloneSetTemplate.spec.scaleStrategy.maxUnavailabel: a CloneSet has no such field"}},
		"no template":        {with("statefulSetTemplate", "daemonSetTemplate"), []string{"f: web: spec.template.daemonSetTemplate: a UnitedDeployment has no such field", "f: web: spec.template: Invalid value: must hold exactly one template"}},
		"a patch":            {with("name: pool", "name: pool, patch: {spec: {serviceNam: x}}"), []string{"f: web: spec.topology.subsets[pool].patch.spec.serviceNam: a StatefulSet has no such field"}},
		"a directive":        {with("name: pool", `name: pool, patch: {spec: {template: {spec: {containers: [{name: web, "$patch": replace, image: x}], "$setElementOrder/containers": [{name: web}]}}}}`), nil},
		"a null in a patch":  {with("name: pool", "name: pool, patch: {spec: {serviceName: null}}"), nil},
		"replicas by patch":  {with("name: pool", "name: pool, patch: {spec: {replicas: 1}}"), []string{"f: web: spec.topology.subsets[pool].patch.spec.replicas: Forbidden"}},
		"twice the subset":   {with("name: pool", "name: zone-a, "+zone), []string{"f: web: spec.topology.subsets[zone-a]: is there twice"}},
		"OpenKruise's": {with(zone, "nodeSelectorTerm: {matchExpressions: [{key: zone, operator: Exists}]}"), []string{
			`f: web: spec.topology.subsets[zone-a].nodeSelectorTerm: is a field of OpenKruise's UnitedDeployment: write "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}`}},
		"OpenKruise's times": {with("replicas: 3, ", "", "name: pool}\n", "name: pool}\n    scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 5, unschedulableLastSeconds: 9}}\n"), []string{
			"f: web: spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds: is a field of OpenKruise's UnitedDeployment: write rescheduleAfterSeconds",
			"f: web: spec.topology.scheduleStrategy.adaptive.unschedulableLastSeconds: is a field of OpenKruise's UnitedDeployment: write retryAfterSeconds"}},
		"OpenKruise's patch": {with("name: pool", "name: pool, patch: {spec: {nodeSelector: {a: b}}}"), []string{
			`f: web: spec.topology.subsets[pool].patch: is a patch of pods, as those of OpenKruise's UnitedDeployment are: write {"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`}},
		"no image":            {with("image: web}", `image: ""}`), []string{"f: web: " + pod + ".spec.containers[0].image: is empty, and the API server refuses the StatefulSet"}},
		"no image of a patch": {with("name: pool", "name: pool, patch: {spec: {template: {spec: {containers: [{name: log}]}}}}"), []string{"f: web: spec.topology.subsets[pool].patch: container log.image: is empty", "f: web: spec.topology.subsets[pool].patch.spec.template.spec.containers[0]: adds a container log"}},
		"a type in a step":    {with("type: Manual, manualUpdate: {partitions: {zone-a: 100%}}", `type: RollingUpdate, rollingUpdate: {steps: [{subsets: [pool], partition: 0}, {subsets: [zone-a], partition: 0, pause: 5}]}`), []string{"f: web: spec.updateStrategy.rollingUpdate.steps[1].pause: is a number, and must be of type object"}},
		"below zero":          {with("replicas: 6", "replicas: -1"), []string{"f: web: spec.replicas: Invalid value: "}},
		"too much":            {with("replicas: 3", "replicas: 150%"), []string{"f: web: spec.topology.subsets[zone-a].replicas: "}},
		"no DNS label":        {with("name: pool", "name: Pool"), []string{"f: web: spec.topology.subsets[Pool].name: "}},
		"a quantity":          {with("image: web}", "image: web, resources: {requests: {memory: 64Mib}}, tyy: true}"), []string{"f: web: " + pod + ".spec.containers[0].resources.requests.memory: \"64Mib\" is no quantity", "f: web: " + pod + ".spec.containers[0].tyy: a StatefulSet has no such field"}},
		"for no subset":       {with("{zone-a: 100%}", "{zone-b: 0}"), []string{"f: web: spec.updateStrategy.manualUpdate.partitions: Invalid value: there is no subset zone-b"}},
		"no partition":        {with("{zone-a: 100%}", "{zone-a: 101%}"), []string{"f: web: spec.updateStrategy.manualUpdate.partitions: Invalid value: the partition of zone-a must be"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lines := said(t, tc.manifest)
			g.Expect(lines).To(HaveLen(len(tc.want)), "%v", lines)
			for i, want := range tc.want {
				g.Expect(lines[i]).To(HavePrefix(want))
			}
		})
	}
}

// The cases are those of test/integration/advice_test.go, where the policy of the chart warns.
func TestAdvice(t *testing.T) {
	g := NewWithT(t)
	releasesNothing := func(partitions string) []string { return said(t, with("{zone-a: 100%}", partitions)) }
	g.Expect(releasesNothing(`{zone-a: 3}`)).To(ConsistOf(
		`f: web: spec.updateStrategy.manualUpdate.partitions[zone-a]: 3 protects all of the replicas, so it releases nothing: to hold the subset, also when it grows, write "100%"`))
	for _, partitions := range []string{`{zone-a: "99%"}`, `{zone-a: "67%"}`, `{zone-a: 2147483647}`, `{pool: 6}`} {
		g.Expect(releasesNothing(partitions)).To(ConsistOf(ContainSubstring("protects all of the replicas")), partitions)
	}
	for _, partitions := range []string{`{}`, `{zone-a: "100%"}`, `{zone-a: "66%"}`, `{zone-a: 2}`, `{zone-a: 0, pool: "99%"}`, `{pool: 5}`} {
		g.Expect(releasesNothing(partitions)).To(BeEmpty(), partitions)
	}
	steps := func(partition string) []string {
		return said(t, with("type: Manual", "type: RollingUpdate", "manualUpdate: {partitions: {zone-a: 100%}}",
			"rollingUpdate: {steps: [{subsets: [pool, zone-a], partition: "+partition+"}]}"))
	}
	g.Expect(steps("3")).To(ConsistOf(
		`f: web: spec.updateStrategy.rollingUpdate.steps[0].partition: 3 is no hold: a step releases at least one replica of each of its subsets, here of zone-a, unless it says "100%"`))
	g.Expect(steps("6")).To(HaveLen(2))
	for _, partition := range []string{"2", `"99%"`, `"100%"`} {
		g.Expect(steps(partition)).To(BeEmpty(), partition)
	}
	check := func(check string) []string {
		return said(t, with("type: Manual", "type: RollingUpdate", "manualUpdate: {partitions: {zone-a: 100%}}", "rollingUpdate: {checks: [{name: c, "+check+"}]}"))
	}
	for text, want := range map[string]string{
		`job: {template: {spec: {template: {metadata: {labels: {app: web}}}}}}`:  "job.template.spec.template.metadata.labels: Forbidden: must not match spec.selector",
		`job: {template: {metadata: {finalizers: [a/b]}, spec: {template: {}}}}`: "job.template.metadata.finalizers: Forbidden: only labels and annotations may be set here",
		`prometheus: {server: s, max: "1", query: "sum(${pods})"}`:               "prometheus.query: Invalid value: ${pods} is not inside of a string",
		`prometheus: {server: s, max: "1", min: "2", query: up}`:                 "prometheus.min: Invalid value: must not be greater than max: nothing would be met",
	} {
		g.Expect(check(text)).To(ConsistOf(HavePrefix("f: web: spec.updateStrategy.rollingUpdate.checks[0]."+want)), text)
	}
	for _, name := range []string{"zone-b", "zone1", "az-b", "eu-west-1", "eu-west-1a", "europe-west1-b"} {
		g.Expect(said(t, with("name: pool", "name: "+name))).To(ConsistOf("f: web: spec.topology.subsets["+name+"]: is named like a zone, but has no nodeSelector, so its pods can be on any node"), name)
	}
	for _, name := range []string{"prefill", "decode", "spot", "on-demand", "blue", "rest"} {
		g.Expect(said(t, with("name: pool", "name: "+name))).To(BeEmpty(), name)
	}
}

// Nobody else warns of these.
func TestAdviceOfLint(t *testing.T) {
	const rolling = "type: RollingUpdate, rollingUpdate: {steps: [STEPS]}"
	steps := func(steps string) string {
		return with("type: Manual, manualUpdate: {partitions: {zone-a: 100%}}", strings.Replace(rolling, "STEPS", steps, 1))
	}
	image := func(container string) string {
		return with("name: pool", "name: pool, patch: {spec: {template: {spec: {containers: [{name: "+container+", image: x}]}}}}")
	}
	zones := func(key string) string {
		zone := func(name, key string) string {
			return "{name: " + name + ", nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: " + key + ", operator: Exists}]}]}}"
		}
		return with("{name: pool}", zone("zone-b", "zone")+"\n    - "+zone("zone-c", key)+"\n    - "+zone("spot", "pool"))
	}
	manual := func(manual string) string { return with("{partitions: {zone-a: 100%}}", manual) }
	for name, tc := range map[string]struct{ manifest, want string }{
		"a container of the template":  {image("web"), ""},
		"a container that is added":    {image("wep"), "spec.topology.subsets[pool].patch.spec.template.spec.containers[0]: adds a container wep to the pods of the subset, because the template has only web"},
		"steps that go on":             {steps("{subsets: [zone-a], partition: 50%}, {subsets: [zone-a], partition: 1}, {subsets: ['*'], partition: 0}"), ""},
		"a step that raises":           {steps("{subsets: ['*'], partition: 0}, {subsets: [zone-a], partition: 50%}"), "spec.updateStrategy.rollingUpdate.steps[1].partition: 50% takes nothing of zone-a back: steps[0] releases it down to 0 already"},
		"as many as there are":         {with("replicas: 6", "replicas: 3"), ""},
		"more than there are":          {with("replicas: 6", "replicas: 2"), "spec.topology.subsets: ask for 3 replicas, and spec.replicas is 2"},
		"zones of one key":             {zones("zone"), ""},
		"a zone of another key":        {zones("zome"), "spec.topology.subsets[zone-c].nodeSelector: has no key zone, which all other zones have; it has zome"},
		"held by default":              {manual("{defaultPartition: 100%}"), ""},
		"released by default":          {manual("{defaultPartition: 0}"), "spec.updateStrategy.manualUpdate.defaultPartition: 0 releases every next template at once"},
		"released by default, in part": {manual("{defaultPartition: 0, revision: web-1}"), ""},
	} {
		g := NewWithT(t)
		lines := said(t, tc.manifest)
		if tc.want == "" {
			g.Expect(lines).To(BeEmpty(), name)
			continue
		}
		g.Expect(lines).To(ConsistOf(HavePrefix("f: web: "+tc.want)), name)
	}
}

func TestDocuments(t *testing.T) {
	g := NewWithT(t)
	wrong := with("replicas: 6", "replica: 6")
	findings, count := File("f", []byte("# a comment\n---\n"+with()+"---\napiVersion: v1\nkind: ConfigMap\n---\n- 1\n---\nx: [1]\n---\n"+wrong))
	g.Expect(findings).To(HaveLen(1))
	g.Expect(count).To(Equal(2))
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(wrong), "\n", "\n  ") + "\n"
	findings, count = File("f", []byte(list))
	g.Expect(findings).To(ConsistOf(Finding{File: "f", Name: "web", Field: "spec.replica", Message: "a UnitedDeployment has no such field"}))
	g.Expect(count).To(Equal(1))
	// OpenKruise has a UnitedDeployment too: that is not checked, and not passed over either.
	findings, count = File("f", []byte(with("apps.united.dev", "apps.kruise.io")))
	g.Expect(findings).To(ConsistOf(Finding{File: "f", Name: "web", Field: "apiVersion", Message: untranslated}))
	g.Expect(count).To(BeZero())
	g.Expect(said(t, with()+"---\n{{ if x }}\n")).To(ConsistOf(HavePrefix("f: document 2: ")))
	g.Expect(said(t, "")).To(BeEmpty())
}

// What we show must be clean. Overlays of kustomize are no whole objects.
func TestSamplesAreClean(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	total := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		findings, count := File(file, content)
		g.Expect(findings).To(BeEmpty())
		total += count
	}
	g.Expect(total).To(BeNumerically(">=", len(files)))
}
