// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Written is the partition that applies to a subset, as the user has written it. Everybody who shows, explains or computes a
// partition begins with this.
type Written struct {
	// Value is the value that applies. Where nothing is written it is "100%" under Manual, and "0%" under RollingUpdate.
	Value intstr.IntOrString
	// Field is where it is written: "partitions[zone-a]", "defaultPartition", or "partition" of rollingUpdate; "" if nowhere.
	Field string
	// Named: the subset has an entry of its own under Manual.
	Named bool
	// Bound says that the partitions are for another revision, and hold everything from the update revision; otherwise "".
	Bound string
}

// Applies returns the partition that applies to a subset. update is the name of the update revision; "" as long as nothing needs
// protection.
func Applies(s *v1alpha1.UpdateStrategy, subset, update string) Written {
	if s.Type != v1alpha1.RollingUpdateStrategy {
		return manualApplies(s.ManualUpdate, subset, update)
	}
	if s.RollingUpdate == nil || s.RollingUpdate.Partition == nil {
		return Written{Value: intstr.FromString("0%")}
	}
	return Written{Value: *s.RollingUpdate.Partition, Field: "partition"}
}

func manualApplies(m *v1alpha1.ManualUpdate, subset, update string) Written {
	w := Written{Value: intstr.FromString("100%"), Bound: Bound(m, update)}
	if m == nil {
		return w
	}
	if value, named := m.Partitions[subset]; named {
		w.Value, w.Field, w.Named = value, fmt.Sprintf("partitions[%s]", subset), true
	} else if m.DefaultPartition != nil {
		w.Value, w.Field = *m.DefaultPartition, "defaultPartition"
	}
	return w
}

// Bound says that partitions are for another revision than the update revision, and hold everything from that; "" if they
// are not.
func Bound(m *v1alpha1.ManualUpdate, update string) string {
	if m == nil || m.Revision == "" || update == "" || m.Revision == update {
		return ""
	}
	if known.IsShort(m.Revision, update) {
		return fmt.Sprintf("partitions are for %s, which is only the beginning of a name, so all is held: set manualUpdate.revision to %s", m.Revision, update)
	}
	return fmt.Sprintf("partitions are for %s, so %s is held", known.Short(m.Revision), known.Short(update))
}
