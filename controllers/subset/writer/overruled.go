// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// correctOverruled writes a child, all of whose fields are ours, if admission has replaced the value of a field when it
// was written, and reports whether that changed the child. A value that is replaced each time is written less and less
// often, as in update. But that does not block anything else: a child that waits somewhat differently for its replicas
// still works.
//
// The API server refuses to correct a field that is immutable after the creation of a child, such as its selector.
// After that, no further attempt is made.
func (w *Writer) correctOverruled(ctx context.Context, c *adapters.Child, u, current *unstructured.Unstructured, observed *adapters.Observed) (*unstructured.Unstructured, bool, error) {
	at := ownership.Location{Text: adapters.Overruled(w.Adapter, u, current)}
	if fixed, _ := w.comparisons().fixed(current); at.Text == "" || at.Text == fixed {
		w.comparisons().recordComparison(c, current, u, adapters.Altered(w.Adapter, u, current), at.Text)
		w.writeStands(c)
		return current, false, nil
	}
	putOff := (*undone.OverriddenError)(nil)
	switch err := w.delayIfRepeated(c, u, at, current, observed); {
	case errors.As(err, &putOff):
		return current, false, nil // Overridden reports it
	case err != nil:
		return current, false, err
	}
	after, wrote, err := w.replace(ctx, c, u, at, current)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		w.comparisons().recordFixed(current, at.Text, err)
		return current, false, nil
	}
	return after, wrote, err
}
