// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is a change of the sample that must be refused. The message must contain every text of want,
// starting with the path of the field.
type refusal struct {
	title string
	edit  edit
	want  []string
}

const (
	intOrPercent = `must be a whole number from 0 to 2147483647 or a percentage from "0%" to "100%"`

	templatePath   = "spec.template.statefulSetTemplate"
	podLabelsPath  = templatePath + ".spec.template.metadata.labels"
	partitionsPath = "spec.updateStrategy.manualUpdate.partitions"
	// patchPath is the path of zone-b's patch in the sample.
	patchPath = "spec.topology.subsets[zone-b].patch"
)

// These functions return paths in the sample.
func inTemplate(steps ...any) []any { return at("spec", "template", "statefulSetTemplate")(steps...) }
func inSubset(i int, steps ...any) []any {
	return at("spec", "topology", "subsets", i)(steps...)
}
func inPatch(steps ...any) []any  { return at(inSubset(1, "patch")...)(steps...) }
func inManual(steps ...any) []any { return at("spec", "updateStrategy", "manualUpdate")(steps...) }
func templateLabels(label ...any) []any {
	return at(inTemplate("spec", "template", "metadata", "labels")...)(label...)
}

func TestRefusedByTheSchema(t *testing.T) {
	refusals := []refusal{
		{"no template", set(map[string]any{}, "spec", "template"),
			[]string{"spec.template: ", "must hold exactly one template: statefulSetTemplate, deploymentTemplate, cloneSetTemplate, advancedStatefulSetTemplate or leaderWorkerSetTemplate"}},
		{"template absent", drop("spec", "template"), []string{"spec.template: Required value"}},
		{"template null", put(`null`, "spec", "template"), []string{"spec.template: "}},
		{"template is no object", put(`[]`, "spec", "template", "statefulSetTemplate"), []string{templatePath + ": ", "must be of type object"}},
		{"no selector", drop("spec", "selector"), []string{"spec.selector: Required value"}},
		{"empty selector", put(`{}`, "spec", "selector"), []string{"spec.selector: ", "must not be empty"}},
		{"empty members of the selector", put(`{matchLabels: {}, matchExpressions: []}`, "spec", "selector"),
			[]string{"spec.selector: ", "must not be empty"}},
		{"selector operator", put(`{matchExpressions: [{key: app, operator: Is, values: [web]}]}`, "spec", "selector"),
			[]string{"spec.selector.matchExpressions: ", "operator must be In or NotIn, with values, or"}},
		{"selector In without values", put(`{matchExpressions: [{key: app, operator: In}]}`, "spec", "selector"),
			[]string{"spec.selector.matchExpressions: ", "operator must be"}},
		{"selector Exists with values", put(`{matchExpressions: [{key: app, operator: Exists, values: [web]}]}`, "spec", "selector"),
			[]string{"spec.selector.matchExpressions: ", "operator must be"}},

		{"name with a dot", set("web.example", "metadata", "name"), []string{"metadata.name must be a DNS label", "no dots"}},
		{"name that no child fits", set(strings.Repeat("x", 51), "metadata", "name"),
			[]string{"metadata.name must be a DNS label of at most 50 characters"}},
		{"name and subset too long", all(
			set(strings.Repeat("x", 26), "metadata", "name"), set(strings.Repeat("y", 26), inSubset(2, "name")...)),
			[]string{"spec.topology.subsets: ", "the name of the child workload " + strings.Repeat("x", 26) + "-" + strings.Repeat("y", 26) + " would be too long",
				"at most 52 characters"}},
		{"duplicate subset", set("zone-a", inSubset(2, "name")...), []string{"spec.topology.subsets[2]: Duplicate value", "zone-a"}},
		{"subset without a name", put(`{replicas: 1}`, inSubset(2)...), []string{"spec.topology.subsets[2].name: Required value"}},
		{"more than 100 subsets", set(subsets(101, "s"), "spec", "topology", "subsets"),
			[]string{"spec.topology.subsets: Too many: 101: must have at most 100 items"}},

		{"negative replicas", put(`-1`, "spec", "replicas"), []string{"spec.replicas: ", "greater than or equal to 0"}},
		{"replicas beyond 32 bits", put(`2147483648`, "spec", "replicas"), []string{"spec.replicas: ", "less than or equal to 2147483647"}},
		{"replicas 1.5", put(`1.5`, "spec", "replicas"), []string{"spec.replicas: ", "integer"}},
		{"negative minReadySeconds", put(`-1`, "spec", "minReadySeconds"), []string{"spec.minReadySeconds: ", "greater than or equal to 0"}},
		{"minReadySeconds beyond 32 bits", put(`2147483648`, "spec", "minReadySeconds"), []string{"spec.minReadySeconds: "}},
		{"negative revisionHistoryLimit", put(`-1`, "spec", "revisionHistoryLimit"),
			[]string{"spec.revisionHistoryLimit: ", "greater than or equal to 0"}},
		{"revisionHistoryLimit beyond 32 bits", put(`2147483648`, "spec", "revisionHistoryLimit"), []string{"spec.revisionHistoryLimit: "}},
		{"no progressDeadlineSeconds", put(`0`, "spec", "progressDeadlineSeconds"),
			[]string{"spec.progressDeadlineSeconds: ", "greater than or equal to 1"}},
		{"progressDeadlineSeconds beyond 32 bits", put(`2147483648`, "spec", "progressDeadlineSeconds"),
			[]string{"spec.progressDeadlineSeconds: "}},
		{"another strategy", set("Recreate", "spec", "updateStrategy", "type"),
			[]string{"spec.updateStrategy.type: Unsupported value", `"Manual", "RollingUpdate"`}},

		{"partition of an unknown subset", put(`{zone-a: 0, zone-x: 1}`, inManual("partitions")...),
			[]string{partitionsPath + ": ", "there is no subset zone-x in spec.topology.subsets, which has zone-a, zone-b, zone-c"}},
		{"partition without subsets", drop("spec", "topology"),
			[]string{partitionsPath + ": ", "there is no subset zone-", " in spec.topology.subsets, which has none"}},

		{"nodeSelector without terms", put(`{nodeSelectorTerms: []}`, inSubset(0, "nodeSelector")...),
			[]string{"spec.topology.subsets[0].nodeSelector.nodeSelectorTerms: ", "at least one term"}},
		{"nodeSelector of a pod", put(`{disk: ssd}`, inSubset(0, "nodeSelector")...),
			[]string{"spec.topology.subsets[0].nodeSelector.nodeSelectorTerms: Required value"}},
		{"tolerations are a list", put(`{key: a}`, inSubset(0, "tolerations")...),
			[]string{"spec.topology.subsets[0].tolerations: ", "must be of type array"}},
		{"tolerationSeconds beyond 64 bits", put(`[{tolerationSeconds: 1e30}]`, inSubset(0, "tolerations")...),
			[]string{"spec.topology.subsets[0].tolerations[0]"}},
		{"patch is no object", put(`[]`, inPatch()...), []string{"spec.topology.subsets[1].patch: ", "must be of type object"}},
	}
	for _, name := range []string{"Zone-A", "zone.a", "-a", "a-", "a_b", "ä"} {
		refusals = append(refusals, refusal{"subset name " + name, set(name, inSubset(2, "name")...),
			[]string{"spec.topology.subsets[2].name: ", "must be a DNS label"}})
	}
	for _, name := range []string{"", strings.Repeat("x", 51)} {
		refusals = append(refusals, refusal{fmt.Sprintf("subset name %q", name), set(name, inSubset(2, "name")...),
			[]string{"spec.topology.subsets[2].name: "}})
	}
	for _, value := range []string{`-1`, `"-1%"`, `"101%"`, `"150%"`, `"5"`, `"%"`, `""`, `"5 %"`, `"05%"`, `"5%%"`, `"+5%"`,
		`"5.5%"`, `"half"`, `"٥%"`, `2147483648`} {
		for path, steps := range map[string][]any{
			"spec.topology.subsets[2].replicas":                 inSubset(2, "replicas"),
			"spec.updateStrategy.manualUpdate.defaultPartition": inManual("defaultPartition"),
		} {
			refusals = append(refusals, refusal{path + " " + value, put(value, steps...), []string{path + ": ", intOrPercent}})
		}
		refusals = append(refusals, refusal{partitionsPath + " " + value, put(value, inManual("partitions", "zone-b")...),
			[]string{partitionsPath + ": ", "the partition of zone-b " + intOrPercent}})
	}
	for _, value := range []string{`1.5`, `1e30`, `9223372036854775808`, `true`, `[]`, `{}`, strings.Repeat("9", 1000) + "%"} {
		for path, steps := range map[string][]any{
			"spec.topology.subsets[2].replicas":                 inSubset(2, "replicas"),
			"spec.updateStrategy.manualUpdate.defaultPartition": inManual("defaultPartition"),
			partitionsPath: inManual("partitions", "zone-b"),
		} {
			refusals = append(refusals, refusal{path + " " + value[:min(len(value), 10)], put(value, steps...), []string{path}})
		}
	}
	for _, r := range refusals {
		t.Run(r.title, func(t *testing.T) { expectRefused(t, "", r) })
	}
}

func TestRefusedByThePolicy(t *testing.T) {
	refusals := []refusal{
		{"replicas", put(`3`, inTemplate("spec", "replicas")...),
			[]string{templatePath + ".spec.replicas: must not be set; set spec.replicas"}},
		{"replicas 0", put(`0`, inTemplate("spec", "replicas")...), []string{templatePath + ".spec.replicas: must not be set"}},
		{"partition", put(`{rollingUpdate: {partition: 0}}`, inTemplate("spec", "updateStrategy")...),
			[]string{templatePath + ".spec.updateStrategy.rollingUpdate.partition: must not be set; set spec.updateStrategy.manualUpdate"}},
		{"OnDelete", put(`{type: OnDelete}`, inTemplate("spec", "updateStrategy")...),
			[]string{templatePath + ".spec.updateStrategy.type: must be RollingUpdate or absent"}},
		{"strategy of no kind", put(`{type: 1}`, inTemplate("spec", "updateStrategy")...),
			[]string{templatePath + ".spec.updateStrategy.type: must be RollingUpdate or absent"}},
		{"OnDelete in a patch", put(`{type: OnDelete}`, inPatch("spec", "updateStrategy")...),
			[]string{patchPath + ".spec.updateStrategy.type: must be RollingUpdate or absent"}},
		{"strategy of no kind in a patch", put(`{type: 1}`, inPatch("spec", "updateStrategy")...),
			[]string{patchPath + ".spec.updateStrategy.type: must be RollingUpdate or absent"}},
		{"replicas in a patch", put(`3`, inPatch("spec", "replicas")...),
			[]string{patchPath + ".spec.replicas: must not be set; set spec.topology.subsets[zone-b].replicas"}},
		{"replicas 0 in a patch", put(`0`, inPatch("spec", "replicas")...), []string{patchPath + ".spec.replicas: must not be set"}},
		{"replicas of no number in a patch", put(`{}`, inPatch("spec", "replicas")...), []string{patchPath + ".spec.replicas: must not be set"}},
		{"partition in a patch", put(`{rollingUpdate: {partition: 0}}`, inPatch("spec", "updateStrategy")...),
			[]string{patchPath + ".spec.updateStrategy.rollingUpdate.partition: must not be set; set spec.updateStrategy.manualUpdate"}},
		{"selector in a patch", put(`{matchLabels: {app: api}}`, inPatch("spec", "selector")...),
			[]string{patchPath + ".spec.selector: must be absent or equal to spec.selector"}},
		{"part of a selector in a patch", put(`{matchExpressions: [{key: a, operator: Exists}]}`, inPatch("spec", "selector")...),
			[]string{patchPath + ".spec.selector: must be absent or equal to spec.selector"}},
		{"an empty selector in a patch", put(`{}`, inPatch("spec", "selector")...),
			[]string{patchPath + ".spec.selector: must be absent or equal to spec.selector"}},

		{"no pod labels", drop(templateLabels()...), []string{podLabelsPath + ": must match spec.selector, which asks for app in (web)"}},
		{"other pod label", set("api", templateLabels("app")...), []string{podLabelsPath + ": must match spec.selector, which asks for app in (web)"}},
		{"pod label null", set(nil, templateLabels("app")...), []string{podLabelsPath + ": must match spec.selector, which asks for app in (web)"}},
		{"pod label is a number", set(int64(1), templateLabels("app")...), []string{podLabelsPath + "[app]: must be a string"}},
		{"no pod labels and no subset", all(drop("spec", "topology"), drop("spec", "updateStrategy"), drop(templateLabels()...)),
			[]string{podLabelsPath + ": must match spec.selector, which asks for app in (web)"}},
		{"not in the values", expression(`In, values: [api, db]`), []string{podLabelsPath + ": must match spec.selector, which asks for app in (api, db)"}},
		{"in the values of NotIn", expression(`NotIn, values: [api, web]`),
			[]string{podLabelsPath + ": must match spec.selector, which asks for app notin (api, web)"}},
		{"DoesNotExist", expression(`DoesNotExist`), []string{podLabelsPath + ": must match spec.selector, which asks for !app"}},
		{"Exists", put(`{matchExpressions: [{key: none, operator: Exists}]}`, "spec", "selector"),
			[]string{podLabelsPath + ": must match spec.selector, which asks for none"}},
		{"one of two", put(`{matchLabels: {app: web}, matchExpressions: [{key: none, operator: Exists}]}`, "spec", "selector"),
			[]string{podLabelsPath + ": must match spec.selector, which asks for none"}},
		{"label changed by a patch", set("api", inPatch("spec", "template", "metadata", "labels", "app")...),
			[]string{patchPath + ".spec.template.metadata.labels: must match spec.selector, which asks for app in (web)"}},
		{"label removed by a patch", set(nil, inPatch("spec", "template", "metadata", "labels", "app")...),
			[]string{patchPath + ".spec.template.metadata.labels: must match spec.selector, which asks for app in (web)"}},
		{"another value of united.dev/name", put(`{matchLabels: {app: web, united.dev/name: other}}`, "spec", "selector"),
			[]string{"spec.selector: must match every pod: the controller sets label united.dev/name"}},
		{"one value of united.dev/subset", put(`{matchLabels: {app: web, united.dev/subset: zone-a}}`, "spec", "selector"),
			[]string{"spec.selector: must match every pod: the controller sets label united.dev/subset"}},

		{"another selector", put(`{matchLabels: {app: api}}`, inTemplate("spec", "selector")...),
			[]string{templatePath + ".spec.selector: must be absent or equal to spec.selector"}},
		{"a wider selector", put(`{matchLabels: {app: web, tier: "1"}}`, inTemplate("spec", "selector")...),
			[]string{templatePath + ".spec.selector: must be absent or equal"}},
		{"a selector with an expression", put(`{matchLabels: {app: web}, matchExpressions: [{key: a, operator: Exists}]}`,
			inTemplate("spec", "selector")...), []string{templatePath + ".spec.selector: must be absent or equal"}},

		{"an empty selector", put(`{}`, inTemplate("spec", "selector")...), []string{templatePath + ".spec.selector: must be absent or equal"}},

		{"another kind", set("Deployment", inTemplate("kind")...), []string{templatePath + ".kind: must be absent: only metadata and spec of an apps/v1 StatefulSet"}},
		{"another version", set("apps/v1beta1", inTemplate("apiVersion")...), []string{templatePath + ".apiVersion: must be absent"}},
		{"status", put(`{}`, inTemplate("status")...), []string{templatePath + ".status: must be absent"}},
		{"spec in a patch forgotten", put(`{replicas: 1}`, inPatch()...), []string{patchPath + ".replicas: must be absent: only metadata and spec of"}},

		{"finalizers", put(`[example.com/keep]`, inTemplate("metadata", "finalizers")...),
			[]string{templatePath + ".metadata.finalizers: must be absent: only labels and annotations may be set here"}},
		{"finalizers in a patch", put(`[example.com/keep]`, inPatch("metadata", "finalizers")...),
			[]string{patchPath + ".metadata.finalizers: must be absent: only labels and annotations may be set here"}},

		{"an annotation that rolls back", put(`{deprecated.deployment.rollback.to: "0"}`, inTemplate("metadata", "annotations")...),
			[]string{templatePath + ".metadata.annotations[deprecated.deployment.rollback.to]: must be absent"}},
		{"an annotation that rolls back, in a patch", put(`{deprecated.deployment.rollback.to: "0"}`, inPatch("metadata", "annotations")...),
			[]string{patchPath + ".metadata.annotations[deprecated.deployment.rollback.to]: must be absent"}},

		{"nodeSelector operator", put(`{nodeSelectorTerms: [{}, {matchExpressions: [{key: a, operator: Is, values: [b]}]}]}`,
			inSubset(2, "nodeSelector")...), []string{"spec.topology.subsets[zone-c].nodeSelector.nodeSelectorTerms: operator must be In"}},
		{"nodeSelector In without values", put(`{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In}]}]}`,
			inSubset(2, "nodeSelector")...), []string{"spec.topology.subsets[zone-c].nodeSelector.nodeSelectorTerms: operator must be In"}},
	}
	refusals = append(refusals, directives()...)
	refusals = append(refusals, misshapen()...)
	for _, r := range refusals {
		t.Run(r.title, func(t *testing.T) {
			expectRefused(t, "ValidatingAdmissionPolicy 'united-templates' with binding 'united-templates' denied request: ", r)
		})
	}
}

// directives returns patch directives in places where they are not supported.
func directives() []refusal {
	const why = ": patch directives are supported only inside patch.spec.template"
	var refusals []refusal
	for path, steps := range map[string][]any{
		"":                                   nil,
		".metadata":                          {"metadata"},
		".metadata.labels":                   {"metadata", "labels"},
		".spec":                              {"spec"},
		".spec.updateStrategy":               {"spec", "updateStrategy"},
		".spec.selector":                     {"spec", "selector"},
		".spec.updateStrategy.rollingUpdate": {"spec", "updateStrategy", "rollingUpdate"},
	} {
		for directive, value := range map[string]string{
			"$patch":                              `replace`,
			"$retainKeys":                         `[spec]`,
			"$setElementOrder/containers":         `[]`,
			"$deleteFromPrimitiveList/finalizers": `[a]`,
		} {
			refusals = append(refusals, refusal{"directive patch" + path + "." + directive,
				put(value, inPatch(append(steps, directive)...)...), []string{patchPath + path + "." + directive + why}})
		}
	}
	return refusals
}

// misshapen returns values of a wrong type in the fields that lead to those that the policy reads.
func misshapen() []refusal {
	var refusals []refusal
	for _, value := range []string{`x`, `1`, `true`, `[]`, `[{}]`} {
		for path, steps := range map[string][]any{
			"metadata":                          {"metadata"},
			"spec":                              {"spec"},
			"spec.selector":                     {"spec", "selector"},
			"spec.updateStrategy":               {"spec", "updateStrategy"},
			"spec.updateStrategy.rollingUpdate": {"spec", "updateStrategy", "rollingUpdate"},
			"spec.template":                     {"spec", "template"},
			"spec.template.metadata":            {"spec", "template", "metadata"},
			"spec.template.metadata.labels":     {"spec", "template", "metadata", "labels"},
			"metadata.annotations":              {"metadata", "annotations"},
		} {
			refusals = append(refusals, refusal{"template " + path + " " + value, put(value, inTemplate(steps...)...),
				[]string{templatePath + "." + path + ": must be an object"}})
		}
		for path, steps := range map[string][]any{
			"metadata":                          {"metadata"},
			"spec":                              {"spec"},
			"spec.template":                     {"spec", "template"},
			"spec.template.metadata":            {"spec", "template", "metadata"},
			"spec.template.metadata.labels":     {"spec", "template", "metadata", "labels"},
			"spec.selector":                     {"spec", "selector"},
			"spec.updateStrategy":               {"spec", "updateStrategy"},
			"spec.updateStrategy.rollingUpdate": {"spec", "updateStrategy", "rollingUpdate"},
			"metadata.annotations":              {"metadata", "annotations"},
		} {
			refusals = append(refusals, refusal{"patch " + path + " " + value, put(value, inPatch(steps...)...),
				[]string{patchPath + "." + path + ": must be an object"}})
		}
	}
	return append(refusals,
		refusal{"template empty", put(`{}`, inTemplate()...), []string{templatePath + ".spec: must be set"}},
		refusal{"annotation is a number", put(`8080`, inTemplate("spec", "template", "metadata", "annotations", "port")...),
			[]string{templatePath + ".spec.template.metadata.annotations[port]: must be a string: put it in quotes"}},
		refusal{"label of the child is no string", put(`true`, inTemplate("metadata", "labels", "a")...),
			[]string{templatePath + ".metadata.labels[a]: must be a string: put it in quotes"}},
		refusal{"patched label is a number", put(`1`, inPatch("spec", "template", "metadata", "labels", "tier")...),
			[]string{patchPath + ".spec.template.metadata.labels[tier]: must be a string: put it in quotes"}},
		refusal{"patched annotation of the child is a number", put(`1`, inPatch("metadata", "annotations", "a")...),
			[]string{patchPath + ".metadata.annotations[a]: must be a string: put it in quotes"}},
		refusal{"template spec null", put(`null`, inTemplate("spec")...), []string{templatePath + ".spec: must be set"}},
		refusal{"pod template absent", put(`{}`, inTemplate("spec")...), []string{templatePath + ".spec.template: must be set"}},
		refusal{"patch spec null", put(`null`, inPatch("spec")...), []string{patchPath + ".spec: must be set"}},
		refusal{"patch pod template null", put(`null`, inPatch("spec", "template")...),
			[]string{patchPath + ".spec.template: must be set"}},
	)
}

// expression makes the selector an expression on label app.
func expression(rest string) edit {
	return put(`{matchExpressions: [{key: app, operator: `+rest+`}]}`, "spec", "selector")
}

// subsets returns n subsets; each name is the prefix and the number of the subset.
func subsets(n int, prefix string) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("%s%d", prefix, i)}
	}
	return list
}

func TestRefusedUnknownTemplates(t *testing.T) {
	const member = "daemonSetTemplate"
	second := put(`{spec: {}}`, "spec", "template", member)
	other := all(drop("spec", "template"), second)
	for title, e := range map[string]edit{"a second template": second, "another template": other} {
		t.Run(title+", strict", func(t *testing.T) {
			g := NewWithT(t)
			_, err := deployments().Create(t.Context(), with(t, "refused", e),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
			g.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
			g.Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.template.` + member + `"`)))
		})
	}
	// If a client asks for no validation, the API server stores only what the schema knows: it prunes
	// the member before anything else sees it.
	t.Run("another template, not strict", func(t *testing.T) {
		expectRefused(t, "", refusal{edit: other, want: []string{"spec.template: ", "must hold exactly one template"}})
	})
}

func expectRefused(t *testing.T, prefix string, r refusal) {
	t.Helper()
	g := NewWithT(t)
	_, err := deployments().Create(t.Context(), with(t, "refused", r.edit),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	expectInvalid(g, err, prefix, r.want)
}

// expectInvalid expects the status 422 with a message that contains prefix directly before the first
// text, and that is about the object, not about failing expressions.
func expectInvalid(g *WithT, err error, prefix string, want []string) {
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "refused as Invalid: %v", err)
	message := err.Error()

	g.Expect(message).To(ContainSubstring(prefix + want[0]))
	for _, text := range want[1:] {
		g.Expect(message).To(ContainSubstring(text))
	}
	g.Expect(message).NotTo(ContainSubstring("resulted in error"))
	g.Expect(message).NotTo(ContainSubstring("failed expression"))
}
