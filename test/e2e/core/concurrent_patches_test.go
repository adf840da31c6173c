// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestPatchesAtOnce checks that many clients can patch one object at once.
func TestPatchesAtOnce(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), Hold()))
	w.Settle()
	held := e.History.Forbid(Outside("zone-b"))
	var hands sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 10 {
		hands.Go(func() {
			errs <- w.TryPatch(types.MergePatchType, fmt.Sprintf(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":%d}}}}}`, i%3))
		})
		hands.Go(func() {
			errs <- w.TryPatch(types.JSONPatchType, fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image(fmt.Sprintf("v%d", i+2))))
		})
	}
	hands.Wait()
	close(errs)
	for err := range errs {
		e.Expect(err).NotTo(HaveOccurred())
	}
	w.Settle()
	held.Holds()
	w.SetImage("v20")
	w.SetPartitions(Parts{"zone-b": 1})
	w.Settle()
	held.Holds()
	e.Expect(w.Images()).To(And(HaveKeyWithValue("zone-a", "v1 v1"), HaveKeyWithValue("zone-b", HaveSuffix(" v20")), HaveKeyWithValue("zone-c", "v1 v1")))
	w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
	w.Settle()
	held.Fires()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v20 v20", "zone-b": "v20 v20", "zone-c": "v20 v20"}))
}
