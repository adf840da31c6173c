// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/unitedworkloads/united/controllers/united/checks/caught"
	"github.com/unitedworkloads/united/controllers/united/checks/promql"
)

// How many queries run at a time. A server that does not answer keeps its queries for their timeout: it gets fewer then, so that
// the others have room.
const (
	mostQueries         = 32
	mostOfServer        = 8
	mostOfSilentServer  = 2
	mostOfNamespace     = 4 // for each server
	jitter              = 0.1
	intervalsUntilStale = 3
)

// Ask is a check that is to be measured.
type Ask struct {
	// Check is its name. Another Round is measured anew at once.
	Check, Round string
	// Reached: the step is reached; what is measured after that is marked so.
	Reached  bool
	Server   string
	Query    string
	Interval time.Duration
	// Candidate is about the replicas that are updated, and Baseline about the others; nil if it is not asked for. Without pods,
	// both remain as they were in this round.
	Candidate promql.Values
	Baseline  *promql.Values
	Limits    promql.Limits
	// NoDataPasses: no data is as good as met.
	NoDataPasses bool
}

// Result is the last result of a check.
type Result struct {
	Round string
	// Reached: the measurement began after the step was reached.
	Reached bool
	// Verdict is NoData after an error, too.
	Verdict promql.Verdict
	// Message has the values of the first measurement in a row that had this verdict.
	Message string
	// Failed: there was no answer that could be judged. Refused: nor will there be, unless somebody changes something.
	Failed, Refused bool
	// Misses is how many times in a row the check was not met. Where there were no data, or no answer, that is left out.
	Misses int32
}

// Querier asks a server for a value; nil is no data.
type Querier interface {
	Query(ctx context.Context, server, namespace, query string) (*float64, error)
}

// Schedule measures checks, each in its interval. There is one queue for all of them, and a bounded number of queries at a time.
type Schedule struct {
	servers Querier
	clock   clock.WithTicker
	queue   workqueue.TypedDelayingInterface[key]
	running sync.WaitGroup

	mu      sync.Mutex
	tasks   map[types.NamespacedName]map[string]*task
	changed func(parent types.NamespacedName)
	// lanes have the checks whose time has come, in the order in which lanes are served.
	lanes    []*lane
	byLane   map[laneKey]*lane
	inFlight int
	byServer map[string]*load
}

type key struct {
	parent types.NamespacedName
	check  string
}

type task struct {
	key
	ask Ask
	due time.Time
	// waits: it is in a lane, or is being measured. again: it is to be measured again after that.
	waits, again bool
	ended        time.Time
	result       *Result
}

type laneKey struct{ server, namespace string }

// lane has what a namespace waits for from a server.
type lane struct {
	laneKey
	waiting  []*task
	inFlight int
}

// load is what a server does for us.
type load struct {
	inFlight int
	silent   bool
}

// NewSchedule returns a schedule that does nothing until it is started.
func NewSchedule(servers Querier, c clock.WithTicker) *Schedule {
	return &Schedule{
		servers: servers, clock: c, tasks: map[types.NamespacedName]map[string]*task{},
		queue:  workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Clock: c}),
		byLane: map[laneKey]*lane{}, byServer: map[string]*load{},
	}
}

// OnChange sets what is called when a result of a parent may have changed. It must not wait for anything.
func (s *Schedule) OnChange(changed func(parent types.NamespacedName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

// Start measures until ctx is done.
func (s *Schedule) Start(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.queue.ShutDown)
	defer stop()
	for {
		k, ended := s.queue.Get()
		if ended {
			s.running.Wait()
			return
		}
		_ = caught.Do(ctx, "query", func() { s.take(ctx, k) }) // without a result, the check holds
		s.queue.Done(k)
	}
}

// Ask replaces what is measured for a parent. It waits for nothing.
func (s *Schedule) Ask(parent types.NamespacedName, asks []Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.tasks[parent]
	is := make(map[string]*task, len(asks))
	for _, a := range asks {
		t := was[a.Check]
		if len(a.Candidate.Pods) == 0 {
			if t == nil || t.ask.Round != a.Round {
				continue // there is nothing to ask about yet
			}
			a.Candidate, a.Baseline = t.ask.Candidate, t.ask.Baseline
		}
		switch {
		case t == nil || t.ask.Round != a.Round:
			t = &task{key: key{parent, a.Check}, due: s.clock.Now()}
			s.queue.Add(t.key)
		case a.Reached && !t.ask.Reached:
			t.due, t.again = s.clock.Now(), t.waits
			s.queue.Add(t.key)
		}
		t.ask = a
		is[a.Check] = t
	}
	if s.tasks[parent] = is; len(is) == 0 {
		delete(s.tasks, parent)
	}
}

// Results returns the last results of the checks of a parent, by name. What has not been measured for long has none: a server, or
// a queue, does not answer then.
func (s *Schedule) Results(parent types.NamespacedName) map[string]Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := map[string]Result{}
	for name, t := range s.tasks[parent] {
		if t.result != nil && s.clock.Since(t.ended) <= intervalsUntilStale*t.ask.Interval+maxTimeout {
			results[name] = *t.result
		}
	}
	return results
}

// take puts a check whose time has come into its lane.
func (s *Schedule) take(ctx context.Context, k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[k.parent][k.check]
	if t == nil || t.waits {
		return
	}
	if early := t.due.Sub(s.clock.Now()); early > 0 { // the queue keeps the earliest time of a key
		s.queue.AddAfter(k, early)
		return
	}
	at := laneKey{t.ask.Server, k.parent.Namespace}
	l := s.byLane[at]
	if l == nil {
		l = &lane{laneKey: at}
		s.byLane[at] = l
		s.lanes = append(s.lanes, l)
		if s.byServer[l.server] == nil {
			s.byServer[l.server] = &load{}
		}
	}
	t.waits = true
	l.waiting = append(l.waiting, t)
	s.serve(ctx)
}

// serve starts as many queries as there is room for, lane by lane. s.mu is held.
func (s *Schedule) serve(ctx context.Context) {
	for i := 0; i < len(s.lanes) && s.inFlight < mostQueries; {
		l := s.lanes[i]
		for len(l.waiting) > 0 && s.tasks[l.waiting[0].parent][l.waiting[0].check] != l.waiting[0] {
			l.waiting = l.waiting[1:] // nobody asks for it any more
		}
		switch server := s.byServer[l.server]; {
		case len(l.waiting) == 0 && l.inFlight == 0:
			s.lanes = append(s.lanes[:i], s.lanes[i+1:]...)
			delete(s.byLane, l.laneKey)
		case len(l.waiting) == 0 || l.inFlight >= mostOfNamespace || server.inFlight >= server.most():
			i++
		default:
			t := l.waiting[0]
			l.waiting = l.waiting[1:]
			l.inFlight++
			server.inFlight++
			s.inFlight++
			s.lanes = append(append(s.lanes[:i], s.lanes[i+1:]...), l) // the others are served first
			t.again = false
			ask := t.ask
			s.running.Go(func() {
				var o outcome
				if err := caught.Do(ctx, "cannot measure", func() { o = s.measure(ctx, t.parent.Namespace, &ask) }); err != nil {
					o = outcome{err: refusedError{err}}
				}
				s.measured(ctx, l, t, &ask, o)
			})
		}
	}
}

func (l *load) most() int {
	if l.silent {
		return mostOfSilentServer
	}
	return mostOfServer
}

// measured records a result, and goes on with what waits.
func (s *Schedule) measured(ctx context.Context, l *lane, t *task, a *Ask, o outcome) {
	s.mu.Lock()
	server := s.byServer[l.server]
	l.inFlight--
	server.inFlight--
	s.inFlight--
	if ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	server.silent = errors.As(o.err, &errNoAnswer{})
	changed := s.changed
	if s.tasks[t.parent][t.check] == t {
		next := wait.Jitter(t.ask.Interval, jitter)
		if t.again {
			next = 0
		}
		t.waits, t.ended, t.due = false, s.clock.Now(), s.clock.Now().Add(next)
		s.queue.AddAfter(t.key, next)
		if !t.record(a, &o) {
			changed = nil
		}
	} else {
		changed = nil
	}
	s.serve(ctx)
	if server.inFlight == 0 {
		s.forget(l.server)
	}
	s.mu.Unlock()
	if changed != nil {
		changed(t.parent)
	}
}

// forget removes a server that nobody waits for. s.mu is held.
func (s *Schedule) forget(server string) {
	for at := range maps.Keys(s.byLane) {
		if at.server == server {
			return
		}
	}
	delete(s.byServer, server)
}

// outcome is what one measurement gave.
type outcome struct {
	verdict promql.Verdict
	text    string
	err     error
}

// measure asks for the values of a check.
func (s *Schedule) measure(ctx context.Context, namespace string, a *Ask) outcome {
	template, err := promql.Parse(a.Query)
	if err != nil {
		return outcome{err: refusedError{err}}
	}
	value := func(of *promql.Values) (*float64, error) {
		query, err := template.Fill(of)
		if err != nil {
			return nil, refusedError{err}
		}
		return s.servers.Query(ctx, a.Server, namespace, query)
	}
	candidate, err := value(&a.Candidate)
	if err != nil {
		return outcome{err: err}
	}
	var baseline *float64
	if a.Baseline != nil {
		if baseline, err = value(a.Baseline); err != nil {
			return outcome{err: err}
		}
	}
	verdict, text, err := promql.Judge(candidate, baseline, a.Baseline != nil, a.Limits)
	if err == nil && verdict == promql.NoData && a.NoDataPasses {
		verdict, text = promql.Met, text+", which passes"
	}
	return outcome{verdict, text, err}
}

// refusedError is a query that is not sent.
type refusedError struct{ error }

// record records a result, and reports whether it may matter to a rollout.
func (t *task) record(a *Ask, o *outcome) bool {
	was := t.result
	is := &Result{Round: a.Round, Reached: a.Reached && t.ask.Reached, Verdict: o.verdict, Message: o.text}
	if was != nil {
		is.Misses = was.Misses
	}
	switch {
	case o.err != nil:
		is.Verdict, is.Failed, is.Message = promql.NoData, true, o.err.Error()
		is.Refused = IsNotPermitted(o.err) || errors.As(o.err, &refusedError{})
	case o.verdict == promql.NotMet:
		is.Misses++
	case o.verdict == promql.Met:
		is.Misses = 0
	}
	// Values differ each time. An object that has the last one would be written each time.
	if was != nil && is.Verdict != promql.NoData && was.Verdict == is.Verdict {
		is.Message = was.Message
	}
	t.result = is
	return was == nil || *was != *is
}
