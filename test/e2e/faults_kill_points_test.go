// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"sync"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// point is a moment in the work of a manager: the manager makes the last of these calls, after the
// others.
type point struct {
	name string
	// steps match the calls. Each gets a call, and the call that matched the previous step.
	steps []func(c, before *call) bool
	// answered: the moment is after the API server has accepted the last call, not before it receives
	// it.
	answered bool
}

// The points at which managers are killed or stopped.
var (
	seedWritten = point{
		name: "a seed is written, and its answer is lost", answered: true,
		steps: []func(c, _ *call) bool{isSeed},
	}
	seedBeforeRelease = point{
		name: "between seed and release",
		steps: []func(c, _ *call) bool{isSeed, func(c, before *call) bool {
			return c.child() != nil && c.URL.Path == before.URL.Path && !c.child().seeds()
		}},
	}
	childBeforeStatus = point{
		name:  "between the write of a child and that of the status",
		steps: []func(c, _ *call) bool{isChild, isStatus},
	}
	revisionWritten = point{
		name: "a revision is kept, and the answer is lost", answered: true,
		steps: []func(c, _ *call) bool{isRevision},
	}
	revisionBeforeChild = point{
		name:  "between the revision and the first child",
		steps: []func(c, _ *call) bool{isRevision, isChild},
	}
)

func isSeed(c, _ *call) bool     { return c.child() != nil && c.child().seeds() }
func isChild(c, _ *call) bool    { return c.child() != nil }
func isStatus(c, _ *call) bool   { return c.on(http.MethodPatch, statuses) }
func isRevision(c, _ *call) bool { return c.on(http.MethodPost, "controllerrevisions") }

// killPoint waits for any replica to reach a point while it leads, and acts once.
type killPoint struct {
	point
	act func(c *call)
	// acted is closed after it has acted.
	acted chan struct{}

	mu     sync.Mutex
	by     *cluster.Process // the process that made the steps so far
	before *call
	step   int
}

// KillAt kills the manager that reaches the point.
func (k *managerPair) KillAt(p point) *killPoint {
	return k.ActAt(p, func(c *call) { c.replica.kill() })
}

// ActAt calls spring when a manager reaches the point. Then it cuts the connection of the call.
func (k *managerPair) ActAt(p point, spring func(c *call)) *killPoint {
	t := &killPoint{point: p, acted: make(chan struct{}), act: spring}
	k.Use(t.hook)
	return t
}

func (t *killPoint) hook(c *call, s send) (*http.Response, error) {
	at, matches := t.matches(c)
	switch {
	case !matches:
		return s()
	case at < len(t.steps)-1 || t.answered:
		answer, err := s()
		if !accepted(answer) || !t.stepped(c, at) {
			return answer, err
		}
		drop(answer)
	case !t.stepped(c, at):
		return s()
	}
	t.act(c)
	close(t.acted)
	return nil, errCut
}

// matches returns the step that the call matches, if any.
func (t *killPoint) matches(c *call) (at int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step == len(t.steps) {
		return 0, false
	}
	if t.by == c.replica.Process() { // steps of another process do not count
		at = t.step
	}
	return at, t.steps[at](c, t.before)
}

// stepped records a step, and reports whether it was the last one, which happens only once.
func (t *killPoint) stepped(c *call, at int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step == len(t.steps) {
		return false
	}
	t.by, t.before, t.step = c.replica.Process(), c, at+1
	return t.step == len(t.steps)
}

// AwaitActed waits until it has acted.
func (t *killPoint) AwaitActed(e *env) {
	e.t.Helper()
	e.Eventually(t.acted).Should(BeClosed(), "nobody came to the point: %s", t.name)
}

// held is a call that is delayed.
type held struct {
	*call
	process *cluster.Process
	release chan struct{}
	// answer is the status code that the API server finally returned.
	answer chan int
}

// HoldAt delays the next call that matches, and waits until a manager makes it.
func (k *managerPair) HoldAt(match func(c *call) bool, cause func()) *held {
	k.t.Helper()
	caught := make(chan *held, 1)
	var once sync.Once
	k.Use(func(c *call, s send) (*http.Response, error) {
		mine := false
		if match(c) {
			once.Do(func() { mine = true })
		}
		if !mine {
			return s()
		}
		h := &held{call: c, process: c.replica.Process(), release: make(chan struct{}), answer: make(chan int, 1)}
		caught <- h
		select {
		case <-h.release:
		case <-k.ctx.Done():
			return nil, errCut
		}
		answer, err := s()
		if err == nil {
			h.answer <- answer.StatusCode
		}
		return answer, err
	})
	cause()
	var h *held
	k.Eventually(caught).Should(Receive(&h))
	return h
}

// Release lets the call continue, and returns the status code of the API server.
func (h *held) Release(e *env) int {
	e.t.Helper()
	close(h.release)
	var code int
	e.Eventually(h.answer).Should(Receive(&code), "%s went nowhere", h.call)
	return code
}
