// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Two parents live in one cluster, under one controller with one memory. Their subsets have the same names, and web-a is
// the name both of a parent and of a child of the other one. Each is judged by itself, and both finish.
func TestParentsDoNotDisturbEachOther(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version.String(), func(t *testing.T) { parentsDoNotDisturbEachOther(t, version) })
	}
}

func parentsDoNotDisturbEachOther(t *testing.T, version Version) {
	checked, worlds := map[string]int{}, 0
	worldsFrom(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *drive {
			return &drive{t: t, policy: string(pick(t, label+" policy", policies)), manual: rapid.IntRange(0, 3).Draw(t, label+" manual") == 0}
		}
		subsets := func(label string) []string { return subsetNames()[:rapid.IntRange(1, 3).Draw(t, label)] }
		one, other := draw("web"), draw("web-a")
		one.World = New(t, one.policy, subsets("web subsets")...)
		one.Sets.Version = version
		one.drawBatching(t)
		other.World = one.Beside("web-a", other.policy, subsets("web-a subsets")...)
		// Under Manual a user makes pods unavailable, of any parent.
		calm := !one.manual && !other.manual && rapid.Bool().Draw(t, "calm")
		one.calm, other.calm = calm, calm
		play(t, one, other)
		one.Judge(true) // still valid
		worlds++
		for _, d := range []*drive{one, other} {
			for what, n := range d.Oracle.Checked {
				checked[d.Name+" "+what] += n
			}
		}
	})
	t.Logf("judged in %d worlds: %v", worlds, checked)
	for _, what := range []string{"I2", "I4", "release", "deletion", "step", "calm", "touches"} {
		for _, name := range []string{"web", "web-a"} {
			if checked[name+" "+what] == 0 && worlds >= 100 {
				t.Errorf("in no world was anything of %s judged by %s", name, what)
			}
		}
	}
}

// The name of a child consists of two names, so two parents may have a child with the same name. The second one reports
// that, and gets its child when the name is free.
func TestParentsWhoseChildrenHaveOneName(t *testing.T) {
	first := New(t, "Parallel", "a-b", "b")
	first.Rest()
	second := first.Beside("web-a", "Parallel", "b")
	before, writes := first.Describe("web-a-b"), len(first.API.Writes)
	for range 10 {
		second.Clock.SetTime(second.Clock.Now().Add(31 * time.Second))
		second.Everybody()
	}
	stalled := meta.FindStatusCondition(second.Parent().Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(stalled.Message, "StatefulSet web-a-b exists") {
		t.Errorf("the second is not stalled by the name: %+v", stalled)
	}
	if after := first.Describe("web-a-b"); after != before {
		t.Errorf("the child of the first was %s, and is %s", before, after)
	}
	first.Judge(true)
	for _, w := range first.API.Writes[writes:] {
		if w != "status" && !strings.HasPrefix(w, "create revision web-a-") {
			t.Errorf("it writes %s", w)
		}
	}

	first.Edit("a-b goes", func(spec *v1alpha1.UnitedDeploymentSpec) { ComeOrGo(spec, "a-b") })
	first.Rest()
	first.Judge(true)
	second.Judge(true)
	if got := PodContent(first.API.Live.Pods["web-a-b-3"]); got != "v1@web-a" {
		t.Errorf("web-a-b-3 is on %s", got)
	}
}

// neighbours returns the courts of two complete parents, web with a and b, and web-a with a.
func neighbours(t *testing.T) (one, other *court) {
	one = &court{New(accused{t}, "Parallel", "a", "b")}
	other = &court{one.Beside("web-a", "Parallel", "a")}
	one.Rest()
	return one, other
}

// confused is the controller's client, which returns a parent with the template of another.
type confused struct {
	client.Client
	name, is string
}

// confusedLive does the same without the cache.
type confusedLive struct {
	client.Reader
	by confused
}

func (c confusedLive) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if err := c.Reader.List(ctx, into, opts...); err != nil {
		return err
	}
	parents, ok := into.(*v1alpha1.UnitedDeploymentList)
	if !ok {
		return nil
	}
	for i := range parents.Items {
		p := &parents.Items[i]
		if err := c.by.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
	}
	return nil
}

func (c confused) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, into, opts...); err != nil || key.Name != c.name {
		return err
	}
	parent, ok := into.(*v1alpha1.UnitedDeployment)
	if !ok {
		return nil
	}
	another := &v1alpha1.UnitedDeployment{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: c.is}, another)
	parent.Spec.Template = another.Spec.Template
	return err
}

// The oracle finds a controller that confuses two parents.
func TestTheOracleConvictsWhoMixesUpParents(t *testing.T) {
	for _, tc := range []struct {
		name  string
		crime func(one, other *court)
		says  string // "" for what is no crime
	}{
		{"nothing wrong", func(one, other *court) {
			one.partition("a", 1).come(3)
			other.partition("a", 1).come(3)
		}, ""},
		{"a child of another", func(one, other *court) {
			other.begins()
			other.applies(one.Child("a"), 1)
		}, "in a pass for web-a the controller writes to *unstructured.Unstructured web-a,"},
		{"a child of another is deleted", func(one, _ *court) { one.delete(one.API.Live.Sets["web-a-a"]) },
			"in a pass for web the controller writes to *unstructured.Unstructured web-a-a,"},
		{"a pod of another", func(one, other *court) { other.delete(one.pod("a-1")) },
			"in a pass for web-a the controller writes to *v1.Pod web-a-1,"},
		{"a revision of another", func(one, other *court) {
			other.delete(one.API.Live.Revisions[one.Parent().Status.CurrentRevision])
		}, "in a pass for web-a the controller writes to *v1.ControllerRevision web-"},
		{"the status of another", func(one, other *court) {
			other.begins()
			one.tells(`{"status": {"replicas": 7}}`)
		}, "in a pass for web-a the controller writes to *v1alpha1.UnitedDeployment web,"},
		{"the template of another", func(one, _ *court) {
			by := confused{one.Reconciler.Client, "web", "web-a"}
			one.Reconciler.Client, one.Reconciler.Live = by, confusedLive{one.Reconciler.Live, by}
			one.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.UpdateStrategy.ManualUpdate = Released() }).Rest()
		}, "is created on v1@web-a, which web never asked for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			says := judged(func() { tc.crime(neighbours(t)) })
			if tc.says == "" && says != "" || !strings.Contains(says, tc.says) {
				t.Errorf("want %q, have %q", tc.says, says)
			}
		})
	}
}

// generous is the controller's client, whose lists ignore all selectors.
type generous struct{ client.Client }

func (c generous) List(ctx context.Context, into client.ObjectList, _ ...client.ListOption) error {
	return c.Client.List(ctx, into)
}

// The owner decides to whom a child, a pod or a revision belongs, and not that a list contains it.
func TestOwnersDecide(t *testing.T) {
	one, other := neighbours(t)
	one.Reconciler.Client = generous{one.Reconciler.Client}
	if says := judged(func() {
		one.spec(func(spec *v1alpha1.UnitedDeploymentSpec) {
			spec.Template, spec.UpdateStrategy.ManualUpdate = one.template("v2", "Parallel"), Released()
		})
		other.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = other.template("v2", "Parallel") }) // held
		one.Rest()
		one.Judge(true)
		other.Judge(true)
	}); says != "" {
		t.Error(says)
	}
}
