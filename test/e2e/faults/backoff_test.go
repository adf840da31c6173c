// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

func TestLastSyncError(t *testing.T) {
	t.Parallel()
	const log = `E1124 16:49:04.442913 3911 stateful_set.go:509] "Error syncing StatefulSet, requeuing" err="read version: 404 is not as new as written version: 414 for group resource statefulsets.apps" logger="UnhandledError" key="ns/web-zone-a"
E1124 16:49:05.493816 3911 stateful_set.go:509] "Error syncing StatefulSet, requeuing" err="resource name may not be empty" logger="UnhandledError" key="ns/web-zone-b"
I1124 16:49:06.493816 3911 stateful_set.go:600] "StatefulSet has been deleted" key="ns/web-zone-a"
`
	g := NewWithT(t)
	g.Expect(LastSyncError([]byte(log), "ns/web-zone-a")).To(And(HavePrefix("E1124 16:49:04"), ContainSubstring("is not as new as written version")))
	g.Expect(LastSyncError([]byte(log), "ns/web-zone-b")).To(And(HavePrefix("E1124 16:49:05"), ContainSubstring("resource name may not be empty")))
	g.Expect(LastSyncError([]byte(log), "ns/web-zone")).To(BeEmpty())
}
