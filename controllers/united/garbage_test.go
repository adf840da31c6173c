// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestReturnsMemory: what a burst needed is returned once, and what is in use is not collected again and again.
func TestReturnsMemory(t *testing.T) {
	const mebi = 1 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	inUse := make([]byte, 64*mebi)
	for i := range inUse {
		inUse[i] = 1
	}
	debug.FreeOSMemory()
	if before := held(); returnUnused() {
		t.Fatalf("memory in use is collected: %d MiB", before/mebi)
	}
	for range 8 {
		runtime.KeepAlive(make([]byte, 32*mebi))
	}
	before := held()
	if !returnUnused() {
		t.Fatalf("nothing is returned of %d MiB", before/mebi)
	}
	if after := held(); after > before-32*mebi || after > 128*mebi {
		t.Errorf("%d MiB of %d are held", after/mebi, before/mebi)
	}
	runtime.KeepAlive(inUse)
}
