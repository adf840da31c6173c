// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// stored returns a stored revision of the content in YAML.
func stored(t *testing.T, name string, number int64, content string, annotations map[string]string) *revision.Revision {
	t.Helper()
	g := NewWithT(t)
	raw, err := yaml.YAMLToJSON([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	r, err := revision.Parse(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "stored", CreationTimestamp: metav1.NewTime(epoch), Annotations: annotations},
		Revision:   number, Data: runtime.RawExtension{Raw: raw},
	})
	g.Expect(err).NotTo(HaveOccurred())
	return r
}

const (
	v1 = `{template: {spec: {containers: [{name: web, image: registry.example/web:v1}, {name: side, image: side:v1}]}},
		subsets: {zone-a: {}, zone-b: {tolerations: [{key: a}]}}}`
	v2 = `{template: {spec: {containers: [{name: web, image: registry.example/web:v2}, {name: side, image: side:v1}]}},
		subsets: {zone-a: {patch: {spec: {hostname: h}}}, zone-b: {}}}`
)

func TestHistory(t *testing.T) {
	g := NewWithT(t)
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	parent.Spec.Template.StatefulSetTemplate = &runtime.RawExtension{Raw: []byte(`{}`)}
	parent.Status.CurrentRevision, parent.Status.UpdateRevision = "web-1", "web-2"
	h := view.HistoryOf(parent, []*revision.Revision{
		stored(t, "web-0", 1, v2, map[string]string{v1alpha1.AnnotationLeft: "true"}),
		stored(t, "web-1", 2, v1, map[string]string{"kubernetes.io/change-cause": "the\n\x1bfirst"}), stored(t, "web-2", 3, v2, map[string]string{v1alpha1.AnnotationLeft: "true", v1alpha1.AnnotationRejected: "it failed"}),
	}, nil, "pods")
	h.Revisions[1].RunBy = []view.RunBy{{Subset: "zone-a", Replicas: 2}, {Subset: "zone-b", Replicas: 1}}
	h.Unknown = 1
	text := &strings.Builder{}
	view.Style{}.PrintHistory(text, h, epoch.Add(90*time.Minute))
	g.Expect(strings.Join(trimmed(text.String()), "\n")).To(Equal(`REVISION  NAME   AGE  STATE            IMAGES           CHANGE-CAUSE   RUN BY
1         web-0  90m  left             web:v2, side:v1
2         web-1  90m  current          web:v1, side:v1  the \x1bfirst  2 of zone-a, 1 of zone-b
3         web-2  90m  update,rejected  web:v2, side:v1

It is not known which revision 1 replica runs.

Not seen: pods
`))
	raw, err := json.Marshal(h.Revisions[1])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(raw).To(MatchJSON(`{"number":2,"name":"web-1","images":["registry.example/web:v1","side:v1"],"created":"2026-01-02T03:04:05Z",
		"changeCause":"the\n\u001bfirst","marks":["current"],"runBy":[{"subset":"zone-a","replicas":2},{"subset":"zone-b","replicas":1}]}`))
}

func trimmed(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func TestDiff(t *testing.T) {
	g := NewWithT(t)
	from, to := stored(t, "web-1", 1, v1, nil), stored(t, "web-2", 2, v2, nil)
	d, err := view.DiffOf(from, to, []string{"zone-a", "zone-b", "zone-c"}, map[string]revision.Overlay{"zone-c": {Tolerations: []corev1.Toleration{{Key: "today"}}}})
	g.Expect(err).NotTo(HaveOccurred())
	text := &strings.Builder{}
	view.Style{}.PrintDiff(text, d)
	g.Expect(text.String()).To(Equal(`--- web-1 template
+++ web-2 template
@@ -1,6 +1,6 @@
 spec:
   containers:
-  - image: registry.example/web:v1
+  - image: registry.example/web:v2
     name: web
   - image: side:v1
     name: side
--- web-1 subset zone-a
+++ web-2 subset zone-a
@@ -0,0 +1,3 @@
+patch:
+  spec:
+    hostname: h
--- web-1 subset zone-b
+++ web-2 subset zone-b
@@ -1,2 +0,0 @@
-tolerations:
-- key: a
`))
	same, err := view.DiffOf(from, from, []string{"zone-a", "zone-b"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(same.Parts).To(BeEmpty())
	labelled, err := view.DiffOf(from, stored(t, "web-3", 3, strings.TrimSuffix(v1, "}")+", versionLabel: abc}", nil), nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(labelled.Parts).To(ConsistOf(HaveField("Unified", ContainSubstring("+versionLabel: abc"))))
}

func TestPrintOutcome(t *testing.T) {
	for _, tc := range []struct {
		name    string
		outcome view.Outcome
		want    string
	}{
		{"held in part", view.Outcome{Revision: "web-2", Released: 2, Held: []view.Kept{{Subset: "zone-a", Replicas: 1, Desired: 3}, {Subset: "zone-b", Replicas: 2, Desired: 2}}}, `Replicas that no partition protects, and that go to it now: 2
The partitions hold 1 of 3 in zone-a, 2 of 2 in zone-b on what they run.
To release one: kubectl united release web zone-a
`},
		{"nothing held", view.Outcome{Released: 2}, "No partition holds it: it is rolled out now.\n"},
		{"back under Manual", view.Outcome{Back: true}, "Every replica that runs something else goes to it, whatever the partitions: nothing is held.\n"},
		{"back under RollingUpdate", view.Outcome{Back: true, Coordinated: true}, "This is the way back: no step or approval holds it.\n"},
		{"rejected", view.Outcome{Revision: "web-2", Rejected: true, Back: true, Coordinated: true}, "web-2 was rejected when it failed, so it is not rolled out. To roll it out once more: kubectl united retry web\n"},
		{"paused", view.Outcome{Coordinated: true, Stopped: true}, `web is paused: no replica is updated until you run: kubectl united resume web
The rollout moves by itself: kubectl united status web --watch
`},
	} {
		text := &strings.Builder{}
		view.Style{}.PrintOutcome(text, "web", &tc.outcome)
		NewWithT(t).Expect(text.String()).To(Equal(tc.want), tc.name)
	}
}

// A rollout that waits for somebody is not at its end, and comes before what is.
func TestHeld(t *testing.T) {
	g := NewWithT(t)
	status := func(name, current, ready string) *view.Status {
		parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		parent.Status.CurrentRevision, parent.Status.UpdateRevision = current, "web-2"
		parent.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionStatus(ready), Reason: v1alpha1.ReasonRolloutHeld}}
		return view.StatusOf(parent, nil, "")
	}
	all := []*view.Status{status("a", "web-2", "True"), status("b", "", "True"), status("c", "web-1", "True"), status("d", "web-1", "False")}
	slices.SortFunc(all, view.Worst)
	var told []string
	for _, st := range all {
		told = append(told, st.Name+" "+st.State)
	}
	g.Expect(told).To(Equal([]string{"d waiting", "c held", "a ok", "b ok"}))
	text := &strings.Builder{}
	view.Style{Color: true}.PrintList(view.Terminal{Writer: text}, all[1:2], false)
	g.Expect(text.String()).To(ContainSubstring("\x1b[34mRolloutHeld\x1b[0m"))
}
