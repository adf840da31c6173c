// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"crypto/sha256"
	"encoding/base32"
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
