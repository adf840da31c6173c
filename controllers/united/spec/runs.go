// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/runs"
)

// checkRuns rejects Jobs of checks that could not be told from replicas.
func checkRuns(parent *v1alpha1.UnitedDeployment, at *field.Path) error {
	rolling := parent.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return nil
	}
	var errs field.ErrorList
	for i := range rolling.Checks {
		if job := rolling.Checks[i].Job; job != nil {
			here := at.Child("rollingUpdate", "checks").Index(i).Child("job")
			if _, err := adapters.CheckSize(job.Template, here.Child("template")); err != nil {
				return err
			}
			errs = append(errs, runs.CheckJob(job, parent.Spec.Selector, here)...)
		}
	}
	return errs.ToAggregate()
}
