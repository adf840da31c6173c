// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Registry has the adapters of the kinds of child workload that a controller knows.
type Registry []Adapter

// For returns the adapter for the one member of spec.template that is set. If none or several are set, the error
// names spec.template and the members.
func (r Registry) For(t *v1alpha1.WorkloadTemplate) (Adapter, error) {
	var found Adapter
	var known, set []string
	for _, a := range r {
		name, raw := a.TemplateField(t)
		known = append(known, name)
		if raw != nil {
			found, set = a, append(set, name)
		}
	}
	at := field.NewPath("spec", "template")
	switch len(set) {
	case 1:
		return found, nil
	case 0:
		return nil, field.Required(at, "exactly one template must be set: "+strings.Join(known, ", "))
	default:
		return nil, field.Forbidden(at, "exactly one template may be set, not "+strings.Join(set, " and "))
	}
}

// ChildName returns the name of the child of a subset. It depends only on the two names, so nothing is ever created
// twice.
func ChildName(parent, subset string) string {
	return parent + "-" + subset
}
