// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// instanceLabel says which of several controllers of Argo Rollouts works on an object. The run belongs to that of its template.
const instanceLabel = "argo-rollouts.argoproj.io/controller-instance-id"

// TemplateOf returns which template an analysis names, with kind, namespace and name.
func TemplateOf(check *v1alpha1.AnalysisCheck, namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(TemplateKind)
	u.SetName(check.TemplateName)
	if ptr.Deref(check.ClusterScope, false) {
		u.SetGroupVersionKind(ClusterTemplateKind)
		return u
	}
	u.SetNamespace(namespace)
	return u
}

// Analysis returns the AnalysisRun of a check from the template that it names, with what the template measures, and with values
// for its arguments.
func Analysis(id Identity, check *v1alpha1.AnalysisCheck, template *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	at := field.NewPath(template.GetKind() + " " + template.GetName()).Child("spec")
	if nested := list(template.Object, "spec", "templates"); len(nested) > 0 {
		return nil, field.Forbidden(at.Child("templates"), "United runs the metrics of one template: put them into it, or add a check for each template")
	}
	args, err := argumentsOf(check, template, at.Child("args"))
	if err != nil {
		return nil, err
	}
	metrics := list(template.Object, "spec", "metrics")
	if len(metrics) == 0 {
		return nil, field.Required(at.Child("metrics"), "without a metric there is nothing to analyze")
	}
	for i, metric := range metrics {
		if !ends(metric, args) {
			return nil, field.Required(at.Child("metrics").Index(i).Child("count"), "the metric "+text(metric, "name")+
				" has an interval and no count, so it would never end, and neither would the step")
		}
	}
	run := id.object(AnalysisKind, nil)
	if instance := template.GetLabels()[instanceLabel]; instance != "" {
		labels := run.GetLabels()
		labels[instanceLabel] = instance
		run.SetLabels(labels)
	}
	spec := map[string]any{}
	for _, name := range []string{"metrics", "dryRun", "measurementRetention", "ttlStrategy"} {
		if value, has, err := unstructured.NestedFieldCopy(template.Object, "spec", name); has && err == nil {
			spec[name] = value
		}
	}
	if len(args) > 0 {
		var values []any
		for _, a := range args {
			values = append(values, map[string]any{"name": a.name, "value": a.value})
		}
		spec["args"] = values
	}
	run.Object["spec"] = spec
	return run, nil
}

type argument struct{ name, value string }

// argumentsOf returns the values of the arguments of a template: those of the check, or else those that the template has.
func argumentsOf(check *v1alpha1.AnalysisCheck, template *unstructured.Unstructured, at *field.Path) ([]argument, error) {
	given := map[string]string{}
	for _, a := range check.Args {
		if a.Value != nil {
			given[a.Name] = *a.Value
		}
	}
	var args []argument
	for _, fields := range list(template.Object, "spec", "args") {
		name := text(fields, "name")
		value, has := given[name]
		delete(given, name)
		if !has {
			value, has = fields["value"].(string)
		}
		switch _, from := fields["valueFrom"]; {
		case has:
			args = append(args, argument{name, value})
		case from:
			return nil, field.Forbidden(at.Key(name).Child("valueFrom"), "United reads no Secrets and no fields for an analysis: give the argument "+name+" a value in the check")
		default:
			return nil, field.Required(at.Key(name), "has no value: give the argument "+name+" one in the check")
		}
	}
	for _, a := range check.Args {
		if _, unknown := given[a.Name]; unknown {
			return nil, field.NotFound(at, a.Name)
		}
	}
	return args, nil
}

var argumentReference = regexp.MustCompile(`\{\{\s*args\.([^}\s]+)\s*\}\}`)

// ends reports whether a metric ends by itself when it is met. Without an interval it is measured once. With one, it ends after
// count measurements, or after so many in a row that succeed.
func ends(metric map[string]any, args []argument) bool {
	if text(metric, "interval") == "" {
		return true
	}
	return number(metric["count"], args) > 0 || number(metric["consecutiveSuccessLimit"], args) > 0
}

// number returns the value of a number that may be text, with references to arguments; 0 if it is none.
func number(value any, args []argument) int64 {
	s := argumentReference.ReplaceAllStringFunc(fmt.Sprint(value), func(reference string) string {
		for _, a := range args {
			if a.name == argumentReference.FindStringSubmatch(reference)[1] {
				return a.value
			}
		}
		return reference
	})
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readAnalysis returns what became of an AnalysisRun. Trap: one that is terminated before it has ended may be Successful if
// nothing had failed until then.
func readAnalysis(run *unstructured.Unstructured) Outcome {
	phase, terminated := text(run.Object, "status", "phase"), false
	if value, _, err := unstructured.NestedBool(run.Object, "spec", "terminate"); err == nil {
		terminated = value
	}
	why := explain(run, phase)
	switch {
	case terminated && (phase == "Successful" || phase == "Inconclusive"):
		return outcome(Undecided, "AnalysisRun %s was terminated", run.GetName())
	case phase == "Successful":
		return Outcome{State: Succeeded}
	case phase == "Failed":
		return outcome(Failed, "AnalysisRun %s failed%s", run.GetName(), why)
	case phase == "Error":
		return outcome(Failed, "AnalysisRun %s ended with an error%s", run.GetName(), why)
	case phase == "Inconclusive":
		return outcome(Undecided, "AnalysisRun %s is inconclusive%s", run.GetName(), why)
	case phase == "":
		return outcome(Running, "AnalysisRun %s has not begun: no controller of Argo Rollouts has observed it", run.GetName())
	}
	return outcome(Running, "AnalysisRun %s has not finished", run.GetName())
}

// explain returns what an AnalysisRun says, and the first metric to blame, if it does not name that.
func explain(run *unstructured.Unstructured, phase string) string {
	message := text(run.Object, "status", "message")
	for _, result := range list(run.Object, "status", "metricResults") {
		dry, _, err := unstructured.NestedBool(result, "dryRun")
		name := text(result, "name")
		if dry || err != nil || name == "" || text(result, "phase") != phase {
			continue
		}
		if !strings.Contains(message, strconv.Quote(name)) {
			message = strings.TrimPrefix(message+"; metric "+name, "; ")
			if of := text(result, "message"); of != "" {
				message += ": " + of
			}
		}
		break
	}
	if message = strings.TrimSpace(message); message == "" {
		return ""
	}
	return " (" + message + ")"
}
