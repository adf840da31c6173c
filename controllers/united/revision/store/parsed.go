// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Parsed caches the parsed revisions of each parent. Revisions hardly ever change, and each pass
// reads all of them. A nil *Parsed caches nothing.
type Parsed struct {
	perparent.Memory[map[types.UID]*revision.Revision]
}

// of returns the revisions that the last List returned for the parent.
func (p *Parsed) of(parent types.NamespacedName) map[types.UID]*revision.Revision {
	if p == nil {
		return nil
	}
	return p.Get(parent, "")
}

func (p *Parsed) keep(parent types.NamespacedName, revisions []*revision.Revision) {
	if p == nil {
		return
	}
	kept := make(map[types.UID]*revision.Revision, len(revisions))
	for _, r := range revisions {
		kept[r.Object.UID] = r.Anew()
	}
	p.Set(parent, "", kept)
}

// parse parses a genuine revision, or returns the cached result for the same object.
func parse(known map[types.UID]*revision.Revision, cr *appsv1.ControllerRevision, parent string) (*revision.Revision, error) {
	if r := known[cr.UID]; r != nil && cr.UID != "" && r.Object.ResourceVersion == cr.ResourceVersion {
		return r.Anew(), nil
	}
	if !revision.Genuine(cr, parent) {
		return nil, fmt.Errorf("ControllerRevision %s: somebody has replaced it: its content does not match its name", cr.Name)
	}
	return revision.Parse(cr)
}
