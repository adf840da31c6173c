// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// etcdLimit is the size that etcd stores: a larger object is refused.
const etcdLimit = 1_500_000

// growth makes the sample grow with n. Up to most the API server does not refuse it for its size;
// beyond, it refuses it with the text want. Without want the only bound is that of etcd.
type growth struct {
	title string
	grow  func(n int) edit
	most  int
	want  string
}

// many returns a map of n keys with the same value.
func many(n int, value any) map[string]any {
	out := make(map[string]any, n)
	for i := range n {
		out[fmt.Sprintf("k%d", i)] = value
	}
	return out
}

// repeat returns a list that repeats a value.
func repeat(n int, value any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = value
	}
	return out
}

// everywhere applies an edit to each of 100 subsets.
func everywhere(of func(i int) edit) edit {
	return func(object map[string]any) {
		list := subsets(100, "s")
		for i := range list {
			of(i)(list[i].(map[string]any))
		}
		all(set(list, "spec", "topology", "subsets"), drop(inManual("partitions")...))(object)
	}
}

// growing returns the values that a user can make large and that a rule iterates over.
func growing() []growth {
	const entries = ": must have at most %d entries"
	text := func(path string, most int) string { return path + fmt.Sprintf(entries, most) }
	list := []growth{
		{"matchLabels", func(n int) edit { return set(many(n, "v"), "spec", "selector", "matchLabels") }, 50,
			"spec.selector.matchLabels: Invalid value: must have at most 50 entries"},
		{"expressions", func(n int) edit {
			return set(repeat(n, map[string]any{"key": "app", "operator": "Exists"}), "spec", "selector", "matchExpressions")
		}, 50, "spec.selector.matchExpressions: Invalid value: must have at most 50 entries"},
		{"values of an expression", func(n int) edit { return expressions(1, n) }, 50,
			"spec.selector.matchExpressions: Invalid value: an expression must have at most 50 values"},
		{"terms", func(n int) edit {
			return set(repeat(n, map[string]any{}), inSubset(2, "nodeSelector", "nodeSelectorTerms")...)
		}, 100,
			"spec.topology.subsets[2].nodeSelector.nodeSelectorTerms: Invalid value: must have at most 100 terms"},
		{"expressions of the nodeSelectors", func(n int) edit {
			return everywhere(func(int) edit {
				return set([]any{map[string]any{"matchExpressions": repeat(n/100, map[string]any{"key": "a", "operator": "Exists"})}},
					"nodeSelector", "nodeSelectorTerms")
			})
		}, 10000, "spec.topology.subsets: the nodeSelectors of all subsets must have at most 10000 expressions together"},
		{"values of a nodeSelector", func(n int) edit {
			return set([]any{map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "In", "values": repeat(n, "v")}}}},
				inSubset(2, "nodeSelector", "nodeSelectorTerms")...)
		}, 100_000, ""},
		{"a long label", func(n int) edit { return set(strings.Repeat("x", n), templateLabels("app")...) }, etcdLimit, ""},
		{"a long value that is asked for", func(n int) edit {
			return all(set(strings.Repeat("x", n), "spec", "selector", "matchLabels", "app"), everywhere(func(int) edit { return all() }))
		}, 63, "spec.selector.matchLabels: Invalid value: a label must have at most 317 characters, its value 63"},
		{"a long label that is asked for", func(n int) edit {
			return all(set([]any{map[string]any{"key": strings.Repeat("x", n), "operator": "Exists"}}, "spec", "selector", "matchExpressions"),
				everywhere(func(int) edit { return all() }))
		}, 317, "spec.selector.matchExpressions: Invalid value: a label must have at most 317 characters"},
		{"long values in an expression", func(n int) edit {
			return all(set([]any{map[string]any{"key": "app", "operator": "In", "values": []any{strings.Repeat("x", n)}}}, "spec", "selector", "matchExpressions"),
				everywhere(func(int) edit { return all() }))
		}, etcdLimit, ""},
		{"a long partition", func(n int) edit { return set(strings.Repeat("9", n), inManual("partitions", "zone-a")...) }, etcdLimit, ""},
		{"a partition of a long name", func(n int) edit { return set(int64(1), inManual("partitions", strings.Repeat("x", n))...) }, etcdLimit, ""},
		{"what no rule looks at", func(n int) edit { return set(strings.Repeat("x", n), inTemplate("spec", "template", "spec", "x")...) }, etcdLimit, ""},
	}
	const items = ": must have at most %d items"
	pods, container := ".spec.template.spec", map[string]any{"name": "main", "image": "v1"}
	for _, in := range []struct {
		name, path string
		at         func(steps ...any) []any
	}{{"template", templatePath, inTemplate}, {"patch", patchPath, inPatch}} {
		for name, most := range map[string]int{"containers": 100, "initContainers": 100, "tolerations": 1000, "volumes": 1000, "hostAliases": 1000, "topologySpreadConstraints": 1000} {
			list = append(list, growth{in.name + " " + name, func(n int) edit {
				return set(repeat(n, container), in.at(steps(pods+"."+name)...)...)
			}, most, in.path + pods + "." + name + fmt.Sprintf(items, most)})
		}
		for _, name := range []string{"env", "envFrom", "ports", "volumeMounts", "args"} {
			list = append(list, growth{in.name + " " + name, func(n int) edit {
				large := map[string]any{"name": "main", "image": "v1", name: repeat(n, map[string]any{"name": "a"})}
				return set([]any{container, "", large}, in.at(steps(pods+".containers")...)...)
			}, 5000, in.path + pods + ".containers[main]." + name + fmt.Sprintf(items, 5000)})
		}
	}
	list = append(list, growth{"containers of all patches", func(n int) edit {
		return everywhere(func(int) edit { return set(repeat(n/100, container), at("patch")(steps(pods+".containers")...)...) })
	}, 900, "spec.topology.subsets: the template and all patches must have at most 1000 containers together"})
	for path, most := range map[string]int{"": 100, ".metadata": 100, ".metadata.labels": 1000, ".metadata.annotations": 1000,
		".spec.template.metadata.labels": 1000, ".spec.template.metadata.annotations": 1000} {
		list = append(list, growth{"template" + path, func(n int) edit { return set(many(n, "v"), inTemplate(steps(path)...)...) }, most,
			text(templatePath+path, most)})
	}
	for path, most := range map[string]int{"": 100, ".metadata": 100, ".spec": 100, ".spec.updateStrategy.rollingUpdate": 100,
		".metadata.labels": 1000, ".metadata.annotations": 1000, ".spec.updateStrategy": 1000, ".spec.someday": 1000,
		".spec.template.metadata.labels": 1000, ".spec.template.metadata.annotations": 1000} {
		list = append(list, growth{"patch" + path, func(n int) edit { return set(many(n, "v"), inPatch(steps(path)...)...) }, most,
			text(patchPath+path, most)})
	}
	for _, path := range []string{".metadata.labels", ".spec.template.metadata.annotations"} {
		list = append(list, growth{"patches" + path, func(n int) edit {
			return everywhere(func(int) edit { return set(many(n/100, "v"), at("patch")(steps(path)...)...) })
		}, 9000, "spec.topology.subsets: labels, annotations and other fields of the template and of all patches must be at most 10000 together"})
	}
	return list
}

// steps splits a path that begins with a dot.
func steps(path string) []any {
	var out []any
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		if step != "" {
			out = append(out, step)
		}
	}
	return out
}

// expressions makes a selector of n expressions with the given number of values each, which no pod
// matches.
func expressions(n, values int) edit {
	list := make([]any, n)
	for i := range list {
		var of []any
		for v := range values {
			of = append(of, fmt.Sprintf("%s%02d", strings.Repeat("v", 61), v))
		}
		list[i] = map[string]any{"key": fmt.Sprintf("%s/%s%02d", strings.Repeat("k", 253), strings.Repeat("k", 61), i), "operator": "In", "values": of}
	}
	return set(list, "spec", "selector", "matchExpressions")
}

// TestTooLarge checks that an object which would exceed the cost budget of the rules is refused before
// that, with a message that names the value. Nothing within the bounds exceeds the budget, and neither
// does anything unbounded that etcd can store.
func TestTooLarge(t *testing.T) {
	for _, growth := range growing() {
		t.Run(growth.title, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(refusalOf(t, growth.grow(growth.most))).NotTo(Or(ContainSubstring("must have at most"), ContainSubstring("together"), budget()))
			if growth.want == "" {
				return
			}
			for _, n := range []int{growth.most + growth.most/50 + 1000, 5 * growth.most} {
				said := refusalOf(t, growth.grow(n))
				g.Expect(said).To(ContainSubstring(growth.want), "with %d", n)
				g.Expect(said).NotTo(budget(), "with %d", n)
			}
		})
	}
}

// TestTheLargestSelector checks that a selector which no pod of 100 subsets matches is refused for that
// reason.
func TestTheLargestSelector(t *testing.T) {
	g := NewWithT(t)
	said := refusalOf(t, all(expressions(50, 50), everywhere(func(int) edit { return all() })))
	g.Expect(said).To(And(ContainSubstring(podLabelsPath+": must match spec.selector, which asks for "), Not(budget())))
}

// TestTheMostEntries checks an object with everything at its bound at once, on create and on update.
func TestTheMostEntries(t *testing.T) {
	most := all(largest, set("most", "metadata", "name"), set(many(1000, "v"), inTemplate("spec", "template", "metadata", "annotations")...), func(object map[string]any) {
		for i := range 100 {
			set(many(8, "v"), inSubset(i, "patch", "metadata", "annotations")...)(object)
			set([]any{map[string]any{"matchExpressions": repeat(100, map[string]any{"key": "a", "operator": "Exists"})}},
				inSubset(i, "nodeSelector", "nodeSelectorTerms")...)(object)
		}
	})
	store(t, with(t, "most", most))
	g := NewWithT(t)
	g.Expect(update(t, "most", put(`{a: b}`, inTemplate("metadata", "labels")...))).To(Succeed())
	expectInvalid(g, update(t, "most", put(`1`, inSubset(99, "patch", "spec", "replicas")...)), "",
		[]string{"spec.topology.subsets[" + strings.Repeat("s", 40) + "99].patch.spec.replicas: must not be set"})
}

// TestTheLargestThatIsStored checks updates of the largest stored object: the rules that compare it
// with its old version accept its size.
func TestTheLargestThatIsStored(t *testing.T) {
	text := strings.Repeat("x", 100)
	store(t, with(t, "stored", all(
		set(repeat(6000, text), inTemplate("spec", "template", "spec", "someday")...),
		set([]any{map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "In", "values": repeat(4000, text)}}}},
			inSubset(2, "nodeSelector", "nodeSelectorTerms")...),
		set(repeat(2000, text), inPatch("spec", "template", "spec", "someday")...))))
	g := NewWithT(t)
	g.Expect(update(t, "stored", put(`{a: b}`, inTemplate("metadata", "labels")...))).To(Succeed())
	g.Expect(update(t, "stored", put(`9`, "spec", "replicas"))).To(Succeed())
	expectInvalid(g, update(t, "stored", set("y", inSubset(2, "nodeSelector", "nodeSelectorTerms", 0, "matchExpressions", 0, "values", 3999)...)), "",
		[]string{"spec.topology.subsets: ", "the nodeSelector of the existing subset zone-c is immutable"})
}

// budget matches a refusal because of the cost budget instead of the object.
func budget() types.GomegaMatcher {
	return Or(ContainSubstring("budget"), ContainSubstring("cost limit"), ContainSubstring("resulted in error"), ContainSubstring("failed expression"))
}

// TestBudgetIsSeen checks that budget matches the message that the API server of Kubernetes 1.37
// returned before there were bounds, as the positive control of budget.
func TestBudgetIsSeen(t *testing.T) {
	g := NewWithT(t)
	for _, said := range []string{
		`expression 'size(variables.unquoted) == 0' resulted in error: composited variable "unquoted" fails to evaluate: operation cancelled: actual cost limit exceeded`,
		`failed expression: size(variables.unmatched) == 0`,
	} {
		g.Expect("ValidatingAdmissionPolicy 'united-templates' with binding 'united-templates' denied request: " + said).To(budget())
	}
}

// refusalOf returns the error with which an object is refused; "" if it is accepted.
func refusalOf(t *testing.T, e edit) string {
	t.Helper()
	_, err := deployments().Create(t.Context(), with(t, "grown", e), metav1.CreateOptions{DryRun: dryRun})
	if err == nil {
		return ""
	}
	return err.Error()
}
