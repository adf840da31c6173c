// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRecreatedParent deletes a parent and immediately creates another one with its name.
func TestRecreatedParent(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	v1 := NewDraft("web", Replicas(6), Zones("", "", ""), Hold())
	w := e.Create(v1)
	w.Settle()
	w.SetImage("v2")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Settle()

	again := e.History.Forbid(Remade(w.Pods()))
	mark := e.AuditMark()
	e.Expect(e.Delete(e.Ctx, w.Parent())).To(Succeed())
	w = e.Create(v1)
	w.Disturbed() // the old children go one after the other
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	e.Expect(again.Broken()).To(HaveLen(6), "nothing of the old one is left, nothing was made twice")
	for _, write := range e.Writes(mark, Statuses) {
		e.Expect(string(write.Request)).NotTo(ContainSubstring(`"phase":"Stalled"`), "that the old children are not gone yet is no stall: Helm would give up")
	}
}

// TestOrphans deletes a parent without its children, and then the children without their pods.
func TestOrphans(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Zones("", "", ""), Hold()))
	w.Settle()
	none := e.History.Forbid(AnyNewPod)
	e.Expect(e.Delete(e.Ctx, w.Parent(), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	e.Eventually(func() bool {
		return apierrors.IsNotFound(e.Get(e.Ctx, w.Key("web"), &v1alpha1.UnitedDeployment{}))
	}).Should(BeTrue(), "the garbage collector lets go of children and revisions")
	e.Expect(w.Child("zone-a").OwnerReferences).To(BeEmpty())
	before := e.Raw(Children, "web-zone-a")

	w = e.Create(NewDraft("web", Replicas(6), Zones("", "", ""), Hold()))
	w.StallsWhole(v1alpha1.ReasonNameConflict, "All subsets: ", "web-* exists")
	e.Expect(e.Raw(Children, "web-zone-a")).To(Equal(before), "orphans are not adopted by their labels")
	none.Holds()

	e.Kubectl("delete", "statefulsets", "--all", "--cascade=orphan")
	w.Disturbed()
	w.Settle()
	none.Holds()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	w.SetImage("v2")
	w.Settle()
	none.Holds()
	w.SetPartitions(Parts{"zone-c": 1})
	w.Settle()
	none.Fires()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v2"}))
}
