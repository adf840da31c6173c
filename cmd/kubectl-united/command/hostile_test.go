// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// hostile clears the screen, fills the clipboard, hides text, turns it around, and ends lines.
const hostile = "EVIL\x1b[2J\x1b]52;c;aGk=\a\x1b[8mhidden\x1b[0m\u009b31m\x7f\r\n\u202egnp\u200b\U000e0041\u2028"

func evil(p *v1alpha1.UnitedDeployment) {
	p.Annotations = map[string]string{"note": hostile}
	p.Status.Conditions = append(p.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: "False", Reason: v1alpha1.ReasonApplyFailed, Message: hostile, ObservedGeneration: p.Generation},
		metav1.Condition{Type: v1alpha1.ConditionStalled, Status: "True", Reason: v1alpha1.ReasonApplyFailed, Message: hostile, ObservedGeneration: p.Generation})
	p.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "zone-a", Workload: "web-zone-a", DesiredReplicas: 2, Phase: v1alpha1.PhaseStalled, Message: hostile}, {Name: "zone-b", Phase: v1alpha1.PhaseWaiting, Message: "b" + hostile}}
	p.Status.Rollout = &v1alpha1.RolloutStatus{Revision: p.Status.UpdateRevision, Phase: v1alpha1.RolloutCheckFailed, Message: hostile,
		Checks: []v1alpha1.CheckStatus{{Name: "smoke", State: v1alpha1.CheckHasFailed, Message: "c" + hostile}}}
}

// Nothing that others wrote reaches the terminal as it is, whatever prints it; JSON and YAML have it whole.
func TestNothingReachesTheTerminal(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "uniteddeployments"}, "web", errors.New("admission webhook: "+hostile))
	for _, args := range []string{
		"status", "status web", "status web --pods", "status web -o json", "status web -o yaml", "status -o yaml", "why web", "why web -o yaml", "history web", "history web -o json", "history web -o yaml",
		"diff web", "diff web -o yaml", "diff web --revision 1 --to 2", "plan web --image web=web:v3", "pause web", "pause web -o yaml", "undo web", "wait web --timeout 0", "approve web", "set image web web=web:v3", "set image web x=" + hostile,
	} {
		for _, refuses := range []bool{false, true} {
			name := args
			if refuses {
				name += ", refused"
			}
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				o, out := cluster(t, evil)
				var revisions appsv1.ControllerRevisionList
				g.Expect(o.api.List(t.Context(), &revisions)).To(Succeed())
				for i := range revisions.Items {
					r := &revisions.Items[i]
					r.Annotations[annotationChangeCause] = "h" + hostile
					r.Data.Raw = []byte(strings.Replace(string(r.Data.Raw), `"web:v`, `"EVIL`+"\u202e"+`:v`, 1))
					g.Expect(o.api.Update(t.Context(), r)).To(Succeed())
				}
				g.Expect(o.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-zone-a-0", Namespace: "shop", Labels: map[string]string{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"}},
					Status: corev1.PodStatus{Message: hostile, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: hostile}}}}}})).To(Succeed())
				if refuses {
					o.api = interceptor.NewClient(o.api, interceptor.Funcs{
						Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
							return denied
						},
						Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
							return denied
						},
						List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return denied },
					})
				}
				finished(t.Context(), o.root(), strings.Split(args, " "))
				text := out.String()
				g.Expect(text).NotTo(BeEmpty())
				for _, r := range text {
					g.Expect(r == '\n' || r == '\t' || unicode.IsGraphic(r)).To(BeTrue(), "%q in %q", r, text)
				}
				if refuses {
					g.Expect(text).To(ContainSubstring("EVIL"))
				}
			})
		}
	}
}

// annotationChangeCause says why there is a revision.
const annotationChangeCause = "kubernetes.io/change-cause"

func TestStructuredHasTheSameValue(t *testing.T) {
	for _, text := range []string{hostile, "plain", "a: \u202e\n- b", "\u202e", "日本 🚀", `\u202e`, "\ufeff", "\U000e0041\u202e"} {
		value := map[string]any{"text": text, text: []any{"x", float64(1), true, nil}}
		for _, output := range []string{"json", "yaml"} {
			g, out := NewWithT(t), &strings.Builder{}
			g.Expect(structured(out, output, value, "")).To(Succeed())
			for _, r := range out.String() {
				g.Expect(r == '\n' || unicode.IsGraphic(r)).To(BeTrue(), "%q in %q", r, out)
			}
			is := map[string]any{}
			if output == "json" {
				g.Expect(json.Unmarshal([]byte(out.String()), &is)).To(Succeed())
			} else {
				g.Expect(yaml.Unmarshal([]byte(out.String()), &is)).To(Succeed(), out.String())
			}
			g.Expect(is).To(Equal(value), output)
		}
	}
}
