// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	configv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SlowWebhook is a validating webhook that is slow for each child in a namespace.
type SlowWebhook struct {
	Asked *atomic.Int32 // how many requests currently wait for it
	End   func()
}

// DelayChildren makes a webhook delay each write of a child in the namespace, until it is stopped.
func (e *Env) DelayChildren(delay time.Duration) SlowWebhook {
	e.T.Helper()
	return e.ReviewSlowly(delay, func(*admissionv1.AdmissionRequest) bool { return true })
}

// ReviewSlowly is DelayChildren with a webhook that then allows the write or not.
func (e *Env) ReviewSlowly(delay time.Duration, allows func(*admissionv1.AdmissionRequest) bool) SlowWebhook {
	e.T.Helper()
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
			Rule:       configv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{Children}},
		}},
	}}
	e.Expect(e.Client.Create(e.Ctx, webhook)).To(Succeed())
	end := func() {
		e.Expect(e.Client.Delete(e.Ctx, webhook)).To(Succeed())
		close(over)
		server.Close()
	}
	return SlowWebhook{asked, end}
}
