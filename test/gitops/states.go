// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

// State is a state of a UnitedDeployment, and the verdicts on it.
type State struct {
	// Name is the name of the file in testdata, without extension.
	Name string
	// Reason is that of the condition Ready; "" if there is none.
	Reason string
	// Argo is the health in Argo CD, KStatus the status without and Flux with the expressions of
	// config/flux.
	Argo, KStatus, Flux string
}

// States lists all states of docs/gitops.md, and those without a reason of their own.
func States() []State {
	const (
		healthy, suspended, progressing, degraded = "Healthy", "Suspended", "Progressing", "Degraded"
		current, inProgress, failed, terminating  = "Current", "InProgress", "Failed", "Terminating"
	)
	return []State{
		{"new", "", progressing, inProgress, inProgress},
		{"not-observed", "RolloutComplete", progressing, inProgress, inProgress},
		{"complete", "RolloutComplete", healthy, current, current},
		{"being-deleted", "RolloutComplete", progressing, terminating, inProgress},
		{"rolling-out", "RollingOut", progressing, inProgress, inProgress},
		{"step-paused", "StepPaused", progressing, inProgress, inProgress},
		{"awaiting-approval", "AwaitingApproval", suspended, current, inProgress},
		{"rollout-held", "RolloutHeld", suspended, current, inProgress},
		{"held-by-hand", "RolloutHeld", suspended, current, inProgress},
		{"paused", "Paused", suspended, current, inProgress},
		{"replica-failed", "ReplicaFailed", degraded, failed, failed},
		{"check-failed", "CheckFailed", degraded, failed, failed},
		{"revision-rejected", "RevisionRejected", degraded, failed, failed},
		{"blocked", "Blocked", progressing, inProgress, inProgress},
		{"blocked-by-crash", "Blocked", degraded, failed, failed},
		{"reconciling", "Reconciling", progressing, inProgress, inProgress},
		{"scaling", "Scaling", progressing, inProgress, inProgress},
		{"replicas-unavailable", "ReplicasUnavailable", progressing, inProgress, inProgress},
		{"replicas-not-honored", "ReplicasNotHonored", healthy, current, current},
		{"held-and-not-honored", "ReplicasNotHonored", suspended, current, inProgress},
		{"apply-refused", "ApplyRefused", degraded, failed, failed},
		{"apply-failed", "ApplyFailed", degraded, failed, failed},
		{"progress-deadline-exceeded", "ProgressDeadlineExceeded", degraded, failed, failed},
	}
}
