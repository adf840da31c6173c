// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/controllers/united/revision"
)

// parsed has the revisions of a parent that the last List returned. Revisions hardly ever change, and each pass reads all of
// them.
type parsed map[types.UID]*revision.Revision

func parsedOf(revisions []*revision.Revision) parsed {
	kept := make(parsed, len(revisions))
	for _, r := range revisions {
		kept[r.Object.UID] = r.Anew()
	}
	return kept
}

// parse parses a genuine revision, or returns the cached result for the same object.
func parse(known parsed, cr *appsv1.ControllerRevision, parent string) (*revision.Revision, error) {
	if r := known[cr.UID]; r != nil && cr.UID != "" && r.Object.ResourceVersion == cr.ResourceVersion {
		return r.Anew(), nil
	}
	if !revision.Genuine(cr, parent) {
		return nil, fmt.Errorf("ControllerRevision %s: somebody has replaced it: its content does not match its name", cr.Name)
	}
	return revision.Parse(cr)
}
