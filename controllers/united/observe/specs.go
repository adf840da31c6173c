// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// decodedSpec is the decoded spec of a parent, which is the same until the generation changes.
type decodedSpec struct {
	uid        types.UID
	generation int64
	spec       *spec.Spec
}

// Spec is spec.Read with a memory. Invalid specs are not remembered.
func (m *Memory) Spec(parent *v1alpha1.UnitedDeployment, known adapters.Registry) (*spec.Spec, error) {
	key := client.ObjectKeyFromObject(parent)
	if kept := m.specs.Get(key, ""); kept.spec != nil && kept.uid == parent.UID && kept.generation == parent.Generation {
		return kept.spec, nil
	}
	spec, err := spec.Read(parent, known)
	if err != nil {
		return nil, err
	}
	m.specs.Set(key, "", decodedSpec{parent.UID, parent.Generation, spec})
	return spec, nil
}
