// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
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
	if len(e.partitions) > 0 {
		partitions, err := drive.ReadPartitions(parent, e.partitions, change.Set)
		if err != nil {
			return err
		}
		parent.Spec.UpdateStrategy.ManualUpdate = change.With(parent.Spec.UpdateStrategy.ManualUpdate, partitions)
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
