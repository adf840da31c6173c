// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Bounds of messages, as JSON. The API server can reject a child with hundreds of errors, and nobody reads more than this. Of a hundred
// subsets that is a third of a megabyte; the API server stores objects of 1.5 MB, and takes requests of 3 MB, of which one for the
// status has the old one, too.
const (
	// maxMessage bounds the message of a condition.
	maxMessage = 4096
	// maxSubsetMessage bounds each message of a subset, of the rollout, and of its checks.
	maxSubsetMessage = 1024
)

// Bounded returns a status with all texts as they may be written. They may quote anybody: the API server, a webhook, the scheduler, a
// controller, the condition of any object, a container. So nothing of any length, and nothing that a terminal would obey or hide,
// gets into a status. The status itself does not change.
func Bounded(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	changes := false
	texts(status, func(text *string, most int) { changes = changes || plain(*text, most) != *text })
	if !changes {
		return status
	}
	status = status.DeepCopy()
	texts(status, func(text *string, most int) { *text = plain(*text, most) })
	return status
}

// texts calls a function for each text of a status that is for people, with its bound.
func texts(status *v1alpha1.UnitedDeploymentStatus, do func(text *string, most int)) {
	do(&status.Summary, maxSubsetMessage)
	for i := range status.Conditions {
		do(&status.Conditions[i].Message, maxMessage)
	}
	for i := range status.Subsets {
		s := &status.Subsets[i]
		do(&s.Message, maxSubsetMessage)
		if s.Cap != nil {
			do(&s.Cap.Message, maxSubsetMessage)
		}
		for j := range s.Conditions {
			do(&s.Conditions[j].Message, maxSubsetMessage)
		}
	}
	if status.Rollout != nil {
		do(&status.Rollout.Message, maxSubsetMessage)
		for i := range status.Rollout.Checks {
			do(&status.Rollout.Checks[i].Message, maxSubsetMessage)
		}
	}
}

// plain returns a text on one line, without characters that are not seen, and of at most so many bytes as JSON.
func plain(text string, most int) string {
	const ellipsis = "..."
	longer := len(text) > 4*most
	if longer {
		text = text[:4*most] // the rest would take time, and be cut anyway
	}
	if longer || strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }) {
		text = strings.TrimSpace(strings.Map(seen, text))
	}
	size, room := 0, len(text)
	for i, r := range text {
		if size += jsonSize(r); size <= most-len(ellipsis) {
			room = i + len(string(r))
		}
		if longer = longer || size > most; size > most {
			break
		}
	}
	if longer {
		return text[:min(room, len(text))] + ellipsis
	}
	return text
}

// seen returns a character as a text may have it; -1 if not at all.
func seen(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsGraphic(r):
		return r
	}
	return -1
}

// jsonSize returns how many bytes a character needs in JSON, as the API server stores it.
func jsonSize(r rune) int {
	switch r {
	case '<', '>', '&':
		return len(`\u003c`)
	case '"', '\\':
		return 2
	}
	return len(string(r))
}
