// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
)

// correctOverruled writes a child of which everything is ours, when admission has given a field of it another value as it was
// written, and reports whether that changed it. What is overruled each time is written less and less often, as in update. But
// it keeps nothing else from being done, since a child that waits a little longer for its replicas is one all the same.
//
// What is fixed when a child is created, such as its selector, the API server refuses to correct. Then that is not
// tried again.
func (w *Writer) correctOverruled(ctx context.Context, c *adapters.Child, u, current *unstructured.Unstructured, observed *adapters.Observed) (*unstructured.Unstructured, bool, error) {
	at := fieldLocation{text: adapters.Overruled(w.Adapter, u, current)}
	if fixed, _ := w.Comparisons.fixed(parentOf(c), current); at.text == "" || at.text == fixed {
		w.Comparisons.recordComparison(c, current, u, adapters.Altered(w.Adapter, u, current), at.text)
		w.writeStands(c)
		return current, false, nil
	}
	putOff := (*OverriddenError)(nil)
	switch err := w.delayIfRepeated(c, u, at, current, observed); {
	case errors.As(err, &putOff):
		return current, false, nil // Overridden says so
	case err != nil:
		return current, false, err
	}
	after, wrote, err := w.replace(ctx, c, u, at, current)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		w.Comparisons.recordFixed(c, current, at.text, err)
		return current, false, nil
	}
	return after, wrote, err
}
