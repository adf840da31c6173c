// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// decodedSpec is the decoded spec of a parent, which is the same until the generation changes.
type decodedSpec struct {
	uid        types.UID
	generation int64
	spec       *spec.Spec
}

// mostDecoded is the size of the template and the patches up to which a spec stays decoded from pass to pass. As objects
// they take up to forty times as much.
const mostDecoded = 16 << 10

// Spec is spec.Read with a memory. Invalid specs are not remembered, and neither are large ones.
func Spec(of memory.Entry, parent *v1alpha1.UnitedDeployment, known adapters.Registry) (*spec.Spec, error) {
	last := memory.Slot[decodedSpec]{Entry: of}
	if kept := last.Get(); kept.spec != nil && kept.uid == parent.UID && kept.generation == parent.Generation {
		return kept.spec, nil
	}
	spec, err := spec.Read(parent, known)
	if err != nil {
		return nil, err
	}
	if sizeOf(parent, spec) <= mostDecoded {
		last.Set(decodedSpec{parent.UID, parent.Generation, spec})
	}
	return spec, nil
}

// sizeOf returns the size of what is decoded of a spec, in bytes.
func sizeOf(parent *v1alpha1.UnitedDeployment, s *spec.Spec) int {
	_, raw := s.Adapter.TemplateField(&parent.Spec.Template)
	size := len(raw.Raw)
	for i := range parent.Spec.Topology.Subsets {
		if patch := parent.Spec.Topology.Subsets[i].Patch; patch != nil {
			size += len(patch.Raw)
		}
	}
	return size
}
