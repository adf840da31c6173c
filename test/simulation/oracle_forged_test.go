// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// forces lets the user force the update revision.
func (c *court) forces() *court {
	c.Annotate(v1alpha1.AnnotationForceUpdate, c.Parent().Status.UpdateRevision)
	return c
}

// promotes lets the user promote the update revision.
func (c *court) promotes(text string) *court {
	c.Annotate(v1alpha1.AnnotationPromote, c.Parent().Status.UpdateRevision+text)
	return c
}

// gone: all pods of subsets are gone, and their controller has not noticed.
func (c *court) gone(subsets ...string) *court {
	for _, name := range subsets {
		for _, p := range c.PodsOf(c.Child(name)) {
			delete(c.API.Live.Pods, p.Name)
		}
	}
	return c
}

// knowsOnly: a child knows only its template, like one that has finished.
func (c *court) knowsOnly(subset string) *court {
	c.forgets(subset)
	delete(c.API.forgot, c.API.Live.Sets[c.Child(subset)].GetUID())
	return c
}

// collects starts a controller that may delay a status for a given time.
func (c *court) collects(most time.Duration) *court {
	c.Batches(publish.Batching{Delay: most, Interval: most / 2, ProvisioningInterval: 12 * most})
	return c
}

// counted forges the counts of a, b and the total in a status that was written long ago.
func (c *court) counted(a, b, all int32) *court {
	parent := c.Parent().DeepCopy()
	parent.Status.Subsets[0].Replicas, parent.Status.Subsets[1].Replicas, parent.Status.Replicas = a, b, all
	c.API.PutParent(parent)
	return c
}

// phase forges the phase of all subsets.
func (c *court) phase(is v1alpha1.SubsetPhase) *court {
	parent := c.Parent().DeepCopy()
	for i := range parent.Status.Subsets {
		parent.Status.Subsets[i].Phase = is
	}
	c.API.PutParent(parent)
	return c
}

// neverReady forges a status of a parent that is being provisioned.
func (c *court) neverReady() *court {
	parent := c.Parent().DeepCopy()
	parent.Status.CurrentRevision = parent.Status.UpdateRevision
	meta.RemoveStatusCondition(&parent.Status.Conditions, v1alpha1.ConditionReady)
	meta.SetStatusCondition(&parent.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonScaling,
		LastTransitionTime: meta.FindStatusCondition(parent.Status.Conditions, v1alpha1.ConditionInitialized).LastTransitionTime,
	})
	c.API.PutParent(parent)
	return c
}

// protects forges a status that has long said that a subset protects the update revision.
func (c *court) protects(subset string) *court {
	parent := c.Parent().DeepCopy()
	statusOf(&parent.Status, subset).CurrentRevision = parent.Status.UpdateRevision
	c.API.PutParent(parent)
	return c
}

// writesNothing is a pass without writes.
func (c *court) writesNothing() *court {
	c.begins()
	c.Oracle.afterPass(true)
	return c
}

// sees is a pass that sees changes of these kinds only, and writes nothing.
func (c *court) sees(kinds ...string) *court {
	for _, kind := range kinds {
		c.API.RefreshKind(kind)
	}
	c.Oracle.beforePass()
	c.Oracle.afterPass(true)
	return c
}

// writesStatus is a pass that writes the current status with another message.
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
