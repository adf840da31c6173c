// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

func TestVariablesOf(t *testing.T) {
	g := NewWithT(t)
	got, err := variablesOf([]string{"A=1", "B=", "C=a=b-", "D-"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal([]change.Variable{{Name: "A", Value: "1"}, {Name: "B"}, {Name: "C", Value: "a=b-"}, {Name: "D", Remove: true}}))
	for args, want := range map[string]string{"A": "KEY=VALUE", "=1": "valid environment variable", "-": "valid environment variable", "9=1": "valid environment variable"} {
		_, err := variablesOf([]string{args})
		g.Expect(err).To(MatchError(ContainSubstring(want)), args)
	}
	_, err = variablesOf([]string{"A=1", "A-"})
	g.Expect(err).To(MatchError("A is there twice"))
}

// cluster is a fake API server with one UnitedDeployment at rest, which ran v1 before v2, and the manager has seen that.
func cluster(t *testing.T, edits ...func(*v1alpha1.UnitedDeployment)) (*options, *bytes.Buffer) {
	t.Helper()
	g := NewWithT(t)
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {name: web, namespace: shop, uid: u, generation: 3}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template: {statefulSetTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:v1"}]}}}}}
  topology:
    subsets:
    - {name: zone-a}
    - {name: zone-b, patch: {spec: {template: {spec: {containers: [{name: web, image: "web:b"}]}}}}}
status: {observedGeneration: 3, conditions: [{type: Initialized, status: "True", reason: Initialized}]}
`), parent)).To(Succeed())
	revisions := []client.Object{}
	for i := range 2 {
		parent.Spec.Template.StatefulSetTemplate.Raw = bytes.ReplaceAll(parent.Spec.Template.StatefulSetTemplate.Raw, []byte("web:v1"), fmt.Appendf(nil, "web:v%d", i+1))
		read, err := spec.Read(parent, all.Registry())
		g.Expect(err).NotTo(HaveOccurred())
		cr := revision.New(parent, world.OwnerOf(parent), read.Content(), int64(i+1), 0)
		cr.UID, cr.Annotations = types.UID(cr.Name), map[string]string{v1alpha1.AnnotationCurrent: fmt.Sprintf("u/%d", i+1)}
		revisions = append(revisions, cr)
		parent.Status.CurrentRevision, parent.Status.UpdateRevision = cr.Name, cr.Name
	}
	for _, edit := range edits {
		edit(parent)
	}
	kinds, err := scheme()
	g.Expect(err).NotTo(HaveOccurred())
	out, namespace := &bytes.Buffer{}, "shop"
	config := genericclioptions.NewConfigFlags(true)
	config.Namespace = &namespace
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(append(revisions, parent)...).Build()
	return &options{IOStreams: genericiooptions.IOStreams{In: out, Out: out, ErrOut: out}, config: config, api: api}, out
}

// run runs a command, and returns its error.
func run(cmd *cobra.Command, args ...string) error {
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(context.Background())
}

func TestSetImageSaysWhatIsHeld(t *testing.T) {
	g := NewWithT(t)
	o, out := cluster(t)
	g.Expect(run(o.set(), "image", "web", "web=web:v3")).To(Succeed())
	g.Expect(out.String()).To(And(
		ContainSubstring("Note: the patch of subset zone-b sets the image of container web, so there it stays web:b\n"),
		ContainSubstring(`-p '[{"op":"replace","path":"/spec/template/statefulSetTemplate/spec/template/spec/containers/0/image","value":"web:v3"}]'`),
		ContainSubstring("The partitions hold 2 of 2 in zone-a, 2 of 2 in zone-b on what they run.\n"), ContainSubstring("To release one: kubectl united release web zone-a -n shop\n"),
	))
}

// An annotation that moved the rollout to the revision that is left would only be a riddle later.
func TestChangeTakesAnnotationsAway(t *testing.T) {
	g := NewWithT(t)
	o, out := cluster(t, func(p *v1alpha1.UnitedDeployment) {
		p.Annotations = map[string]string{v1alpha1.AnnotationForceUpdate: "web-1", v1alpha1.AnnotationApproved: "key", "mine": "x"}
	})
	g.Expect(run(o.set(), "image", "web", "*=web:v3")).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring(`{"op":"remove","path":"/metadata/annotations/united.dev~1approved"},{"op":"remove","path":"/metadata/annotations/united.dev~1force-update"}`))
	after, err := o.one(t.Context(), "web")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.Annotations).To(Equal(map[string]string{"mine": "x"}))
}

func TestRelease(t *testing.T) {
	g := NewWithT(t)
	seen := func(p *v1alpha1.UnitedDeployment) {
		p.Spec.Paused, p.Spec.UpdateStrategy.Type = true, v1alpha1.ManualUpdateStrategy
		p.Status.Subsets = []v1alpha1.SubsetStatus{
			{Name: "zone-a", DesiredReplicas: 2, ReplicaCounts: v1alpha1.ReplicaCounts{UpdatedReplicas: 2}}, {Name: "zone-b", DesiredReplicas: 2},
		}
	}
	o, out := cluster(t, seen)
	g.Expect(run(o.release(), "web")).To(MatchError("which subsets? web has zone-a, zone-b"))
	g.Expect(run(o.release(), "web", "--all", "zone-a")).To(MatchError("--all releases all subsets, so it takes no subset"))
	// An empty variable of a script, zone-b=$PCT, must not release all of zone-b.
	g.Expect(run(o.release(), "web", "zone-b=")).To(MatchError("zone-b=: write a value, such as zone-b=50%"))
	g.Expect(run(o.partition(), "web", "zone-b=")).To(MatchError("zone-b=: write a value, such as zone-b=50%"))
	g.Expect(run(o.release(), "web", "zone-b=10%")).To(Succeed())
	g.Expect(out.String()).To(And(MatchRegexp(`releases 0 of 2 replicas of zone-b, of web-\w+\n`), ContainSubstring("Note: the least that releases one is zone-b=50%\n")))
	out.Reset()
	g.Expect(run(o.pause(), "web")).To(MatchError("web is already paused: nothing was changed"))
	g.Expect(run(o.release(), "web", "--all")).To(Succeed())
	g.Expect(out.String()).To(And(
		MatchRegexp(`Note: all replicas of zone-a run web-\w+ already\n`), ContainSubstring("Note: it is paused, so nothing is released until you run: kubectl united resume web\n"),
		MatchRegexp(`"value":{"revision":"web-\w+","partitions":{"zone-a":0,"zone-b":0}}`),
	))
}

func TestUndo(t *testing.T) {
	bound := func(p *v1alpha1.UnitedDeployment) {
		p.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(1)}}
	}
	midRollout := func(p *v1alpha1.UnitedDeployment) { p.Status.UpdateRevision = "web-other" }
	unseen := func(p *v1alpha1.UnitedDeployment) { p.Status.ObservedGeneration = 2 }
	// The API server refuses a field that is not in the pods, or one that is.
	refused := func(message string, rollout bool, updated int32) func(*v1alpha1.UnitedDeployment) {
		return func(p *v1alpha1.UnitedDeployment) {
			p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: "True", Reason: v1alpha1.ReasonApplyRefused, ObservedGeneration: 3})
			p.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "zone-a", Phase: v1alpha1.PhaseStalled, Message: message}}
			if p.Status.UpdatedReplicas = updated; rollout {
				p.Status.UpdateRevision = "web-other"
				p.Spec.Template.StatefulSetTemplate.Raw = bytes.ReplaceAll(p.Spec.Template.StatefulSetTemplate.Raw, []byte("web:v2"), []byte("web:v3"))
			}
		}
	}
	const immutable, ofPods = `spec.serviceName: Invalid value: "x": field is immutable`, `spec.template.spec.nodeSelectors: field not declared in schema`
	coordinated := func(p *v1alpha1.UnitedDeployment) {
		p.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{}}
	}
	for _, tc := range []struct {
		name  string
		edit  func(*v1alpha1.UnitedDeployment)
		args  []string
		want  string
		fails bool
	}{
		{"at rest", bound, nil, "The partitions hold 1 of 2 in zone-a, 2 of 2 in zone-b", false},
		{"coordinated", coordinated, nil, "This is the way back", false},
		{"to the current one", midRollout, nil, "its pods are like that already", false},
		{"by number", bound, []string{"--to-revision", "1"}, `"value":"web:v1"`, false},
		{"unknown", bound, []string{"--to-revision", "9"}, "there is 1, 2", true},
		{"not observed", unseen, nil, "no manager has seen the last change", true},
		{"refused at rest", refused(immutable, false, 0), nil, "what stalls web is not in its pods, which are what undo sets back: correct what the API server refuses: zone-a: " + immutable, true},
		{"refused at rest, by name", refused(immutable, false, 0), []string{"--to-revision", "1"}, "Note: only the pods go back; to end the stall, also correct what the API server refuses: zone-a: " + immutable, false},
		{"refused in a rollout", refused(immutable, true, 0), nil, "what stalls web is not in its pods", true},
		{"refused in one subset of a rollout", func(p *v1alpha1.UnitedDeployment) {
			refused(immutable, true, 0)(p)
			p.Status.Subsets = append(p.Status.Subsets, v1alpha1.SubsetStatus{Name: "zone-b", Phase: v1alpha1.PhaseHeld})
		}, nil, "Note: only the pods go back; to end the stall, also correct what the API server refuses: zone-a: " + immutable, false},
		{"refused in a part of a rollout", refused(immutable, true, 1), nil, "goes back to", false},
		{"refused pods", refused(ofPods, true, 0), nil, "goes back to", false},
		{"another revision in view", bound, []string{"--revision", "web-x"}, "no longer web-x", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			o, out := cluster(t, tc.edit)
			err := run(o.undo(), append([]string{"web"}, tc.args...)...)
			if tc.fails {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out.String()).To(ContainSubstring(tc.want))
		})
	}
}

// Like a pause, a refusal is said with what would be released: nothing moves there until it ends.
func TestRefusalIsSaid(t *testing.T) {
	g := NewWithT(t)
	refused := func(p *v1alpha1.UnitedDeployment) {
		p.Spec.UpdateStrategy.Type = v1alpha1.ManualUpdateStrategy
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: "True", Reason: v1alpha1.ReasonApplyRefused, ObservedGeneration: 3})
		p.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "zone-a", Phase: v1alpha1.PhaseStalled, Message: "spec.serviceName: field is immutable"}, {Name: "zone-b", DesiredReplicas: 2}}
	}
	const said = "the API server refuses the child of zone-a, and until it accepts that, no replica is updated there; why: kubectl united why web"
	for _, tc := range []struct {
		args []string
		said int
	}{{[]string{"release", "web", "zone-a", "zone-b"}, 1}, {[]string{"partition", "web", "zone-a=0"}, 1}, {[]string{"release", "web", "zone-b"}, 0}, {[]string{"set", "image", "web", "web=web:v3"}, 1}} {
		o, out := cluster(t, refused)
		g.Expect(run(o.root(), tc.args...)).To(Succeed())
		g.Expect(strings.Count(strings.ToLower(out.String()), strings.ToLower(said))).To(Equal(tc.said), "%v: %s", tc.args, out)
	}
	o, out := cluster(t)
	g.Expect(run(o.set(), "image", "web", "web=web:v3")).To(Succeed())
	g.Expect(out.String()).NotTo(ContainSubstring("refuses"))
}

// Without a second revision, undo names the field that stalls all the same, and claims nothing of what replicas ever ran.
func TestUndoTheFirst(t *testing.T) {
	g := NewWithT(t)
	const refusal = `spec.serviceName: Invalid value: "x": field is immutable`
	for _, stalls := range []bool{true, false} {
		o, _ := cluster(t, func(p *v1alpha1.UnitedDeployment) {
			if stalls {
				p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: "True", Reason: v1alpha1.ReasonApplyRefused, ObservedGeneration: 3})
				p.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "zone-a", Phase: v1alpha1.PhaseStalled, Message: refusal}}
			}
		})
		parent, err := o.one(t.Context(), "web")
		g.Expect(err).NotTo(HaveOccurred())
		revisions, err := o.user().Revisions(t.Context(), parent)
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range revisions {
			if r.Name != parent.Status.CurrentRevision {
				g.Expect(o.api.Delete(t.Context(), r.Object)).To(Succeed())
			}
		}
		want := "there is nothing to go back to: web has no revision that was the current one before " + known.Short(parent.Status.CurrentRevision)
		if stalls {
			want = "what stalls web is not in its pods, which are what undo sets back: correct what the API server refuses: zone-a: " + refusal
		}
		g.Expect(run(o.undo(), "web")).To(MatchError(want))
	}
}

// A change that somebody makes between look and act is not overwritten.
func TestStaleView(t *testing.T) {
	g := NewWithT(t)
	o, out := cluster(t)
	o.api = interceptor.NewClient(o.api, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
		other := &v1alpha1.UnitedDeployment{}
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), other)).To(Succeed())
		other.Generation++
		g.Expect(c.Update(ctx, other)).To(Succeed())
		if err := c.Patch(ctx, object, patch, opts...); err != nil { // as the API server says it
			return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return nil
	}})
	g.Expect(run(o.restart(), "web")).To(MatchError(ContainSubstring("somebody has changed web since: nothing was done")))
	g.Expect(out.String()).NotTo(ContainSubstring("restarts"))
}

func TestDiffAtRest(t *testing.T) {
	g := NewWithT(t)
	o, out := cluster(t)
	g.Expect(run(o.diff(), "web")).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("has no other revision than"))
	g.Expect(run(o.diff(), "web", "--revision", "1")).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("-  - image: web:v1\n+  - image: web:v2\n"))
	out.Reset()
	g.Expect(run(o.history(), "web", "-o", "name")).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`^(controllerrevision\.apps/web-\w+\n){2}$`))
}
