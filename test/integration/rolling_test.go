// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

const (
	rollingPath = "spec.updateStrategy.rollingUpdate"
	badDuration = `must be a positive duration such as "10m" or "1h30m"`
	fromOne     = `must be a whole number from 1 to 2147483647 or a percentage from "1%" to "100%": with 0 no replica could ever be updated`
	// everyStep is the beginning of a step.
	everyStep = `{subsets: ["*"], partition: 0`
	badSkew   = `must be a percentage from "0%" to "100%", such as "10%"`
)

// rolling sets the strategy RollingUpdate with these members in the sample.
func rolling(members string) edit {
	return put(`{type: RollingUpdate, rollingUpdate: `+members+`}`, "spec", "updateStrategy")
}

// checkOf returns a check on a MySQLCluster, with more members of its condition.
func checkOf(name, more string) string {
	return `{name: ` + name + `, objectCondition: {apiVersion: moco.cybozu.com/v1beta2, kind: MySQLCluster, name: shop, type: Healthy` + more + `}}`
}

func manyChecks(n int) string {
	var checks []string
	for i := range n {
		checks = append(checks, checkOf(fmt.Sprintf("c%d", i), ""))
	}
	return strings.Join(checks, ", ")
}

// rollingRefusal is a strategy that must be refused.
type rollingRefusal struct {
	refusal
	// schema: only the schema refuses it; the controller can work with it, or cannot even decode it.
	schema bool
}

func rollingRefusals() []rollingRefusal {
	refused := func(title, members string, want ...string) rollingRefusal {
		return rollingRefusal{refusal: refusal{title, rolling(members), want}}
	}
	schema := func(title, members string, want ...string) rollingRefusal {
		r := refused(title, members, want...)
		r.schema = true
		return r
	}
	list := []rollingRefusal{
		refused("maxUnavailable 0", `{maxUnavailable: 0}`, rollingPath+".maxUnavailable: ", fromOne),
		refused("another order", `{order: Random}`, rollingPath+`.order: Unsupported value: "Random"`, `"Parallel", "Sequential"`),
		refused("maxSkew with Sequential", `{maxSkew: "10%", order: Sequential}`, rollingPath+".maxSkew: ",
			"cannot be used with order Sequential, which updates one subset after the other"),
		refused("a step of an unknown subset", `{steps: [{subsets: [zone-a], partition: 0}, {subsets: [zone-b, zone-x], partition: 0}]}`, rollingPath+".steps: ",
			"there is no subset zone-x in spec.topology.subsets, which has zone-a, zone-b, zone-c"),
		refused("a step without subsets", `{steps: [{partition: "90%"}]}`, rollingPath+".steps[0].subsets: ", "Required value"),
		refused("a misspelt subset of a step", `{steps: [{subset: zone-a, partition: "90%"}]}`, rollingPath+".steps[0].subsets: ", "Required value"),
		refused("a misspelt partition of a step", `{steps: [{subsets: [zone-a], partiton: "90%"}]}`, rollingPath+".steps[0].partition: ", "Required value"),
		refused("a step of all subsets and one", `{steps: [{subsets: ["*", zone-a], partition: 0}]}`, rollingPath+".steps[0].subsets: ",
			`"*" means all subsets: it must be the only entry`),
		refused("maxUnavailablePerSubset 0", `{maxUnavailablePerSubset: 0}`, rollingPath+".maxUnavailablePerSubset: ", fromOne),
		schema("maxUnavailablePerSubset 0%", `{maxUnavailablePerSubset: "0%"}`, rollingPath+".maxUnavailablePerSubset: ", fromOne),
		refused("maxSkewSubsets without maxSkew", `{maxSkewSubsets: [zone-a]}`, rollingPath+".maxSkewSubsets: ",
			"is only for maxSkew: set maxSkew, or remove it, because it limits nothing by itself"),
		refused("maxSkew of an unknown subset", `{maxSkew: "10%", maxSkewSubsets: [zone-b, zone-x]}`, rollingPath+".maxSkewSubsets: ",
			"there is no subset zone-x in spec.topology.subsets, which has zone-a, zone-b, zone-c"),
		schema("maxSkew of no subset", `{maxSkew: "10%", maxSkewSubsets: []}`, rollingPath+".maxSkewSubsets: ", "at least 1 items"),
		schema("maxSkew of a subset twice", `{maxSkew: "10%", maxSkewSubsets: [zone-a, zone-a]}`, rollingPath+".maxSkewSubsets[1]: Duplicate value"),
		schema("a step of no subset", `{steps: [{subsets: [], partition: 0}]}`, rollingPath+".steps[0].subsets: ", "at least 1 items"),
		schema("a step of a subset twice", `{steps: [{subsets: [zone-a, zone-a], partition: 0}]}`, rollingPath+".steps[0].subsets[1]: Duplicate value"),
		schema("more than 20 steps", `{steps: [`+strings.Repeat(everyStep+"},", 21)+`]}`, rollingPath+".steps: Too many: 21: must have at most 20 items"),
		schema("maxSkew is a number", `{maxSkew: 5}`, rollingPath+".maxSkew: ", badSkew),
		schema("maxUnavailable 0%", `{maxUnavailable: "0%"}`, rollingPath+".maxUnavailable: ", fromOne), // if it is stored, it counts as 1
		schema("steps are a list", `{steps: {}}`, rollingPath+".steps: ", "must be of type array"),
		schema("pause is no object", `{steps: [`+everyStep+`, pause: 10m}]}`, rollingPath+".steps[0].pause: ", "must be of type object"),
		refused("a check without a member", `{checks: [{name: mysql}]}`, rollingPath+".checks[0]: ", "must have exactly one member besides name: objectCondition"),
		schema("a check of the wrong kind", `{checks: [{name: mysql, httpGet: {path: /}}]}`, rollingPath+".checks[0]: ", "must have exactly one member besides name: objectCondition"),
		refused("two checks of one name", `{checks: [`+checkOf("mysql", "")+`, `+checkOf("mysql", "")+`]}`, rollingPath+".checks[1]", "Duplicate value"),
		schema("a check without a name", `{checks: [{objectCondition: {apiVersion: v1, kind: Pod, name: web, type: Ready}}]}`, rollingPath+".checks[0].name: Required value"),
		schema("a name that is no DNS label", `{checks: [`+checkOf("My_SQL", "")+`]}`, rollingPath+".checks[0].name: ", "must be a DNS label: lower-case letters, digits and '-'"),
		schema("more than 10 checks", `{checks: [`+manyChecks(11)+`]}`, rollingPath+".checks: Too many: 11: must have at most 10 items"),
		refused("two groups", `{checks: [{name: mysql, objectCondition: {apiVersion: a/b/v1, kind: Pod, name: web, type: Ready}}]}`, rollingPath+".checks[0].objectCondition.apiVersion: ", `must be a group and a version, such as "apps/v1"`),
		schema("no version", `{checks: [{name: mysql, objectCondition: {apiVersion: apps, kind: Pod, name: web, type: Ready}}]}`, rollingPath+".checks[0].objectCondition.apiVersion: ", "or only a version for the core group"),
		schema("a resource instead of a kind", `{checks: [{name: mysql, objectCondition: {apiVersion: v1, kind: pods, name: web, type: Ready}}]}`, rollingPath+".checks[0].objectCondition.kind: ", `must be a kind, such as "MySQLCluster"`),
		schema("a condition without a type", `{checks: [{name: mysql, objectCondition: {apiVersion: v1, kind: Pod, name: web}}]}`, rollingPath+".checks[0].objectCondition.type: Required value"),
		schema("another status", `{checks: [`+checkOf("mysql", `, status: "Yes"`)+`]}`, rollingPath+`.checks[0].objectCondition.status: Unsupported value: "Yes": supported values: "True", "False", "Unknown"`),
		schema("a status that is no text", `{checks: [`+checkOf("mysql", `, status: true`)+`]}`, rollingPath+".checks[0].objectCondition.status: ", "must be of type string"),
		refused("a query without a limit", `{checks: [{name: q, prometheus: {server: s, query: up}}]}`, rollingPath+".checks[0].prometheus: ", "must have min, max or maxRatio"),
		refused("a ratio of what does not differ", `{checks: [{name: q, prometheus: {server: s, query: up, maxRatio: "1"}}]}`, rollingPath+".checks[0].prometheus.maxRatio: ", "the query must contain ${pods}, ${subset} or ${version}"),
		refused("a limit that is no number", `{checks: [{name: q, prometheus: {server: s, query: up, max: "5%"}}]}`, rollingPath+".checks[0].prometheus.max: ", `must be a decimal number, such as "0.01"`),
		refused("limits that nothing meets", `{checks: [{name: q, prometheus: {server: s, query: up, min: "10", max: "9.5"}}]}`, rollingPath+".checks[0].prometheus.min: ", "must not be greater than max: nothing would be met"),
		schema("a limit that is not text", `{checks: [{name: q, prometheus: {server: s, query: up, max: 5}}]}`, rollingPath+".checks[0].prometheus.max: ", "must be of type string"),
		schema("a query of 1 MB", `{checks: [{name: q, prometheus: {server: s, max: "1", query: "`+strings.Repeat("a", 1<<20)+`"}}]}`, rollingPath+".checks[0].prometheus.query: Too long"),
		schema("a query without a server", `{checks: [{name: q, prometheus: {query: up, max: "1"}}]}`, rollingPath+".checks[0].prometheus.server: Required value"),
		refused("a short interval", `{checks: [{name: q, prometheus: {server: s, query: up, max: "1", interval: 1s}}]}`, rollingPath+".checks[0].prometheus.interval: ", `must be a duration of at least 5s, such as "30s"`),
		schema("failureLimit 0", `{checks: [{name: q, prometheus: {server: s, query: up, max: "1", failureLimit: 0}}]}`, rollingPath+".checks[0].prometheus.failureLimit: ", "greater than or equal to 1"),
		schema("another noData", `{checks: [{name: q, prometheus: {server: s, query: up, max: "1", noData: Fail}}]}`, rollingPath+`.checks[0].prometheus.noData: Unsupported value: "Fail"`),
		schema("the version without its label", `{checks: [{name: q, prometheus: {server: s, query: 'a{v=~"${version}"}', max: "1"}}]}`, rollingPath+".checks", "${version} is the label united.dev/version of the pods: set spec.versionLabel to TemplateHash"),
		schema("an unknown placeholder", `{checks: [{name: q, prometheus: {server: s, query: 'a{pod=~"${pods}", c="${cluster}"}', max: "1"}}]}`, rollingPath+".checks[0].prometheus.query: ", "must have no other placeholders than ${pods}, ${subset}, ${version}, ${namespace} and ${name}"),
		schema("duration is a number", `{steps: [`+everyStep+`, pause: {duration: 10}}]}`, rollingPath+".steps[0].pause.duration: ", "must be of type string"),
	}
	for _, value := range []string{`-1`, `"-1%"`, `"101%"`, `"5"`, `"%"`, `""`, `"5 %"`, `"05%"`, `"+5%"`, `"5.5%"`, `"half"`} {
		list = append(list,
			refused("partition "+value, `{partition: `+value+`}`, rollingPath+".partition: ", intOrPercent),
			refused("maxUnavailable "+value, `{maxUnavailable: `+value+`}`, rollingPath+".maxUnavailable: ", fromOne),
			refused("maxUnavailablePerSubset "+value, `{maxUnavailablePerSubset: `+value+`}`, rollingPath+".maxUnavailablePerSubset: ", fromOne),
			refused("partition of a step "+value, `{steps: [`+everyStep+`}, {subsets: [zone-a], partition: `+value+`}]}`, rollingPath+".steps[1].partition: ", intOrPercent))
		skew := refused("maxSkew "+value, `{maxSkew: "`+strings.Trim(value, `"`)+`"}`, rollingPath+".maxSkew: ", badSkew)
		skew.schema = value == `""` // the controller treats it as absent
		list = append(list, skew)
	}
	for _, value := range []string{`2147483648`, `1.5`, `true`, `[]`, `{}`} {
		list = append(list,
			schema("partition "+value, `{partition: `+value+`}`, rollingPath+".partition: "),
			schema("maxUnavailable "+value, `{maxUnavailable: `+value+`}`, rollingPath+".maxUnavailable: "),
			schema("maxUnavailablePerSubset "+value, `{maxUnavailablePerSubset: `+value+`}`, rollingPath+".maxUnavailablePerSubset: "),
			schema("partition of a step "+value, `{steps: [{subsets: [zone-a], partition: `+value+`}]}`, rollingPath+".steps[0].partition: "))
	}
	for _, value := range []string{"0s", "0h0m", "-1s", "10", "1d", "m", "1.s", ".5s", "1s ", "1h-5m", "ten", "10M", "1us", "9999999999h"} {
		pause := refused("pause of "+value, `{steps: [`+everyStep+`}, `+everyStep+`, pause: {duration: "`+value+`"}}]}`,
			rollingPath+".steps[1].pause.duration: ", badDuration)
		pause.schema = slices.Contains([]string{"1.s", ".5s", "1us"}, value) // the controller accepts what Go parses
		list = append(list, pause)
	}
	return append(list, schema("an empty duration", `{steps: [`+everyStep+`, pause: {duration: ""}}]}`, rollingPath+".steps[0].pause.duration: ", badDuration))
}

func TestRefusedRolling(t *testing.T) {
	for _, r := range rollingRefusals() {
		t.Run(r.title, func(t *testing.T) {
			expectRefused(t, "", r.refusal)
			if r.schema {
				return
			}
			// The controller repeats the check, because an object may be older than a rule.
			g := NewWithT(t)
			errs := check(g, with(t, "refused", r.edit))
			g.Expect(errs).NotTo(BeEmpty())
			at, _, _ := strings.Cut(strings.TrimSuffix(r.want[0], ": "), ": ")
			g.Expect(errs[0].Field).To(HavePrefix(at))
			if strings.Contains(at, ".maxUnavailable") {
				g.Expect(errs[0].Detail).To(Equal(fromOne), "the controller and admission say the same")
			}
		})
	}
}

// check returns the controller's errors for the strategy of an object.
func check(g *WithT, object *unstructured.Unstructured) field.ErrorList {
	typed := decode(g, object)
	known := func(name string) bool {
		return slices.ContainsFunc(typed.Spec.Topology.Subsets, func(s v1alpha1.Subset) bool { return s.Name == name })
	}
	return coordination.Check(typed.Spec.UpdateStrategy.RollingUpdate, known, field.NewPath("spec", "updateStrategy", "rollingUpdate"))
}

func TestRefusedStrategies(t *testing.T) {
	for _, r := range []refusal{
		{"RollingUpdate with partitions", set("RollingUpdate", "spec", "updateStrategy", "type"),
			[]string{"spec.updateStrategy.manualUpdate: ", "is only for type Manual: remove it, because it holds nothing with another type"}},
		{"RollingUpdate with an empty manualUpdate", put(`{type: RollingUpdate, manualUpdate: {}}`, "spec", "updateStrategy"),
			[]string{"spec.updateStrategy.manualUpdate: ", "is only for type Manual"}},
		{"Manual with rollingUpdate", put(`{type: Manual, rollingUpdate: {}}`, "spec", "updateStrategy"),
			[]string{"spec.updateStrategy.rollingUpdate: ", "is only for type RollingUpdate"}},
		{"rollingUpdate without a type", put(`{rollingUpdate: {maxUnavailable: 2}}`, "spec", "updateStrategy"),
			[]string{"spec.updateStrategy.rollingUpdate: ", "is only for type RollingUpdate"}},
		{"RollingUpdate without rollingUpdate", put(`{type: RollingUpdate}`, "spec", "updateStrategy"),
			[]string{rollingPath + ": ", "is required with type RollingUpdate: {} rolls out without steps"}},
		{"RollingUpdate with null", put(`{type: RollingUpdate, rollingUpdate: null}`, "spec", "updateStrategy"),
			[]string{rollingPath + ": ", "is required with type RollingUpdate: {} rolls out without steps"}},
		{"steps without subsets", all(drop("spec", "topology"), rolling(`{steps: [{subsets: [zone-a], partition: 0}]}`)),
			[]string{rollingPath + ".steps: ", "there is no subset zone-a in spec.topology.subsets, which has none"}},
	} {
		t.Run(r.title, func(t *testing.T) { expectRefused(t, "", r) })
	}
	t.Run("a subset goes that maxSkewSubsets names", func(t *testing.T) {
		store(t, with(t, "skewed", rolling(`{maxSkew: "10%", maxSkewSubsets: [zone-c]}`)))
		expectInvalid(NewWithT(t), update(t, "skewed", setSubsets(0, 1)), "",
			[]string{rollingPath + ".maxSkewSubsets: ", "there is no subset zone-c in spec.topology.subsets, which has zone-a, zone-b"})
	})
	t.Run("a subset goes that a step names", func(t *testing.T) {
		store(t, with(t, "stepped", rolling(`{steps: [{subsets: [zone-c], partition: 0}]}`)))
		expectInvalid(NewWithT(t), update(t, "stepped", setSubsets(0, 1)), "",
			[]string{rollingPath + ".steps: ", "there is no subset zone-c in spec.topology.subsets, which has zone-a, zone-b; to remove a subset, take it out of the steps in the same patch"})
	})
}

func TestAcceptedRolling(t *testing.T) {
	accepted := map[string]string{
		"nothing":         `{}`,
		"nulls":           `{partition: null, maxUnavailable: null, maxUnavailablePerSubset: null, maxSkew: null, maxSkewSubsets: null, order: null, steps: null}`,
		"largest numbers": `{partition: 2147483647, maxUnavailable: 2147483647, maxUnavailablePerSubset: 2147483647, steps: [{subsets: ["*"], partition: 2147483647}]}`,
		"zeros":           `{partition: 0, maxUnavailable: "1%", maxUnavailablePerSubset: "1%", maxSkew: "0%", steps: [{subsets: ["*"], partition: 0}]}`,
		"hundreds":        `{partition: "100%", maxUnavailable: "100%", maxUnavailablePerSubset: "100%", maxSkew: "100%", steps: [{subsets: ["*"], partition: "100%"}]}`,
		"Sequential":      `{order: Sequential, maxUnavailable: 3}`,
		"the design": `{partition: "0%", maxUnavailable: 1, maxSkew: "10%", order: Parallel,
			steps: [{subsets: [zone-a], partition: "90%", pause: {duration: 10m}}, {subsets: ["*"], partition: "50%", pause: {}}, {subsets: [zone-b, zone-c], partition: 0}]}`,
		"roles":     `{maxUnavailable: 15, maxUnavailablePerSubset: "5%", maxSkew: "10%", maxSkewSubsets: [zone-a, zone-c]}`,
		"checks":    `{checks: [` + checkOf("mysql", `, status: "False"`) + `, {name: pod, objectCondition: {apiVersion: v1, kind: Pod, name: web, type: example.com/Ready}}]}`,
		"10 checks": `{checks: [` + manyChecks(10) + `]}`,
		"20 steps":  `{steps: [` + strings.Repeat(everyStep+", pause: {}},", 20) + `]}`,
	}
	for _, d := range []string{"1ms", "1s", "10m", "1h30m", "1.5h", "0h1s", "8760h"} {
		accepted["pause of "+d] = `{steps: [` + everyStep + `, pause: {duration: ` + d + `}}]}`
	}
	for p := range 101 {
		value := fmt.Sprintf("%d%%", p)
		accepted[value] = fmt.Sprintf(`{partition: %[1]q, maxUnavailable: %[2]q, maxSkew: %[1]q, steps: [{subsets: ["*"], partition: %[1]q}]}`, value,
			fmt.Sprintf("%d%%", max(p, 1)))
	}
	for title, members := range accepted {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			object := with(t, "accepted", rolling(members))
			stored, err := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: "Strict"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(check(g, stored)).To(BeEmpty())
		})
	}
}

func TestRollingDefaults(t *testing.T) {
	g := NewWithT(t)
	for members, want := range map[string]string{
		`{}`:                  `{partition: "0%", maxUnavailable: 1, order: Parallel, rollbackRevisions: 1, onFailure: Hold}`,
		`{maxSkew: "5%"}`:     `{partition: "0%", maxUnavailable: 1, order: Parallel, rollbackRevisions: 1, onFailure: Hold, maxSkew: "5%"}`,
		`{partition: null}`:   `{partition: "0%", maxUnavailable: 1, order: Parallel, rollbackRevisions: 1, onFailure: Hold}`,
		`{order: Sequential}`: `{partition: "0%", maxUnavailable: 1, order: Sequential, rollbackRevisions: 1, onFailure: Hold}`,
	} {
		stored, err := deployments().Create(t.Context(), with(t, "defaults", rolling(members)), metav1.CreateOptions{DryRun: dryRun})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(stored.Object["spec"].(map[string]any)["updateStrategy"]).To(Equal(
			map[string]any{"type": "RollingUpdate", "rollingUpdate": parse(want)}), members)
	}
}

// TestTheLargestSteps checks the maximum number of steps and subsets, so that the rules would exceed a
// budget if they could.
func TestTheLargestSteps(t *testing.T) {
	var names []any
	list := subsets(100, strings.Repeat("s", 40))
	for _, s := range list {
		names = append(names, s.(map[string]any)["name"])
	}
	var steps []any
	for range 20 {
		steps = append(steps, map[string]any{"subsets": names, "partition": "99%", "pause": map[string]any{"duration": "123456h"}})
	}
	g := NewWithT(t)
	largest := all(set(list, "spec", "topology", "subsets"), rolling(`{maxSkew: "10%"}`), set(steps, "spec", "updateStrategy", "rollingUpdate", "steps"),
		set(names, "spec", "updateStrategy", "rollingUpdate", "maxSkewSubsets"))
	_, err := deployments().Create(t.Context(), with(t, "l", largest), metav1.CreateOptions{DryRun: dryRun})
	g.Expect(err).NotTo(HaveOccurred())
	// Only the very last name is unknown. The message does not list all of the others.
	steps[19] = map[string]any{"subsets": append(slices.Clone(names[1:]), "unknown"), "partition": 0}
	_, err = deployments().Create(t.Context(), with(t, "l", largest), metav1.CreateOptions{DryRun: dryRun})
	expectInvalid(g, err, "", []string{rollingPath + ".steps: ", "there is no subset unknown in spec.topology.subsets, which has " + strings.Repeat("s", 40) + "0, ", strings.Repeat("s", 40) + "7, ..."})
	steps[19] = map[string]any{"subsets": []any{"*"}, "partition": 0}
	_, err = deployments().Create(t.Context(), with(t, "l", all(largest,
		set(append(slices.Clone(names[1:]), "unknown"), "spec", "updateStrategy", "rollingUpdate", "maxSkewSubsets"))), metav1.CreateOptions{DryRun: dryRun})
	expectInvalid(g, err, "", []string{rollingPath + ".maxSkewSubsets: ", "there is no subset unknown in spec.topology.subsets, which has " + strings.Repeat("s", 40) + "0, ", strings.Repeat("s", 40) + "7, ..."})
}
