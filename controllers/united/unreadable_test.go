// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/unreadable"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// A parent whose status cannot be read is reported once, and nothing is written: there is no client here.
func TestTellUnreadable(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(10)
	registry := prometheus.NewRegistry()
	r := &Reconciler{Recorder: recorder, Metrics: publish.NewMetrics(registry)}
	gathered := func() (names []string) {
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			names = append(names, family.GetName())
		}
		return names
	}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "1"}}
	for range 3 {
		_, err := r.reportUnreadable(t.Context(), parent, "it is odd")
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(recorder.Events).To(HaveLen(1))
	g.Expect(<-recorder.Events).To(Equal("Warning Unreadable United cannot read the object, and changes nothing until it can: it is odd"))
	g.Expect(gathered()).To(Equal([]string{"united_unreadable"}))

	r.reportReadable(t.Context(), key)
	r.reportReadable(t.Context(), key)
	g.Expect(gathered()).To(BeEmpty())
	_, err := r.reportUnreadable(t.Context(), parent, "it is odd")
	g.Expect(err).NotTo(HaveOccurred())
	parent.UID = "2"
	_, err = r.reportUnreadable(t.Context(), parent, "it is odd")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(recorder.Events).To(HaveLen(2), "each time that it turns, and for another object of the name")
}

// The annotation alone proves nothing: anybody can write it.
func TestUnreadableCannotBeForged(t *testing.T) {
	g := NewWithT(t)
	marked := map[string]string{unreadable.Annotation: "forged"}
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: marked}}
	g.Expect(unreadableParent(parent)).To(Equal("forged"))
	parent.Spec.Selector = &metav1.LabelSelector{}
	g.Expect(unreadableParent(parent)).To(BeEmpty())

	child := &unstructured.Unstructured{Object: map[string]any{"kind": "StatefulSet"}}
	child.SetAnnotations(marked)
	g.Expect(observe.UnreadableChild(child)).To(Equal("forged"))
	_, err := (&observe.Observer{}).ReadChild(&world.World{}, "a", child)
	g.Expect(err).To(MatchError(ContainSubstring("cannot be read: forged")))
	child.Object["spec"] = map[string]any{}
	g.Expect(observe.UnreadableChild(child)).To(BeEmpty())
}

// The API server stores times that were only checked for their format.
func TestDecodes(t *testing.T) {
	g := NewWithT(t)
	object := func(time string) []byte { return []byte(`{"status":{"lastProgressTime":` + time + `}}`) }
	g.Expect(decodes(object(`"2026-01-01T00:00:00Z"`))).To(Succeed())
	g.Expect(decodes([]byte(strings.ToUpper(`{"Status":{"LastProgressTime":[]}}`)))).To(Succeed(), "another field: case matters")
	for _, time := range []string{`"2026-01-01t00:00:00z"`, `"2026-01-01T00:00:00+25:00"`, `[]`} {
		g.Expect(decodes(object(time))).NotTo(Succeed(), time)
	}
}
