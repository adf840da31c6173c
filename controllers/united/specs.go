// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// specs remembers, in memory alone, the spec of each parent as it was decoded, which is the
// same until its generation changes. It is safe for concurrent use; the zero value
// remembers nothing yet.
type specs struct {
	mu   sync.Mutex
	kept map[client.ObjectKey]decodedSpec
}

type decodedSpec struct {
	uid        types.UID
	generation int64
	spec       *planner.Spec
}

// read is planner.ReadSpec. What that refuses is not remembered.
func (s *specs) read(parent *v1alpha1.UnitedDeployment, known adapters.Registry) (*planner.Spec, error) {
	key := client.ObjectKeyFromObject(parent)
	s.mu.Lock()
	kept, ok := s.kept[key]
	s.mu.Unlock()
	if ok && kept.uid == parent.UID && kept.generation == parent.Generation {
		return kept.spec, nil
	}
	spec, err := planner.ReadSpec(parent, known)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[client.ObjectKey]decodedSpec{}
	}
	s.kept[key] = decodedSpec{parent.UID, parent.Generation, spec}
	return spec, nil
}

func (s *specs) forget(parent client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, parent)
}
