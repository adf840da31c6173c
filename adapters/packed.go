// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// In the cache, the templates of a child are packed: a string with their JSON is in their place. As objects they take 5 to 30
// times as much, which is most of a child, and hardly any pass reads them. ReplicaSets of Deployments keep only a hash:
// it is enough to find the one with the template of its Deployment.
//
// Trap: a packed child must not be written, and what is at one of these paths must be read with Unpacked.

// packedPaths returns the paths of what is packed.
func packedPaths() [][]string {
	return [][]string{
		{"spec", "template"}, {"spec", "volumeClaimTemplates"},
		{"spec", "leaderWorkerTemplate", "leaderTemplate"}, {"spec", "leaderWorkerTemplate", "workerTemplate"},
		{"spec", "leaderWorkerTemplate", "volumeClaimTemplates"},
	}
}

const (
	// deflateFrom is the length from which JSON is deflated. The API server stores built-in kinds in a form that is a third of
	// their JSON, so the limit of etcd does not limit that.
	deflateFrom = 64 << 10
	// deflated begins a string that is deflated. No JSON does.
	deflated = "z"
	// hashed begins the hash of a template.
	hashed = "sha256:"
)

// Pack packs a child, or an object that is related to one. What is packed already stays as it is.
func Pack(u *unstructured.Unstructured) error {
	for _, steps := range packedPaths() {
		at, last := u.Object, len(steps)-1
		for _, step := range steps[:last] {
			at, _ = at[step].(map[string]any)
		}
		part := at[steps[last]]
		switch part.(type) {
		case map[string]any, []any:
		default:
			continue // it is absent, or packed
		}
		packed, err := pack(u, part)
		if err != nil {
			return fmt.Errorf("pack %s of %s: %w", strings.Join(steps, "."), u.GetName(), err)
		}
		at[steps[last]] = packed
	}
	return nil
}

func pack(u *unstructured.Unstructured, part any) (string, error) {
	if template, ok := part.(map[string]any); ok && u.GroupVersionKind() == appsv1.SchemeGroupVersion.WithKind("ReplicaSet") {
		return hashOf(template)
	}
	raw, err := json.Marshal(part)
	if err != nil || len(raw) < deflateFrom {
		return string(raw), err
	}
	var b strings.Builder
	b.WriteString(deflated)
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(raw); err != nil {
		return "", err
	}
	err = w.Close()
	return strings.Clone(b.String()), err // without the room that the builder has left
}

// Unpacked returns what is at a path in a child that may be packed; nil if there is nothing. Nobody may change it.
func Unpacked(object map[string]any, steps ...string) (any, error) {
	part, _, err := unstructured.NestedFieldNoCopy(object, steps...)
	packed, ok := part.(string)
	if err != nil || !ok || !slices.ContainsFunc(packedPaths(), func(path []string) bool { return slices.Equal(path, steps) }) {
		return part, err
	}
	raw, err := inflate(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(steps, "."), err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(steps, "."), err)
	}
	return v, nil
}

// UnpackedSpec returns the spec of a child that may be packed, with everything in it. Nobody may change it.
func UnpackedSpec(object map[string]any) (map[string]any, error) {
	whole := object
	for _, steps := range packedPaths() {
		if _, found, err := unstructured.NestedFieldNoCopy(object, steps...); err != nil || !found {
			continue // there is nothing that could be packed
		}
		part, err := Unpacked(object, steps...)
		if err != nil {
			return nil, err
		}
		whole = replaced(whole, steps, part)
	}
	spec, _ := whole["spec"].(map[string]any)
	return spec, nil
}

// replaced returns an object with another part at a path. It shares all else with the object.
func replaced(object map[string]any, steps []string, part any) map[string]any {
	out := maps.Clone(object)
	if out[steps[0]] = part; len(steps) > 1 {
		inside, _ := object[steps[0]].(map[string]any)
		out[steps[0]] = replaced(inside, steps[1:], part)
	}
	return out
}

func inflate(packed string) ([]byte, error) {
	rest, ok := strings.CutPrefix(packed, deflated)
	if !ok {
		return []byte(packed), nil
	}
	return io.ReadAll(flate.NewReader(strings.NewReader(rest)))
}

// TemplateHash returns a hash of the pod template of a Deployment or a ReplicaSet, without the label that the Deployment
// controller adds: it is the same for both if the ReplicaSet was made from that template.
func TemplateHash(u *unstructured.Unstructured) (string, error) {
	part, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	if err != nil {
		return "", err
	}
	if packed, ok := part.(string); ok {
		if strings.HasPrefix(packed, hashed) {
			return packed, nil
		}
		raw, err := inflate(packed)
		if err != nil {
			return "", err
		}
		if !strings.Contains(packed, appsv1.DefaultDeploymentUniqueLabelKey) && !strings.HasPrefix(packed, deflated) {
			return sum(raw), nil
		}
		if part, err = Unpacked(u.Object, "spec", "template"); err != nil {
			return "", err
		}
	}
	template, ok := part.(map[string]any)
	if !ok {
		return "", nil
	}
	return hashOf(template)
}

// hashOf returns the hash of a pod template.
func hashOf(template map[string]any) (string, error) {
	if labels, err := tree.Lookup(template, []string{"metadata", "labels"}, nil); err == nil && labels[appsv1.DefaultDeploymentUniqueLabelKey] != nil {
		labels = maps.Clone(labels)
		delete(labels, appsv1.DefaultDeploymentUniqueLabelKey)
		template = replaced(template, []string{"metadata", "labels"}, labels)
	}
	raw, err := json.Marshal(template)
	return sum(raw), err
}

func sum(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hashed + hex.EncodeToString(sum[:])
}
