// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"net/http"
	"sync"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// Point is a moment in the work of a manager: the manager makes the last of these calls, after the
// others.
type Point struct {
	Name string
	// steps match the calls. Each gets a call, and the call that matched the previous step.
	Steps []func(c, before *Call) bool
	// answered: the moment is after the API server has accepted the last call, not before it receives
	// it.
	Answered bool
}

// killPoint waits for any replica to reach a point while it leads, and acts once.
type killPoint struct {
	Point
	act func(c *Call)
	// acted is closed after it has acted.
	acted chan struct{}

	mu     sync.Mutex
	by     *cluster.Process // the process that made the steps so far
	before *Call
	step   int
}

// KillAt kills the manager that reaches the point.
func (k *ManagerPair) KillAt(p Point) *killPoint {
	return k.ActAt(p, func(c *Call) { c.Replica.Kill() })
}

// ActAt calls spring when a manager reaches the point. Then it cuts the connection of the call.
func (k *ManagerPair) ActAt(p Point, spring func(c *Call)) *killPoint {
	t := &killPoint{Point: p, acted: make(chan struct{}), act: spring}
	k.Use(t.hook)
	return t
}

func (t *killPoint) hook(c *Call, s Send) (*http.Response, error) {
	at, matches := t.matches(c)
	switch {
	case !matches:
		return s()
	case at < len(t.Steps)-1 || t.Answered:
		answer, err := s()
		if !accepted(answer) || !t.stepped(c, at) {
			return answer, err
		}
		Drop(answer)
	case !t.stepped(c, at):
		return s()
	}
	t.act(c)
	close(t.acted)
	return nil, ErrCut
}

// matches returns the step that the call matches, if any.
func (t *killPoint) matches(c *Call) (at int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step == len(t.Steps) {
		return 0, false
	}
	// Steps of another process do not count, unless it has ended, for example because it lost its Lease: this one goes on.
	if t.by == c.Replica.Process() || t.by != nil && t.by.Exited() {
		at = t.step
	}
	return at, t.Steps[at](c, t.before)
}

// stepped records a step, and reports whether it was the last one, which happens only once.
func (t *killPoint) stepped(c *Call, at int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step == len(t.Steps) {
		return false
	}
	t.by, t.before, t.step = c.Replica.Process(), c, at+1
	return t.step == len(t.Steps)
}

// AwaitActed waits until it has acted.
func (t *killPoint) AwaitActed(e *Env) {
	e.T.Helper()
	e.Eventually(t.acted).Should(BeClosed(), "nobody came to the point: %s", t.Name)
}

// held is a call that is delayed.
type held struct {
	*Call
	Process *cluster.Process
	release chan struct{}
	// answer is the status code that the API server finally returned.
	answer chan int
}

// HoldAt delays the next call that matches, and waits until a manager makes it.
func (k *ManagerPair) HoldAt(match func(c *Call) bool, cause func()) *held {
	k.T.Helper()
	caught := make(chan *held, 1)
	var once sync.Once
	k.Use(func(c *Call, s Send) (*http.Response, error) {
		mine := false
		if match(c) {
			once.Do(func() { mine = true })
		}
		if !mine {
			return s()
		}
		h := &held{Call: c, Process: c.Replica.Process(), release: make(chan struct{}), answer: make(chan int, 1)}
		caught <- h
		select {
		case <-h.release:
		case <-k.Ctx.Done():
			return nil, ErrCut
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
func (h *held) Release(e *Env) int {
	e.T.Helper()
	close(h.release)
	var code int
	e.Eventually(h.answer).Should(Receive(&code), "%s went nowhere", h.Call)
	return code
}
