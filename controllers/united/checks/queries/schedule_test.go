// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/unitedworkloads/united/controllers/united/checks/promql"
)

// answers are servers that answer as a test says; "hangs" never does, and "waits" when the
// test says so.
type answers struct {
	sync.Mutex
	value       *float64
	err         error
	asked, most map[string]int
	running     map[string]int
	ends        chan error
}

func (a *answers) set(value *float64, err error) {
	a.Lock()
	defer a.Unlock()
	a.value, a.err = value, err
}

func (a *answers) times(of string) int {
	a.Lock()
	defer a.Unlock()
	return a.asked[of]
}

// Query is that of a server. It waits for nothing but, with the server "hangs", for the end of the test.
func (a *answers) Query(ctx context.Context, server, namespace, query string) (*float64, error) {
	keys := []string{"", server, namespace, server + "/" + namespace, query}
	a.Lock()
	for _, k := range keys {
		a.asked[k]++
		a.running[k]++
		a.most[k] = max(a.most[k], a.running[k])
	}
	value, err := a.value, a.err
	a.Unlock()
	defer func() {
		a.Lock()
		defer a.Unlock()
		for _, k := range keys {
			a.running[k]--
		}
	}()
	switch server {
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	case "panics":
		panic("no such series")
	case "waits":
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err = <-a.ends:
		}
	}
	return value, err
}

type scene struct {
	*WithT
	*Schedule
	answers *answers
	mu      sync.Mutex
	told    int
}

func newScene(t *testing.T, c clock.WithTicker) *scene {
	s := &scene{WithT: NewWithT(t), answers: &answers{asked: map[string]int{}, most: map[string]int{}, running: map[string]int{}, ends: make(chan error), value: new(1.0)}}
	s.SetDefaultEventuallyTimeout(20 * time.Second)
	s.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	s.Schedule = NewSchedule(s.answers, c)
	s.OnChange(func(types.NamespacedName) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told++
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

func (s *scene) timesTold() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

func parent(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func ask(round string, change func(*Ask)) []Ask {
	a := Ask{Check: "errors", Round: round, Server: "default", Query: `errors{pod=~"${pods}"}`, Interval: 30 * time.Second,
		Candidate: promql.Values{Pods: []string{"web-0"}}, Limits: promql.Limits{Max: new(0.01)}}
	if change != nil {
		change(&a)
	}
	return []Ask{a}
}

// becomes measures again and again until a check has a result.
func (s *scene) becomes(want Result) {
	s.Eventually(func() Result { return s.Results(parent("shop", "web"))["errors"] }).Should(Equal(want))
}

// TestMeasures: at once, in the interval, and at once in another round. A value that changes is told only if the verdict does.
func TestMeasures(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(1767225600, 0))
	s := newScene(t, c)
	web := parent("shop", "web")
	s.answers.set(new(0.034), nil)
	s.Ask(web, ask("1", nil))
	s.becomes(Result{Round: "1", Verdict: promql.NotMet, Message: "0.034, at most 0.01", Misses: 1})
	s.Expect(s.answers.times(`errors{pod=~"web-0"}`)).To(Equal(1))

	after := func() {
		asked := s.answers.times("")
		s.Eventually(c.HasWaiters).Should(BeTrue())
		c.Step(29 * time.Second)
		s.Expect(s.answers.times("")).To(Equal(asked), "it is early")
		s.Eventually(func() int { // the queue may have set its timer by the time before
			c.Step(time.Second)
			return s.answers.times("")
		}).Should(Equal(asked + 1))
	}
	s.answers.set(new(0.5), nil)
	after()
	s.becomes(Result{Round: "1", Verdict: promql.NotMet, Message: "0.034, at most 0.01", Misses: 2})
	s.answers.set(nil, errors.New("no answer within 10s"))
	after()
	s.becomes(Result{Round: "1", Verdict: promql.NoData, Failed: true, Message: "no answer within 10s", Misses: 2})
	s.answers.set(nil, nil)
	after()
	s.becomes(Result{Round: "1", Verdict: promql.NoData, Message: "no data for the updated replicas", Misses: 2})
	s.answers.set(new(0.001), nil)
	after()
	s.becomes(Result{Round: "1", Verdict: promql.Met, Message: "0.001"})
	told := s.timesTold()
	s.Expect(told).To(Equal(5))
	s.answers.set(new(0.002), nil)
	after()
	s.becomes(Result{Round: "1", Verdict: promql.Met, Message: "0.001"})

	s.Ask(web, ask("1", func(a *Ask) { a.Candidate.Pods = []string{"web-1"} })) // the same round
	s.Expect(s.answers.times(`errors{pod=~"web-1"}`)).To(BeZero())
	after()
	s.Expect(s.answers.times(`errors{pod=~"web-1"}`)).To(Equal(1))
	s.Expect(s.timesTold()).To(Equal(told))
	s.Ask(web, ask("1", func(a *Ask) { a.Candidate.Pods = nil })) // it is not known for the moment
	s.Expect(s.Results(web)).To(HaveLen(1))
	s.Expect(s.tasks[web]["errors"].ask.Candidate.Pods).To(Equal([]string{"web-1"}))
	s.Ask(web, ask("2", func(a *Ask) { a.Candidate.Pods = nil }))
	s.Expect(s.Results(web)).To(BeEmpty())
	s.Ask(web, ask("2", nil))
	s.becomes(Result{Round: "2", Verdict: promql.Met, Message: "0.002"})
	s.Ask(web, nil)
	s.Expect(s.Results(web)).To(BeEmpty())
	s.Ask(parent("shop", "other"), ask("1", nil)) // the control: the queue works
	asked := s.answers.times("")
	s.Eventually(func() int {
		c.Step(time.Minute)
		return s.answers.times("")
	}).Should(BeNumerically(">", asked+1))
	s.Expect(s.Results(web)).To(BeEmpty())
}

// TestBaseline: the same query, over the other replicas.
func TestBaseline(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) {
		a.Limits, a.Baseline = promql.Limits{MaxRatio: new(0.5)}, &promql.Values{Pods: []string{"web-1", "web-2"}}
	}))
	s.becomes(Result{Round: "1", Verdict: promql.NotMet, Message: "1, at most 0.5 times 1 of the replicas that are not updated", Misses: 1})
	s.Expect(s.answers.times(`errors{pod=~"(?:web-1|web-2)"}`)).To(Equal(1))
}

func TestNoDataPasses(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	s.answers.set(nil, nil)
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.NoDataPasses = true }))
	s.becomes(Result{Round: "1", Verdict: promql.Met, Message: "no data for the updated replicas, which passes"})
	s.answers.set(nil, errors.New("refused"))
	s.Ask(parent("shop", "web"), ask("2", func(a *Ask) { a.NoDataPasses = true }))
	s.becomes(Result{Round: "2", Verdict: promql.NoData, Failed: true, Message: "refused"})
}

// TestNotSent: a query that cannot be filled in is refused, and so is a server of others; that does not end by itself.
func TestNotSent(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.Query = "${pods}" }))
	s.becomes(Result{Round: "1", Failed: true, Refused: true, Message: `${pods} is not inside of a string: write it as in {pod=~"${pods}"}`})
	s.Expect(s.answers.times("")).To(BeZero())
	s.answers.set(nil, &errNotPermitted{"default", "shop"})
	s.Ask(parent("shop", "web"), ask("2", nil))
	s.becomes(Result{Round: "2", Failed: true, Refused: true, Message: (&errNotPermitted{"default", "shop"}).Error()})
}

// TestStale: a result that was not measured again for long is none.
func TestStale(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(1767225600, 0))
	s := newScene(t, c)
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.Server = "default" }))
	s.becomes(Result{Round: "1", Verdict: promql.NotMet, Message: "1, at most 0.01", Misses: 1})
	s.Schedule.mu.Lock()
	s.tasks[parent("shop", "web")]["errors"].due = c.Now().Add(time.Hour)
	s.Schedule.mu.Unlock()
	c.Step(150 * time.Second)
	s.Expect(s.Results(parent("shop", "web"))).To(HaveLen(1))
	c.Step(time.Second)
	s.Expect(s.Results(parent("shop", "web"))).To(BeEmpty())
}

// TestServerThatHangs: 1,000 parents ask a server that never answers, and as many others one that does. These do not wait, and
// there is no goroutine for each check.
func TestServerThatHangs(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	before := runtime.NumGoroutine()
	often := func(a *Ask) { a.Interval = 10 * time.Millisecond }
	for i := range 1000 {
		s.Ask(parent(fmt.Sprintf("silent-%d", i%100), fmt.Sprintf("web-%d", i)), ask("1", func(a *Ask) { a.Server = "hangs" }))
	}
	s.Eventually(func() int { return s.answers.times("hangs") }).Should(Equal(mostOfServer))
	s.Ask(parent("silent-0", "shop"), ask("1", nil))
	for i := range 1000 {
		s.Ask(parent(fmt.Sprintf("shop-%d", i%100), fmt.Sprintf("web-%d", i)), ask("1", nil))
	}
	s.Eventually(func() int { return s.answers.times("default") }).Should(BeNumerically(">=", 1001))
	s.Expect(s.answers.times("silent-0")).To(BeNumerically(">=", 1))
	s.Ask(parent("shop", "web"), ask("1", often))
	s.Eventually(func() int { return s.answers.times("shop") }).Should(BeNumerically(">=", 10))
	s.Expect(s.answers.times("hangs")).To(Equal(mostOfServer))
	s.Expect(runtime.NumGoroutine() - before).To(BeNumerically("<=", mostQueries+10))
}

// TestFair: of one server, no namespace gets more than its share, and one with many checks does not make another wait for all of
// them.
func TestFair(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	for i := range 500 {
		s.Ask(parent("many", fmt.Sprintf("web-%d", i)), ask("1", func(a *Ask) { a.Server = "hangs" }))
	}
	s.Eventually(func() int { return s.answers.times("many") }).Should(Equal(mostOfNamespace))
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.Server = "hangs" }))
	s.Eventually(func() int { return s.answers.times("shop") }).Should(Equal(1))
	s.Expect(s.answers.times("many")).To(Equal(mostOfNamespace))
	s.Ask(parent("many", "other"), ask("1", nil)) // another server
	s.Eventually(func() int { return s.answers.times("default/many") }).Should(Equal(1))
}

// TestSilentServer: a server whose queries time out gets fewer of them at a time, until it answers.
func TestSilentServer(t *testing.T) {
	s := newScene(t, clock.RealClock{})
	for i := range 100 {
		s.Ask(parent(fmt.Sprintf("shop-%d", i), "web"), ask("1", func(a *Ask) { a.Server = "waits" }))
	}
	running := func() int {
		s.answers.Lock()
		defer s.answers.Unlock()
		return s.answers.running["waits"]
	}
	end := func(queries int, with error) {
		for range queries {
			s.answers.ends <- with
		}
	}
	s.Eventually(running).Should(Equal(mostOfServer))
	end(mostOfServer, errNoAnswer{time.Second})
	s.Eventually(running).Should(Equal(mostOfSilentServer))
	end(20, errNoAnswer{time.Second})
	s.Eventually(func() int { return s.answers.times("waits") }).Should(Equal(mostOfServer + 20 + mostOfSilentServer))
	s.Expect(running()).To(Equal(mostOfSilentServer))
	end(1, nil)
	s.Eventually(running).Should(Equal(mostOfServer))
}

// TestReached: a measurement that began before the step was reached does not count for its end, and another one begins at once.
func TestReached(t *testing.T) {
	s := newScene(t, testclock.NewFakeClock(time.Unix(1767225600, 0)))
	s.answers.set(new(0.0), nil)
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.Server = "waits" }))
	reached := func(a *Ask) { a.Server, a.Reached = "waits", true }
	s.Eventually(func() int { return s.answers.times("waits") }).Should(Equal(1))
	s.Ask(parent("shop", "web"), ask("1", reached))
	s.answers.ends <- nil
	s.becomes(Result{Round: "1", Verdict: promql.Met, Message: "0"})
	s.answers.ends <- nil
	s.becomes(Result{Round: "1", Reached: true, Verdict: promql.Met, Message: "0"})
	s.Ask(parent("shop", "web"), ask("1", reached)) // the control: it is not measured with each pass
	s.Ask(parent("shop", "web"), ask("1", func(a *Ask) { a.Server = "waits" }))
	s.Ask(parent("shop", "web"), ask("1", reached)) // it stands again
	s.Eventually(func() int { return s.answers.times("waits") }).Should(Equal(3))
	s.answers.ends <- nil
	s.becomes(Result{Round: "1", Reached: true, Verdict: promql.Met, Message: "0"})
}

// TestOneQueryThatPanics is refused, in its turn again and again, and leaves its place to others.
func TestOneQueryThatPanics(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(1767225600, 0))
	s := newScene(t, c)
	for i := range 2 * mostQueries {
		s.Ask(parent("shop", fmt.Sprint("bad-", i)), ask("1", func(a *Ask) { a.Server = "panics" }))
	}
	for i := range 2 * mostQueries {
		s.Eventually(func() Result { return s.Results(parent("shop", fmt.Sprint("bad-", i)))["errors"] }).Should(Equal(Result{
			Round: "1", Verdict: promql.NoData, Failed: true, Refused: true, Message: "cannot measure: this is a bug in United, and its log has more: panic: no such series"}))
	}
	s.Ask(parent("shop", "web"), ask("1", nil))
	s.becomes(Result{Round: "1", Verdict: promql.NotMet, Message: "1, at most 0.01", Misses: 1})
	asked := s.answers.times("panics")
	s.Eventually(func() int {
		c.Step(10 * time.Second)
		return s.answers.times("panics")
	}).Should(BeNumerically(">", asked))
}
