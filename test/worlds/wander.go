// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// longWay is how many events a random way has.
const longWay = 80

// Wander goes random ways through a world, which come further than a walk, and fails the test for each violation.
func Wander[S comparable](t *testing.T, g Game[S], ways int) {
	t.Helper()
	k := newWalker(g)
	root := k.nodes[0].s
	for seed := range uint64(ways) {
		k.nodes = []node[S]{{s: root, from: -1}}
		k.wander(root, rand.New(rand.NewPCG(seed, 15)))
	}
	k.report(t)
}

// wander goes one way.
func (k *Walker[S]) wander(s S, random *rand.Rand) {
	for n := range longWay {
		happens := k.events(&s).List
		passes := random.IntN(3) == 0 || len(happens) == 0
		if passes {
			after, x, _ := k.passWhole(&s)
			for _, b := range k.Judge(x, &s) {
				k.record(n, b, fmt.Sprint("pass: ", x.Does()))
			}
			s = after
			k.nodes = append(k.nodes, node[S]{s, n, x.String()})
		} else {
			var how func() string
			s, how = k.disturbed(&s, &happens[random.IntN(len(happens))], random)
			k.Tidy(&s)
			k.nodes = append(k.nodes, node[S]{s, n, how()})
		}
		k.visited++
		if !passes || n%8 == 0 {
			k.ends(n+1, &s)
		}
	}
}

// disturbed is an event, and sometimes a fault of the manager with it.
func (k *Walker[S]) disturbed(s *S, e *Event[S], random *rand.Rand) (S, func() string) {
	budget := &k.Core(&e.Raw).Budget
	if !k.alone(e) && k.Core(&e.Raw).Generation == k.Core(s).Generation {
		switch {
		case budget[Stales] > 0 && random.IntN(3) == 0:
			return k.stale(k.decide(s, s), s, e)
		case budget[Lags] > 0 && random.IntN(3) == 0:
			return k.lag(s, e)
		case budget[Deaths] > 0 && random.IntN(3) == 0:
			late := e.Raw
			k.Core(&late).Budget[Deaths]--
			x := k.decide(&late, &late)
			if len(x.Does()) > 0 {
				read := late
				k.execute(x, &late, disturbed[S]{child: -1, dies: 1, read: &read})
			}
			return late, func() string { return fmt.Sprintf("after [%s] a pass dies after its first write %v", e.Name, x.Does()) }
		}
	}
	return e.Next, func() string { return e.Name }
}
