// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// Plugin runs the plugin in the namespace.
func (e *Env) Plugin(args ...string) cluster.Said {
	e.T.Helper()
	said, err := e.Cluster.Plugin(e.Ctx, e.Namespace, e.T.TempDir(), args...)
	e.Expect(err).NotTo(HaveOccurred())
	return said
}

// Does runs the plugin, and expects that it succeeds.
func (e *Env) Does(args ...string) string {
	e.T.Helper()
	said := e.Plugin(args...)
	e.Expect(said.Code).To(BeZero(), "%v: %s%s", args, said.Out, said.Err)
	return said.Out
}

// Refuses runs the plugin, and expects that it fails with these words.
func (e *Env) Refuses(words string, args ...string) {
	e.T.Helper()
	said := e.Plugin(args...)
	e.Expect(said.Code).NotTo(BeZero(), "%v: %s", args, said.Out)
	e.Expect(said.Err).To(And(HavePrefix("error: "), ContainSubstring(words)), "%v", args)
}
