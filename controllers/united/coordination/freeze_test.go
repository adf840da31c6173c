// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/adapters"
)

func TestUpdatedFrom(t *testing.T) {
	for _, tc := range []struct {
		members  string // "<position>:<hash>", the update revision is u
		replicas int32
		want     int32
		// frozen is what it is when nothing has been moved for a while.
		frozen int32
	}{
		{"", 0, 0, 0},
		{"", 3, 3, 0},
		{"0:o 1:o 2:o", 3, 3, 3},
		{"0:o 1:o 2:u", 3, 2, 2},
		{"0:o 1:u 2:u", 3, 1, 1},
		{"0:u 1:u 2:u", 3, 0, 0},
		{"0:u 1:o 2:u", 3, 2, 2},
		{"0:u 1:u 2:o", 3, 3, 3},
		{"0:o 1:u", 3, 1, 1},         // 2 is missing above an updated one: it was
		{"0:o 2:u", 3, 2, 1},         // 1 is missing below: it is not known what it was
		{"0:o 1:o", 3, 3, 2},         // 2 is missing above one that is not: it may not have been
		{"0:o 1:u 2:u 3:o", 3, 1, 1}, // 3 is surplus
		{"0:u 1:u 3:u", 3, 0, 0},
		{"-1:u 0:u 1:u", 2, 0, 0},
		{"-1:o 0:u 1:u", 2, 0, 0},
	} {
		o := &adapters.Observed{Replicas: tc.replicas, UpdateHash: "u"}
		for _, text := range strings.Fields(tc.members) {
			var r adapters.Replica
			if _, err := fmt.Sscanf(text, "%d:%s", &r.Position, &r.Hash); err != nil {
				t.Fatal(err)
			}
			o.Pods = append(o.Pods, r)
		}
		if got := updatedFrom(o, false); got != tc.want {
			t.Errorf("%q of %d: want %d, have %d", tc.members, tc.replicas, tc.want, got)
		}
		if got := updatedFrom(o, true); got != tc.frozen {
			t.Errorf("%q of %d, frozen: want %d, have %d", tc.members, tc.replicas, tc.frozen, got)
		}
	}
}
