// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestReplacementChangedByHand checks what happens when somebody changes how a child replaces its
// replicas, in fields that the template does not set. United then restores the defaults of the API
// server. Otherwise a Deployment that somebody had set to Recreate would take down a whole zone with
// the next release.
func TestReplacementChangedByHand(t *testing.T) {
	edits := map[string]map[string]string{
		"StatefulSet": {
			"spec.minReadySeconds":                             `{"spec":{"minReadySeconds":600}}`,
			"spec.updateStrategy.rollingUpdate.maxUnavailable": `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`,
			"spec.ordinals":                                    `{"spec":{"ordinals":{"start":4}}}`,
		},
		"Deployment": {
			"spec.strategy":                              `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
			"spec.strategy.rollingUpdate.maxSurge":       `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0}}}}`,
			"spec.strategy.rollingUpdate.maxUnavailable": `{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"100%"}}}}`,
			"spec.minReadySeconds":                       `{"spec":{"minReadySeconds":30}}`,
		},
		"CloneSet": {
			"spec.updateStrategy.maxUnavailable": `{"spec":{"updateStrategy":{"maxUnavailable":"100%"}}}`,
			"spec.updateStrategy.paused":         `{"spec":{"updateStrategy":{"paused":true}}}`,
			"spec.minReadySeconds":               `{"spec":{"minReadySeconds":600}}`,
		},
		"AdvancedStatefulSet": {
			"spec.updateStrategy.rollingUpdate.paused":          `{"spec":{"updateStrategy":{"rollingUpdate":{"paused":true}}}}`,
			"spec.updateStrategy.rollingUpdate.minReadySeconds": `{"spec":{"updateStrategy":{"rollingUpdate":{"minReadySeconds":60}}}}`,
		},
		"LeaderWorkerSet": {
			"spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge": `{"spec":{"rolloutStrategy":{"rollingUpdateConfiguration":{"maxSurge":1}}}}`,
		},
	}
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Replicas(4), Zones("", ""), Hold())
		w.ComesTo("2 v1", "2 v1", "")
		for field, patch := range edits[k.Title] {
			w.Step(field, func() {
				before, changed := strategyOf(w, "zone-a"), w.Object("zone-a")
				w.Expect(w.Client.Patch(w.Ctx, changed, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("by-hand"))).To(Succeed())
				if strategyIn(w, changed) == before && strings.HasSuffix(field, "rollingUpdate.maxUnavailable") && k.Title == "StatefulSet" {
					return // Kubernetes before 1.37 drops it
				}
				w.Eventually(func() string { return strategyOf(w, "zone-a") }, Promptly).Should(Equal(before))
			})
		}
		// The client library merges events that differ only in the note.
		w.Eventually(w.Corrections, Promptly).Should(ContainElement(And(HavePrefix("zone-a: restored spec."), HaveSuffix(` of web-zone-a, which "by-hand" had changed`))))
		w.Disturbed()
		w.ComesTo("2 v1", "2 v1", "")
		w.Step("that is all", func() {
			mark := w.AuditMark()
			w.Consistently(func() int { return len(w.Writes(mark, k.Resource)) }, 3*time.Second).Should(BeZero())
		})
	})
}

// strategyOf returns strategyIn of the child of a subset.
func strategyOf(w *Contracted, subset string) string {
	w.T.Helper()
	return strategyIn(w, w.LiveChild(subset))
}

// strategyIn returns the fields of a child that decide how it replaces its replicas.
func strategyIn(w *Contracted, child *unstructured.Unstructured) string {
	w.T.Helper()
	var list []string
	for _, name := range []string{"minReadySeconds", "ordinals", "strategy", "updateStrategy", "rolloutStrategy"} {
		value, _, err := unstructured.NestedFieldCopy(child.Object, "spec", name)
		w.Expect(err).NotTo(HaveOccurred())
		raw, err := json.Marshal(value)
		w.Expect(err).NotTo(HaveOccurred())
		list = append(list, fmt.Sprintf("%s: %s", name, raw))
	}
	return strings.Join(list, "\n")
}
