// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"fmt"

	"github.com/unitedworkloads/united/controllers/subset"
)

// capacity keeps replicas that others were to replace. A subset whose child is refused
// cannot grow, and the scale-downs of the same pass would pay for what does not come: so
// the children are not asked for fewer replicas than the parent has, all together. A
// scale-down of the parent is not affected.
type capacity struct {
	// total is spec.replicas, living what the children are asked for now.
	total, living int64
	// refused names a subset that could not grow in this pass; "" if none.
	refused string
}

func (w *world) capacity() *capacity {
	c := &capacity{total: int64(replicasOf(w.parent))}
	for _, child := range w.children {
		c.living += int64(child.observed.Replicas)
	}
	return c
}

// wrote takes into account what became of a subset: before and after are what its child
// is asked for, wanted what it should be.
func (c *capacity) wrote(name string, before, after, wanted int32) {
	c.living += int64(after) - int64(before)
	if after < wanted && c.refused == "" {
		c.refused = name
	}
}

// keep is how many replicas a child keeps that has so many and is to have fewer.
func (c *capacity) keep(has, wanted int32) int32 {
	if c.refused == "" || wanted >= has {
		return wanted
	}
	spare := max(0, c.living-c.total)
	return max(wanted, has-int32(min(spare, int64(has))))
}

// why is said of replicas that are kept.
func (c *capacity) why(kept int32) string {
	return fmt.Sprintf("keeps %d replicas until %s can grow", kept, c.refused)
}

// keepReplicas is a step that scales a child down, but keeps so many replicas. Those
// that it keeps do not move: the partition does not fall, and protects them when it
// protects all others or another template comes.
func keepReplicas(step subset.Step, keep, partition int32, revision string) subset.Step {
	c := &step.Child
	if c.Partition >= c.Replicas || c.Revision != revision {
		c.Partition = max(c.Partition, keep)
	} else {
		c.Partition = max(c.Partition, partition)
	}
	c.Replicas = keep
	return step
}
