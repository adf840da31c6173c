// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
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
	if len(e.images) == 0 {
		return nil
	}
	images, err := imagesOf(e.images)
	if err != nil {
		return err
	}
	after, _, err := change.SetImages(parent, images)
	if err == nil {
		parent.Spec = after.Spec
	}
	return err
}

// imagesOf reads CONTAINER=IMAGE.
func imagesOf(args []string) (map[string]string, error) {
	images := map[string]string{}
	for _, arg := range args {
		container, image, ok := strings.Cut(arg, "=")
		if !ok || container == "" || image == "" {
			return nil, fmt.Errorf("%s: it must be CONTAINER=IMAGE", arg)
		}
		if other, twice := images[container]; twice && other != image {
			return nil, fmt.Errorf("%s has two images: %s and %s", container, other, image)
		}
		images[container] = image
	}
	return images, nil
}

func setPartition(parent *v1alpha1.UnitedDeployment, text string) error {
	name, value, found := strings.Cut(text, "=")
	partition := intstr.Parse(value)
	if _, err := percent.Parse(partition); !found || err != nil {
		return fmt.Errorf("--set-partition %s: it must be SUBSET=VALUE, with a number or a percentage", text)
	}
	names := drive.SubsetNames(parent)
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
