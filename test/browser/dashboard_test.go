// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestCanary releases a version zone by zone on the page, from the first patch to the end, and goes back, without ever loading it again.
func TestCanary(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), Hold()))
	w.Settle()
	url := dashboard(e)
	list := open(e, url)
	p := open(e, url+"o/"+e.Namespace+"/web")
	_ = js[bool](p, `window.unloaded = true`)
	p.shows(".headline", ContainSubstring("RolloutComplete"))
	p.accessible()

	e.Step("a staged version is held in all zones", func() {
		w.SetImage("v2")
		p.shows(".headline", ContainSubstring("RolloutHeld"))
		p.shows("#zone-zone-a .count", ContainSubstring("0 updated, 2 protected"))
		p.shows("#zone-zone-a .cell:last-child", MatchRegexp(`web-zone-a-0 on web:v1 protected`))
		p.shows(".facts", ContainSubstring("web:v2"))
		p.shows("#why .answer", ContainSubstring("stands still as you asked"))
		list.shows("#o-"+e.Namespace+"-web", ContainSubstring("RolloutHeld"))
	})
	e.Step("the partition moves by keyboard, with the plan before", func() {
		p.types("#partition-zone-b", "0") // unfinished input, which must survive all that follows
		p.types("#partition-zone-a", kb.ArrowDown)
		p.Expect(js[int](p, `document.querySelectorAll("#zone-zone-a .would-release").length`)).To(Equal(1))
		p.types("#partition-zone-a", kb.Enter)
		p.shows("#sheet .plan", And(ContainSubstring("restart 1"), ContainSubstring("zone-a 1")))
		p.shows("#sheet .command", ContainSubstring("$ kubectl patch united web -n "+e.Namespace+" --type=json -p '["))
		p.Expect(p.axe()).To(BeEmpty())
		p.photo("plan")
		w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}) // nothing was done yet
		p.click("#apply")
		p.shows("#said", And(ContainSubstring(`partition 1 releases 1 of 2 replicas of zone-a`), ContainSubstring("$ kubectl patch united web")))
		p.shows("#zone-zone-a .count", ContainSubstring("1 updated, 1 protected"))
		p.shows("#cell-web-zone-a-1", MatchRegexp(`web-zone-a-1 on web:v2 updated`))
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"})
		for field, value := range map[string]string{"#partition-zone-a": "1", "#partition-zone-b": "2"} {
			p.Eventually(func() string { return js[string](p, `document.querySelector(%q).value`, field) }).Should(Equal(value), "closing the dialog ends what was not applied")
		}
	})
	p.click("#said .dismiss")
	p.photo("healthy")
	e.Step("input and focus survive what comes", func() {
		p.types("#partition-zone-c", kb.ArrowDown)
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
		p.shows("#zone-zone-b .count", ContainSubstring("2 updated"))
		p.Expect(js[string](p, `document.activeElement.id + " " + document.activeElement.value`)).To(Equal("partition-zone-c 1"))
		p.types("#partition-zone-c", kb.ArrowDown)
		p.click("#do-partition-zone-c")
		p.shows("#sheet .plan", ContainSubstring("restart 2"))
		p.click("#apply")
		p.click("#said .dismiss")
		p.shows(".headline", ContainSubstring("RolloutComplete"))
		w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v2 v2"})
	})
	e.Step("history, diff and undo", func() {
		w.Settle()
		p.shows("#history-title ~ .scroll", And(ContainSubstring("web:v2"), ContainSubstring("2 of zone-a")))
		p.click("[id^=diff-]")
		p.shows("#sheet .diff", And(ContainSubstring("- - image: registry.example/web:v1"), ContainSubstring("+ - image: registry.example/web:v2")))
		p.click("#close")
		w.SetImage("v3")
		w.Settle()
		p.shows(".facts", ContainSubstring("web:v3"))
		p.types("#partition-zone-a", kb.ArrowDown)
		p.types("#partition-zone-a", kb.Enter)
		p.click("#apply")
		w.Runs(Images{"zone-a": "v2 v3", "zone-b": "v2 v2", "zone-c": "v2 v2"})
		p.shows("#cell-web-zone-a-1", ContainSubstring("on web:v3 updated"))
		p.click("#do-undo")
		p.shows("#sheet", And(ContainSubstring("goes back to"), ContainSubstring("restart 1")))
		p.click("#apply")
		p.shows(".headline", ContainSubstring("RolloutComplete"))
		w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v2 v2"})
		p.shows("#events-title + .events", ContainSubstring("RolloutComplete"))
	})
	p.Expect(js[bool](p, `window.unloaded`)).To(BeTrue(), "the page was loaded again")
	list.shows("#o-"+e.Namespace+"-web", ContainSubstring("RolloutComplete"))
	list.accessible()
	list.types("#words", "no-such-name")
	list.shows("#shown", Equal("0 shown"))
	list.Expect(js[bool](list, `document.querySelector("tr[data-state]").hidden`)).To(BeTrue())
}

// TestSteps watches a rollout in steps: the soak clock, an approval, a failure and what force says before.
func TestSteps(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""),
		Rolling(`{steps: [{subsets: [zone-a], partition: "50%", pause: {}}, {subsets: [zone-a, zone-b], partition: "0%", pause: {duration: 10m}}]}`)))
	w.Settle()
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	p.shows("#do-approve-why", ContainSubstring("waits for no approval"))
	w.SetImage("v2")
	p.shows(".steps [aria-current=step]", ContainSubstring("AwaitingApproval"))
	p.shows("#why", ContainSubstring("AwaitingApproval"))
	p.shows("#do-approve-does", Equal("Approve: step 2 of 2 releases zone-a, zone-b to partition 0%, then pauses 10m."))
	p.accessible()
	p.photo("waiting")
	p.click("#do-approve")
	p.shows("#said", And(ContainSubstring("is approved"), ContainSubstring("$ kubectl patch united web")))
	p.shows(".steps [aria-current=step]", And(ContainSubstring("zone-a, zone-b to partition 0%"), MatchRegexp(`until 20[-0-9T:]+Z \(0?\d+:\d\d left\)`)))
	p.shows("#zone-zone-b .count", ContainSubstring("2 updated"))
	p.accessible()
	p.click("#said .dismiss")
	p.click("#do-pause")
	p.shows(".facts", ContainSubstring("paused"))
	p.click("#do-resume")
	p.shows(".facts", Not(ContainSubstring("paused")))
	p.click("#do-promote")
	p.shows("#sheet", ContainSubstring("It passes all steps"))
	p.click("#apply")
	p.shows(".headline", ContainSubstring("RolloutComplete"))
	w.Settle()

	w.SetImage("broken-v3")
	p.shows(".headline", ContainSubstring("ReplicaFailed"))
	p.shows("#why .answer", ContainSubstring("something is wrong"))
	p.shows("#cell-web-zone-a-1", And(ContainSubstring("failed"), ContainSubstring("CrashLoopBackOff")))
	p.click("#said .dismiss")
	p.accessible()
	p.photo("failed")
	p.click("#do-force")
	p.shows("#sheet", ContainSubstring("failed and unavailable replicas and maxSkew hold nothing back"))
	p.types("#sheet", kb.Escape)
	p.Eventually(func() bool { return js[bool](p, `document.querySelector("#sheet").open`) }).Should(BeFalse())
	w.Expect(w.Rollout().Forced).To(BeFalse())
}

// TestStale checks that what was planned for one revision is not done with another.
func TestStale(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	w.SetImage("v2")
	w.Settle()
	p.shows(".facts", ContainSubstring("web:v2"))
	plan := func() {
		p.types("#partition-zone-a", kb.ArrowDown)
		p.types("#partition-zone-a", kb.Enter)
		p.shows("#sheet .plan", ContainSubstring("restart 1"))
	}
	plan()
	seen := w.Parent().Status.UpdateRevision
	w.SetImage("v3")
	w.Settle()
	generation := w.Parent().Generation
	p.click("#apply")
	p.shows("#said [role=alert]", And(ContainSubstring("and no longer "+seen), ContainSubstring("nothing was done")))
	e.Expect(w.Parent().Generation).To(Equal(generation))
	plan() // the positive control
	p.click("#apply")
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v3", "zone-b": "v1"}))
}

// TestDoubleClick checks that the second click of a double click changes nothing: neither what the first one did, nor its answer.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	// clicked clicks where a button is, twice, and returns what was answered until a while after the first answer.
	clicked := func(selector string, apart int) []string {
		return strings.Split(js[string](p, `new Promise((resolve) => {
			const r = document.querySelector(%q).getBoundingClientRect(), answers = [];
			const press = () => document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2).click();
			const said = new MutationObserver(() => {
				const answer = document.querySelector("#said p")?.textContent ?? "";
				if (answer && answers.push(answer) === 1) {
					setTimeout(() => { said.disconnect(); resolve(answers.join("|")); }, %d + 1500);
				}
			});
			said.observe(document.querySelector("#said"), {childList: true});
			press();
			setTimeout(press, %d);
		})`, selector, apart, apart), "|")
	}
	for _, apart := range []int{20, 400} {
		generation := w.Parent().Generation
		e.Expect(clicked("#do-pause", apart)).To(ConsistOf(Equal("✓ web: paused")), "%d ms apart", apart)
		e.Expect(w.Parent().Spec.Paused).To(BeTrue())
		e.Expect(w.Parent().Generation).To(Equal(generation + 1))
		p.shows(".facts", ContainSubstring("paused"))
		p.click("#do-resume") // the positive control
		p.shows("#said", ContainSubstring("web: not paused"))
		p.shows(".facts", Not(ContainSubstring("paused")))
		p.Eventually(func() string {
			return js[string](p, `document.querySelector("#do-pause").getAttribute("aria-disabled") ?? "enabled"`)
		}).Should(Equal("enabled"))
	}
	w.SetImage("v2")
	p.shows(".facts", ContainSubstring("web:v2"))
	p.types("#partition-zone-a", kb.ArrowDown)
	p.types("#partition-zone-a", kb.Enter)
	p.shows("#sheet .plan", ContainSubstring("restart 1"))
	generation := w.Parent().Generation
	e.Expect(clicked("#apply", 20)).To(ConsistOf(ContainSubstring("partition 0 releases")))
	w.Runs(Images{"zone-a": "v2", "zone-b": "v1"})
	e.Expect(w.Parent().Generation).To(Equal(generation + 1))
	p.types("#do-pause", kb.Enter)
	p.shows(".facts", ContainSubstring("paused"))
	p.Expect(js[string](p, `document.activeElement.id`)).To(Equal("do-pause"), "the button keeps the focus")
}
