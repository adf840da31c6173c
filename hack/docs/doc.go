// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the tests of the documents: links lead somewhere, examples
// are valid, what the documents name exists, and what they have to name is
// there. In api/ is how docs/api.md is written.
package docs
