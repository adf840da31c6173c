// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package pass_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/fixtures"
)

// teller are hands that tell what they are asked to do. Revisions are named by their image.
type teller struct {
	t    *testing.T
	told []string
	// fails is what fails, and how: an error of try makes a failure, or a stale result.
	fails map[string]error
	// taken is the name that the stored revision gets, writes how many writes there is time for.
	taken  string
	writes int
	images map[string]string
}

func (h *teller) tell(what string, args ...any) error {
	h.told = append(h.told, strings.TrimSpace(what+" "+fmt.Sprint(args...)))
	return h.fails[what]
}

// changes tells a change of a revision.
func (h *teller) changes(change revision.Change) (text string) {
	if change.Number != 0 {
		text = fmt.Sprint(" as number ", change.Number)
	}
	for _, key := range []string{v1alpha1.AnnotationSubsets, v1alpha1.AnnotationCurrent, v1alpha1.AnnotationLeft, v1alpha1.AnnotationRejected} {
		if value, there := change.Annotations[key]; there {
			text += fmt.Sprintf(" %s=%s", strings.TrimPrefix(key, "united.dev/"), value)
		}
	}
	return text
}

func (h *teller) Try(_ *planner.Input, keep func() error) *planner.Result {
	switch err := keep(); {
	case errors.Is(err, subset.ErrStale):
		return &planner.Result{Stale: true}
	case err != nil:
		return &planner.Result{Failure: &subset.Failure{Message: err.Error()}}
	}
	return &planner.Result{}
}

func (h *teller) Store(in *planner.Input, kept []*revision.Revision) (*revision.Revision, error) {
	if err := h.tell("store", h.images[in.Asked().Name], " beside ", len(kept)); err != nil {
		return nil, err
	}
	object := in.Asked().Object.DeepCopy()
	object.UID = "stored"
	if h.taken != "" {
		object.Name, h.images[h.taken] = h.taken, "under another name"
	}
	return parsed(h.t, object), nil
}

func (h *teller) Keep(_ *planner.Input, r *revision.Revision, change revision.Change) (*revision.Revision, error) {
	return parsed(h.t, change.Of(r.Object)), h.tell("keep", h.images[r.Name], h.changes(change))
}

func (h *teller) Ask(asks []known.CheckAsk) { _ = h.tell("ask", len(asks)) }

func (h *teller) MayContinue() bool { h.writes--; return h.writes >= 0 }

func (h *teller) Write(_ *planner.Input, w *planner.Write) *planner.Result {
	_ = h.tell("write", w.Name, " ", w.Step.Action, " ", h.images[w.Step.Child.Revision])
	return &planner.Result{}
}

func (h *teller) Start(_ *planner.Input, asks []known.CheckAsk) time.Duration {
	_ = h.tell("start", len(asks))
	return 3 * time.Second
}

func (h *teller) Record(r *revision.Revision, change revision.Change) error {
	return h.tell("record", h.images[r.Name], h.changes(change))
}

func (h *teller) Publish(p *pass.Pass) (time.Duration, error) {
	return 2 * time.Second, h.tell("publish", h.images[p.Status.CurrentRevision], " -> ", h.images[p.Status.UpdateRevision])
}

func (h *teller) Tidy(*pass.Pass) error { return h.tell("tidy") }

func parsed(t *testing.T, object *appsv1.ControllerRevision) *revision.Revision {
	r, err := revision.Parse(object)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPass: which hands a pass moves, and in which order.
func TestPass(t *testing.T) {
	down, stale := errors.New("down"), fmt.Errorf("gone: %w", subset.ErrStale)
	for _, tc := range []struct {
		name string
		// stored are the images of the stored revisions, the first of which is the current one.
		stored  []string
		subsets []string
		hands   teller
		want    []string
		// end is what Finish returns.
		end string
	}{
		{"the first", nil, []string{"a", "b"}, teller{writes: 9}, []string{
			"store v1 beside 0", "keep v1", "ask 0", "write a Create v1", "write b Create v1", "start 0", "publish v1 -> v1", "tidy",
		}, "2s"},
		{"it cannot be stored, and there is no other", nil, []string{"a"}, teller{fails: map[string]error{"store": down}}, []string{"store v1 beside 0", "none: down"}, ""},
		{"it cannot be stored", []string{"v0"}, []string{"a"}, teller{writes: 9, fails: map[string]error{"store": down}}, []string{
			"store v1 beside 1", "ask 0", "write a Create v0", "start 0", "record v0 current=u-1/1 left= rejected=", "publish v0 -> v0", "tidy",
		}, "2s"},
		{"a revision has changed", []string{"v0"}, []string{"a"}, teller{fails: map[string]error{"keep": stale}}, []string{"store v1 beside 1", "keep v0", "none: stale"}, ""},
		{"its name is taken", nil, []string{"a"}, teller{taken: "web-other", writes: 9}, []string{
			"store v1 beside 0", "keep under another name", "ask 0", "write a Create under another name", "start 0", "publish under another name -> under another name", "tidy",
		}, "2s"},
		{"back to an earlier one, which does not know a subset", []string{"v2", "v1"}, []string{"a", "b"}, teller{writes: 9}, []string{
			`keep v2 subsets={"b":{}}`, `keep v1 as number 3 subsets={"b":{}}`, "ask 0", "write a Seed v2", "write b Seed v2", "start 0",
			"record v2 current=u-1/1 left= rejected=", "publish v2 -> v1", "tidy",
		}, "2s"},
		{"there is no time", nil, []string{"a", "b"}, teller{writes: 1}, []string{
			"store v1 beside 0", "keep v1", "ask 0", "write a Create v1", "left b", "start 0", "publish v1 -> v1", "tidy",
		}, "1s"},
		{"what has become the current one cannot be recorded", []string{"v1"}, []string{"a"}, teller{writes: 9, fails: map[string]error{"record": down}}, []string{
			"keep v1", "ask 0", "write a Create v1", "start 0", "record v1 current=u-1/1 left= rejected=", "publish v1 -> v1",
		}, "2s down"},
		{"the status cannot be published", nil, []string{"a"}, teller{writes: 9, fails: map[string]error{"publish": down}}, []string{
			"store v1 beside 0", "keep v1", "ask 0", "write a Create v1", "start 0", "publish v1 -> v1",
		}, "0s down"},
		{"it cannot be tidied", nil, []string{"a"}, teller{writes: 9, fails: map[string]error{"tidy": down}}, []string{
			"store v1 beside 0", "keep v1", "ask 0", "write a Create v1", "start 0", "publish v1 -> v1", "tidy",
		}, "2s down"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &tc.hands
			h.t, h.images = t, map[string]string{"": "none"}
			in := h.input(tc.stored, tc.subsets)
			p, kept := pass.Decide(in, h)
			end := ""
			switch {
			case kept.Stale:
				h.told = append(h.told, "none: stale")
			case p == nil:
				h.told = append(h.told, "none: "+kept.Failure.Message)
			default:
				p.Carry(h)
				for name, r := range p.Results {
					if r.Yielded {
						h.told = slices.Insert(h.told, slices.Index(h.told, "start 0"), "left "+name)
					}
				}
				again, err := p.Finish(h)
				if end = again.String(); err != nil {
					end += " " + err.Error()
				}
			}
			if diff := cmp.Diff(tc.want, h.told); diff != "" || end != tc.end {
				t.Errorf("ends with %q, not %q; want -, have +\n%s", end, tc.end, diff)
			}
		})
	}
}

// input is that of a parent with image v1. Its stored revisions know subset a alone.
func (h *teller) input(stored, subsets []string) *planner.Input {
	h.t.Helper()
	read := func(image string, subsets ...string) (*v1alpha1.UnitedDeployment, *spec.Spec) {
		draft := fixtures.New("web", fixtures.Namespace("shop"), fixtures.FirstImage(image))
		draft.UID, draft.Generation, draft.Spec.Replicas = "u-1", 1, ptr.To(int32(2))
		for _, name := range subsets {
			draft.Spec.Topology.Subsets = append(draft.Spec.Topology.Subsets, v1alpha1.Subset{Name: name})
		}
		parent, err := draft.Object()
		if err != nil {
			h.t.Fatal(err)
		}
		s, err := spec.Read(parent, adapters.Registry{statefulset.New()})
		if err != nil {
			h.t.Fatal(err)
		}
		return parent, s
	}
	parent, s := read("v1", subsets...)
	w := &world.World{Parent: parent, Spec: s, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}
	for i, image := range stored {
		_, was := read(image, "a")
		object := revision.New(parent, world.OwnerOf(parent), was.Content(), int64(len(stored)-i), 0)
		object.UID = "stored"
		w.Revisions = append(w.Revisions, parsed(h.t, object))
		h.images[object.Name] = image
	}
	if len(stored) > 0 {
		parent.Status.CurrentRevision, parent.Status.UpdateRevision = w.Revisions[0].Name, w.Revisions[0].Name
		parent.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
	}
	in, err := planner.NewInput(w)
	if err != nil {
		h.t.Fatal(err)
	}
	h.images[in.Asked().Name] = "v1"
	return in
}
