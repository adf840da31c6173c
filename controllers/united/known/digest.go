// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// DigestLength is the length of what Digest returns.
const DigestLength = 26

// digits are the 32 of Douglas Crockford's base32 in lower case, without letters that look like a digit.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// Digest returns 130 bits of the SHA-256 of a text, as letters and digits that a name may have. Whoever writes the text cannot find
// another one with the same digest; with 40 bits, that took three seconds.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return base32.NewEncoding(digits).EncodeToString(sum[:])[:DigestLength]
}

// shownLetters is how much people see of a digest.
const shownLetters = 10

// IsShort reports whether a text is only what people see of the name of a revision.
func IsShort(text, name string) bool { return text != name && text == Short(name) }

// Short returns the name of a revision as people see it: whole, it fills half a line. It only reads: what acts takes the whole name.
func Short(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 && len(name)-i-1 == DigestLength {
		return name[:i+1+shownLetters]
	}
	return name
}
