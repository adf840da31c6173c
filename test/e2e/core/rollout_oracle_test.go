// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestOracles checks that the oracles see what they should see.
func TestOracles(t *testing.T) {
	t.Parallel()
	start := time.Unix(1767225600, 0)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	ready := func(second int, name, uid, image string) PodEvent {
		p := Pod{Name: name, UID: types.UID(uid), Subset: name[:1], Image: image, Ready: true, ReadySince: at(second)}
		return PodEvent{Pod: p, At: at(second)}
	}
	unready := func(e PodEvent, second int) PodEvent { e.Ready, e.At = false, at(second); return e }
	dying := func(e PodEvent, second int) PodEvent { e.Terminating, e.At = true, at(second); return e }
	gone := func(e PodEvent, second int) PodEvent { e.Gone, e.At = true, at(second); return e }
	a0, a1, b0 := ready(0, "a0", "1", "v1"), ready(0, "a1", "2", "v1"), ready(0, "b0", "3", "v1")
	events := []PodEvent{
		a0, a1, b0,
		gone(a1, 10), // taken: 1 down
		unready(ready(11, "a1", "4", "v2"), 11),
		dying(b0, 12), // taken: 2 down
		gone(b0, 13),
		ready(14, "a1", "4", "v2"),
		gone(dying(b0, 15), 15), // an old event of a deleted pod has no effect
		unready(a0, 16),         // by itself: 2 down
		gone(unready(a0, 16), 17),
		ready(18, "b0", "5", "v2"),
	}
	for _, check := range []struct {
		minReady time.Duration
		want     string
	}{
		{0, "2 1 0 1! 1 2! 2 1 1 2 2 1"},
		{5 * time.Second, "3 3 3 1! 1 2! 2 2 2 3 3 3"},
	} {
		var got []string
		for _, m := range Replay(events, 3, check.minReady) {
			text := fmt.Sprint(m.Down)
			if m.Taken {
				text += "!"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != check.want {
			t.Errorf("minReady %s: %s, want %s", check.minReady, text, check.want)
		}
	}
	if apart := Widest(events, "v2", map[string]int{"a": 2, "b": 1}); apart != 50 {
		t.Errorf("%.0f%% apart, want 50", apart)
	}
}
