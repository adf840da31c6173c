// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/install"
)

// helmRefuses runs helm, which must fail, and returns the error.
func helmRefuses(e *Env, args ...string) string {
	e.T.Helper()
	_, err := install.Helm(e.Ctx, Shared.Cluster, args...)
	e.Expect(err).To(HaveOccurred())
	return err.Error()
}

func kubectl(e *Env, args ...string) string {
	e.T.Helper()
	out, err := Shared.Cluster.Kubectl(e.Ctx, args...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}
