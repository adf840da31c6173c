// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
)

// forces lets the user force the update revision.
func (c *court) forces() *court {
	c.Annotate(v1alpha1.AnnotationForceUpdate, c.Parent().Status.UpdateRevision)
	return c
}

// gone: all pods of subsets are gone, and their controller has not looked since.
func (c *court) gone(subsets ...string) *court {
	for _, name := range subsets {
		for _, p := range c.PodsOf(c.Child(name)) {
			delete(c.API.Live.Pods, p.Name)
		}
	}
	return c
}

// knowsOnly: a child knows nothing but what its template is, as one that has finished.
func (c *court) knowsOnly(subset string) *court {
	c.forgets(subset)
	delete(c.API.forgot, c.API.Live.Sets[c.Child(subset)].GetUID())
	return c
}

// collects starts a controller that may let a status wait for so long.
func (c *court) collects(most time.Duration) *court {
	c.Collects(united.Collect{For: most, Every: most / 2, EveryMade: 12 * most})
	return c
}

// counted forges what a status that was written long ago counts of a and b, and in all.
func (c *court) counted(a, b, all int32) *court {
	parent := c.Parent().DeepCopy()
	parent.Status.Subsets[0].Replicas, parent.Status.Subsets[1].Replicas, parent.Status.Replicas = a, b, all
	c.API.PutParent(parent)
	return c
}

// protects forges that a status has long said that a subset protects the update revision.
func (c *court) protects(subset string) *court {
	parent := c.Parent().DeepCopy()
	statusOf(&parent.Status, subset).CurrentRevision = parent.Status.UpdateRevision
	c.API.PutParent(parent)
	return c
}

// writesNothing is a pass that writes nothing.
func (c *court) writesNothing() *court {
	c.begins()
	c.Oracle.afterPass(true)
	return c
}

// sees is a pass that sees nothing new but of these kinds, and writes nothing.
func (c *court) sees(kinds ...string) *court {
	for _, kind := range kinds {
		c.API.RefreshKind(kind)
	}
	c.Oracle.beforePass()
	c.Oracle.afterPass(true)
	return c
}

// writesStatus is a pass that writes the status as it is, but for one word.
func (c *court) writesStatus() *court {
	c.begins()
	subsets := c.Parent().DeepCopy().Status.Subsets
	subsets[0].Message = "forged"
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"subsets": subsets}})
	if err != nil {
		panic(err)
	}
	c.tells(string(raw))
	c.Oracle.afterPass(true)
	return c
}
