// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

// CheckResult is what was last seen of a check of a rollout. The zero value says that nothing was seen yet: then nothing is
// released, and the result on record remains.
type CheckResult struct {
	// Seen: there is a result. Met: it is as the check asks for; otherwise Message says why it is not.
	Seen, Met bool
	Message   string
	// Refused: United may not read what the check is about. That does not end by itself.
	Refused bool
}
