// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package caught makes an error of a panic, in the goroutines of checks: controller-runtime does that only for passes. They read what
// anybody wrote, and one of them must not bring down the manager of all.
package caught

import (
	"context"
	"fmt"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Do runs a function, and returns an error if it panics. The stack is in the log. Trap: a lock that is held then must be released by
// a defer.
func Do(ctx context.Context, what string, run func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: this is a bug in United, and its log has more: panic: %v", what, p)
			log.FromContext(ctx).Error(err, "a check panicked", "stack", string(debug.Stack()))
		}
	}()
	run()
	return nil
}
