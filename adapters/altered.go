// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// If admission changes what we write, managedFields still name us as the owner, and the fingerprint is that of what
// we wrote. So values have to be compared. But the API server writes many of them in another form, and sets defaults.

// Altered returns the first field of a pod template that was applied with one value and now has another; "" if there
// is none. Fields that somebody adds do not count.
//
// A zero or empty value counts as not set, because the API server may replace it by a default. A missing field counts
// only if it cannot be one that the API server has disabled (see neverOmitted).
func Altered(a Adapter, applied, live *unstructured.Unstructured) string {
	for _, steps := range a.PodTemplates() {
		wanted, _, errWanted := unstructured.NestedFieldNoCopy(applied.Object, steps...)
		has, errHas := Unpacked(live.Object, steps...)
		if errWanted != nil || errHas != nil {
			continue
		}
		if at := (alteration{}).in(wanted, has, strings.Join(steps, ".")); at != "" {
			return at
		}
	}
	return ""
}

// Overruled is Altered of the rest of the spec: how the workload finds, counts and replaces its pods. Volume claims are no
// part of it, since what they come from is often changed on purpose, as images are.
//
// There, a number that is zero counts: the API server puts no default in its place.
func Overruled(a Adapter, applied, live *unstructured.Unstructured) string {
	wanted, errWanted := tree.Lookup(applied.Object, []string{"spec"}, nil)
	has, errHas := tree.Lookup(live.Object, []string{"spec"}, nil)
	if errWanted != nil || errHas != nil {
		return ""
	}
	wanted = maps.Clone(wanted)
	delete(wanted, "volumeClaimTemplates")
	for _, steps := range a.RevisionPaths() {
		if len(steps) > 1 && steps[0] == "spec" {
			delete(wanted, steps[1])
		}
	}
	return alteration{zeroCounts: true}.member(wanted, has, "spec")
}

// alteration looks for what was altered.
type alteration struct{ zeroCounts bool }

func (l alteration) in(wanted, has any, at string) string {
	switch wanted := wanted.(type) {
	case map[string]any:
		if object, ok := has.(map[string]any); ok {
			return l.member(wanted, object, at)
		}
	case []any:
		if list, ok := has.([]any); ok {
			return l.item(wanted, list, at)
		}
	default:
		if sameScalar(wanted, has) {
			return ""
		}
	}
	if zeroOrEmpty(wanted) && (!l.zeroCounts || !isNumber(wanted)) {
		return ""
	}
	return at
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func (l alteration) member(wanted, has map[string]any, at string) string {
	inMap := slices.ContainsFunc(freeMaps(), func(name string) bool { return strings.HasSuffix(at, "."+name) })
	for _, key := range slices.Sorted(maps.Keys(wanted)) { // sorted, because only the first field is reported
		here := at + "." + key
		if inMap {
			here = fmt.Sprintf("%s[%q]", at, key)
		}
		v, there := has[key]
		switch {
		case !there && (zeroOrEmpty(wanted[key]) || !inMap && !slices.Contains(neverOmitted(), key)), aliases(key):
		case !there:
			return here
		default:
			if found := l.in(wanted[key], v, here); found != "" {
				return found
			}
		}
	}
	return ""
}

// aliases reports whether the API server writes a field as the copy of another one.
func aliases(key string) bool { return key == "serviceAccount" }

// freeMaps returns the fields whose keys users choose.
func freeMaps() []string {
	return []string{"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"}
}

// neverOmitted returns the fields that no API server drops because of a disabled feature. They determine what pods
// are and where they run, and how their workload finds and replaces them.
func neverOmitted() []string {
	return []string{
		"matchExpressions", "matchLabels", "minReadySeconds", "podManagementPolicy", "selector", "serviceName",
		"affinity", "args", "command", "containers", "env", "envFrom", "image", "initContainers", "nodeAffinity", "nodeSelector",
		"requiredDuringSchedulingIgnoredDuringExecution", "resources", "limits", "requests", "labels", "annotations",
		"securityContext", "serviceAccountName", "tolerations", "topologySpreadConstraints", "volumes", "volumeMounts",
	}
}

// item looks for each applied item in a list to which others may have added items. Items with names are found by name;
// others must be in the same order.
func (l alteration) item(wanted, has []any, at string) string {
	if names := byName(has); names != nil && byName(wanted) != nil {
		for i, item := range wanted {
			here := fmt.Sprintf("%s[%d]", at, i)
			other, there := names[nameOf(item)]
			if !there {
				return here
			}
			if found := l.in(item, other, here); found != "" {
				return found
			}
		}
		return ""
	}
	next := 0
	for i, item := range wanted {
		here, first := fmt.Sprintf("%s[%d]", at, i), ""
		for found := "?"; found != ""; next++ {
			if next == len(has) {
				if len(wanted) == len(has) && first != "" {
					return first // this is the item
				}
				return here
			}
			if found = l.in(item, has[next], here); first == "" {
				first = found
			}
		}
	}
	return ""
}

// byName returns the items of a list by name; nil unless each has its own name.
func byName(list []any) map[string]any {
	names := make(map[string]any, len(list))
	for _, item := range list {
		names[nameOf(item)] = item
	}
	if _, unnamed := names[""]; unnamed || len(names) != len(list) {
		return nil
	}
	return names
}

func nameOf(item any) string {
	object, _ := item.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// zeroOrEmpty reports whether a value is zero or empty.
func zeroOrEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(member any) bool { return !zeroOrEmpty(member) })
	case []any:
		return len(v) == 0
	}
	return false
}

// sameScalar reports whether two values are equal in the form that the API server writes: "1024Mi" equals "1Gi", and
// 1 in a quantity equals "1".
func sameScalar(wanted, has any) bool {
	a, b := fmt.Sprint(wanted), fmt.Sprint(has)
	if a == b {
		return true
	}
	if _, isBool := wanted.(bool); isBool {
		return false
	}
	x, errX := resource.ParseQuantity(a)
	y, errY := resource.ParseQuantity(b)
	if errX != nil || errY != nil {
		return false
	}
	x.RoundUp(resource.Milli) // the API server keeps no higher precision
	y.RoundUp(resource.Milli)
	return x.Cmp(y) == 0
}
