// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package podmetrics

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestMetricsOf: the ready pods of a selector share what it uses; others use nothing, and a pod that does not run has no metrics.
func TestMetricsOf(t *testing.T) {
	g := NewWithT(t)
	pod := func(name, app string, phase corev1.PodPhase, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}, {Name: "proxy"}}},
			Status:     corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	leaving := pod("web-3", "web", corev1.PodRunning, corev1.ConditionTrue)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	pods := []corev1.Pod{
		pod("web-0", "web", corev1.PodRunning, corev1.ConditionTrue),
		pod("web-1", "web", corev1.PodRunning, corev1.ConditionTrue),
		pod("web-2", "web", corev1.PodRunning, corev1.ConditionFalse),
		leaving,
		pod("web-4", "web", corev1.PodPending, corev1.ConditionFalse),
		pod("db-0", "db", corev1.PodRunning, corev1.ConditionTrue),
	}
	parse := func(text string) labels.Selector {
		selector, err := labels.Parse(text)
		g.Expect(err).NotTo(HaveOccurred())
		return selector
	}
	found := map[string]int64{}
	for _, m := range metricsOf(pods, []use{
		{"shop", parse("app=web"), resource.MustParse("1")}, {"elsewhere", parse("app=db"), resource.MustParse("1")},
	}, metav1.Now()) {
		found[m.Metadata.Name] = m.Containers[0].Usage.Cpu().MilliValue()
		g.Expect(m.Containers).To(HaveLen(2))
	}
	g.Expect(found).To(Equal(map[string]int64{"web-0": 500, "web-1": 500, "web-2": 0, "web-3": 0, "db-0": 0}))
}
