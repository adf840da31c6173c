// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestOutage checks that the page says when the API server does not answer, and is live again after it came back.
func TestOutage(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	p.shows(".headline", ContainSubstring("RolloutComplete"))
	// The outage may be over before the next look at the page.
	_ = js[bool](p, `window.seen = []; new MutationObserver(() => {
		const said = document.querySelector("#live > .banner")?.textContent ?? "", zones = document.querySelectorAll(".cell").length;
		if (said !== "") window.seen.push(said + " " + zones);
	}).observe(document.querySelector("#live"), {childList: true, subtree: true}); true`)
	e.Expect(e.Cluster.RestartAPIServer(e.Ctx)).To(Succeed())
	p.Eventually(func() []string { return js[[]string](p, `window.seen`) }, WaitTimeout, Interval).Should(ContainElement(And(
		ContainSubstring("The API server cannot be asked"), HaveSuffix(" 2"), // what was seen last stays
	)))
	p.shows("#live", Not(ContainSubstring("The API server cannot be asked")))
	w.SetImage("v2")
	p.shows(".headline", ContainSubstring("RolloutHeld"))
	p.shows(".facts", ContainSubstring("web:v2"))
}

// TestMany checks that 100 subsets of 100 replicas can be used, and stay live.
func TestMany(t *testing.T) {
	e := NewPlaneOf(t).NewEnv(t)
	edits := []Edit{Replicas(10000), Policy(appsv1.ParallelPodManagement), Hold()}
	for i := range 100 {
		edits = append(edits, fixtures.OnAnyNode(fmt.Sprintf("zone-%02d", i), ""))
	}
	w := e.Create(NewDraft("web", edits...))
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	p.shows(".headline", Not(BeEmpty()))
	p.Eventually(func() string { return p.text(".headline") }, 10*time.Minute, time.Second).Should(ContainSubstring("10000 of 10000 replicas"))
	p.Expect(js[int](p, `document.querySelectorAll(".zone").length`)).To(Equal(100))
	p.Expect(js[int](p, `document.querySelectorAll(".cell").length`)).To(BeNumerically("<", 1000), "replicas that are alike are one cell")
	w.SetImage("v2")
	p.shows(".headline", ContainSubstring("RolloutHeld"))
	p.types("#partition-zone-42", kb.End+kb.Backspace+kb.Backspace+kb.Backspace+"97")
	p.click("#do-partition-zone-42")
	p.shows("#sheet .plan", ContainSubstring("restart 3"))
	p.click("#apply")
	p.shows("#zone-zone-42 .count", ContainSubstring("3 updated, 97 protected"))
	p.accessible()
	p.photo("many")
}
