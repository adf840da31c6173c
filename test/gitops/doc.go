// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops judges a UnitedDeployment as GitOps tools do, with the files of this repository: Argo
// CD with the Lua scripts of config/argocd, and Flux and Helm with kstatus and the expressions of
// config/flux.
//
// testdata has objects as a real API server returned them, one for each state of docs/gitops.md.
// TestGitOpsStates of test/e2e/hostile brings about the same states, and expects the same verdicts; with
// -update-states it writes testdata.
package gitops
