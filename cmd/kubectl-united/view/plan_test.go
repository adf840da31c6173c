// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
)

func replicas(names ...string) foresee.Replicas {
	return foresee.Replicas{Count: int32(len(names)), Names: names}
}

func TestPrintPlan(t *testing.T) {
	created := replicas("web-b-2")
	plan := &foresee.Plan{
		Name: "web", Current: "web-1", Update: "web-2",
		Subsets: []foresee.Subset{
			{Name: "a", Workload: "web-a", Now: 4, Then: 4, Updated: 4, Phase: "Complete", Restarts: []foresee.Restart{
				{Replicas: replicas("web-a-3", "web-a-2", "web-a-1", "web-a-0"), From: "web-1", To: "web-2", Why: []string{"spec.containers[web].image: v1 -> v2"}},
			}},
			{Name: "b", Workload: "web-b", Now: 2, Then: 3, Phase: "Held", Message: "default partition \"100%\" holds all replicas", Created: &created},
		},
		Waves: []foresee.Wave{
			{Changes: []foresee.Change{{Subset: "a", Action: foresee.Restarted, Replicas: replicas("web-a-3")}, {Subset: "b", Action: foresee.Created, Replicas: created}}},
			{Pause: "10m0s", Why: "step 1 of 1 reached"},
			{Changes: []foresee.Change{{Subset: "a", Action: foresee.Restarted, Replicas: replicas("web-a-2")}}},
			{Changes: []foresee.Change{{Subset: "a", Action: foresee.Restarted, Replicas: replicas("web-a-1")}}},
			{Changes: []foresee.Change{{Subset: "a", Action: foresee.Restarted, Replicas: replicas("web-a-0")}}},
		},
		End: foresee.End{State: foresee.Held, Message: "4 of 7 replicas run web-2"}, Assumed: []string{"every new replica becomes ready"},
		Unfinished: []string{"no right to patch statefulsets"},
	}
	out := &bytes.Buffer{}
	Style{}.PrintPlan(out, plan)
	want := `
web  restart 4, create 1  (web-1 -> web-2)

SUBSET  REPLICAS  RESTART  CREATE  UPDATED  IN THE END
a       4         4        -       4/4      Complete
b       2 -> 3    -        1       0/3      Held: default partition "100%" holds all replicas

RESTARTED  BECAUSE OF
a 3..0     spec.containers[web].image: v1 -> v2

WAVE   WHAT HAPPENS AT THE SAME TIME
1      a: restart 3; b: create 2
pause  10m0s: step 1 of 1 reached
2-4    a: restart 2..0 (1 at a time)

In the end   held: 4 of 7 replicas run web-2
Assumed      every new replica becomes ready
Not checked  no right to patch statefulsets
`
	var lines []string
	for _, line := range strings.Split(out.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if got := "\n" + strings.Join(lines, "\n"); got != want {
		t.Errorf("%s\ninstead of\n%s", got, want)
	}
}
