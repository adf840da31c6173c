// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package all has the kinds of child workloads that United knows.
package all

import (
	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/advancedstatefulset"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// Registry returns the adapters of all kinds.
func Registry() adapters.Registry {
	return adapters.Registry{statefulset.New(), deployment.New(), cloneset.New(), advancedstatefulset.New(), leaderworkerset.New()}
}
