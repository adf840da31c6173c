// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// The manager runs the controllers of United.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "united-manager:", err)
		os.Exit(1)
	}
}
