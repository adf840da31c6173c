// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// garbagePercent is how much the heap may grow before the garbage collector runs. Most of what lives is the cache, so the
// default, 100, spends a tenth of the CPU to save a few megabytes.
const garbagePercent = 200

// LimitGarbage sets how often the garbage collector runs, unless GOGC is set. It works harder near the memory limit.
func LimitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// returnMemory returns the memory that a start or a large rollout needed to the operating system, which the runtime does not
// do by itself: it keeps what garbagePercent lets the heap grow to.
func returnMemory(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { returnUnused() }, time.Minute)
	return nil
}

// returnUnused collects the garbage, and returns free memory of the heap, if both together are more than half of what lives.
// The gaps between what lives cannot be returned.
func returnUnused() (returned bool) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(heap)
	live, objects, free := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if objects+free <= live+live/2 {
		return false
	}
	debug.FreeOSMemory()
	return true
}
