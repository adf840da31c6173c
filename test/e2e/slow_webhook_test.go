// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	configv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slowWebhook is a validating webhook that is slow for each child in a namespace.
type slowWebhook struct {
	asked *atomic.Int32 // how many requests currently wait for it
	end   func()
}

// DelayChildren makes a webhook delay each write of a child in the namespace, until it is stopped.
func (e *env) DelayChildren(delay time.Duration) slowWebhook {
	e.t.Helper()
	return e.reviewSlowly(delay, func(*admissionv1.AdmissionRequest) bool { return true })
}

// reviewSlowly is DelayChildren with a webhook that then allows the write or not.
func (e *env) reviewSlowly(delay time.Duration, allows func(*admissionv1.AdmissionRequest) bool) slowWebhook {
	e.t.Helper()
	asked, over := &atomic.Int32{}, make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked.Add(1)
		defer asked.Add(-1)
		select {
		case <-time.After(delay):
		case <-over:
		case <-r.Context().Done():
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: allows(review.Request)}
		_ = json.NewEncoder(w).Encode(review)
	}))
	none := configv1.SideEffectClassNone
	webhook := &configv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "slow-" + e.Namespace}}
	webhook.Webhooks = []configv1.ValidatingWebhook{{
		Name: "slow.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](30),
		FailurePolicy: ptr.To(configv1.Ignore),
		ClientConfig: configv1.WebhookClientConfig{
			URL: ptr.To(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
		Rules: []configv1.RuleWithOperations{{
			Operations: []configv1.OperationType{configv1.Create, configv1.Update},
			Rule:       configv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{children}},
		}},
	}}
	e.Expect(e.Client.Create(e.ctx, webhook)).To(Succeed())
	end := func() {
		e.Expect(e.Client.Delete(e.ctx, webhook)).To(Succeed())
		close(over)
		server.Close()
	}
	return slowWebhook{asked, end}
}

// TestSlowWebhook checks a webhook of one namespace that is slow for each child there. The passes over
// its parents wait for that, and used to occupy all workers.
func TestSlowWebhook(t *testing.T) {
	t.Parallel()
	control := newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	theirs := newEnv(t)
	webhook := theirs.DelayChildren(20 * time.Second)
	for i := range 12 {
		theirs.Create(draft(fmt.Sprintf("slow-%02d", i), replicas(0), zones("", ""), hold()))
	}
	theirs.Eventually(webhook.asked.Load).Should(BeNumerically(">=", 2), "positive control: several wait at once; how many workers they get depends on the other tests")
	for range 3 {
		began := time.Now()
		control.reacts()
		control.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		control.Expect(webhook.asked.Load()).To(BeNumerically(">", 0), "positive control: they wait all the time")
	}
	webhook.end()
	for i := range 12 {
		theirs.Workload(fmt.Sprintf("slow-%02d", i)).Settle()
	}
}

// TestSlowNamespaces checks webhooks that are slow in more namespaces than it takes to use all workers,
// half of the rest each. The last worker is for namespaces whose passes are short. Other tests
// would have that worker only.
func TestSlowNamespaces(t *testing.T) {
	t.Parallel()
	p := newPlaneOf(t)
	control := p.newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	var webhooks []slowWebhook
	var slow []*Workload
	for range 5 {
		e := p.newEnv(t)
		webhooks = append(webhooks, e.DelayChildren(20*time.Second))
		for i := range 4 {
			slow = append(slow, e.Create(draft(fmt.Sprintf("slow-%d", i), replicas(0), zones("", ""), hold())))
		}
	}
	asked := func() (n int32) {
		for _, w := range webhooks {
			n += w.asked.Load()
		}
		return n
	}
	control.Eventually(asked).Should(BeNumerically(">=", 7), "positive control: they have all workers that they can get")
	for range 5 {
		began := time.Now()
		control.reacts()
		control.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		control.Expect(asked()).To(BeNumerically(">", 0), "positive control: they wait all the time")
	}
	for _, w := range webhooks {
		w.end()
	}
	for _, w := range slow {
		w.Settle()
	}
}

// TestSlowPass checks a pass with many writes of children, each of which takes a second. The status
// used to be written only after all of them.
func TestSlowPass(t *testing.T) {
	t.Parallel()
	const many = 60
	e := newEnv(t)
	webhook := e.DelayChildren(time.Second)
	w := e.Create(draft("web", replicas(0), hold(), func(d *Draft) {
		for i := range many {
			plain(fmt.Sprintf("pool-%02d", i), "")(d)
		}
	}))
	made := func() int {
		list := &appsv1.StatefulSetList{}
		e.Expect(e.List(e.ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
		return len(list.Items)
	}
	e.Eventually(func() int64 { return w.Parent().Status.ObservedGeneration }, promptly).Should(BeEquivalentTo(1))
	e.Expect(made()).To(BeNumerically("<", many/2), "positive control: they are slow")
	e.Step("it continues", func() {
		before := made()
		e.Eventually(made).Should(BeNumerically(">", before+4), "how soon it gets its next turn depends on the other tests")
	})
	webhook.end()
	w.Settle()
	e.Expect(made()).To(Equal(many))
}

// TestSlowlyRefused checks a parent whose new subsets are refused, each after a second, and are so many
// that the first ones are due again before the last ones were tried. A partition of another subset used
// to wait for them forever.
func TestSlowlyRefused(t *testing.T) {
	t.Parallel()
	const many = 40
	e := newEnv(t)
	w := e.Create(draft("web", replicas(4), plain("zone-a", "2"), plain("zone-b", "2"), hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	refused := &atomic.Int32{}
	webhook := e.reviewSlowly(time.Second, func(r *admissionv1.AdmissionRequest) bool {
		if r.Operation == admissionv1.Create {
			refused.Add(1)
		}
		return r.Operation != admissionv1.Create
	})
	e.Eventually(func() error {
		probe := &appsv1.StatefulSet{}
		w.Child("zone-a").DeepCopyInto(probe)
		probe.ObjectMeta = metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe"}
		return e.Client.Create(e.ctx, probe, client.DryRunAll)
	}).ShouldNot(Succeed())
	var more []string
	for i := range many {
		more = append(more, fmt.Sprintf(`{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"pool-%02d","replicas":0}}`, i))
	}
	w.JSONPatch("[%s]", strings.Join(more, ","))
	e.Eventually(refused.Load).Should(BeNumerically(">", 10), "positive control")
	w.SetPartitions(parts{"zone-a": 0})
	w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1"})
	webhook.end()
}
