// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// killedAtRandom kills managers with SIGKILL at random moments of the scenario, both the leader and the
// other one. Both renew or read their Lease five times a second, so a random call is also a random
// moment.
func killedAtRandom(t *testing.T, c *Plane) {
	t.Parallel()
	withManagerPair(c, t, func(k *ManagerPair, p appsv1.PodManagementPolicyType, want []End) {
		seed := SeedOfTest(k.Env)
		random := &dice{random: rand.New(rand.NewPCG(seed, 1))}
		w := canary(k, p)
		k.Use(func(c *Call, s Send) (*http.Response, error) {
			const mean = 30 // about three seconds
			if c.Watches() || random.roll(mean) != 0 {
				return s()
			}
			if random.roll(2) == 0 {
				answer, err := s()
				if err != nil {
					return nil, err
				}
				Drop(answer)
			}
			c.Replica.Kill()
			return nil, ErrCut
		})
		playScenario(w, want, func(situation) func() {
			before := k.Kills()
			// Some of the situations end before a random moment comes.
			return func() { k.Eventually(k.Kills).Should(BeNumerically(">", before)) }
		})
		t := k.T
		t.Logf("seed %d: %d kills", seed, k.Kills())
	})
}

// badServer makes a share of the calls fail, in all the ways in which an API server and the network can
// fail.
func badServer(t *testing.T, c *Plane) {
	t.Parallel()
	withManagerPair(c, t, func(k *ManagerPair, p appsv1.PodManagementPolicyType, want []End) {
		seed := SeedOfTest(k.Env)
		random := &dice{random: rand.New(rand.NewPCG(seed, 2))}
		ofChildren := &deck{dice: random, share: 2, seen: map[string]int{}}
		ofOthers := &deck{dice: random, share: 8, seen: map[string]int{}}
		w := canary(k, p)
		k.Use(func(c *Call, s Send) (*http.Response, error) {
			if c.Child() != nil {
				return ofChildren.deal(c, s)
			}
			return ofOthers.deal(c, s)
		})
		playScenario(w, want, wellBehaved)
		k.Use(Pass)
		t := k.T
		t.Logf("seed %d: writes of children: %v; other calls: %v", seed, ofChildren.seen, ofOthers.seen)
		for _, f := range failings {
			k.Expect(ofChildren.seen).To(HaveKey(f.name), "writes of children")
			k.Expect(ofOthers.seen).To(HaveKey(f.name), "other calls")
		}
	})
}

// failing is a way in which a call can fail.
type failing struct {
	name string
	fail Hook
}

var failings = []failing{
	{"500", refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
	{"503", refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
	{"409", refuse(http.StatusConflict, metav1.StatusReasonConflict)},
	{"429", refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
	{"504, but done", func(c *Call, s Send) (*http.Response, error) {
		answer, err := s()
		if err != nil {
			return nil, err
		}
		Drop(answer)
		return refusal(c, http.StatusGatewayTimeout, metav1.StatusReasonTimeout), nil
	}},
	{"cut", func(*Call, Send) (*http.Response, error) { return nil, ErrCut }},
	{"cut, but done", func(_ *Call, s Send) (*http.Response, error) {
		answer, err := s()
		if err != nil {
			return nil, err
		}
		Drop(answer)
		return nil, ErrCut
	}},
	{"late", func(c *Call, s Send) (*http.Response, error) {
		select {
		case <-time.After(700 * time.Millisecond):
		case <-c.Context().Done():
		}
		return s()
	}},
}

func refuse(code int, reason metav1.StatusReason) Hook {
	return func(c *Call, _ Send) (*http.Response, error) { return refusal(c, code, reason), nil }
}

// dice generates random numbers for several goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// deck deals failings: each failing is dealt once before any is dealt again.
type deck struct {
	*dice
	// share: on average one in share calls fails, and at most twice as many.
	share int

	mu    sync.Mutex
	left  int
	cards []int
	seen  map[string]int
}

func (d *deck) deal(c *Call, s Send) (*http.Response, error) {
	if f := d.next(); f != nil {
		return f.fail(c, s)
	}
	return s()
}

func (d *deck) next() *failing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left > 0 {
		d.left--
		return nil
	}
	d.left = d.roll(2*d.share - 1)
	if len(d.cards) == 0 {
		d.dice.mu.Lock()
		d.cards = d.random.Perm(len(failings))
		d.dice.mu.Unlock()
	}
	f := &failings[d.cards[0]]
	d.cards = d.cards[1:]
	d.seen[f.name]++
	return f
}
