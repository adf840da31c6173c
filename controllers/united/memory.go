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
// do by itself: it keeps what garbagePercent allows the heap to grow to.
func returnMemory(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { returnUnused() }, time.Minute)
	return nil
}

// returnUnused collects the garbage, and returns the memory of the heap that is not in use, if that is more than half of it.
func returnUnused() (returned bool) {
	heap := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(heap)
	total := uint64(0)
	for _, part := range heap[1:] {
		total += part.Value.Uint64()
	}
	if total <= 2*heap[0].Value.Uint64() {
		return false
	}
	debug.FreeOSMemory()
	return true
}
