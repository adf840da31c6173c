// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Problem is what is wrong in one UnitedDeployment.
type Problem struct {
	Field, Message string
	// Advice: it is legal, but surely not meant.
	Advice bool
	// Warned: the policy of the chart warns of it when the object is applied.
	Warned bool
}

// problemOf is one that is refused.
func problemOf(at, message string) Problem { return Problem{Field: at, Message: message} }

func advice(at, message string) Problem { return Problem{Field: at, Message: message, Advice: true} }

// source is a UnitedDeployment: as it was decoded, and as it was written.
type source struct {
	parent *v1alpha1.UnitedDeployment
	text   []byte
}

// Object returns what is wrong in a UnitedDeployment, each problem once.
func Object(text []byte) (problems []Problem) {
	s := &source{&v1alpha1.UnitedDeployment{}, text}
	own, err := strict(text, s.parent, "UnitedDeployment")
	if err != nil {
		return []Problem{fatal("", err, text)} // what follows would be about half of it
	}
	for _, rule := range []func(*source) []Problem{
		version, name, func(s *source) []Problem { return unknown(s, own) }, templates, patches, refused, zonesOfNoNodes, releasingNothing,
		addedContainers, raisedSteps, tooManyReplicas, otherKeys, releasingAll, stepsAboveReplicas,
	} {
		for _, p := range rule(s) {
			if p.Field = withNames(s.parent, p.Field); !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// version: there is one version.
func version(s *source) []Problem {
	if s.parent.APIVersion == v1alpha1.GroupVersion.String() {
		return nil
	}
	return []Problem{problemOf("apiVersion", fmt.Sprintf("there is no version %s: write %s", s.parent.APIVersion, v1alpha1.GroupVersion))}
}

// name: the API server needs one before it looks at anything else.
func name(s *source) []Problem {
	if s.parent.Name == "" {
		return []Problem{problemOf("metadata.name", "is missing")}
	}
	return nil
}

// unknown: fields that nothing reads. For those of OpenKruise's UnitedDeployment it says what to write instead.
func unknown(s *source, own []Problem) (problems []Problem) {
	terms := termsOfOpenKruise(s.text)
	for _, p := range own {
		at, is := strings.CutSuffix(p.Field, "].nodeSelectorTerm")
		if term := terms[strings.TrimPrefix(at, "spec.topology.subsets[")]; is && term != nil {
			p.Message = ofOpenKruise + `write "nodeSelector": {"nodeSelectorTerms": [` + string(term) + `]}`
		}
		const adaptive = "spec.topology.scheduleStrategy.adaptive."
		if name, is := renamed[strings.TrimPrefix(p.Field, adaptive)]; is && strings.HasPrefix(p.Field, adaptive) {
			p.Message = ofOpenKruise + "write " + name
		}
		problems = append(problems, p)
	}
	return problems
}

const ofOpenKruise = "is a field of OpenKruise's UnitedDeployment: "

// renamed are the times of OpenKruise's schedule strategy, and what they are called here.
var renamed = map[string]string{"rescheduleCriticalSeconds": "rescheduleAfterSeconds", "unschedulableLastSeconds": "retryAfterSeconds"}

// termsOfOpenKruise returns the nodeSelectorTerm of each subset that has one, by the index of the subset.
func termsOfOpenKruise(text []byte) map[string]json.RawMessage {
	written := struct {
		Spec struct {
			Topology struct {
				Subsets []struct {
					NodeSelectorTerm json.RawMessage `json:"nodeSelectorTerm"`
				} `json:"subsets"`
			} `json:"topology"`
		} `json:"spec"`
	}{}
	if json.Unmarshal(text, &written) != nil {
		return nil
	}
	terms := map[string]json.RawMessage{}
	for i, s := range written.Spec.Topology.Subsets {
		if s.NodeSelectorTerm != nil {
			terms[fmt.Sprint(i)] = s.NodeSelectorTerm
		}
	}
	return terms
}

// templates: the API server stores them as they are, and rejects the children.
func templates(s *source) (problems []Problem) {
	for _, adapter := range all.Registry() {
		member, raw := adapter.TemplateField(&s.parent.Spec.Template)
		if raw != nil {
			problems = append(problems, workload(adapter, raw.Raw, "spec.template."+member)...)
		}
	}
	return problems
}

// patches are partial workloads. Those of OpenKruise's UnitedDeployment are partial pods.
func patches(s *source) (problems []Problem) {
	adapter, err := all.Registry().For(&s.parent.Spec.Template)
	if err != nil {
		return nil // refused says so
	}
	for _, sub := range s.parent.Spec.Topology.Subsets {
		if sub.Patch == nil {
			continue
		}
		at := "spec.topology.subsets[" + sub.Name + "].patch"
		found := workload(adapter, sub.Patch.Raw, at)
		if paths := adapter.PodTemplates(); len(found) > 0 && len(paths) == 1 && len(workload(adapter, within(paths[0], sub.Patch.Raw), at)) == 0 {
			text := within(paths[0], sub.Patch.Raw)
			const most = 300
			found = []Problem{problemOf(at, "is a patch of pods, as those of OpenKruise's UnitedDeployment are: write it at "+strings.Join(paths[0], ".")+" of the patch")}
			if len(text) <= most {
				found[0].Message = fmt.Sprintf("is a patch of pods, as those of OpenKruise's UnitedDeployment are: write %s", text)
			}
		}
		problems = append(problems, found...)
	}
	return problems
}

// within returns an object that has another one at a path.
func within(path []string, text []byte) []byte {
	for _, key := range slices.Backward(path) {
		text = fmt.Appendf(nil, "{%q:%s}", key, text)
	}
	return text
}

// refused: what the API server refuses or, if it takes it, the manager, in the spec and in each child.
func refused(s *source) (problems []Problem) {
	if problems = admitted(s); len(problems) > 0 {
		return problems
	}
	read, err := spec.Read(s.parent, all.Registry())
	if err != nil {
		return fromErrors(err)
	}
	data, err := adapters.RevisionData(read.Adapter, read.Template)
	if err != nil {
		return fromErrors(err)
	}
	for _, sub := range read.Subsets {
		child, err := adapters.Build(read.Adapter, &adapters.Child{
			Namespace: s.parent.Namespace, Name: adapters.ChildName(s.parent.Name, sub.Name), Parent: s.parent.Name, Subset: sub.Name,
			Selector: s.parent.Spec.Selector, Template: read.Template, Patch: sub.DecodedPatch, RevisionTemplate: data, RevisionPatch: sub.Overlay.Patch,
			Tolerations: sub.Tolerations, NodeSelector: sub.NodeSelector,
		})
		if problems = append(problems, fromErrors(err)...); err == nil {
			problems = append(problems, withoutImage(s, read.Adapter, child, sub.Name)...)
		}
	}
	return problems
}

// fromErrors returns the problems of an error, which may be several.
func fromErrors(err error) (problems []Problem) {
	if err == nil {
		return nil
	}
	if several, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // a wrapped one says more than its parts
		for _, one := range several.Errors() {
			problems = append(problems, fromErrors(one)...)
		}
		return problems
	}
	if one := (*field.Error)(nil); errors.As(err, &one) {
		return []Problem{problemOf(strings.TrimPrefix(one.Field, "<nil>"), one.ErrorBody())}
	}
	return []Problem{problemOf("", err.Error())}
}

func warned(at, message string) Problem { return Problem{at, message, true, true} }

const partitionsPath = "spec.updateStrategy.manualUpdate.partitions"

func partitionsOf(s *source) map[string]intstr.IntOrString {
	if m := s.parent.Spec.UpdateStrategy.ManualUpdate; m != nil {
		return m.Partitions
	}
	return nil
}

// The next two are the rules of charts/united/templates/advice.yaml, which warns of the same when the object is applied.

// zonesOfNoNodes: a subset that is named like a zone, and whose pods can be in any zone.
func zonesOfNoNodes(s *source) (problems []Problem) {
	terms := termsOfOpenKruise(s.text)
	for i, sub := range s.parent.Spec.Topology.Subsets {
		if sub.NodeSelector == nil && terms[fmt.Sprint(i)] == nil && zoneName.MatchString(sub.Name) {
			problems = append(problems, warned("spec.topology.subsets["+sub.Name+"]", "is named like a zone, but has no nodeSelector, so its pods can be on any node"))
		}
	}
	return problems
}

// releasingNothing: partitions that protect every replica, but would not if there were more.
func releasingNothing(s *source) (problems []Problem) {
	partitions, replicas, counts := partitionsOf(s), spec.Replicas(s.parent), countsOf(s)
	for _, key := range slices.Sorted(maps.Keys(partitions)) {
		written := partitions[key]
		if protectsAll(written, counts[key], replicas) {
			problems = append(problems, warned(partitionsPath+"["+key+"]", fmt.Sprintf(
				`%s protects all of the replicas, so it releases nothing: to hold the subset, also when it grows, write "100%%"`, written.String())))
		}
	}
	return problems
}

// countsOf returns the replicas of each subset for which they are a number.
func countsOf(s *source) map[string]int32 {
	counts := map[string]int32{}
	for _, sub := range s.parent.Spec.Topology.Subsets {
		if sub.Replicas != nil && sub.Replicas.Type == intstr.Int {
			counts[sub.Name] = sub.Replicas.IntVal
		}
	}
	return counts
}

// stepsAboveReplicas: a number that looks as if a step released nothing. Every step releases one, unless it says "100%".
func stepsAboveReplicas(s *source) (problems []Problem) {
	u, replicas, counts := s.parent.Spec.UpdateStrategy.RollingUpdate, spec.Replicas(s.parent), countsOf(s)
	if u == nil {
		return nil
	}
	for i, step := range u.Steps {
		for _, sub := range s.parent.Spec.Topology.Subsets {
			if named := slices.Contains(step.Subsets, sub.Name) || slices.Contains(step.Subsets, v1alpha1.AllSubsets); !named ||
				step.Partition == nil || step.Partition.Type != intstr.Int || !protectsAll(*step.Partition, counts[sub.Name], replicas) {
				continue
			}
			problems = append(problems, warned(fmt.Sprintf("spec.updateStrategy.rollingUpdate.steps[%d].partition", i), fmt.Sprintf(
				`%s is no hold: a step releases at least one replica of each of its subsets, here of %s, unless it says "100%%"`, step.Partition, sub.Name)))
		}
	}
	return problems
}

// protectsAll reports whether a partition is no hold, and yet protects all replicas of a subset. count is how many it has; 0 if that
// is not a number. all is how many there are in all subsets.
func protectsAll(partition intstr.IntOrString, count, all int32) bool {
	p, err := percent.Parse(partition)
	switch {
	case err != nil:
		return false
	case !p.IsPercent:
		return all > 0 && p.Value >= all || count > 0 && p.Value >= count
	}
	return count > 0 && p.Value < 100 && percent.Ceil(p.Value, count) >= count
}

// withNames returns a path with the names of subsets, instead of their numbers.
func withNames(parent *v1alpha1.UnitedDeployment, path string) string {
	for i, sub := range parent.Spec.Topology.Subsets {
		before := fmt.Sprintf("spec.topology.subsets[%d]", i)
		if rest, is := strings.CutPrefix(path, before); is && sub.Name != "" {
			return "spec.topology.subsets[" + sub.Name + "]" + rest
		}
	}
	return path
}
