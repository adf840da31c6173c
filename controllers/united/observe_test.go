// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// reads are the reads that wait for writes in flight: to one object, or to all of a kind.
type reads struct{ of, all []string }

func (s *scene) reads() *reads {
	r := &reads{}
	s.Reconciler.Client = interceptor.NewClient(withWatch{Client: s.Reconciler.Client}, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			options := &client.GetOptions{}
			if options.ApplyOptions(opts); !options.DisableReadYourWritesConsistency {
				r.of = append(r.of, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := &client.ListOptions{}
			if options.ApplyOptions(opts); !options.DisableReadYourWritesConsistency {
				r.all = append(r.all, fmt.Sprintf("%T", list))
			}
			return c.List(ctx, list, opts...)
		},
	})
	return r
}

type withWatch struct{ client.Client }

func (withWatch) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, fmt.Errorf("nothing is watched")
}

// A pass waits for the writes to its own parent's objects, and not for writes to those of all others. (For pods only
// deletes are written, which are short.)
func TestAPassWaitsForItsOwnWrites(t *testing.T) {
	s := newScene(t).settled().image("v2").settled()
	r := s.reads()
	s.Reconcile()
	for _, all := range r.all {
		for _, list := range []any{&unstructured.UnstructuredList{}, &appsv1.ControllerRevisionList{}} {
			if all == fmt.Sprintf("%T", list) {
				t.Error("it waits for the writes of all to", all)
			}
		}
	}
	status := s.status()
	for _, name := range []string{s.Name, s.Child("a"), s.Child("b"), status.CurrentRevision, status.UpdateRevision} {
		if !slices.Contains(r.of, name) {
			t.Error("it does not wait for its own write to", name)
		}
	}
}

// A subset is removed whose child has lost its labels: the child is found nevertheless.
func TestARemovedSubsetWhoseChildHasLostItsLabels(t *testing.T) {
	s := newScene(t).settled()
	name := s.Child("b")
	s.API.Live.Sets[name].SetLabels(nil)
	delete(s.API.Cached.Sets, name)
	s.comeOrGo("b")
	s.passes(1)
	if s.API.Live.Sets[name].GetLabels()[v1alpha1.LabelSubset] != "b" {
		t.Fatal("it has not got its labels back")
	}
	if !slices.ContainsFunc(s.status().Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == "b" }) || s.Wake <= 0 {
		t.Error("it is forgotten", s.Wake)
	}
	s.API.Refresh()
	s.settled()
	if s.API.Live.Sets[name] != nil || len(s.status().Subsets) != 1 {
		t.Error("it is still there", s.status().Subsets)
	}
}

// A child that is already gone is no longer in the status.
func TestARemovedSubsetWhoseChildIsGone(t *testing.T) {
	s := newScene(t).settled()
	s.delete("b", false).comeOrGo("b")
	s.API.Refresh()
	s.settled()
	if len(s.status().Subsets) != 1 {
		t.Error(s.status().Subsets)
	}
}

// TestReadsFail: a single failed read says nothing, the second one in a row is the reason of Ready, and only repeated
// failure is Stalled. The counts are kept, nothing is changed meanwhile, and the first read that succeeds ends it.
func TestReadsFail(t *testing.T) {
	s := newScene(t).settled().image("v2").settled()
	fail := error(nil)
	s.Reconciler.Client = failingLists{s.Reconciler.Client, &fail}
	counts, writes := s.status().ReplicaCounts, len(s.API.Writes)
	fail = errors.New("the cache is away")
	if s.partition("a", "0").pass(); len(s.API.Writes) != writes {
		t.Error("one failed read:", s.told(), s.API.Writes[writes:])
	}
	if s.later(time.Second).pass(); s.condition(v1alpha1.ConditionReady) != "False ReadFailed: List revisions: the cache is away" || s.status().ObservedGeneration != s.Parent().Generation {
		t.Error("two in a row:", s.told())
	}
	if stalled := s.conditionOf(v1alpha1.ConditionStalled); stalled.Status != metav1.ConditionFalse || s.status().ReplicaCounts != counts || s.Wake == 0 {
		t.Error("two in a row:", s.told(), s.Wake)
	}
	for range 10 { // events
		s.pass()
	}
	if stalled := s.conditionOf(v1alpha1.ConditionStalled); stalled.Status != metav1.ConditionFalse {
		t.Error("passes that come too early count:", s.told())
	}
	for range 6 {
		s.later(s.Wake).pass()
	}
	if s.condition(v1alpha1.ConditionStalled) != "True ReadFailed: List revisions: the cache is away" || s.status().ReplicaCounts != counts {
		t.Error("for a minute:", s.told())
	}
	fail = subset.ErrStale
	if s.pass(); s.condition(v1alpha1.ConditionStalled) != "True ReadFailed: List revisions: the cache is away" {
		t.Error("a stale read says something:", s.told())
	}
	fail = nil
	if s.pass().settled(); s.contents("a") != "v2 v2" || s.conditionOf(v1alpha1.ConditionStalled).Status != metav1.ConditionFalse {
		t.Error("when it is over:", s.told())
	}
}

// failingLists is a client whose lists fail while there is an error.
type failingLists struct {
	client.Client
	err *error
}

func (c failingLists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if *c.err != nil {
		return *c.err
	}
	return c.Client.List(ctx, list, opts...)
}
