// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/config/crd"
)

// admission is what the API server makes of the CustomResourceDefinition.
type admission struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// newAdmission takes a moment, so only lint does it, and once.
var newAdmission = sync.OnceValues(func() (*admission, error) {
	definition, props := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict(crd.UnitedDeployments, definition); err != nil {
		return nil, err
	}
	written := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	return &admission{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, err
})

// admitted: what the API server refuses by the CustomResourceDefinition, its rules included.
func admitted(s *source) (problems []Problem) {
	a, err := newAdmission()
	if err != nil {
		return []Problem{problemOf("", err.Error())}
	}
	if s.parent.Name == "" {
		return nil
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(s.text, &object); err != nil {
		return []Problem{problemOf("", err.Error())}
	}
	defaulting.Default(object, a.structural)
	errs := append(validation.ValidateCustomResource(nil, object, a.schema), listtype.ValidateListSetsAndMaps(nil, a.structural, object)...)
	if len(errs) == 0 { // the rules rely on the schema
		errs, _ = a.rules.Validate(context.Background(), nil, a.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	for _, err := range errs {
		if err.Type == field.ErrorTypeDuplicate {
			problems = append(problems, problemOf(err.Field, "is there twice"))
			continue
		}
		if _, isObject := err.BadValue.(map[string]any); isObject { // its field is enough
			err.BadValue = ""
		}
		problems = append(problems, fromErrors(err)...)
	}
	return problems
}
