// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulsets "github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// dealt is a subset of a parent: a member with a ratio, or another one with "replicas", or "min..max".
type dealt struct {
	ratio int
	text  string
}

func (d dealt) String() string {
	if d.ratio > 0 {
		return fmt.Sprintf("ratio %d", d.ratio)
	}
	return d.text
}

// allocated returns what the planner gives the subsets of a parent that has nothing yet, and whether it says that
// the wishes of the spec are met.
func allocated(t *testing.T, replicas int, subsets []dealt, order v1alpha1.ColocationOrder) ([]int, bool) {
	t.Helper()
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(replicas)), RevisionHistoryLimit: ptr.To(int32(10)), ProgressDeadlineSeconds: ptr.To(int32(600)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: []byte(
			`{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"v1"}]}}}}`)}},
	}
	c := &v1alpha1.Colocation{TopologyKey: "kubernetes.io/hostname", Ratios: map[string]v1alpha1.ColocationRatio{}, Order: order, TimeoutSeconds: ptr.To(int32(60))}
	p.Spec.Topology.Colocation = c
	for i, d := range subsets {
		sub := v1alpha1.Subset{Name: subsetName(i)}
		low, high, bounds := strings.Cut(d.text, "..")
		switch {
		case d.ratio > 0:
			c.Ratios[sub.Name] = v1alpha1.ColocationRatio(d.ratio)
		case !bounds:
			sub.Replicas = ptr.To(intstr.Parse(d.text))
		default:
			if low != "" {
				sub.MinReplicas = ptr.To(intstr.Parse(low))
			}
			sub.MaxReplicas = ptr.To(intstr.Parse(high))
		}
		p.Spec.Topology.Subsets = append(p.Spec.Topology.Subsets, sub)
	}
	spec, err := spec.Read(p, adapters.Registry{statefulsets.New()})
	if err != nil {
		t.Fatalf("%d over %v: %v", replicas, subsets, err)
	}
	r, err := revision.Parse(revision.New(p, world.OwnerOf(p), spec.Content(), 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	in := &planner.Input{World: world.World{Parent: p, Spec: spec, Now: time.Unix(0, 0), Children: map[string]*world.Child{}, Revisions: []*revision.Revision{r}}, Update: r}
	plan := planner.Make(in)
	got := make([]int, len(subsets))
	for _, sub := range plan.Subsets {
		got[subsetNumber(sub.Name)] = int(sub.Desired)
	}
	return got, plan.Allocation.Honored
}

// asked is what the documentation says of the subsets that are no members: a number, a percentage of the replicas as a
// range because of rounding, or bounds that are filled before the groups get the rest.
func (d dealt) asked(replicas int) (low, high int) {
	if d.ratio > 0 {
		return 0, replicas
	}
	if _, most, bounds := strings.Cut(d.text, ".."); bounds {
		lowest, _, _ := strings.Cut(d.text, "..")
		n := share(most, replicas, false)
		if lowest != "" {
			n = max(n, share(lowest, replicas, true))
		}
		return n, n
	}
	return share(d.text, replicas, false), share(d.text, replicas, true)
}

// inGroups deals the rest of the replicas in groups, one replica after the other: into the first group until that is
// full, and in it in list order.
func inGroups(rest int, subsets []dealt) []int {
	got := make([]int, len(subsets))
	for group := 1; rest > 0; group++ {
		for i, d := range subsets {
			n := min(rest, d.ratio)
			got[i] += n
			rest -= n
		}
	}
	return got
}

// lists are the lists of subsets that TestDealing uses.
func lists() (all [][]dealt) {
	for a := 1; a <= 4; a++ {
		all = append(all, []dealt{{ratio: a}})
		for b := 1; b <= 4; b++ {
			all = append(all, []dealt{{ratio: a}, {ratio: b}})
			for c := 1; c <= 3; c++ {
				all = append(all, []dealt{{ratio: a}, {ratio: b}, {ratio: c}})
			}
			for _, other := range []string{"0", "1", "3", "0%", "25%", "50%", "100%", "..1", "1..2", "..50%", "2..25%", "50%..50%"} {
				all = append(all, []dealt{{ratio: a}, {text: other}, {ratio: b}}, []dealt{{text: other}, {ratio: a}})
			}
		}
	}
	for _, two := range [][2]string{{"1", "2"}, {"1", "25%"}, {"33%", "33%"}, {"50%", "50%"}, {"..1", "1..50%"}, {"0", "0"}, {"3", "50%"}, {"..2", "..3"}} {
		all = append(all, []dealt{{text: two[0]}, {ratio: 2}, {text: two[1]}, {ratio: 1}})
	}
	return all
}

// TestDealing compares what the planner gives the subsets with replicas that are dealt one after the other.
func TestDealing(t *testing.T) {
	for _, subsets := range lists() {
		for replicas := range 26 {
			got, honored := allocated(t, replicas, subsets, v1alpha1.ParallelGroups)
			least, sum, rest := 0, 0, replicas
			for i, d := range subsets {
				sum += got[i]
				if d.ratio == 0 {
					low, _ := d.asked(replicas)
					least, rest = least+low, rest-got[i]
				}
			}
			if sum != replicas || slices.Min(got) < 0 {
				t.Errorf("%d over %v: %v", replicas, subsets, got)
				continue
			}
			want := inGroups(rest, subsets)
			for i, d := range subsets {
				low, high := d.asked(replicas)
				switch {
				case d.ratio > 0 && got[i] != want[i]:
					t.Errorf("%d over %v: %v, and the groups get %v", replicas, subsets, got, want)
				case d.ratio == 0 && least <= replicas && (got[i] < low || got[i] > high):
					t.Errorf("%d over %v: %v, and %s asks for %d to %d", replicas, subsets, got, subsetName(i), low, high)
				}
			}
			if least > replicas && honored && !strings.Contains(fmt.Sprint(subsets), "..") {
				t.Errorf("%d over %v: %v is less than what is asked for, and counts as honored", replicas, subsets, got)
			}
		}
	}
}

// TestDealingInSteps checks that one replica more never takes one away from a member, unless other subsets are a
// percentage, and adds it to the last group.
func TestDealingInSteps(t *testing.T) {
	for _, subsets := range lists() {
		if strings.Contains(fmt.Sprint(subsets), "%") {
			continue
		}
		before, _ := allocated(t, 0, subsets, v1alpha1.ParallelGroups)
		for replicas := 1; replicas < 26; replicas++ {
			got, _ := allocated(t, replicas, subsets, v1alpha1.ParallelGroups)
			for i := range got {
				if got[i] < before[i] {
					t.Errorf("%d over %v: %v, and of one less %v", replicas, subsets, got, before)
				}
			}
			before = got
		}
	}
}

// TestDealingMany checks large numbers.
func TestDealingMany(t *testing.T) {
	hundred := []dealt{}
	for range 100 {
		hundred = append(hundred, dealt{ratio: 1000})
	}
	for _, subsets := range [][]dealt{
		{{ratio: 1000}, {ratio: 1}}, {{ratio: 1}, {ratio: 1000}}, {{ratio: 1000}, {ratio: 999}, {text: "50%"}}, {{ratio: 7}}, hundred,
		{{ratio: 3}, {text: "100%"}}, {{ratio: 3}, {text: fmt.Sprint(math.MaxInt32)}}, {{ratio: 3}, {text: ".." + fmt.Sprint(math.MaxInt32)}},
	} {
		for _, replicas := range []int{0, 1, 999, 1000, 1001, 1002, 99_999, 100_000, 100_001, math.MaxInt32 - 1, math.MaxInt32} {
			for _, order := range []v1alpha1.ColocationOrder{v1alpha1.ParallelGroups, v1alpha1.SequentialGroups} {
				got, _ := allocated(t, replicas, subsets, order)
				sum, whole, rest := 0, 0, replicas
				for i, d := range subsets {
					sum, whole = sum+got[i], whole+d.ratio
					if d.ratio == 0 {
						rest -= got[i]
					}
				}
				rest = max(0, rest)
				if order == v1alpha1.SequentialGroups {
					rest = min(rest, whole) // the first group
				}
				for i, d := range subsets {
					if d.ratio == 0 {
						continue
					}
					before := 0
					for _, other := range subsets[:i] {
						before += other.ratio
					}
					want := rest/whole*d.ratio + min(d.ratio, max(0, rest%whole-before))
					if got[i] != want {
						t.Errorf("%s: %d over %v: %s gets %d instead of %d", order, replicas, subsets[:min(3, len(subsets))], subsetName(i), got[i], want)
					}
				}
				if order == v1alpha1.ParallelGroups && sum != replicas {
					t.Errorf("%d over %v: sum %d", replicas, subsets[:min(3, len(subsets))], sum)
				}
			}
		}
	}
}

// share converts a number, or a percentage of the replicas, rounded up or down.
func share(text string, replicas int, up bool) int {
	parsed := intstr.Parse(text)
	n, err := intstr.GetScaledValueFromIntOrPercent(&parsed, replicas, up)
	if err != nil {
		panic(err)
	}
	return n
}

func subsetName(k int) string {
	if k < 26 {
		return string(rune('a' + k))
	}
	return fmt.Sprintf("%c%c", 'a'+k/26, 'a'+k%26)
}

func subsetNumber(name string) int {
	n := int(name[len(name)-1] - 'a')
	if len(name) == 2 {
		n += 26 * int(name[0]-'a')
	}
	return n
}
