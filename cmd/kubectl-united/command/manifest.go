// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fields "sigs.k8s.io/json"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/cmd/kubectl-united/lint"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
)

// parents reads the UnitedDeployments in files.
func (o *options) parents(files []string) ([]*unstructured.Unstructured, error) {
	builder := resource.NewLocalBuilder().Unstructured().Local().ContinueOnError()
	if slices.Contains(files, "-") {
		builder = builder.Stream(o.In, "the standard input")
		files = slices.DeleteFunc(slices.Clone(files), func(name string) bool { return name == "-" })
	}
	infos, err := builder.FilenameParam(false, &resource.FilenameOptions{Filenames: files}).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	peers := false
	for _, info := range infos {
		if u, ok := info.Object.(*unstructured.Unstructured); ok && u.GroupVersionKind() == v1alpha1.GroupVersion.WithKind(v1alpha1.Kind) {
			all = append(all, u)
		} else if ok && u.GetKind() == v1alpha1.Kind && strings.HasPrefix(u.GetAPIVersion(), "apps.kruise.io/") {
			peers = true
		}
	}
	switch {
	case len(all) == 0 && peers:
		return nil, fmt.Errorf("there is no UnitedDeployment of apps.united.dev in these files, but one of OpenKruise: write apiVersion %s, and kubectl united lint says what else to change", v1alpha1.GroupVersion)
	case len(all) == 0:
		return nil, fmt.Errorf("there is no UnitedDeployment of %s in these files", v1alpha1.GroupVersion)
	}
	return all, nil
}

// planObject plans what kubectl apply of an object would do.
func (o *options) planObject(ctx context.Context, object *unstructured.Unstructured, offline bool) (*foresee.Plan, error) {
	if object.GetNamespace() == "" {
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		object.SetNamespace(namespace)
	}
	refused, warnings, err := linted(object, offline)
	if err != nil {
		return nil, err
	}
	after, err := typed(object)
	if err != nil && len(refused) == 0 {
		refused = append(refused, err.Error())
	}
	if len(refused) > 0 && (offline || err != nil) { // otherwise, the API server knows its own version best
		return &foresee.Plan{
			Namespace: object.GetNamespace(), Name: object.GetName(), Refused: refused, Subsets: []foresee.Subset{}, Waves: []foresee.Wave{},
		}, nil
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintln(o.ErrOut, "Warning:", w) // as kubectl does
	}
	if offline {
		return drive.Offline(after)
	}
	api, err := o.client()
	if err != nil {
		return nil, err
	}
	c := &drive.Proposal{After: after}
	c.Before, err = look.One(ctx, api, after.Namespace, after.Name)
	switch {
	case apierrors.IsNotFound(err) && !drive.Unserved(err):
		c.Before = nil
		answer := after.DeepCopy()
		err = c.Tried(api.Create(ctx, answer, client.DryRunAll, client.FieldValidation("Strict")), answer)
	case err != nil:
		return nil, drive.Explained(err)
	default:
		err = o.tryApply(ctx, c, object)
	}
	if err != nil {
		return nil, err
	}
	return o.user().Foreseen(ctx, c)
}

// linted returns what lint finds in an object: what is refused, and what is surely not meant, unless the API server says that too.
func linted(object *unstructured.Unstructured, offline bool) (refused, warnings []string, err error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range lint.Object(raw) {
		text := strings.TrimPrefix(p.Field+": "+p.Message, ": ")
		switch {
		case !p.Advice:
			refused = append(refused, text)
		case offline || !p.Warned:
			warnings = append(warnings, text)
		}
	}
	return refused, warnings, nil
}

// typed decodes a UnitedDeployment. A field that there is not is an error.
func typed(object *unstructured.Unstructured) (*v1alpha1.UnitedDeployment, error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	parent := &v1alpha1.UnitedDeployment{}
	unknown, err := fields.UnmarshalStrict(raw, parent)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", object.GetName(), err)
	}
	return parent, nil
}

// tryApply tries what kubectl apply would do with an object that exists: from client or server side, as the last time.
func (o *options) tryApply(ctx context.Context, c *drive.Proposal, object *unstructured.Unstructured) error {
	last := c.Before.Annotations[corev1.LastAppliedConfigAnnotation]
	for _, m := range c.Before.ManagedFields {
		if last == "" && m.Operation == "Apply" && m.Subresource == "" {
			return o.tryServerSide(ctx, c, object, m.Manager)
		}
	}
	object = object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "status")
	modified, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	live := c.Before.DeepCopy()
	live.APIVersion, live.Kind = object.GetAPIVersion(), object.GetKind()
	delete(live.Annotations, corev1.LastAppliedConfigAnnotation)
	current, err := json.Marshal(live)
	if err != nil {
		return err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(last), modified, current)
	if err != nil {
		return err
	}
	merged, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return err
	}
	c.After = &v1alpha1.UnitedDeployment{}
	if err := json.Unmarshal(merged, c.After); err != nil {
		return err
	}
	return o.user().TryPatch(ctx, c, client.RawPatch(types.MergePatchType, patch))
}

// tryServerSide tries kubectl apply --server-side, by the manager that did it before.
func (o *options) tryServerSide(ctx context.Context, c *drive.Proposal, object *unstructured.Unstructured, manager string) error {
	u := object.DeepCopy()
	err := o.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.DryRunAll, client.FieldOwner(manager))
	answer := &v1alpha1.UnitedDeployment{}
	if err == nil {
		raw, err := u.MarshalJSON()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, answer); err != nil {
			return err
		}
	} else {
		c.After.Status, c.After.UID = c.Before.Status, c.Before.UID // what was not merged is missing
	}
	return c.Tried(err, answer)
}
