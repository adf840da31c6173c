// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// sampleYAML is the example of the design: 6 replicas over three zones.
const sampleYAML = `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata:
  name: web
  namespace: default
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    statefulSetTemplate:
      metadata:
        labels: {app: web}
      spec:
        serviceName: web
        template:
          metadata:
            labels: {app: web}
          spec:
            containers:
            - name: web
              image: example.com/web:v1
              resources: {requests: {memory: 1024Mi}}
  topology:
    subsets:
    - name: zone-a
      nodeSelector:
        nodeSelectorTerms:
        - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-a]}]
      tolerations: [{key: zone, operator: Exists}]
      replicas: 1
    - name: zone-b
      replicas: 50%
      nodeSelector:
        nodeSelectorTerms:
        - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-b]}]
      patch:
        spec:
          template:
            metadata: {labels: {tier: "1"}}
    - name: zone-c
  updateStrategy:
    type: Manual
    manualUpdate:
      partitions: {zone-a: 0, zone-b: 80%}
      defaultPartition: 100%
`

func sample(name string) (*unstructured.Unstructured, error) {
	json, err := yaml.YAMLToJSON([]byte(sampleYAML))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(json); err != nil { // keeps integers as integers
		return nil, err
	}
	object.SetName(name)
	return object, nil
}

// with returns the sample under another name, with edits.
func with(t *testing.T, name string, edits ...edit) *unstructured.Unstructured {
	t.Helper()
	object, err := sample(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		e(object.Object)
	}
	return object
}

// parse returns a JSON or YAML value as the client decodes it.
func parse(text string) any {
	json, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: x, value: " + text + "}"))
	if err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(json); err != nil {
		panic(err)
	}
	return object.Object["value"]
}

// edit changes an object.
type edit func(object map[string]any)

// set sets a value at a path of keys and indexes; it creates missing objects on the path.
func set(value any, path ...any) edit {
	return func(object map[string]any) {
		parent, last := walk(object, path)
		if list, ok := parent.([]any); ok {
			list[last.(int)] = value
			return
		}
		parent.(map[string]any)[last.(string)] = value
	}
}

// put is set with a value written as YAML.
func put(value string, path ...any) edit { return set(parse(value), path...) }

// drop removes the field at a path.
func drop(path ...any) edit {
	return func(object map[string]any) {
		parent, last := walk(object, path)
		delete(parent.(map[string]any), last.(string))
	}
}

// all combines several edits.
func all(edits ...edit) edit {
	return func(object map[string]any) {
		for _, e := range edits {
			e(object)
		}
	}
}

// walk returns the parent of the last step of a path, and that step.
func walk(object map[string]any, path []any) (parent, last any) {
	parent = object
	for _, step := range path[:len(path)-1] {
		switch at := parent.(type) {
		case []any:
			parent = at[step.(int)]
		case map[string]any:
			if at[step.(string)] == nil {
				at[step.(string)] = map[string]any{}
			}
			parent = at[step.(string)]
		default:
			panic(fmt.Sprintf("%v: no field %v in %v", path, step, parent))
		}
	}
	return parent, path[len(path)-1]
}

// at returns a function that adds a prefix to paths.
func at(prefix ...any) func(steps ...any) []any {
	return func(steps ...any) []any { return append(prefix[:len(prefix):len(prefix)], steps...) }
}
