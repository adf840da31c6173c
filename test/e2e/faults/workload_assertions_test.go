// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
)

// rawJSON is JSON that is not decoded.
type rawJSON = json.RawMessage
