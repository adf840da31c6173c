// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"fmt"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Planned returns to tests outside of the package what the controller would do now, a line for each child, in the order
// of execution.
func Planned(ctx context.Context, r *Reconciler, parent *v1alpha1.UnitedDeployment) ([]string, error) {
	spec, err := spec.Read(parent, r.Adapters)
	if err != nil {
		return nil, err
	}
	in, err := r.observe(ctx, parent, spec)
	if err != nil {
		return nil, err
	}
	p, kept := pass.Decide(in, r.hands(ctx, in, nil))
	if kept.Refused() {
		return nil, fmt.Errorf("%+v", kept)
	}
	var lines []string
	pass.Writes(p.Plan, nil, func(sub *planner.Write) *planner.Result {
		c := &sub.Step.Child
		line := fmt.Sprintf("%s %s %s x%d p%d protects %s", sub.Name, sub.Step.Action, c.Revision, c.Replicas, c.Partition, c.ProtectedRevision)
		if c.Revision == "" {
			line = sub.Name + " " + string(sub.Step.Action)
		}
		lines = append(lines, strings.TrimSuffix(line, " protects "))
		return &planner.Result{}
	})
	return lines, nil
}
