// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// writeStatus replaces the status that was read, and no other: it remembers what
// each subset protects and how far a rollout is, and a controller that stood still
// while another one led would move that back. So the status itself is tested, and
// not the resourceVersion, which anybody changes who patches the spec at that
// moment. It gives the parent as it is then. The error is writer.ErrStale when it is another
// by now, or gone.
func (r *Reconciler) writeStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) (*v1alpha1.UnitedDeployment, error) {
	raw, err := json.Marshal(testAndReplace(parent, status))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	after, err := r.patchStatus(ctx, parent, types.JSONPatchType, raw)
	if !apierrors.IsInvalid(err) {
		return after, err
	}
	// The test failed; or the status is the same to us, and written in another way:
	// by a later version, say, with fields that we do not know.
	live, err := r.readLive(ctx, parent)
	if err != nil {
		return nil, err
	}
	if live.UID != parent.UID || !equality.Semantic.DeepEqual(&live.Status, &parent.Status) {
		return nil, fmt.Errorf("write status: %w", writer.ErrStale)
	}
	if raw, err = statusPatch(live, status); err != nil {
		return nil, err
	}
	return r.patchStatus(ctx, live, types.MergePatchType, raw)
}

// readLive reads the parent past the cache; the error is writer.ErrStale when it is
// gone. It lists, so as to need no right to get.
func (r *Reconciler) readLive(ctx context.Context, parent *v1alpha1.UnitedDeployment) (*v1alpha1.UnitedDeployment, error) {
	list := &v1alpha1.UnitedDeploymentList{}
	if err := r.Live.List(ctx, list, client.InNamespace(parent.Namespace), client.MatchingFields{"metadata.name": parent.Name}); err != nil {
		return nil, fmt.Errorf("read %s: %w", parent.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("read %s: %w", parent.Name, writer.ErrStale)
	}
	return &list.Items[0], nil
}

// patchStatus gives the parent as it is then.
func (r *Reconciler) patchStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, kind types.PatchType, raw []byte) (*v1alpha1.UnitedDeployment, error) {
	after := parent.DeepCopy()
	return after, asStale(r.Client.Status().Patch(ctx, after, client.RawPatch(kind, raw), client.FieldOwner(v1alpha1.FieldManager)))
}

func asStale(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		err = writer.ErrStale
	}
	return fmt.Errorf("write status: %w", err)
}

// operation is one of RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func testAndReplace(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) []operation {
	same := operation{"test", "/status", &parent.Status}
	if parent.Status.ObservedGeneration <= 0 {
		// The API server's default: it has nothing but that, and to Go also counts of 0.
		same = operation{"test", "/status/observedGeneration", parent.Status.ObservedGeneration}
	}
	return []operation{{"test", "/metadata/uid", parent.UID}, same, {"add", "/status", status}}
}

// statusPatch is a merge patch that leaves alone what we do not know, fenced by the
// resourceVersion.
func statusPatch(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) ([]byte, error) {
	type body struct {
		Metadata map[string]any                   `json:"metadata,omitempty"`
		Status   *v1alpha1.UnitedDeploymentStatus `json:"status"`
	}
	before, err := json.Marshal(body{Status: &parent.Status})
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	fence := map[string]any{"uid": parent.UID, "resourceVersion": parent.ResourceVersion}
	after, err := json.Marshal(body{Metadata: fence, Status: status})
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if parent.Status.ObservedGeneration <= 0 {
		return after, nil // compared with zero values, counts of 0 would be left out
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return patch, nil
}
