// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/json"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/unreadable"
)

// Transport wraps the transport of the manager's rest.Config, so that an object that cannot be decoded does not prevent
// others from being read. The reconciler recognizes the stand-in for such an object.
func Transport() transport.WrapperFunc {
	return unreadable.Wrap(map[string]unreadable.Check{"uniteddeployments": decodes})
}

// decodes returns the error with which a UnitedDeployment cannot be decoded, or nil.
func decodes(raw []byte) error {
	return json.UnmarshalCaseSensitivePreserveInts(raw, &v1alpha1.UnitedDeployment{})
}

// unreadableParent returns why a parent cannot be read, "" if it can. The CRD requires a selector, and a stand-in has
// none, so the annotation alone proves nothing.
func unreadableParent(parent *v1alpha1.UnitedDeployment) string {
	if parent.Spec.Selector != nil {
		return ""
	}
	return parent.Annotations[unreadable.Annotation]
}

// reportUnreadable reports a parent that cannot be read, and leaves everything as it is: the last known spec may not be
// the current one.
func (r *Reconciler) reportUnreadable(ctx context.Context, parent *v1alpha1.UnitedDeployment, why string) (ctrl.Result, error) {
	failure := &subset.Failure{Reason: v1alpha1.ReasonUnreadable, Stalled: true,
		Message: "United cannot read the object, and changes nothing until it can: " + why}
	known := memory.Slot[unreadableUID]{Entry: r.entry(parent)}
	first := known.Get() != unreadableUID(parent.UID)
	known.Set(unreadableUID(parent.UID))
	r.Metrics.Unreadable(parent)
	if first {
		log.FromContext(ctx).Error(errors.New(why), "cannot decode UnitedDeployment; leaving it unchanged")
	}
	if parent.Status.ObservedGeneration != 0 {
		return r.publishBlocked(ctx, parent, failure) // this includes an event
	}
	// The status is the part that cannot be read, because the CRD gives it a default that is not empty. It must not be
	// replaced: it has the protected revisions.
	if first {
		r.Recorder.Eventf(parent, nil, corev1.EventTypeWarning, failure.Reason, "Read", "%s", report.Note(failure.Message))
	}
	return ctrl.Result{}, nil
}

// reportReadable ends the report for a parent that can be read again, or is gone.
func (r *Reconciler) reportReadable(ctx context.Context, key types.NamespacedName) {
	if known := (memory.Slot[unreadableUID]{Entry: r.memory.Of(key)}); known.Get() != "" {
		known.Set("")
		log.FromContext(ctx).Info("UnitedDeployment can be decoded again, or no longer exists")
		r.Metrics.Readable(key)
	}
}

// unreadableUID is what is remembered of a parent that was reported as unreadable: its UID.
type unreadableUID types.UID
