// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// mapper serves kinds, and counts the requests.
type mapper struct {
	*meta.DefaultRESTMapper
	asked  int
	broken error
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.asked++; m.broken != nil {
		return nil, m.broken
	}
	return m.DefaultRESTMapper.RESTMapping(kind, versions...)
}

func allowed(context.Context, schema.GroupVersionKind) error { return nil }

// A kind, with its related kinds, is watched from its first use on, and only once.
func TestKindsAreWatchedWhenAskedFor(t *testing.T) {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	var begun []string
	k := &kinds{mapper: m, list: allowed, watch: func(w watched) error { begun = append(begun, w.kind.Kind+w.of.Kind); return nil }}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}

	for range 2 {
		if failure, err := k.ensure(t.Context(), statefulset.New(), now); failure != nil || err != nil {
			t.Fatal(failure, err)
		}
	}
	if diff := cmp.Diff([]string{"StatefulSet"}, begun); diff != "" || m.asked != 1 {
		t.Error(diff, m.asked)
	}

	failure, err := k.ensure(t.Context(), deployment.New(), now)
	if err != nil || failure == nil || failure.Reason != v1alpha1.ReasonKindNotInstalled || !failure.Stalled ||
		!strings.Contains(failure.Message, "replicasets.apps") || !failure.RetryAt.Equal(now.Add(kindRetry)) {
		t.Fatal(failure, err)
	}
	asked := m.asked
	if failure, err = k.ensure(t.Context(), deployment.New(), now.Add(kindRetry-1)); failure == nil || err != nil || m.asked != asked {
		t.Error("asked again at once:", failure, err)
	}

	m.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	if failure, err = k.ensure(t.Context(), deployment.New(), now.Add(kindRetry)); failure != nil || err != nil {
		t.Error("it is there now:", failure, err)
	}
	if diff := cmp.Diff([]string{"StatefulSet", "Deployment", "ReplicaSet"}, begun); diff != "" {
		t.Error(diff)
	}

	// Objects that are related to a kind that delegates do not have our labels, and so have their own
	// watch.
	m.Add(leaderworkerset.New().GroupVersionKind(), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	if failure, err = k.ensure(t.Context(), leaderworkerset.New(), now); failure != nil || err != nil {
		t.Error(failure, err)
	}
	if diff := cmp.Diff([]string{"LeaderWorkerSet", "StatefulSetLeaderWorkerSet", "ControllerRevisionLeaderWorkerSet"}, begun[3:]); diff != "" {
		t.Error(diff)
	}
}

// If it cannot be determined whether a kind is served, that is an error, and a watch that cannot start
// is tried again.
func TestKindsErrors(t *testing.T) {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil), broken: errors.New("broken pipe")}
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	cannot := errors.New("the cache is closed")
	k := &kinds{mapper: m, list: allowed, watch: func(watched) error { return cannot }}
	if failure, err := k.ensure(t.Context(), statefulset.New(), time.Time{}); failure != nil || !errors.Is(err, m.broken) {
		t.Error(failure, err)
	}
	m.broken = nil
	if failure, err := k.ensure(t.Context(), statefulset.New(), time.Time{}); failure != nil || !errors.Is(err, cannot) {
		t.Error(failure, err)
	}
	cannot = nil
	if failure, err := k.ensure(t.Context(), statefulset.New(), time.Time{}); failure != nil || err != nil || !k.watches(watched{kind: statefulset.New().GroupVersionKind()}) {
		t.Error(failure, err)
	}
}

// A kind that we may not read is not watched, because a forbidden watch does not say so. Only one parent asks, and again
// after a while.
func TestKindsNotPermitted(t *testing.T) {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	asked, answer := 0, error(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")))
	k := &kinds{
		mapper: m, watch: func(watched) error { return nil },
		list: func(context.Context, schema.GroupVersionKind) error { asked++; return answer },
	}
	now, isWatched := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), func() bool { return k.watches(watched{kind: statefulset.New().GroupVersionKind()}) }
	for range 2 {
		failure, err := k.ensure(t.Context(), statefulset.New(), now)
		if err != nil || failure == nil || failure.Reason != v1alpha1.ReasonKindNotPermitted || !failure.Stalled ||
			!strings.Contains(failure.Message, "statefulsets.apps") || !failure.RetryAt.Equal(now.Add(kindRetry)) {
			t.Fatal(failure, err)
		}
	}
	if asked != 1 || isWatched() {
		t.Error(asked, isWatched())
	}
	answer = errors.New("connection refused")
	if failure, err := k.ensure(t.Context(), statefulset.New(), now.Add(kindRetry)); failure != nil || !errors.Is(err, answer) || isWatched() {
		t.Error(failure, err)
	}
	answer = nil
	if failure, err := k.ensure(t.Context(), statefulset.New(), now.Add(kindRetry)); failure != nil || err != nil || !isWatched() {
		t.Error(failure, err)
	}
}
