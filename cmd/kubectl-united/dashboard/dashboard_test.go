// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// zoneWith is a zone with replicas in these states, by position.
func zoneWith(name string, protected int32, states ...string) view.Subset {
	s := view.Subset{Name: name, Workload: "web-" + name, Phase: "Held", Desired: int32(len(states)), Protected: protected, Partition: fmt.Sprint(protected)}
	for i, state := range states {
		*map[string]*int32{
			view.Updated: &s.Bar.Updated, view.Updating: &s.Bar.Updating, view.Protected: &s.Bar.Protected, view.Broken: &s.Bar.Broken, view.Missing: &s.Bar.Missing,
		}[state]++
		revision := map[bool]string{true: "web-2", false: "web-1"}[state == view.Updated || state == view.Broken]
		s.Replicas = append(s.Replicas, view.Replica{Name: fmt.Sprintf("%s-%d", s.Workload, i), Position: int32(i), State: state, Revision: revision})
	}
	return s
}

func pageOf(subsets ...view.Subset) *objectPage {
	st := &view.Status{
		Namespace: "shop", Name: "web", State: view.Held, Reason: "RolloutHeld", Strategy: "Manual", Subsets: subsets,
		Current: &view.Revision{Name: "web-1", Images: []string{"registry.example/web:v1"}}, Update: &view.Revision{Name: "web-2", Images: []string{"registry.example/web:v2"}},
	}
	h := &view.History{Revisions: []view.Entry{{Number: 1, Revision: *st.Current}, {Number: 2, Revision: *st.Update}}}
	p := &objectPage{Status: st, At: "/t/o/shop/web", History: h, Label: labeler(h, st), Manual: true}
	p.Zones = zonesOf(st, p.Label)
	return p
}

func TestObject(t *testing.T) {
	g := NewWithT(t)
	p := pageOf(zoneWith("a", 1, view.Protected, view.Broken, view.Updated), zoneWith("b", 2, view.Protected, view.Protected))
	p.Subsets[0].Replicas[1].Why = "CrashLoopBackOff since 13:47 <script>"
	p.Zones = zonesOf(p.Status, p.Label)
	p.Steps = []view.Step{{Subsets: []string{"a"}, Partition: "0", Pause: "10m", Now: true, Ends: time.Unix(0, 0)}}
	p.Events = []event{{Type: "Warning", Reason: "ReplicaFailed", Note: "web-a-1 failed", Count: 3}}
	html := made("object", p)
	g.Expect(html).NotTo(ContainSubstring("template:"), "an error of the template")
	g.Expect(html).NotTo(ContainSubstring("<script>"))
	for _, words := range []string{
		"web-a-2", "web:v2", "CrashLoopBackOff since 13:47 &lt;script&gt;", "partition 1", `max="3"`, "1970-01-01T00:00:00Z", "(3 times)", `value="web-2"`, "badge held",
	} {
		g.Expect(html).To(ContainSubstring(words))
	}
	g.Expect(strings.Index(html, "web-a-2")).To(BeNumerically("<", strings.Index(html, "partition 1")), "released replicas are above the line")
	g.Expect(strings.Index(html, "partition 1")).To(BeNumerically("<", strings.Index(html, "cell-web-a-0")), "protected ones are below it")
	g.Expect(p.Actions).To(BeEmpty())
	p.Forbidden, p.Actions = "you have no right", []action{{Verb: "pause", Label: "Pause", Reason: "you have no right"}}
	g.Expect(made("object", p)).To(And(ContainSubstring(`aria-disabled="true"`), ContainSubstring("The buttons are disabled: you have no right.")))
	p.Actions = []action{{Verb: "approve", Label: "Approve", Does: "step 2 of 2 releases b"}, {Verb: "promote", Label: "Promote", Does: "all", Reason: "no"}}
	p.Setback = "set spec.template.x back to web"
	g.Expect(made("object", p)).To(And(
		ContainSubstring(`<p class="note" id="do-approve-does">Approve: step 2 of 2 releases b.</p>`), ContainSubstring(`aria-describedby="do-approve-does"`),
		Not(ContainSubstring("do-promote-does")), ContainSubstring(`<p class="note" id="setback">Undo does not end this: set spec.template.x back to web.</p>`)))
}

func TestManyReplicasAreGrouped(t *testing.T) {
	g := NewWithT(t)
	states := make([]string, 100)
	for i := range states {
		states[i] = map[bool]string{true: view.Protected, false: view.Updated}[i < 40]
	}
	states[70] = view.Broken
	p := pageOf(zoneWith("a", 40, states...))
	z := p.Zones[0]
	g.Expect(z.Above).To(HaveLen(3))
	g.Expect(z.Above[0]).To(And(HaveField("Name", "web-a-99"), HaveField("Last", "web-a-71"), HaveField("Count", 29)))
	g.Expect(z.Above[1]).To(And(HaveField("Name", "web-a-70"), HaveField("Count", 1)))
	g.Expect(z.Below).To(HaveLen(1))
	g.Expect(z.Bars).To(Equal([]bar{{view.Broken, 0, 1}, {view.Protected, 1, 40}, {view.Updated, 41, 59}}))
	g.Expect(z.Bad()).To(BeTrue())
	g.Expect(made("object", p)).To(ContainSubstring("<b>29 replicas</b>"))
}

func TestPartsOfThePage(t *testing.T) {
	for name, value := range map[string]any{
		"list":     &listPage{All: []*view.Status{{Namespace: "shop", Name: "web", State: view.Failed}}, Counts: map[string]int{view.Failed: 1}, Away: &outage{Why: "gone"}},
		"why":      &view.Why{Answer: "web is on its way", Findings: []view.Finding{{Kind: view.Fault, Subject: "web", Command: "kubectl get pods"}}, Unseen: []string{"nodes"}},
		"diff":     &view.Diff{From: "web-1", To: "web-2", Parts: []view.DiffPart{{Unified: "@@ -1 +1 @@\n-image: v1\n+image: v2\n"}}},
		"proposed": &proposed{Verb: "partition", Plan: &foresee.Plan{}, Text: "web  restart 1"},
		"done":     done{Name: "web", What: "paused", Command: "kubectl patch"},
		"refusal":  "you may not",
		"frame":    frame{Title: "web"},
	} {
		html := made(name, value)
		if html == "" || strings.Contains(html, "template:") {
			t.Errorf("%s: %s", name, html)
		}
	}
}

func TestGuard(t *testing.T) {
	s := &server{token: "TOKEN", hosts: []string{"127.0.0.1:1", "localhost:1"}}
	served := s.guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) }))
	for name, c := range map[string]struct {
		method, host, path, origin string
		code                       int
	}{
		"the page":                {"GET", "127.0.0.1:1", "/TOKEN/", "", 200},
		"by its other name":       {"GET", "localhost:1", "/TOKEN/o/a/b", "", 200},
		"a button":                {"POST", "127.0.0.1:1", "/TOKEN/o/a/b/do", "http://127.0.0.1:1", 200},
		"a foreign page":          {"POST", "127.0.0.1:1", "/TOKEN/o/a/b/do", "http://evil.example", 403},
		"its other name":          {"POST", "127.0.0.1:1", "/TOKEN/o/a/b/do", "http://localhost:1", 403},
		"without an origin":       {"POST", "127.0.0.1:1", "/TOKEN/o/a/b/do", "", 403},
		"a name of somebody else": {"GET", "evil.example:1", "/TOKEN/", "", 403},
		"another port":            {"GET", "127.0.0.1:2", "/TOKEN/", "", 403},
		"no token":                {"GET", "127.0.0.1:1", "/", "", 403},
		"a part of it":            {"GET", "127.0.0.1:1", "/TOKE/", "", 403},
		"more than it":            {"GET", "127.0.0.1:1", "/TOKENS/", "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := httptest.NewRequest(c.method, c.path, http.NoBody)
			if r.Host = c.host; c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			served.ServeHTTP(w, r)
			g.Expect(w.Code).To(Equal(c.code), w.Body.String())
			g.Expect(w.Header().Get("Content-Security-Policy")).To(HavePrefix("default-src 'none'; script-src 'self';"))
			g.Expect(w.Header().Get("Cache-Control")).To(Equal("no-store"))
		})
	}
}

// A page is made once for all its tabs, again when something is heard of it, and not after the last tab has left.
func TestHub(t *testing.T) {
	g := NewWithT(t)
	var made, others atomic.Int32
	web := client.ObjectKey{Namespace: "shop", Name: "web"}
	h := &hub{ctx: t.Context(), rooms: map[client.ObjectKey]*room{}, page: func(_ context.Context, key client.ObjectKey, _ *seen) string {
		if key != web {
			return fmt.Sprint(others.Add(1))
		}
		return fmt.Sprint(made.Add(1))
	}}
	one, leaveOne := h.join(web)
	g.Eventually(one).Should(Receive(Equal("1")))
	two, leaveTwo := h.join(web)
	g.Expect(two).To(Receive(Equal("1")))
	for range 100 {
		h.changed(web)
	}
	g.Eventually(one).Should(Receive(Equal("2")))
	g.Eventually(two).Should(Receive(Equal("2")))
	other, leaveOther := h.join(client.ObjectKey{Namespace: "shop", Name: "api"})
	g.Eventually(other).Should(Receive(Equal("1")))
	h.changed(client.ObjectKey{Namespace: "shop", Name: "api"})
	g.Eventually(other).Should(Receive(Equal("2")))
	g.Expect(made.Load()).To(BeNumerically("<=", 3), "what is heard at once makes one page")
	leaveOne()
	leaveTwo()
	leaveOther()
	g.Expect(h.rooms).To(BeEmpty())
}

// received returns the data of the events in a stream, by the rules of the HTML standard: a line ends with CR LF, LF or CR, and an empty
// line ends an event. Other fields than data, which we never send, are returned as they are.
func received(stream string) (data, others []string) {
	var lines []string
	for line := range strings.SplitSeq(regexp.MustCompile("\r\n|\n|\r").ReplaceAllString(stream, "\n"), "\n") {
		switch field, value, _ := strings.Cut(line, ":"); {
		case line == "" && lines != nil:
			data, lines = append(data, strings.Join(lines, "\n")), nil
		case field == "data":
			lines = append(lines, strings.TrimPrefix(value, " "))
		case line != "" && field != "":
			others = append(others, line)
		}
	}
	return data, others
}

// Whatever ends a line in what somebody else wrote, the event remains one, with all of the page.
func TestStreamIsOfWholePages(t *testing.T) {
	for name, end := range map[string]string{"LF": "\n", "CR": "\r", "CR LF": "\r\n", "LF CR": "\n\r", "two CR": "\r\r", "LINE SEPARATOR": "\u2028", "NEXT LINE": "\u0085", "VT": "\v", "FF": "\f"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := pageOf(zoneWith("a", 0, view.Updated))
			p.Events = []event{{Type: "Warning", Reason: "ReplicaFailed", Note: "web-a-0 failed" + end + end + "event: gone" + end + "data: <p>All is well</p>" + end + end + "retry: 1" + end, Count: 1}}
			page := made("object", p)
			g.Expect(page).To(ContainSubstring("All is well"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &server{hub: &hub{ctx: ctx, rooms: map[client.ObjectKey]*room{}, page: func(context.Context, client.ObjectKey, *seen) string { return page }}}
			w := httptest.NewRecorder()
			s.stream(flushed{w, cancel}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/live/shop/web", http.NoBody))
			data, others := received(w.Body.String())
			g.Expect(others).To(BeEmpty())
			g.Expect(data).To(HaveLen(1))
			g.Expect(data[0]).To(Equal(regexp.MustCompile("\r\n|\r").ReplaceAllString(page, "\n")), "a browser reads this as the same page")
		})
	}
}

// flushed ends a stream after what is sent first.
type flushed struct {
	*httptest.ResponseRecorder
	done func()
}

func (f flushed) Flush() {
	f.ResponseRecorder.Flush()
	f.done()
}

// A replica that runs the update revision counts as updated, whatever its state, and one of an unknown revision is told by its images.
func TestReplicasAreCountedAndNamed(t *testing.T) {
	g := NewWithT(t)
	p := pageOf(zoneWith("a", 1, view.Protected, view.Updating, view.Broken, view.Updating, view.Updated))
	p.Subsets[0].Replicas[0].Revision, p.Subsets[0].Replicas[0].Images = "", []string{"registry.example/web:v0"}
	p.Subsets[0].Replicas[1].Revision = "web-2"
	z := zonesOf(p.Status, p.Label)[0]
	g.Expect([]int32{z.On, z.Way}).To(Equal([]int32{3, 1}))
	g.Expect(z.Below[0].Label).To(Equal("web:v0"))
	g.Expect(z.Above[3].Text()).To(Equal("updated, not available"))
	g.Expect(z.Above[1].Text()).To(Equal("released, next to be updated"))
}
