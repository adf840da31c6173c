// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestReader checks what somebody sees who may only read: not the replicas, and buttons that are disabled, with the reason.
func TestReader(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Hold()))
	w.Settle()
	e.Kubectl("create", "serviceaccount", "reader")
	e.Kubectl("create", "role", "reader", "--verb=get,list,watch", "--resource=uniteddeployments.apps.united.dev")
	e.Kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+e.Namespace+":reader")
	e.Eventually(func() int {
		return e.Plugin("status", "web", "--as=system:serviceaccount:"+e.Namespace+":reader").Code
	}).Should(BeZero())
	kubeconfig := filepath.Join(t.TempDir(), "reader.kubeconfig")
	e.Expect(e.Cluster.WriteServiceAccountKubeconfig(e.Ctx, e.Namespace, "reader", kubeconfig)).To(Succeed())
	address := dashboard(e, "--kubeconfig="+kubeconfig)
	p := open(e, address+"o/"+e.Namespace+"/web")
	reason := "you have no right to patch uniteddeployments in the namespace " + e.Namespace
	p.shows("#forbidden", ContainSubstring(reason))
	p.shows("#do-pause", Equal("Pause"))
	p.Expect(js[string](p, `document.querySelector("#do-pause").getAttribute("aria-disabled") + ": " + document.querySelector("#do-pause").title`)).To(Equal("true: " + reason))
	p.Expect(js[bool](p, `document.querySelector("#partition-zone-a").disabled && document.querySelector("#do-partition-zone-a").disabled`)).To(BeTrue())
	p.shows("#zones-title ~ .note", ContainSubstring("Not seen: replicas: you have no right to list "))
	p.shows("#zone-zone-a .count", ContainSubstring("1/1 available"))
	p.shows("#history-title ~ .note", ContainSubstring("you have no right to list controllerrevisions"))
	p.accessible()
	p.click("#do-pause")
	form := url.Values{"verb": {"pause"}, "uid": {string(w.Parent().UID)}, "generation": {"1"}, "revision": {w.Parent().Status.UpdateRevision}}
	_, answer := post(e, address, "o/"+e.Namespace+"/web/do", form, nil)
	e.Expect(answer).To(ContainSubstring("you may not do that"))
	e.Expect(w.Parent().Generation).To(Equal(int64(1)))
}

// post sends a form as the page would.
func post(e *Env, address, path string, form url.Values, edit func(*http.Request)) (int, string) {
	e.T.Helper()
	request, err := http.NewRequestWithContext(e.Ctx, http.MethodPost, address+path, strings.NewReader(form.Encode()))
	e.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", "http://"+request.URL.Host)
	if edit != nil {
		edit(request)
	}
	response, err := http.DefaultClient.Do(request)
	e.Expect(err).NotTo(HaveOccurred())
	body, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode, string(body)
}

// TestForeign checks that no other page acts, also if it knows the address, and that nothing is answered without the token or under
// another name.
func TestForeign(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	address := dashboard(e)
	path := "o/" + e.Namespace + "/web/do"
	parent := w.Parent()
	form := url.Values{"verb": {"pause"}, "uid": {string(parent.UID)}, "generation": {fmt.Sprint(parent.Generation)}, "revision": {parent.Status.UpdateRevision}}

	foreign := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(out, `<!doctype html><link rel="icon" href="data:,"><title>foreign</title><form id="form" method="post" action="%s%s">`, address, path)
		for name := range form {
			_, _ = fmt.Fprintf(out, `<input name=%q value=%q>`, name, form.Get(name))
		}
		_, _ = fmt.Fprint(out, `<button id="send">Send</button></form>`)
	}))
	t.Cleanup(foreign.Close)
	p := open(e, foreign.URL)
	p.click("#send")
	p.shows("body", ContainSubstring("A change must come from the page itself."))
	e.Expect(w.Parent().Spec.Paused).To(BeFalse())

	for name, edit := range map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", foreign.URL) },
		"no origin":      func(r *http.Request) { r.Header.Del("Origin") },
		"a null origin":  func(r *http.Request) { r.Header.Set("Origin", "null") },
		"another host":   func(r *http.Request) { r.Host = "united.example:" + r.URL.Port() },
		"no token":       func(r *http.Request) { r.URL.Path = "/" + path },
		"another token":  func(r *http.Request) { r.URL.Path = "/AAAAAAAAAAAAAAAAAAAAAAAAAA/" + path },
	} {
		code, _ := post(e, address, path, form, edit)
		e.Expect(code).To(Equal(http.StatusForbidden), name)
	}
	e.Expect(w.Parent().Spec.Paused).To(BeFalse())
	p.do(chromedp.Navigate(address + "o/" + e.Namespace + "/web"))
	p.mu.Lock()
	e.Expect(p.errors).NotTo(BeEmpty())
	p.errors = nil // those of the answer 403
	p.mu.Unlock()
	p.click("#do-pause") // the positive control
	p.shows("#said", ContainSubstring("paused"))
	e.Expect(w.Parent().Spec.Paused).To(BeTrue())
}
