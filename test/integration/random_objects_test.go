// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestPolicyOnAnything checks that the policy, for any content of a template and a patch, either
// accepts it, and then it decodes, or refuses it with a message that begins with the path of a field;
// no expression fails.
func TestPolicyOnAnything(t *testing.T) {
	var accepted, refused int
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(rt)
		object := with(t, "anything", set(anObject().Draw(rt, "template"), inTemplate()...),
			set(anObject().Draw(rt, "patch"), inPatch()...))
		if rapid.Bool().Draw(rt, "only the patch") {
			object = with(t, "anything", set(anObject().Draw(rt, "the patch"), inPatch()...))
		}
		stored, err := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		if err == nil {
			accepted++
			decode(g, stored)
			return
		}
		refused++
		g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		_, message, denied := strings.Cut(err.Error(), " denied request: ")
		g.Expect(denied).To(BeTrue(), "%v", err)
		g.Expect(message).To(MatchRegexp(`^spec\.(template\.statefulSetTemplate|topology\.subsets\[zone-b\]\.patch)\.\S+: must be|`+
			`^spec\.\S+: (must |patch directives)`), "%v", err)
		g.Expect(message).NotTo(ContainSubstring("resulted in error"))
	})
	NewWithT(t).Expect(min(accepted, refused)).To(BeNumerically(">", 0), "accepted %d, refused %d", accepted, refused)
}

// anObject returns an object of the fields that the policy reads, nested correctly or incorrectly.
func anObject() *rapid.Generator[any] {
	keys := []string{"metadata", "spec", "template", "labels", "app", "updateStrategy", "rollingUpdate", "partition", "type",
		"replicas", "selector", "matchLabels", "matchExpressions", "$patch", "other"}
	return rapid.Map(rapid.MapOfN(rapid.SampledFrom(keys), aValue(4), 0, 5), func(m map[string]any) any { return m })
}

func aValue(depth int) *rapid.Generator[any] {
	scalars := rapid.SampledFrom([]any{nil, "", "web", "RollingUpdate", int64(0), int64(-1), 1.5, true, []any{}, []any{"x"}, []any{nil}})
	if depth == 0 {
		return scalars
	}
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 3).Draw(t, "scalar") == 0 {
			return scalars.Draw(t, "value")
		}
		object := map[string]any{}
		for _, key := range []string{"metadata", "spec", "template", "labels", "updateStrategy", "rollingUpdate", "selector"} {
			if rapid.IntRange(0, 2).Draw(t, key) == 0 {
				object[key] = aValue(depth-1).Draw(t, "value of "+key)
			}
		}
		for _, key := range []string{"app", "type", "partition", "matchLabels", "matchExpressions", "$patch", "finalizers"} {
			if rapid.IntRange(0, 4).Draw(t, key) == 0 {
				object[key] = scalars.Draw(t, "scalar of "+key)
			}
		}
		return object
	})
}
