// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs has the tests of the documents: links must lead somewhere, examples must be valid,
// what the documents name must exist, and the documents must name all that they have to name. The
// command in api/ writes docs/api.md.
package docs
