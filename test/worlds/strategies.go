// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

// Strategies as users write them: spec.updateStrategy in JSON. The subsets are a, b and c.
const (
	HoldAll  = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":"100%"}}`
	FreeA    = `{"type":"Manual","manualUpdate":{"partitions":{"a":0},"defaultPartition":"100%"}}`
	OneA     = `{"type":"Manual","manualUpdate":{"partitions":{"a":1},"defaultPartition":"100%"}}`
	TwoA     = `{"type":"Manual","manualUpdate":{"partitions":{"a":2},"defaultPartition":"100%"}}`
	HalfA    = `{"type":"Manual","manualUpdate":{"partitions":{"a":"50%"},"defaultPartition":"100%"}}`
	Open     = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":0}}`
	Roll1    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	Roll2    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}`
	RollEach = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":9,"maxUnavailablePerSubset":1}}`
	RollHeld = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"partition":"100%"}}`
	RollHalf = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"partition":"50%"}}`
	Seq1     = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"order":"Sequential"}}`
	Skew3    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":3,"maxSkew":"10%"}}`
	StepA    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["a"],"partition":0,"pause":{}}]}}`
	StepHalf = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["a"],"partition":"50%","pause":{}}]}}`
	StepB    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["b"],"partition":0,"pause":{}}]}}`
)
