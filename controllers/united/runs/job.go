// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Job returns the Job of a check. All but its identity is as the user wrote it, so that the API server says what is wrong
// with it.
func Job(id Identity, check *v1alpha1.JobCheck) (*unstructured.Unstructured, error) {
	template, err := decode(check)
	if err != nil {
		return nil, err
	}
	metadata, _ := template["metadata"].(map[string]any)
	job := id.object(JobKind, metadata)
	for name, value := range template {
		if name != "metadata" {
			job.Object[name] = value
		}
	}
	job.SetGroupVersionKind(JobKind)
	return job, nil
}

func decode(check *v1alpha1.JobCheck) (map[string]any, error) {
	template := map[string]any{}
	if err := json.Unmarshal(ptr.Deref(check.Template, runtime.RawExtension{}).Raw, &template); err != nil {
		return nil, fmt.Errorf("the template of the Job: %w", err)
	}
	return template, nil
}

// CheckJob rejects a template that would make no Job of a check, or one whose pods could be taken for replicas. selector is
// that of the UnitedDeployment.
func CheckJob(check *v1alpha1.JobCheck, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	at = at.Child("template")
	template, err := decode(check)
	if err != nil {
		return field.ErrorList{field.Required(at, "must be an object with metadata and spec")}
	}
	var errs field.ErrorList
	for _, name := range []string{"kind", "apiVersion", "status"} {
		if _, has := template[name]; has {
			errs = append(errs, field.Forbidden(at.Child(name), "must have only metadata and spec"))
		}
	}
	if metadata, has := template["metadata"]; has {
		of, ok := metadata.(map[string]any)
		if !ok {
			errs = append(errs, field.Invalid(at.Child("metadata"), metadata, "must be an object"))
		}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if name != "labels" && name != "annotations" && of[name] != nil {
				errs = append(errs, field.Forbidden(at.Child("metadata", name), "only labels and annotations may be set here"))
			}
		}
	}
	if _, ok := template["spec"].(map[string]any); !ok {
		return append(errs, field.Required(at.Child("spec"), "is the spec of the Job"))
	}
	return append(errs, checkPodLabels(template, selector, at.Child("spec", "template", "metadata", "labels"))...)
}

// checkPodLabels rejects labels with which a Service, or whatever else has the selector of the replicas, would take the pods of
// a Job for replicas.
func checkPodLabels(template map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	pods, _, err := unstructured.NestedStringMap(template, "spec", "template", "metadata", "labels")
	if err != nil {
		return nil // the API server says what is wrong with it
	}
	var errs field.ErrorList
	for name := range pods {
		if strings.HasPrefix(name, "united.dev/") {
			errs = append(errs, field.Forbidden(at.Key(name), "is a label of replicas, and the pods of a Job are none"))
		}
	}
	replicas, err := metav1.LabelSelectorAsSelector(selector)
	if err == nil && !replicas.Empty() && replicas.Matches(labels.Set(pods)) {
		errs = append(errs, field.Forbidden(at, "must not match spec.selector ("+replicas.String()+"): the pods of a Job are not replicas"))
	}
	return errs
}

// readJob returns what became of a Job. A Job that is deleted before it has finished is not a failure: there is another one.
func readJob(job *unstructured.Unstructured) Outcome {
	for _, c := range list(job.Object, "status", "conditions") {
		if text(c, "status") != string(metav1.ConditionTrue) {
			continue
		}
		switch text(c, "type") {
		case "Complete":
			return Outcome{State: Succeeded}
		case "Failed":
			why := text(c, "reason")
			if message := text(c, "message"); message != "" {
				why += ": " + message
			}
			return outcome(Failed, "Job %s failed (%s)", job.GetName(), why)
		}
	}
	if suspended, _, err := unstructured.NestedBool(job.Object, "spec", "suspend"); err == nil && suspended {
		return outcome(Running, "Job %s is suspended (spec.suspend)", job.GetName())
	}
	return outcome(Running, "Job %s has not finished", job.GetName())
}
