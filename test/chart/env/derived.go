// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"errors"
	"io"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Decode decodes the objects of a YAML stream by kind and name.
func (e *Env) Decode(stream []byte) map[string]*unstructured.Unstructured {
	e.T.Helper()
	objects := map[string]*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		e.Expect(err).NotTo(HaveOccurred())
		if len(object.Object) > 0 {
			objects[object.GetKind()+" "+object.GetName()] = object
		}
	}
}
