// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// edits are changes of a UnitedDeployment, as flags.
type edits struct {
	partitions, images []string
	replicas           int32
	paused             bool
	// given reports whether a flag is there.
	given func(flag string) bool
}

func (e *edits) any() bool {
	return len(e.partitions) > 0 || len(e.images) > 0 || e.given("replicas") || e.given("paused")
}

// apply makes the changes.
func (e *edits) apply(parent *v1alpha1.UnitedDeployment) error {
	if e.given("replicas") {
		parent.Spec.Replicas = &e.replicas
	}
	if e.given("paused") {
		parent.Spec.Paused = e.paused
	}
	for _, text := range e.partitions {
		if err := setPartition(parent, text); err != nil {
			return err
		}
	}
	for _, text := range e.images {
		if err := setImage(parent, text); err != nil {
			return err
		}
	}
	return nil
}

func setPartition(parent *v1alpha1.UnitedDeployment, text string) error {
	name, value, found := strings.Cut(text, "=")
	partition := intstr.Parse(value)
	if _, err := percent.Parse(partition); !found || err != nil {
		return fmt.Errorf("--set-partition %s: it must be SUBSET=VALUE, with a number or a percentage", text)
	}
	var names []string
	for i := range parent.Spec.Topology.Subsets {
		names = append(names, parent.Spec.Topology.Subsets[i].Name)
	}
	strategy := &parent.Spec.UpdateStrategy
	switch {
	case !slices.Contains(names, name):
		return fmt.Errorf("%s has no subset %s%s", parent.Name, name, drive.Suggestion(name, names))
	case strategy.Type == v1alpha1.RollingUpdateStrategy:
		return fmt.Errorf("%s has the strategy RollingUpdate, which moves the partitions by itself", parent.Name)
	case strategy.ManualUpdate == nil:
		strategy.ManualUpdate = &v1alpha1.ManualUpdate{}
	}
	if strategy.ManualUpdate.Partitions == nil {
		strategy.ManualUpdate.Partitions = map[string]intstr.IntOrString{}
	}
	strategy.ManualUpdate.Partitions[name] = partition
	return nil
}

// setImage sets the image of a container in the template; * is all of them.
func setImage(parent *v1alpha1.UnitedDeployment, text string) error {
	name, image, found := strings.Cut(text, "=")
	if !found || image == "" {
		return fmt.Errorf("--image %s: it must be CONTAINER=IMAGE", text)
	}
	adapter, err := all.Registry().For(&parent.Spec.Template)
	if err != nil {
		return err
	}
	_, raw := adapter.TemplateField(&parent.Spec.Template)
	if raw == nil {
		return errors.New("the UnitedDeployment has no template")
	}
	workload := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw.Raw, &workload.Object); err != nil {
		return err
	}
	var names []string
	set := 0
	for _, path := range adapter.PodTemplates() {
		for _, list := range []string{"containers", "initContainers"} {
			containers, _, _ := unstructured.NestedFieldNoCopy(workload.Object, append(slices.Clone(path), "spec", list)...)
			items, _ := containers.([]any)
			for _, item := range items {
				container, _ := item.(map[string]any)
				has, _ := container["name"].(string)
				names = append(names, has)
				if has == name || name == "*" {
					container["image"] = image
					set++
				}
			}
		}
	}
	if set == 0 {
		return fmt.Errorf("the template of %s has no container %s%s", parent.Name, name, drive.Suggestion(name, names))
	}
	raw.Raw, err = json.Marshal(workload.Object)
	return err
}
