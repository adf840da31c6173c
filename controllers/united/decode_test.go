// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// admission validates an object like the API server: with the schema and rules of the CRD, and the API server's own
// packages.
type admission struct {
	schema *structural.Structural
	values validation.SchemaValidator
	rules  *cel.Validator
}

func newAdmission(t testing.TB) *admission {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/apps.united.dev_uniteddeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		t.Fatal(err)
	}
	a := &admission{}
	if a.schema, err = structural.NewStructural(&schema); err != nil {
		t.Fatal(err)
	}
	if a.values, _, err = validation.NewSchemaValidator(&schema); err != nil {
		t.Fatal(err)
	}
	a.rules = cel.NewValidator(a.schema, true, celconfig.PerCallLimit)
	return a
}

// stored returns what is stored of an object, with its status; false if it is rejected.
func (a *admission) stored(ctx context.Context, raw []byte) ([]byte, bool) {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return nil, false
	}
	// The server checks the metadata of all kinds separately.
	object["metadata"] = map[string]any{"name": "web", "namespace": "shop"}
	object["apiVersion"], object["kind"] = v1alpha1.GroupVersion.String(), v1alpha1.Kind
	pruning.Prune(object, a.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, a.schema)
	defaulting.Default(object, a.schema)
	if len(validation.ValidateCustomResource(nil, object, a.values)) > 0 {
		return nil, false
	}
	if errs, _ := a.rules.Validate(ctx, nil, a.schema, object, nil, celconfig.RuntimeCELCostBudget); len(errs) > 0 {
		return nil, false
	}
	stored, err := json.Marshal(object)
	return stored, err == nil
}

const decodable = `{"spec":{"replicas":%s,"selector":{"matchLabels":{"app":"web"}},"template":{"statefulSetTemplate":{"spec":{}}},
	"topology":{"subsets":[{"name":"a","replicas":%s,"tolerations":[{"tolerationSeconds":%s}],"patch":%s}]},
	"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSkew":"5%%","partition":%s,"steps":[{"subsets":["a"],"partition":0,"pause":{"duration":%s}}]}}},
	"status":{"replicas":%s,"lastProgressTime":%s,"rollout":{"revision":"r","soakedSeconds":%s},"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":%s}]}}`

// FuzzDecode: Go can decode everything that the schema allows.
func FuzzDecode(f *testing.F) {
	a := newAdmission(f)
	plain := []any{"1", "1", "1", "{}", "1", `"1m"`, "1", `"2026-01-01T00:00:00Z"`, "1", `"2026-01-01T00:00:00Z"`}
	if _, ok := a.stored(f.Context(), fmt.Appendf(nil, decodable, plain...)); !ok {
		f.Fatal("the control: the plain object is refused")
	}
	f.Add(fmt.Appendf(nil, decodable, plain...))
	for i := range plain {
		for _, value := range []string{"null", "[]", "{}", "2147483648", "1e25", "1.0", `"50%"`, `"2026-01-01t00:00:00z"`, `"9999999999h"`} {
			values := append([]any{}, plain...)
			values[i] = value
			f.Add(fmt.Appendf(nil, decodable, values...))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		stored, ok := a.stored(t.Context(), raw)
		if !ok {
			return
		}
		if err := decodes(stored); err != nil {
			t.Errorf("%s is stored, and cannot be read: %v", stored, err)
		}
	})
}
