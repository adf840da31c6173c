// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
)

func TestQuantities(t *testing.T) {
	for text, refused := range map[string]bool{
		"1e-30000000": true, "1E99999999": true, "-1.5e+6000": true, "1e0000005000": true, strings.Repeat("1", 65): true,
		"1Gi": false, "100m": false, "1e3": false, "1E": false, "12E6": false, "1e-9": false, "0.5": false, "1e0000000000000005": false,
	} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for place, format := range map[string]string{
			"spec.template.spec.containers[1].resources.requests[memory]":                `{"spec":{"template":{"spec":{"containers":[{},{"resources":{"requests":{"memory":%}}}]}}}}`,
			"spec.template.spec.containers[0].resources.limits[example.com/gpu]":         `{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"example.com/gpu":%}}}]}}}}`,
			"spec.template.spec.overhead[cpu]":                                           `{"spec":{"template":{"spec":{"overhead":{"cpu":%}}}}}`,
			"spec.template.spec.volumes[0].emptyDir.sizeLimit":                           `{"spec":{"template":{"spec":{"volumes":[{"emptyDir":{"sizeLimit":%}}]}}}}`,
			"spec.template.spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor": `{"spec":{"template":{"spec":{"containers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":%}}}]}]}}}}`,
			"spec.volumeClaimTemplates[0].spec.resources.requests[storage]":              `{"spec":{"volumeClaimTemplates":[{"spec":{"resources":{"requests":{"storage":%}}}}]}}`,
			"": `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"limits","value":%}],"args":[%]}]}}}}`,
		} {
			raw := &runtime.RawExtension{Raw: []byte(strings.ReplaceAll(format, "%", string(quoted)))}
			_, err := adapters.Decode(raw, field.NewPath("t"))
			if want := refused && place != ""; (err != nil) != want {
				t.Errorf("%s at %s: %v", text, place, err)
			} else if err != nil && !strings.HasPrefix(err.Error(), "t."+place+": Invalid value: ") {
				t.Error(err)
			}
		}
	}
}
