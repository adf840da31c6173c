// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

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
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/observe"
)

// writeStatus replaces the status that was read, and no other: it has the protected revision of each subset and the
// progress of the rollout, and a controller that was suspended while another one led would reset these. So the patch
// tests the status itself, and not the resourceVersion, which changes with every concurrent patch of the spec. It
// returns the updated parent. The error is subset.ErrStale if the status has changed, or the parent is gone.
func (w *Publisher) writeStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) (*v1alpha1.UnitedDeployment, error) {
	raw, err := json.Marshal(testAndReplace(parent, status))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	after, err := w.patchStatus(ctx, parent, types.JSONPatchType, raw)
	if !apierrors.IsInvalid(err) {
		return after, err
	}
	// Either the test failed; or the status is equal for us, but encoded differently: for example by a later version,
	// with fields that we do not know.
	live, err := observe.ReadParent(ctx, w.Live, parent)
	if err != nil {
		return nil, err
	}
	if live.UID != parent.UID || !equality.Semantic.DeepEqual(&live.Status, &parent.Status) {
		return nil, fmt.Errorf("write status: %w", subset.ErrStale)
	}
	if raw, err = statusPatch(live, status); err != nil {
		return nil, err
	}
	return w.patchStatus(ctx, live, types.MergePatchType, raw)
}

// patchStatus patches the status and returns the updated parent.
func (w *Publisher) patchStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, kind types.PatchType, raw []byte) (*v1alpha1.UnitedDeployment, error) {
	after := parent.DeepCopy()
	return after, asStale(w.Client.Status().Patch(ctx, after, client.RawPatch(kind, raw), client.FieldOwner(v1alpha1.FieldManager)))
}

func asStale(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		err = subset.ErrStale
	}
	return fmt.Errorf("write status: %w", err)
}

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func testAndReplace(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) []operation {
	same := operation{"test", "/status", &parent.Status}
	if parent.Status.ObservedGeneration <= 0 {
		// This is the API server's default: the status has only this field, but in Go it also has counts of 0.
		same = operation{"test", "/status/observedGeneration", parent.Status.ObservedGeneration}
	}
	return []operation{{"test", "/metadata/uid", parent.UID}, same, {"add", "/status", status}}
}

// statusPatch returns a merge patch that keeps fields that we do not know. It is fenced by the resourceVersion.
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
		return after, nil // in a comparison with zero values, counts of 0 would be omitted
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return patch, nil
}
