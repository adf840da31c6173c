// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Kubectl-united is a plugin for kubectl: it shows, drives and explains rollouts of UnitedDeployments.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"context"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/unitedworkloads/united/cmd/kubectl-united/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}
