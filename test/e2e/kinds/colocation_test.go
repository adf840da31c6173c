// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// inRoom places the subsets on the nodes of a room, which no other pods tolerate; each pod requests a
// part of a node, which has a CPU of 1000.
func inRoom(e *Env, cpu string) Edit {
	return func(d *Draft) {
		for _, name := range []string{Prefill, Decode} {
			Subset(v1alpha1.Subset{
				Name: name, Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: roomLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{e.Namespace}},
				}}}},
			})(d)
		}
		TemplateField([]any{map[string]any{"name": "web", "image": Image("v1"), "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}},
			"spec", "template", "spec", "containers")(d)
	}
}

const roomLabel = "room.example.com/name"

// addRoom adds a node to the room of this test.
func addRoom(e *Env, suffix, zone string) string {
	e.T.Helper()
	name := e.AddNodeWithoutZone(suffix)
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:%q}}}`, roomLabel, e.Namespace, corev1.LabelTopologyZone, zone)
	e.Expect(e.Client.Patch(e.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, label))).To(Succeed())
	return name
}
