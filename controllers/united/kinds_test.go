// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
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

// A kind, with its related kinds, is watched from its first use on, and only once.
func TestKindsAreWatchedWhenAskedFor(t *testing.T) {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	var begun []string
	k := &kinds{mapper: m, watch: func(w watched) error { begun = append(begun, w.kind.Kind+w.of.Kind); return nil }}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}

	for range 2 {
		if failure, err := k.ensure(statefulset.New(), now); failure != nil || err != nil {
			t.Fatal(failure, err)
		}
	}
	if diff := cmp.Diff([]string{"StatefulSet"}, begun); diff != "" || m.asked != 1 {
		t.Error(diff, m.asked)
	}

	failure, err := k.ensure(deployment.New(), now)
	if err != nil || failure == nil || failure.Reason != v1alpha1.ReasonKindNotInstalled || !failure.Stalled ||
		!strings.Contains(failure.Message, "replicasets.apps") || !failure.RetryAt.Equal(now.Add(kindRetry)) {
		t.Fatal(failure, err)
	}
	asked := m.asked
	if failure, err = k.ensure(deployment.New(), now.Add(kindRetry-1)); failure == nil || err != nil || m.asked != asked {
		t.Error("asked again at once:", failure, err)
	}

	m.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	if failure, err = k.ensure(deployment.New(), now.Add(kindRetry)); failure != nil || err != nil {
		t.Error("it is there now:", failure, err)
	}
	if diff := cmp.Diff([]string{"StatefulSet", "Deployment", "ReplicaSet"}, begun); diff != "" {
		t.Error(diff)
	}

	// Objects that are related to a kind that delegates do not have our labels, and so have their own
	// watch.
	m.Add(leaderworkerset.New().GroupVersionKind(), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	if failure, err = k.ensure(leaderworkerset.New(), now); failure != nil || err != nil {
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
	k := &kinds{mapper: m, watch: func(watched) error { return cannot }}
	if failure, err := k.ensure(statefulset.New(), time.Time{}); failure != nil || !errors.Is(err, m.broken) {
		t.Error(failure, err)
	}
	m.broken = nil
	if failure, err := k.ensure(statefulset.New(), time.Time{}); failure != nil || !errors.Is(err, cannot) {
		t.Error(failure, err)
	}
	cannot = nil
	if failure, err := k.ensure(statefulset.New(), time.Time{}); failure != nil || err != nil || !k.watches(watched{kind: statefulset.New().GroupVersionKind()}) {
		t.Error(failure, err)
	}
}
