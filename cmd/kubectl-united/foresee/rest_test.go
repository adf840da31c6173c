// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// A plan of any kind comes to rest, with the replicas that are asked for; and then nothing more happens.
func TestComesToRest(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(templates)) {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := started(t, kind, rapid.Int32Range(1, 6).Draw(r, "replicas"))
				did := []string{}
				for range rapid.IntRange(1, 6).Draw(r, "changes") {
					what, change := drawChange(r, kind)
					did = append(did, what)
					in := changed(t, w, change)
					p, err := Of(in, Options{CountsUnavailable: true})
					if err != nil || p.End.State == Unfinished || p.End.State == Waiting {
						r.Fatalf("%s: %v %+v", strings.Join(did, "; "), err, p)
					}
					total := int32(0)
					for _, s := range p.Subsets {
						total += s.Then
					}
					if total != *in.Parent.Spec.Replicas {
						r.Fatalf("%s: %d replicas: %+v", strings.Join(did, "; "), total, p)
					}
					w = after(t, w, change)
					again, err := Of(changed(t, w, func(*v1alpha1.UnitedDeploymentSpec) {}), Options{CountsUnavailable: true})
					if err != nil || len(again.Waves) > 0 || again.End != p.End {
						r.Fatalf("%s: %v %+v after %+v", strings.Join(did, "; "), err, again, p)
					}
				}
			})
		})
	}
}

func drawChange(r *rapid.T, kind string) (what string, to change) {
	from := func(label string, texts ...string) string { return rapid.SampledFrom(texts).Draw(r, label) }
	switch rapid.IntRange(0, 6).Draw(r, "change") {
	case 0, 1:
		to := from("image", "v1", "v2", "v3")
		return to, image(kind, to)
	case 2:
		n := rapid.Int32Range(0, 8).Draw(r, "replicas")
		return fmt.Sprint(n), replicas(n)
	case 3:
		return "come or go", func(s *v1alpha1.UnitedDeploymentSpec) {
			if n := len(s.Topology.Subsets); n == 2 {
				s.Topology.Subsets = append(s.Topology.Subsets, v1alpha1.Subset{Name: "c"})
			} else {
				s.Topology.Subsets = s.Topology.Subsets[:2]
			}
		}
	case 4:
		return "pause", func(s *v1alpha1.UnitedDeploymentSpec) { s.Paused = !s.Paused }
	case 5:
		text := fmt.Sprintf("{maxUnavailable: %s, order: %s, partition: %s}", from("maxUnavailable", "1", "2", "50%", "100%"),
			from("order", "Parallel", "Sequential"), from("floor", "0", "100%"))
		if from("step", "", "x") != "" {
			text = strings.TrimSuffix(text, "}") + ", steps: [{subsets: [a], partition: 0%, pause: {}}]}"
		}
		return text, rolling(text)
	}
	name, at := from("subset", "a", "b"), from("partition", "0", "0", "100%")
	return name + "=" + at, func(s *v1alpha1.UnitedDeploymentSpec) {
		s.UpdateStrategy.Type, s.UpdateStrategy.RollingUpdate = v1alpha1.ManualUpdateStrategy, nil
		if s.UpdateStrategy.ManualUpdate == nil {
			s.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{}}
		}
		partition(name, at)(s)
	}
}
