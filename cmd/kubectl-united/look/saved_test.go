// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package look_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

var update = flag.Bool("update", false, "write the decisions on the files in testdata anew")

// TestSaved compares what is decided on the files of kubectl united world in testdata with what is beside them.
func TestSaved(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			saved := &look.Saved{}
			if err := yaml.Unmarshal(raw, saved); err != nil {
				t.Fatal(err)
			}
			got, golden := decision(worldOf(t, saved)), strings.TrimSuffix(file, ".yaml")+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the decision is\n%s\nand not\n%s", got, want)
			}
		})
	}
}

// worldOf returns what a pass sees of what was saved.
func worldOf(t *testing.T, s *look.Saved) *planner.Input {
	t.Helper()
	for i := range s.Objects {
		if s.Objects[i].GetKind() != v1alpha1.Kind {
			continue
		}
		from := lister(s.Objects)
		parent, err := look.One(t.Context(), from, s.Objects[i].GetNamespace(), s.Objects[i].GetName())
		if err != nil {
			t.Fatal(err)
		}
		in, err := look.New(from).World(t.Context(), parent, s.Now)
		if err != nil {
			t.Fatal(err)
		}
		if in.Checks = s.Checks; in.Checks == nil {
			in.Checks = map[string]known.CheckResult{}
		}
		return in
	}
	t.Fatal("there is no UnitedDeployment")
	return nil
}

// decision returns what a pass decides, and what it says.
func decision(in *planner.Input) string {
	b, p := &strings.Builder{}, planner.Make(in)
	results := pass.Writes(p, nil, func(w *planner.Write) *planner.Result {
		c := &w.Step.Child
		fmt.Fprintf(b, "%s: %s %s, replicas %d, partition %d, protects %q, asked %q: %s\n",
			w.Name, w.Step.Action, c.Revision, c.Replicas, c.Partition, c.ProtectedRevision, c.Asked, strings.TrimSpace(w.Step.Reason+" "+w.Why+" "+w.Decision.WaitReason))
		for _, d := range w.Deletes {
			fmt.Fprintf(b, "  deletes %s, unreleased %v\n", d.Name, d.Unreleased)
		}
		return &planner.Result{}
	})
	for _, ask := range p.StartedRuns() {
		fmt.Fprintf(b, "starts %s\n", ask.Run)
	}
	status, _ := report.Status(in, p, results, report.Undone{})
	fmt.Fprintf(b, "current %s, update %s\n", status.CurrentRevision, status.UpdateRevision)
	if r := status.Rollout; r != nil {
		fmt.Fprintf(b, "rollout %s, step %d, forced %v, promoted %v: %s\n", r.Phase, r.Step, r.Forced, r.Promoted, r.Message)
		for _, c := range r.Checks {
			fmt.Fprintf(b, "check %s %s: %s\n", c.Name, c.State, c.Message)
		}
	}
	for _, s := range status.Subsets {
		fmt.Fprintf(b, "%s %s, %d of %d updated: %s\n", s.Name, s.Phase, s.UpdatedReplicas, s.DesiredReplicas, s.Message)
	}
	for _, c := range status.Conditions {
		fmt.Fprintf(b, "%s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

var digests = regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{26}\b`)

// masked returns a decision without what depends on the names of revisions.
func masked(in *planner.Input) string {
	var pairs []string
	for _, short := range []bool{false, true} {
		for _, r := range in.Revisions {
			name := r.Name
			if short {
				name = known.Short(name)
			}
			pairs = append(pairs, name, fmt.Sprint("revision", r.Number))
		}
	}
	text, seen := strings.NewReplacer(pairs...).Replace(decision(in)), []string{}
	for _, digest := range digests.FindAllString(text, -1) {
		if name := fmt.Sprint("digest", len(seen)); !slices.Contains(seen, digest) {
			seen = append(seen, digest)
			text = strings.NewReplacer(digest, name, digest[:10], name).Replace(text) // as people see it, too
		}
	}
	return text
}

// lister reads objects as the API server would.
type lister []unstructured.Unstructured

// kinds returns the kinds that it reads as types.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if clientgoscheme.AddToScheme(s) != nil || v1alpha1.AddToScheme(s) != nil {
		panic("no scheme")
	}
	return s
})

func (l lister) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, kinds())
	if err != nil {
		return err
	}
	for i := range l {
		if l[i].GroupVersionKind() == gvk && client.ObjectKeyFromObject(&l[i]) == key {
			return filled(into, l[i].Object)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

func (l lister) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(into, kinds())
	if err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	items := []any{}
	for i := range l {
		u := &l[i]
		if u.GetKind() == strings.TrimSuffix(gvk.Kind, "List") && u.GroupVersionKind().GroupVersion() == gvk.GroupVersion() && u.GetNamespace() == o.Namespace &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(u.GetLabels()))) {
			items = append(items, u.Object)
		}
	}
	return filled(into, map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "items": items})
}

func filled(into any, from map[string]any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	switch into := into.(type) {
	case *unstructured.Unstructured:
		return into.UnmarshalJSON(raw)
	case *unstructured.UnstructuredList:
		return into.UnmarshalJSON(raw)
	}
	return utiljson.Unmarshal(raw, into)
}
