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
	}{
		{"", 0, 0},
		{"", 3, 0},
		{"0:o 1:o 2:o", 3, 3},
		{"0:o 1:o 2:u", 3, 2},
		{"0:o 1:u 2:u", 3, 1},
		{"0:u 1:u 2:u", 3, 0},
		{"0:u 1:o 2:u", 3, 2},
		{"0:u 1:u 2:o", 3, 3},
		{"0:o 1:u", 3, 1},         // 2 is missing, and comes back as the partition says
		{"0:o 2:u", 3, 1},         // so does 1
		{"0:o 1:o", 3, 2},         // and 2, which may have been the only one that was updated
		{"0:o 1:u 2:u 3:o", 3, 1}, // 3 is surplus
		{"0:u 1:u 3:u", 3, 0},
		{"-1:u 0:u 1:u", 2, 0},
		{"-1:o 0:u 1:u", 2, 0},
	} {
		o := &adapters.Observed{Replicas: tc.replicas, UpdateHash: "u"}
		for _, text := range strings.Fields(tc.members) {
			var r adapters.Replica
			if _, err := fmt.Sscanf(text, "%d:%s", &r.Position, &r.Hash); err != nil {
				t.Fatal(err)
			}
			o.Members = append(o.Members, r)
		}
		if got := updatedFrom(o); got != tc.want {
			t.Errorf("%q of %d: want %d, have %d", tc.members, tc.replicas, tc.want, got)
		}
	}
}
