// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// templates have a place for an image.
var templates = map[string]string{
	"statefulSetTemplate":         `{podManagementPolicy: Parallel, serviceName: web, template: TEMPLATE}`,
	"ordered":                     `{serviceName: web, template: TEMPLATE}`,
	"advancedStatefulSetTemplate": `{podManagementPolicy: Parallel, template: TEMPLATE}`,
	"cloneSetTemplate":            `{template: TEMPLATE}`,
	"deploymentTemplate":          `{template: TEMPLATE}`,
	"leaderWorkerSetTemplate":     `{leaderWorkerTemplate: {size: 2, leaderTemplate: TEMPLATE, workerTemplate: TEMPLATE}}`,
}

func setTemplate(s *v1alpha1.UnitedDeploymentSpec, kind, image string) {
	pods := fmt.Sprintf(`{metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: %q}]}}`, image)
	member := kind
	if kind == "ordered" {
		member = "statefulSetTemplate"
	}
	text := fmt.Sprintf("%s: {spec: %s}", member, strings.ReplaceAll(templates[kind], "TEMPLATE", pods))
	s.Template = v1alpha1.WorkloadTemplate{}
	if err := yaml.UnmarshalStrict([]byte(text), &s.Template); err != nil {
		panic(err)
	}
}

// parentOf returns a parent of subsets a and b, with everything held.
func parentOf(kind string, replicas int32) *v1alpha1.UnitedDeployment {
	parent := &v1alpha1.UnitedDeployment{}
	parent.Namespace, parent.Name, parent.UID, parent.Generation = "shop", "web", "web", 1
	err := yaml.UnmarshalStrict([]byte(`{selector: {matchLabels: {app: web}}, topology: {subsets: [{name: a}, {name: b}]}, updateStrategy: {type: Manual}}`), &parent.Spec)
	if err != nil {
		panic(err)
	}
	parent.Spec.Replicas = &replicas
	setTemplate(&parent.Spec, kind, "v1")
	return parent
}

// inputOf returns what a pass reads.
func inputOf(t *testing.T, w *world.World) *planner.Input {
	t.Helper()
	var err error
	if w.Spec, err = spec.Read(w.Parent, all.Registry()); err != nil {
		t.Fatal(err)
	}
	in, err := planner.NewInput(w)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// after returns the world in which a change has been rolled out as far as it goes.
func after(t *testing.T, w *world.World, change func(*v1alpha1.UnitedDeploymentSpec)) *world.World {
	t.Helper()
	f := newFuture(changed(t, w, change), Options{CountsUnavailable: true})
	if finished, err := f.play(); !finished || err != nil {
		t.Fatal(finished, err)
	}
	f.show()
	return &f.world
}

func changed(t *testing.T, w *world.World, change func(*v1alpha1.UnitedDeploymentSpec)) *planner.Input {
	t.Helper()
	next := *w
	next.Parent = w.Parent.DeepCopy()
	change(&next.Parent.Spec)
	next.Parent.Generation++
	return inputOf(t, &next)
}

// started returns the world of a parent that has come up.
func started(t *testing.T, kind string, replicas int32) *world.World {
	t.Helper()
	w := &world.World{Parent: parentOf(kind, replicas), Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return after(t, w, func(*v1alpha1.UnitedDeploymentSpec) {})
}

// told is a plan in a few words.
func told(p *Plan) string {
	var lines []string
	for _, w := range p.Waves {
		words := []string{}
		if w.Pause != "" {
			words = append(words, "pause "+w.Pause)
		}
		for _, c := range w.Changes {
			what := strings.ReplaceAll(strings.Join(c.Names, ","), "web-", "")
			if what == "" {
				what = fmt.Sprintf("%d of %s", c.Count, c.Subset)
			}
			words = append(words, c.Action+" "+what)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(append(lines, p.End.State), "; ")
}

type change = func(*v1alpha1.UnitedDeploymentSpec)

func image(kind, to string) change {
	return func(s *v1alpha1.UnitedDeploymentSpec) { setTemplate(s, kind, to) }
}

func replicas(n int32) change { return func(s *v1alpha1.UnitedDeploymentSpec) { s.Replicas = &n } }

func partition(name, to string) change {
	return func(s *v1alpha1.UnitedDeploymentSpec) {
		if s.UpdateStrategy.ManualUpdate == nil {
			s.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{}}
		}
		s.UpdateStrategy.ManualUpdate.Partitions[name] = intstr.Parse(to)
	}
}

func rolling(text string) change {
	return func(s *v1alpha1.UnitedDeploymentSpec) {
		s.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{}}
		if err := yaml.UnmarshalStrict([]byte(text), s.UpdateStrategy.RollingUpdate); err != nil {
			panic(err)
		}
	}
}

// addC adds a subset, and sets the image.
func addC(kind, image string) change {
	return func(s *v1alpha1.UnitedDeploymentSpec) {
		s.Topology.Subsets = append(s.Topology.Subsets, v1alpha1.Subset{Name: "c"})
		setTemplate(s, kind, image)
	}
}

func TestForesees(t *testing.T) {
	const sts, ordered = "statefulSetTemplate", "ordered"
	for _, c := range []struct {
		name, kind string
		replicas   int32
		before     []change
		change     change
		want       string
	}{
		{"a new image is held", sts, 4, nil, image(sts, "v2"), "held"},
		{"nothing changes", sts, 4, nil, replicas(4), "complete"},
		{"a partition is lowered", sts, 6, []change{image(sts, "v2")}, partition("a", "1"), "restart a-2; restart a-1; held"},
		{"a partition is lowered, in order", ordered, 6, []change{image(ordered, "v2")}, partition("a", "1"), "restart a-2; restart a-1; held"},
		{"a partition is raised", sts, 6, []change{image(sts, "v2"), partition("a", "1")}, partition("a", "3"), "held"},
		{"what was raised is not released again", sts, 6, []change{image(sts, "v2"), partition("a", "1"), partition("a", "3"), image(sts, "v3")}, partition("a", "1"), "restart a-2; restart a-1; held"},
		{"back to v1", sts, 6, []change{image(sts, "v2"), partition("a", "1")}, image(sts, "v1"), "restart a-2; restart a-1; complete"},
		{
			"back to what neither the template nor the protected revision is", sts, 6,
			[]change{image(sts, "v2"), partition("a", "1"), partition("a", "3"), image(sts, "v3")}, image(sts, "v2"), "held",
		},
		{"scaled up in mid-canary", sts, 4, []change{image(sts, "v2"), partition("a", "50%")}, replicas(8), "create a-2,a-3 create b-2,b-3; held"},
		{"scaled down in mid-canary", sts, 8, []change{image(sts, "v2"), partition("a", "50%")}, replicas(2), "remove a-3,a-2,a-1 remove b-3,b-2,b-1; held"},
		{"created in order", ordered, 2, nil, replicas(6), "create a-1 create b-1; create a-2 create b-2; complete"},
		{"scaled to 0 and back while held", sts, 2, []change{image(sts, "v2"), replicas(0)}, replicas(2), "create a-0 create b-0; held"},
		{
			"a subset is added", sts, 4, []change{image(sts, "v2")},
			func(s *v1alpha1.UnitedDeploymentSpec) {
				s.Topology.Subsets = append(s.Topology.Subsets, v1alpha1.Subset{Name: "c"})
			},
			"remove b-1 create c-0; held",
		},
		{
			"a subset is removed", sts, 4, nil,
			func(s *v1alpha1.UnitedDeploymentSpec) { s.Topology.Subsets = s.Topology.Subsets[:1] },
			"create a-2,a-3 remove b-1,b-0; complete",
		},
		{"rolling", sts, 4, []change{rolling(`{}`)}, image(sts, "v2"), "restart a-1; restart b-1; restart a-0; restart b-0; complete"},
		{"rolling, two at a time", sts, 4, []change{rolling(`{maxUnavailable: 2}`)}, image(sts, "v2"), "restart a-1 restart b-1; restart a-0 restart b-0; complete"},
		{
			"what a new subset releases is made protected first", sts, 6, []change{rolling(`{maxUnavailable: 100%, partition: 50%}`)}, addC(sts, "v2"),
			"create c-0,c-1; restart a-1 remove a-2 restart b-1 remove b-2 restart c-1; held",
		},
		{"rolling, in sequence", sts, 4, []change{rolling(`{maxUnavailable: 2, order: Sequential}`)}, image(sts, "v2"), "restart a-1,a-0; restart b-1,b-0; complete"},
		{
			"rolling, with steps", sts, 4, []change{rolling(`{steps: [{subsets: [a], partition: 50%, pause: {duration: 10m}}, {subsets: [a], partition: 0%, pause: {}}]}`)},
			image(sts, "v2"), "restart a-1; pause 10m0s; restart a-0; awaiting-approval",
		},
		{
			"rolling, with an approval of the last wave", sts, 4, []change{rolling(`{maxUnavailable: 100%, steps: [{subsets: ["*"], partition: 0, pause: {}}]}`)},
			image(sts, "v2"), "restart a-1,a-0 restart b-1,b-0; awaiting-approval",
		},
		{
			"rolling, with a pause of the last wave", sts, 4, []change{rolling(`{maxUnavailable: 100%, steps: [{subsets: ["*"], partition: 0, pause: {duration: 10m}}]}`)},
			image(sts, "v2"), "restart a-1,a-0 restart b-1,b-0; pause 10m0s; complete",
		},
		{
			"Deployments, with an approval of the last wave, to rolling and scaled at once", "deploymentTemplate", 4, []change{image("deploymentTemplate", "v2")},
			func(s *v1alpha1.UnitedDeploymentSpec) {
				rolling(`{maxUnavailable: 1, steps: [{subsets: [a, b], partition: 0, pause: {}}, {subsets: [a, b], partition: 0}]}`)(s)
				replicas(2)(s)
			}, "restart 1 of a remove 1 of a remove 1 of b; restart 1 of b; awaiting-approval",
		},
		{
			"rolling, scaled while an approval is awaited", sts, 4,
			[]change{rolling(`{steps: [{subsets: [a], partition: 50%, pause: {}}]}`), image(sts, "v2")}, replicas(6), "create a-2 create b-2; awaiting-approval",
		},
		{"paused", sts, 4, []change{partition("a", "0")}, func(s *v1alpha1.UnitedDeploymentSpec) { s.Paused = true; setTemplate(s, sts, "v2") }, "paused"},
		{"an Advanced StatefulSet", "advancedStatefulSetTemplate", 4, []change{image("advancedStatefulSetTemplate", "v2")}, partition("a", "0"), "restart a-1; restart a-0; held"},
		{"a LeaderWorkerSet", "leaderWorkerSetTemplate", 4, []change{image("leaderWorkerSetTemplate", "v2")}, partition("a", "0"), "restart a-1; restart a-0; held"},
		{"a CloneSet", "cloneSetTemplate", 8, []change{image("cloneSetTemplate", "v2")}, partition("a", "50%"), "restart 1 of a; restart 1 of a; held"},
		{"a CloneSet, scaled", "cloneSetTemplate", 8, []change{image("cloneSetTemplate", "v2"), partition("a", "50%")}, replicas(6), "remove 1 of a remove 1 of b; held"},
		{"a Deployment", "deploymentTemplate", 4, []change{image("deploymentTemplate", "v2")}, partition("a", "0"), "restart 1 of a; restart 1 of a; held"},
		{"rolling Deployments", "deploymentTemplate", 4, []change{rolling(`{}`)}, image("deploymentTemplate", "v2"), "restart 1 of a; restart 1 of a; restart 1 of b; restart 1 of b; complete"},
		{
			"rolling Deployments, scaled at once", "deploymentTemplate", 4, []change{rolling(`{order: Sequential}`)},
			func(s *v1alpha1.UnitedDeploymentSpec) { image("deploymentTemplate", "v2")(s); replicas(5)(s) },
			"create 1 of a; restart 1 of a; restart 1 of a; restart 1 of a; restart 1 of b; restart 1 of b; complete",
		},
		{"rolling Deployments, held, one of them empty", "deploymentTemplate", 1, []change{rolling(`{partition: 100%}`)}, image("deploymentTemplate", "v2"), "held"},
		{"to rolling Deployments, one of them empty", "deploymentTemplate", 1, nil, rolling(`{}`), "complete"},
		{"scaled to 0", "deploymentTemplate", 2, nil, replicas(0), "remove 1 of a remove 1 of b; complete"},
		{"rolling CloneSets", "cloneSetTemplate", 4, []change{rolling(`{}`)}, image("cloneSetTemplate", "v2"), "restart 1 of a; restart 1 of b; restart 1 of a; restart 1 of b; complete"},
		{"rolling LeaderWorkerSets", "leaderWorkerSetTemplate", 4, []change{rolling(`{}`)}, image("leaderWorkerSetTemplate", "v2"), "restart a-1; restart b-1; restart a-0; restart b-0; complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := started(t, c.kind, c.replicas)
			for _, before := range c.before {
				w = after(t, w, before)
			}
			p, err := Of(changed(t, w, c.change), Options{CountsUnavailable: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := told(p); got != c.want {
				t.Errorf("%s\ninstead of\n%s\n%+v", got, c.want, p)
			}
		})
	}
}

func TestSaysWhy(t *testing.T) {
	const sts = "statefulSetTemplate"
	w := after(t, started(t, sts, 4), image(sts, "v2"))
	p, err := Of(changed(t, w, partition("b", "1")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Subsets[1]; len(s.Restarts) != 1 || fmt.Sprint(s.Restarts[0].Why) != "[spec.containers[web].image: v1 -> v2]" || s.Restarts[0].Names[0] != "web-b-1" || s.Restarts[0].To != p.Update {
		t.Errorf("%+v", s)
	}
	if s := p.Subsets[0]; s.Message != `default partition "100%" holds all replicas` || s.Partition != 2 || s.Now != 2 || s.Then != 2 || s.Updated != 0 {
		t.Errorf("%+v", s)
	}
}

// notReady makes the first replica of a subset unready, and failed unless failure is "".
func notReady(w *world.World, name, failure string) {
	o := w.Children[name].Observed
	o.Pods = slices.Clone(o.Pods)
	o.Pods[0].Ready, o.Pods[0].Failure, o.Pods[0].Since = false, failure, w.Now
}

// A replica that failed stays as it is, and the plan says so; one that is starting becomes ready.
func TestAssumes(t *testing.T) {
	const sts = "statefulSetTemplate"
	w := started(t, sts, 4)
	for name, failure := range map[string]string{"a": "CrashLoopBackOff", "b": ""} {
		notReady(w, name, failure)
	}
	p, err := Of(changed(t, w, func(s *v1alpha1.UnitedDeploymentSpec) { s.Replicas = ptr.To[int32](4) }), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(p.Assumed, "; "); !strings.Contains(text, "become ready: web-b-0") || !strings.Contains(text, "unless they are replaced: web-a-0") || p.End.State != Waiting {
		t.Errorf("%s\n%+v", text, p.End)
	}
}

// With LeaderWorkerSets it is a matter of chance on what a new group starts, if that is released at once; not if it is replaced.
func TestAssumesWhereGroupsStart(t *testing.T) {
	const lws = "leaderWorkerSetTemplate"
	p, err := Of(changed(t, after(t, started(t, lws, 4), partition("a", "1")), func(s *v1alpha1.UnitedDeploymentSpec) {
		replicas(6)(s)
		setTemplate(s, lws, "v2")
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(p.Assumed, "; "); text != "these new replicas start on the update revision, and not on the earlier one first: web-a-2; every new replica becomes ready" || p.Subsets[0].Restarts[0].Names[0] != "web-a-1" {
		t.Errorf("%s\n%+v", text, p)
	}
}

// A child that is refused keeps its replicas, and those that were to make room for it stay.
func TestRefusedChild(t *testing.T) {
	const sts = "statefulSetTemplate"
	add := func(s *v1alpha1.UnitedDeploymentSpec) {
		s.Topology.Subsets = append(s.Topology.Subsets, v1alpha1.Subset{Name: "c"})
	}
	p, err := Of(changed(t, started(t, sts, 4), add), Options{Refused: map[string]string{"c": "quota exceeded"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := told(p); got != "waiting" || p.Subsets[2].Message != "quota exceeded" || p.Subsets[1].Then != 2 {
		t.Errorf("%s: %+v", got, p)
	}
}

// Kinds that choose among their replicas replace first what is not available, so that a broken replica does not stop them.
func TestReplacesWhatIsBroken(t *testing.T) {
	for _, kind := range []string{"deploymentTemplate", "cloneSetTemplate"} {
		t.Run(kind, func(t *testing.T) {
			w := after(t, started(t, kind, 4), image(kind, "v2"))
			notReady(w, "a", "CrashLoopBackOff")
			for title, c := range map[string]struct {
				change change
				want   string
			}{
				"Manual":  {partition("a", "0"), "restart 1 of a; restart 1 of a; held"},
				"rolling": {rolling(`{order: Sequential}`), "restart 1 of a; restart 1 of a; restart 1 of b; restart 1 of b; complete"},
			} {
				p, err := Of(changed(t, w, c.change), Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got := told(p); got != c.want {
					t.Errorf("%s: %s\ninstead of\n%s\n%+v", title, got, c.want, p)
				}
			}
		})
	}
}

// A Deployment keeps the replicas that it has beyond those that it is asked for while one of them fails, and is scaled in proportion.
func TestDeploymentWithTwoVersions(t *testing.T) {
	const kind = "deploymentTemplate"
	held := after(t, started(t, kind, 8), image(kind, "v2"))
	hold := partition("a", "100%")
	// mix is the world in which a is released, and has so many replicas of v1 and v2.
	mix := func(old, updated int, failure string) *world.World {
		f := newFuture(changed(t, held, partition("a", "0")), Options{})
		before := f.snapshot()
		if _, err := f.settle(&before); err != nil {
			t.Fatal(err)
		}
		c := f.children["a"]
		c.pods = slices.Clone(held.Children["a"].Observed.Pods[:old])
		for range updated {
			c.create(f, int32(len(c.pods)), c.template())
		}
		if c.ready(f.world.Now, nil); failure != "" {
			for i := range c.pods[old:] {
				r := &c.pods[old+i]
				r.Ready, r.Failure = false, failure
			}
		}
		o := &c.observed
		o.DesiredOthers, o.DesiredUpdated, o.Surplus, c.view = int32(old), int32(updated), int32(old+updated)-o.Replicas, nil
		if _, err := f.pass(); err != nil {
			t.Fatal(err)
		}
		f.show()
		return &f.world
	}
	for _, c := range []struct {
		name    string
		world   *world.World
		before  []change
		change  change
		want    string
		updated int32
	}{
		{"a surge that fails", mix(4, 1, "ImagePullBackOff"), nil, replicas(8), "waiting", 1},
		{"a surge that fails, held", mix(4, 1, "ImagePullBackOff"), nil, hold, "waiting", 1},
		{"a surge that fails, paused", mix(4, 1, "ImagePullBackOff"), nil, func(s *v1alpha1.UnitedDeploymentSpec) { s.Paused = true }, "paused", 1},
		{"a surge that fails, scaled up", mix(4, 1, "ImagePullBackOff"), nil, replicas(12), "create 3 of a create 2 of b; waiting", 2},
		{"a surge that fails, on the way back", mix(4, 1, "ImagePullBackOff"), nil, image(kind, "v1"), "remove 1 of a; complete", 4},
		{"a mix that is held, scaled up", mix(1, 3, ""), []change{hold}, replicas(10), "create 1 of a create 1 of b; held", 4},
		{"a mix that is held, scaled up and down", mix(1, 3, ""), []change{hold, replicas(10), replicas(14)}, replicas(8), "remove 3 of a remove 3 of b; held", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world
			for _, before := range c.before {
				w = after(t, w, before)
			}
			p, err := Of(changed(t, w, c.change), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := told(p); got != c.want || p.Subsets[0].Updated != c.updated {
				t.Errorf("%s, %d updated\ninstead of\n%s, %d\n%+v", got, p.Subsets[0].Updated, c.want, c.updated, p)
			}
		})
	}
}
