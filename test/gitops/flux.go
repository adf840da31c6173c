// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// KStatus returns the status of an object according to kstatus, which Helm 4 and Flux use.
func KStatus(object map[string]any) (string, error) {
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		return "", err
	}
	return result.Status.String(), nil
}

// Flux has the health check expressions of config/flux/kustomization.yaml.
type Flux struct {
	inProgress, failed, current cel.Program
}

// LoadFlux reads the expressions of the repository at root. The environment of CEL is that of Flux: the
// members of the object are variables, and expressions are parsed, but not checked.
func LoadFlux(root string) (*Flux, error) {
	text, err := os.ReadFile(filepath.Join(root, "config", "flux", "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	kustomization := struct {
		Spec struct {
			HealthCheckExprs []struct {
				APIVersion, Kind, InProgress, Failed, Current string
			}
		}
	}{}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, err
	}
	if exprs := kustomization.Spec.HealthCheckExprs; len(exprs) != 1 || exprs[0].APIVersion != "apps.united.dev/v1alpha1" || exprs[0].Kind != "UnitedDeployment" {
		return nil, fmt.Errorf("healthCheckExprs: one entry for UnitedDeployments expected, not %v", exprs)
	}
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders())
	if err != nil {
		return nil, err
	}
	f, expr := &Flux{}, kustomization.Spec.HealthCheckExprs[0]
	for _, e := range []struct {
		text string
		into *cel.Program
	}{{expr.InProgress, &f.inProgress}, {expr.Failed, &f.failed}, {expr.Current, &f.current}} {
		parsed, issues := env.Parse(e.text)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		if *e.into, err = env.Program(parsed); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Health returns the status of the object with these expressions. Flux asks in this order; an expression
// that cannot be evaluated is an error.
func (f *Flux) Health(object map[string]any) (string, error) {
	observed, found, err := unstructured.NestedInt64(object, "status", "observedGeneration")
	if err != nil {
		return "", err
	}
	generation, _, err := unstructured.NestedInt64(object, "metadata", "generation")
	if err != nil {
		return "", err
	}
	if found && observed != generation {
		return "InProgress", nil
	}
	for _, e := range []struct {
		program cel.Program
		status  string
	}{{f.inProgress, "InProgress"}, {f.failed, "Failed"}, {f.current, "Current"}} {
		value, _, err := e.program.Eval(object)
		if err != nil {
			return "", fmt.Errorf("%s: %w", e.status, err)
		}
		if value.Value() == true {
			return e.status, nil
		}
	}
	return "InProgress", nil
}
