// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package change_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// kind is a kind of child workload. Its pod templates are in spec, and %s in them stands for pod templates.
type kind struct {
	name, member string
	// template is the spec of the workload, and patch one of a subset, each with %s for what is in a pod template.
	template, patch string
	templates       int
}

func kinds() []kind {
	simple := func(name, member, more string) kind {
		return kind{name, member, `{` + more + `"template":%s}`, `{"template":%s}`, 1}
	}
	claims := `"volumeClaimTemplates":[{"metadata":{"name":"data"}}],`
	return []kind{
		simple("StatefulSet", "statefulSetTemplate", claims+`"serviceName":"web",`),
		simple("Deployment", "deploymentTemplate", `"revisionHistoryLimit":3,`),
		simple("CloneSet", "cloneSetTemplate", claims),
		simple("Advanced StatefulSet", "advancedStatefulSetTemplate", claims),
		{
			"LeaderWorkerSet", "leaderWorkerSetTemplate",
			`{"startupPolicy":"LeaderCreated","networkConfig":{"subdomainPolicy":"Shared"},"leaderWorkerTemplate":{"size":2,"leaderTemplate":%[1]s,"workerTemplate":%[1]s}}`,
			`{"leaderWorkerTemplate":{"workerTemplate":%s}}`, 2,
		},
	}
}

const pods = `{"metadata":{"labels":{"app":"web"}},"spec":{
	"initContainers":[{"name":"init","image":"init:v1"}],
	"containers":[{"name":"web","image":"web:v1","env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]},{"name":"side","image":"side:v1"}]}}`

// parent returns a UnitedDeployment of a kind with two subsets; zone-b has a patch of pods and of something else.
func (k kind) parent(t *testing.T) *v1alpha1.UnitedDeployment {
	t.Helper()
	text := fmt.Sprintf(`{"metadata":{"name":"web","uid":"u","generation":1},"spec":{
		"replicas":4,"selector":{"matchLabels":{"app":"web"}},"template":{%q:{"metadata":{"annotations":{"keep":"me"}},"spec":%s}},
		"topology":{"subsets":[{"name":"zone-a","tolerations":[{"key":"a","operator":"Exists"}]},{"name":"zone-b","patch":{"metadata":{"annotations":{"b":"1"}},"spec":%s}}]}}}`,
		k.member, fmt.Sprintf(k.template, pods), fmt.Sprintf(k.patch, `{"spec":{"containers":[{"name":"side","image":"side:special","env":[{"name":"S","value":"1"}]}]}}`))
	parent := &v1alpha1.UnitedDeployment{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), parent)).To(Succeed())
	return parent
}

// with returns a copy of a parent after changes of its text.
func with(t *testing.T, parent *v1alpha1.UnitedDeployment, oldnew ...string) *v1alpha1.UnitedDeployment {
	t.Helper()
	g := NewWithT(t)
	out := &v1alpha1.UnitedDeployment{}
	text := textOf(g, parent)
	for i := 0; i < len(oldnew); i += 2 {
		g.Expect(text).To(ContainSubstring(oldnew[i]))
	}
	g.Expect(json.Unmarshal([]byte(strings.NewReplacer(oldnew...).Replace(text)), out)).To(Succeed())
	return out
}

func textOf(g *WithT, v any) string {
	raw, err := json.Marshal(v)
	g.Expect(err).NotTo(HaveOccurred())
	return string(raw)
}

// applied applies the patch between two parents to the first one as the API server does, and expects the second one.
func applied(t *testing.T, before, after *v1alpha1.UnitedDeployment) []change.Operation {
	t.Helper()
	g := NewWithT(t)
	operations, err := change.Operations(before, after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apply(g, textOf(g, before), operations)).To(MatchJSON(textOf(g, after)))
	return operations
}

func apply(g *WithT, document string, operations []change.Operation) string {
	written := []map[string]any{}
	for _, o := range operations {
		op := map[string]any{"op": o.Op, "path": o.Path}
		if o.Value != nil {
			op["value"] = o.Value
		}
		written = append(written, op)
	}
	patch, err := jsonpatch.DecodePatch([]byte(textOf(g, written)))
	g.Expect(err).NotTo(HaveOccurred())
	out, err := patch.Apply([]byte(document))
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func revisionOf(t *testing.T, parent *v1alpha1.UnitedDeployment, number int64, current string) *revision.Revision {
	t.Helper()
	g := NewWithT(t)
	read, err := spec.Read(parent, all.Registry())
	g.Expect(err).NotTo(HaveOccurred())
	cr := revision.New(parent, world.OwnerOf(parent), read.Content(), number, 0)
	cr.UID = "stored"
	if current != "" {
		cr.Annotations = map[string]string{v1alpha1.AnnotationCurrent: current}
	}
	r, err := revision.Parse(cr)
	g.Expect(err).NotTo(HaveOccurred())
	return r
}

// Undo restores what makes pods, and nothing else.
func TestUndo(t *testing.T) {
	for _, k := range kinds() {
		for _, tc := range []struct {
			name   string
			change func(t *testing.T, before *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment
		}{
			{"an image", func(t *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				return with(t, p, "web:v1", "web:v2")
			}},
			{"a container more", func(t *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				return with(t, p, `{"image":"side:v1","name":"side"}`, `{"image":"new:v1","name":"new"},{"image":"side:v1","name":"side"}`)
			}},
			{"a patch of pods", func(t *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				return with(t, p, "side:special", "side:other")
			}},
			{"no patch, and other tolerations", func(_ *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				after := p.DeepCopy()
				after.Spec.Topology.Subsets[0].Tolerations, after.Spec.Topology.Subsets[1].Patch = nil, nil
				after.Spec.Topology.Subsets[1].Tolerations = p.Spec.Topology.Subsets[0].Tolerations
				return after
			}},
			{"a patch that was not there", func(_ *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				after := p.DeepCopy()
				after.Spec.Topology.Subsets[0].Patch = p.Spec.Topology.Subsets[1].Patch.DeepCopy()
				return after
			}},
			{"the label with the version", func(_ *testing.T, p *v1alpha1.UnitedDeployment) *v1alpha1.UnitedDeployment {
				after := p.DeepCopy()
				after.Spec.VersionLabel = v1alpha1.TemplateHashLabel
				return after
			}},
		} {
			t.Run(k.name+"/"+tc.name, func(t *testing.T) {
				g := NewWithT(t)
				before := k.parent(t)
				target := revisionOf(t, before, 1, "")
				changed := tc.change(t, before)
				// What no revision has.
				changed.Spec.Replicas, changed.Spec.Paused = before.Spec.Replicas, true
				after, notes, err := change.Undo(changed, target)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(notes).To(BeEmpty())
				applied(t, changed, after)
				read, err := spec.Read(after, all.Registry())
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(target.Matches(read.Content())).To(BeTrue())
				g.Expect(after.Spec.Paused).To(BeTrue())
				g.Expect(textOf(g, after.Spec.Template)).To(MatchJSON(textOf(g, before.Spec.Template)), "claims and metadata too")
			})
		}
	}
}

// A patch keeps what is not about pods, and nothing empty is left of one that was only about pods.
func TestUndoOfAPatch(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			g := NewWithT(t)
			patched := k.parent(t)
			plain := patched.DeepCopy()
			plain.Spec.Topology.Subsets[1].Patch = nil
			patched.Spec.Topology.Subsets[0].Patch = patched.Spec.Topology.Subsets[1].Patch.DeepCopy()
			patched = with(t, patched, `"patch":{"metadata":{"annotations":{"b":"1"}},"spec"`, `"patch":{"spec"`) // both
			patched.Spec.Topology.Subsets[1] = k.parent(t).Spec.Topology.Subsets[1]
			after, _, err := change.Undo(patched, revisionOf(t, plain, 1, ""))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after.Spec.Topology.Subsets[0].Patch).To(BeNil())
			g.Expect(string(after.Spec.Topology.Subsets[1].Patch.Raw)).To(MatchJSON(`{"metadata":{"annotations":{"b":"1"}}}`))
			applied(t, patched, after)
		})
	}
}

// A subset that is newer than a revision keeps its patch.
func TestUndoDoesNotKnowASubset(t *testing.T) {
	g := NewWithT(t)
	k := kinds()[0]
	before := k.parent(t)
	before.Spec.Topology.Subsets = before.Spec.Topology.Subsets[:1]
	changed := with(t, k.parent(t), "web:v1", "web:v2")
	after, notes, err := change.Undo(changed, revisionOf(t, before, 1, ""))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ConsistOf(ContainSubstring("does not know subset zone-b")))
	g.Expect(after.Spec.Topology).To(Equal(changed.Spec.Topology))
}

// A colocation is part of a revision, and so is that there is none. Its ratios cannot change as long as there is one.
func TestUndoOfAColocation(t *testing.T) {
	g := NewWithT(t)
	plain := kinds()[0].parent(t)
	colocated := plain.DeepCopy()
	colocated.Spec.Topology.Colocation = &v1alpha1.Colocation{
		TopologyKey: "zone", Exclusive: true, Order: v1alpha1.SequentialGroups, Ratios: map[string]v1alpha1.ColocationRatio{"zone-a": 1, "zone-b": 1},
	}
	changed := with(t, colocated, "web:v1", "web:v2")
	changed.Spec.Topology.Colocation.TopologyKey, changed.Spec.Topology.Colocation.Exclusive = "host", false
	for name, tc := range map[string]struct{ from, to *v1alpha1.UnitedDeployment }{
		"another one":            {changed, colocated},
		"turned on":              {colocated, plain},
		"turned on, and another": {changed, plain},
		"turned off":             {plain, colocated},
	} {
		target := revisionOf(t, tc.to, 1, "")
		after, notes, err := change.Undo(tc.from, target)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(after).To(Equal(tc.to), name)
		applied(t, tc.from, after)
		if name == "turned off" {
			g.Expect(notes).To(ConsistOf(ContainSubstring("the defaults of order and timeoutSeconds")))
		} else {
			g.Expect(notes).To(BeEmpty(), name)
		}
	}
	changed.Spec.Topology.Colocation.Ratios = map[string]v1alpha1.ColocationRatio{"zone-a": 2, "zone-b": 1}
	_, _, err := change.Undo(changed, revisionOf(t, colocated, 1, ""))
	g.Expect(err).To(MatchError(HaveSuffix("remove spec.topology.colocation first, then run: kubectl united undo web --to-revision 1")))
	ordinals := with(t, colocated, `"spec":{`, `"spec":{"ordinals":{"start":3},`)
	_, _, err = change.Undo(ordinals, revisionOf(t, colocated, 1, ""))
	g.Expect(err).To(MatchError(ContainSubstring("spec.ordinals.start")))
}

// Partitions that are for the revision that is left hold everything afterwards: otherwise what writes it back releases it.
func TestUndoEndsABoundRelease(t *testing.T) {
	parent := kinds()[0].parent(t)
	v1, changed := revisionOf(t, parent, 1, "u/1"), with(t, parent, "web:v1", "web:v2")
	v2 := revisionOf(t, changed, 2, "")
	for name, tc := range map[string]struct {
		manual  v1alpha1.ManualUpdate
		current string
		want    string
	}{
		"in part":           {v1alpha1.ManualUpdate{Revision: v2.Name, Partitions: map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(0)}}, v1.Name, ": now they hold everything"},
		"to another":        {v1alpha1.ManualUpdate{Revision: v2.Name}, "web-other", "; what runs stays until you run: kubectl united release web --all"},
		"completely":        {v1alpha1.ManualUpdate{Revision: v2.Name, DefaultPartition: ptr.To(intstr.FromString("0%"))}, v1.Name, ": now they hold everything"},
		"and all run it":    {v1alpha1.ManualUpdate{Revision: v2.Name, DefaultPartition: ptr.To(intstr.FromString("0%"))}, v2.Name, "; what runs stays until you run: kubectl united release web --all"},
		"not bound":         {v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(0)}}, v1.Name, ""},
		"bound to the last": {v1alpha1.ManualUpdate{Revision: v1.Name}, v1.Name, ""},
	} {
		g := NewWithT(t)
		from := changed.DeepCopy()
		from.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{ManualUpdate: tc.manual.DeepCopy()}
		from.Status.UpdateRevision, from.Status.CurrentRevision = v2.Name, tc.current
		after, notes, err := change.Undo(from, v1)
		g.Expect(err).NotTo(HaveOccurred(), name)
		if tc.want == "" {
			g.Expect(notes).To(BeEmpty(), name)
			g.Expect(after.Spec.UpdateStrategy).To(Equal(from.Spec.UpdateStrategy), name)
			continue
		}
		g.Expect(notes).To(ConsistOf(HaveSuffix(tc.want)), name)
		g.Expect(after.Spec.UpdateStrategy.ManualUpdate).To(Equal(&v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.FromString("100%"))}), name)
		applied(t, from, after)
	}
}

func TestBack(t *testing.T) {
	g := NewWithT(t)
	parent := kinds()[0].parent(t)
	v1, v2, v3 := revisionOf(t, parent, 1, "u/1"), revisionOf(t, with(t, parent, "web:v1", "web:v2"), 2, "u/2"), revisionOf(t, with(t, parent, "web:v1", "web:v3"), 3, "")
	for _, tc := range []struct {
		name, current, update string
		updated, replicas     int32
		revisions             []*revision.Revision
		want, refused         string
	}{
		{"in mid-rollout", v2.Name, v3.Name, 1, 4, []*revision.Revision{v1, v2, v3}, v2.Name, ""},
		{"at rest", v2.Name, v2.Name, 4, 4, []*revision.Revision{v1, v2, v3}, v1.Name, ""},
		{"at rest without replicas", v2.Name, v2.Name, 0, 0, []*revision.Revision{v1, v2}, v1.Name, ""},
		{"on the way back", v2.Name, v2.Name, 3, 4, []*revision.Revision{v1, v2}, "", "on its way to " + known.Short(v2.Name) + " already"},
		{"the first one", v1.Name, v1.Name, 4, 4, []*revision.Revision{v1}, "", "nothing to go back to"},
		{"one that was never current", v1.Name, v1.Name, 4, 4, []*revision.Revision{v1, v3}, "", "choose one with --to-revision"},
		{"the current one is lost", "web-gone", v3.Name, 1, 4, []*revision.Revision{v3}, "", "web-gone, is lost"},
	} {
		parent.Status = v1alpha1.UnitedDeploymentStatus{CurrentRevision: tc.current, UpdateRevision: tc.update}
		parent.Status.UpdatedReplicas, parent.Status.Replicas = tc.updated, tc.replicas
		got, err := change.Back(parent, tc.revisions)
		if tc.refused != "" {
			g.Expect(err).To(MatchError(ContainSubstring(tc.refused)), tc.name)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), tc.name)
		g.Expect(got.Name).To(Equal(tc.want), tc.name)
	}
}

func TestSetImages(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			g := NewWithT(t)
			before := k.parent(t)
			after, notes, err := change.SetImages(before, map[string]string{"web": "web:v2", "init": "init:v2", "side": "side:v2"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).To(ConsistOf("the patch of subset zone-b sets the image of container side, so there it stays side:special"))
			g.Expect(applied(t, before, after)).To(HaveLen(3 * k.templates))
			g.Expect(textOf(g, after)).To(MatchJSON(textOf(g, with(t, before, "web:v1", "web:v2", "init:v1", "init:v2", "side:v1", "side:v2"))))

			_, _, err = change.SetImages(before, map[string]string{"web": "web:v2", "wep": "x"})
			g.Expect(err).To(MatchError("the pod template of web has no container wep; it has init, side, web"))
			_, _, err = change.SetImages(with(t, before, `"image":"side:special","name":"side"`, `"image":"log","name":"log"`), map[string]string{"log": "x"})
			g.Expect(err).To(MatchError(ContainSubstring("only the patch of subset zone-b has a container log")))
			same, _, err := change.SetImages(before, map[string]string{"web": "web:v1"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(applied(t, before, same)).To(BeEmpty())
		})
	}
}

func TestSetEnv(t *testing.T) {
	const was = `"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`
	set := func(name, value string) change.Variable { return change.Variable{Name: name, Value: value} }
	gone := func(name string) change.Variable { return change.Variable{Name: name, Remove: true} }
	for _, k := range kinds() {
		for _, tc := range []struct {
			name, container string
			variables       []change.Variable
			oldnew          []string
			notes           int
		}{
			{"changed in place, and added", "web", []change.Variable{set("B", "2"), set("C", "")}, []string{was, `"env":[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"C","value":""}]`}, 0},
			{"removed", "web", []change.Variable{gone("A")}, []string{`{"name":"A","value":"1"},`, ""}, 0},
			{"all removed", "web", []change.Variable{gone("A"), gone("B"), gone("Z")}, []string{was + ",", ""}, 0},
			{"init container", "init", []change.Variable{set("A", "1")}, []string{`"image":"init:v1"`, `"image":"init:v1","env":[{"name":"A","value":"1"}]`}, 0},
			{"all containers, one is patched", "", []change.Variable{set("S", "2")}, []string{
				`"image":"init:v1"`, `"image":"init:v1","env":[{"name":"S","value":"2"}]`, `"image":"side:v1"`, `"image":"side:v1","env":[{"name":"S","value":"2"}]`,
				was, strings.TrimSuffix(was, "]") + `,{"name":"S","value":"2"}]`,
			}, 1},
		} {
			t.Run(k.name+"/"+tc.name, func(t *testing.T) {
				g := NewWithT(t)
				before := k.parent(t)
				after, notes, err := change.SetEnv(before, tc.container, tc.variables)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(notes).To(HaveLen(tc.notes))
				applied(t, before, after)
				g.Expect(textOf(g, after)).To(MatchJSON(textOf(g, with(t, before, tc.oldnew...))))
			})
		}
	}
}

func TestRestart(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			g := NewWithT(t)
			before := k.parent(t)
			now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))
			after, notes, err := change.Restart(before, now)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).To(BeEmpty())
			g.Expect(applied(t, before, after)).To(HaveLen(k.templates))
			g.Expect(strings.Count(textOf(g, after), `"kubectl.kubernetes.io/restartedAt":"2026-01-02T02:04:05Z"`)).To(Equal(k.templates))
		})
	}
	t.Run("without a template for leaders", func(t *testing.T) {
		g := NewWithT(t)
		k := kinds()[4]
		k.template = `{"leaderWorkerTemplate":{"size":2,"workerTemplate":%s}}`
		before := k.parent(t)
		after, _, err := change.Restart(before, time.Now())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(applied(t, before, after)).To(HaveLen(1))
	})
	t.Run("a patch sets the annotation", func(t *testing.T) {
		g := NewWithT(t)
		before := with(t, kinds()[0].parent(t), `"spec":{"template":{"spec"`, `"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"x"}},"spec"`)
		_, notes, err := change.Restart(before, time.Now())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(notes).To(ConsistOf(ContainSubstring("subset zone-b")))
	})
}

// What the patch makes of any template is the other one, integers beyond 53 bits and odd names included.
func TestOperations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		g := NewWithT(t)
		before, after := parentOf(g, anything(random, 4)), parentOf(g, anything(random, 4))
		applied(t, before, after)
	}
}

func parentOf(g *WithT, template any) *v1alpha1.UnitedDeployment {
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(json.Unmarshal([]byte(textOf(g, map[string]any{"spec": map[string]any{"template": map[string]any{"statefulSetTemplate": map[string]any{"x": template}}}})), parent)).To(Succeed())
	return parent
}

func anything(random *rand.Rand, depth int) any {
	switch n := random.IntN(8); {
	case n == 0 || depth == 0:
		return int64(9007199254740993) + random.Int64N(2)
	case n == 1:
		return nil
	case n == 2:
		return random.IntN(2) == 0
	case n == 3:
		return ""
	case n < 6:
		list := []any{}
		for range random.IntN(3) {
			list = append(list, anything(random, depth-1))
		}
		return list
	}
	m := map[string]any{}
	for _, name := range []string{"a", "a/b", "a~b", "~1", ""} {
		if random.IntN(2) == 0 {
			m[name] = anything(random, depth-1)
		}
	}
	return m
}
