// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known_test

import (
	"strings"
	"testing"

	"github.com/unitedworkloads/united/controllers/united/known"
)

func TestShort(t *testing.T) {
	digest := known.Digest([]byte("a"))
	if len(digest) != known.DigestLength || digest != known.Digest([]byte("a")) || digest == known.Digest([]byte("b")) {
		t.Error(digest)
	}
	for name, want := range map[string]string{
		"web-" + digest: "web-" + digest[:10], "web-5c698fdz74": "web-5c698fdz74", "v2": "v2", "": "", "a-b": "a-b",
		"a-" + strings.Repeat("x", 27): "a-" + strings.Repeat("x", 27),
	} {
		if got := known.Short(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
