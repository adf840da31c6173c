// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

// apiClient is the client of the controller: it reads the objects of from, and writes to the server; its writes are in
// its cache at once.
type apiClient struct {
	client.Client
	api  *API
	from func() *Objects
	// cached: it reads from the cache, where sets are packed.
	cached bool
}

// set returns a set as the client reads it.
func (c apiClient) set(u *unstructured.Unstructured) *unstructured.Unstructured {
	if !c.cached || u == nil {
		return u
	}
	kept := c.api.packed[u.GetName()]
	if kept.of != u {
		kept.of, kept.is = u, u.DeepCopy()
		if err := errors.Join(ownership.Compact(kept.is), adapters.Pack(kept.is)); err != nil {
			panic(err)
		}
		c.api.packed[u.GetName()] = kept
	}
	return kept.is
}

// Client returns the client of the controller.
func (a *API) Client() client.Client {
	return apiClient{api: a, from: func() *Objects { return &a.Cached }, cached: true}
}

// Reader returns a reader that bypasses the cache.
func (a *API) Reader() client.Reader {
	return apiClient{api: a, from: func() *Objects { return &a.Live }}
}

// Get reads one object.
func (c apiClient) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	from := c.from()
	options := &client.GetOptions{}
	options.ApplyOptions(opts)
	shared := ptr.Deref(options.UnsafeDisableDeepCopy, false)
	switch into := into.(type) {
	case *v1alpha1.UnitedDeployment:
		parent := from.Parents[key.Name]
		if parent == nil {
			return notFound(key)
		}
		parent.DeepCopyInto(into)
	case *unstructured.Unstructured:
		u := c.set(from.Sets[key.Name])
		if u == nil {
			return notFound(key)
		}
		if into.Object = u.Object; !shared {
			into.Object = u.DeepCopy().Object
		}
	case *metav1.PartialObjectMetadata:
		u := from.Sets[key.Name]
		if u == nil {
			return notFound(key)
		}
		into.Name, into.Namespace, into.UID, into.ResourceVersion = u.GetName(), u.GetNamespace(), u.GetUID(), u.GetResourceVersion()
		into.Labels, into.OwnerReferences, into.Generation = u.GetLabels(), u.GetOwnerReferences(), u.GetGeneration()
	case *appsv1.ControllerRevision:
		cr := from.Revisions[key.Name]
		if cr == nil {
			return notFound(key)
		}
		if *into = *cr; !shared {
			cr.DeepCopyInto(into)
		}
	default:
		return fmt.Errorf("unexpected read of %T", into)
	}
	return nil
}

// selects reports whether a list includes an object: by labels, or by the fields that the controller uses in lists.
func selects(options *client.ListOptions, o metav1.Object) bool {
	if s := options.LabelSelector; s != nil && !s.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if s := options.FieldSelector; s != nil {
		if name, ok := s.RequiresExactMatch("metadata.name"); ok && name != o.GetName() {
			return false
		}
		if parent, ok := s.RequiresExactMatch(v1alpha1.LabelName); ok && parent != o.GetLabels()[v1alpha1.LabelName] {
			return false
		}
	}
	return true
}

// selected returns the objects that a list includes, sorted by name.
func selected[T metav1.Object](options *client.ListOptions, from map[string]T) []T {
	var list []T
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if selects(options, from[name]) {
			list = append(list, from[name])
		}
	}
	return list
}

// List lists the objects of a kind.
func (c apiClient) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	from := c.from()
	options := &client.ListOptions{}
	options.ApplyOptions(opts)
	switch into := into.(type) {
	case *v1alpha1.UnitedDeploymentList:
		for _, parent := range selected(options, from.Parents) {
			into.Items = append(into.Items, *parent.DeepCopy())
		}
	case *appsv1.ControllerRevisionList:
		for _, cr := range selected(options, from.Revisions) {
			if !ptr.Deref(options.UnsafeDisableDeepCopy, false) {
				cr = cr.DeepCopy()
			}
			into.Items = append(into.Items, *cr)
		}
	case *corev1.PodList:
		pods := selected(options, from.Pods)
		into.Items = slices.Grow(into.Items, len(pods))
		for _, pod := range pods {
			into.Items = append(into.Items, *pod)
		}
	case *unstructured.UnstructuredList:
		for _, u := range selected(options, from.Sets) {
			u = c.set(u)
			if options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy {
				u = u.DeepCopy()
			}
			into.Items = append(into.Items, *u)
		}
	case *metav1.PartialObjectMetadataList:
		for _, revisions := range c.api.own {
			for hash, r := range revisions {
				// They carry the labels of the set's pods.
				meta := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: hash, Labels: r.template.Labels}}
				if r.owner != "" {
					meta.OwnerReferences = controlledBy(r.owner)
				}
				if selects(options, &meta) {
					into.Items = append(into.Items, meta)
				}
			}
		}
	default:
		return fmt.Errorf("unexpected list of %T", into)
	}
	return nil
}

// Create creates a ControllerRevision.
func (c apiClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	cr, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return fmt.Errorf("unexpected create of %T", o)
	}
	if c.api.Live.Revisions[cr.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, cr.Name)
	}
	if err := c.api.Unkept; err != nil {
		return err
	}
	if err := c.api.wrote(cr, "create revision %s", cr.Name); err != nil {
		return err
	}
	cr.UID, cr.ResourceVersion = types.UID(c.api.Next()), c.api.Next()
	c.api.Live.Revisions[cr.Name] = cr.DeepCopy()
	if err := c.api.answered(); err != nil {
		return err
	}
	c.api.Cached.Revisions[cr.Name] = cr.DeepCopy()
	return nil
}

// Patch merges a patch into a ControllerRevision or a child.
func (c apiClient) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return c.patchSet(u, p)
	}
	if meta, ok := o.(*metav1.PartialObjectMetadata); ok {
		return c.relabelSet(meta, p)
	}
	cr, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return fmt.Errorf("unexpected patch of %T", o)
	}
	live := c.api.Live.Revisions[cr.Name]
	if live == nil {
		return notFound(client.ObjectKeyFromObject(cr))
	}
	merged := &appsv1.ControllerRevision{}
	if err := merge(live, p, "", merged); err != nil {
		return err
	}
	if merged.UID != live.UID {
		return conflict(cr.Name, "uid")
	}
	if err := c.api.Unpatched; err != nil {
		return err
	}
	if err := c.api.wrote(live, "patch revision %s", cr.Name); err != nil {
		return err
	}
	merged.ResourceVersion = c.api.Next()
	c.api.Live.Revisions[cr.Name] = merged
	if err := c.api.answered(); err != nil {
		return err
	}
	c.api.Cached.Revisions[cr.Name] = merged
	merged.DeepCopyInto(cr)
	return nil
}

// patchSet merges a patch of replicas into a child, which takes the ownership from the applied configuration.
func (c apiClient) patchSet(u *unstructured.Unstructured, p client.Patch) error {
	live := c.api.Live.Sets[u.GetName()]
	if live == nil {
		return notFound(client.ObjectKeyFromObject(u))
	}
	merged := &unstructured.Unstructured{} // has int64 integers, as required
	if err := merge(live, p, "", merged); err != nil {
		return err
	}
	if merged.GetUID() != live.GetUID() || merged.GetResourceVersion() != live.GetResourceVersion() {
		return conflict(u.GetName(), "resourceVersion")
	}
	if err := disown(merged, "spec", "replicas"); err != nil {
		return err
	}
	if err := c.api.wrote(live, "patch %s: replicas %d", u.GetName(), replicasIn(merged)); err != nil {
		return err
	}
	merged.SetGeneration(live.GetGeneration() + 1)
	c.api.oracle.applies(live, merged)
	c.api.PutSet(merged)
	if err := c.api.answered(); err != nil {
		return err
	}
	c.api.Cached.Sets[u.GetName()] = merged
	u.Object = merged.DeepCopy().Object
	return nil
}

// relabelSet merges a patch of labels into a child.
func (c apiClient) relabelSet(meta *metav1.PartialObjectMetadata, p client.Patch) error {
	live := c.api.Live.Sets[meta.Name]
	if live == nil {
		return notFound(client.ObjectKeyFromObject(meta))
	}
	if meta.ResourceVersion != live.GetResourceVersion() {
		return conflict(meta.Name, "resourceVersion")
	}
	raw, err := p.Data(meta)
	if err != nil {
		return err
	}
	merged := &unstructured.Unstructured{}
	if err := merge(live, client.RawPatch(p.Type(), raw), "", merged); err != nil {
		return err
	}
	if err := c.api.wrote(merged, "label %s", meta.Name); err != nil { // its current labels show to which parent it belongs
		return err
	}
	c.api.PutSet(merged)
	return c.api.answered()
}

// Delete deletes a revision or a child at once, and starts to delete a pod.
func (c apiClient) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	asked := client.DeleteOptions{}
	asked.ApplyOptions(opts)
	if asked.Preconditions == nil || asked.Preconditions.UID == nil {
		return fmt.Errorf("the deletion of %s is not fenced", o.GetName())
	}
	var live client.Object
	switch o.(type) {
	case *corev1.Pod:
		if p := c.api.Live.Pods[o.GetName()]; p != nil {
			live = p
		}
	case *appsv1.ControllerRevision:
		if r := c.api.Live.Revisions[o.GetName()]; r != nil {
			live = r
		}
	case *unstructured.Unstructured:
		if u := c.api.Live.Sets[o.GetName()]; u != nil {
			live = u
		}
	}
	if live == nil {
		return notFound(client.ObjectKeyFromObject(o))
	}
	if live.GetUID() != *asked.Preconditions.UID {
		return conflict(o.GetName(), "uid")
	}
	if rv := asked.Preconditions.ResourceVersion; rv != nil && *rv != live.GetResourceVersion() {
		return conflict(o.GetName(), "resourceVersion")
	}
	if err := c.api.wrote(live, "delete %T %s", o, o.GetName()); err != nil {
		return err
	}
	switch live := live.(type) {
	case *corev1.Pod:
		c.api.oracle.controllerDeletes(live)
		c.api.DeletePod(live)
		if err := c.api.answered(); err != nil {
			return err
		}
		c.api.Cached.Pods[live.Name] = c.api.Live.Pods[live.Name]
	case *appsv1.ControllerRevision:
		delete(c.api.Live.Revisions, live.Name)
		if err := c.api.answered(); err != nil {
			return err
		}
		delete(c.api.Cached.Revisions, live.Name)
	case *unstructured.Unstructured:
		c.api.oracle.deletesSet(live)
		delete(c.api.Live.Sets, live.GetName())
		c.api.Last++
		if err := c.api.answered(); err != nil {
			return err
		}
		delete(c.api.Cached.Sets, live.GetName())
	}
	return nil
}

// Apply creates or updates a child.
func (c apiClient) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	applied := &unstructured.Unstructured{Object: o.(runtime.Unstructured).UnstructuredContent()}
	name := applied.GetName()
	live := c.api.Live.Sets[name]
	switch {
	case applied.GetResourceVersion() == "1" && live != nil:
		return conflict(name, "it exists")
	case applied.GetResourceVersion() == "1":
	case applied.GetResourceVersion() == "" || applied.GetUID() == "":
		return errors.New("the apply is not fenced")
	case live == nil || live.GetUID() != applied.GetUID():
		return conflict(name, "uid")
	case live.GetResourceVersion() != applied.GetResourceVersion():
		return conflict(name, "resourceVersion")
	}
	if err := c.api.Refuse[applied.GetLabels()[v1alpha1.LabelSubset]]; err != nil {
		return err
	}
	if live != nil {
		c.api.oracle.touches(live)
	}
	stored, changed, err := c.api.merged(applied, live)
	if err != nil {
		return err
	}
	annotations := stored.GetAnnotations()
	if err := c.api.wrote(stored, "apply %s: %s protects %s replicas %v partition %v", name,
		annotations[v1alpha1.AnnotationRevision], annotations[v1alpha1.AnnotationProtectedRevision],
		replicasIn(stored), partitionIn(stored)); err != nil {
		return err
	}
	c.api.oracle.applies(live, stored)
	if changed {
		c.api.PutSet(stored)
	}
	if err := c.api.answered(); err != nil {
		return err
	}
	c.api.Cached.Sets[name] = c.api.Live.Sets[name]
	o.(interface{ SetUnstructuredContent(map[string]any) }).SetUnstructuredContent(c.api.Live.Sets[name].DeepCopy().Object)
	return nil
}

// Status returns a client that patches the status of parents and children.
func (c apiClient) Status() client.SubResourceWriter { return apiStatus{api: c.api} }

type apiStatus struct {
	client.SubResourceWriter
	api *API
}

// Patch patches the status of a parent or a child.
func (s apiStatus) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return s.patchSet(u, p)
	}
	live := s.api.Live.Parents[o.GetName()]
	if live == nil {
		return notFound(client.ObjectKeyFromObject(o))
	}
	merged, err := s.merged(live, p)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		s.api.rejectedStatuses++
		return testFailed(err)
	case err != nil:
		return err
	}
	if merged.UID != live.UID {
		return conflict(merged.Name, "uid")
	}
	if merged.ResourceVersion != live.ResourceVersion {
		s.api.rejectedStatuses++
		return conflict(merged.Name, "resourceVersion")
	}
	if err := s.api.wrote(live, "status"); err != nil {
		return err
	}
	s.api.oracle.judgeStatusWrite(&live.Status, &merged.Status)
	updated := live.DeepCopy()
	updated.Status = merged.Status
	s.api.PutParent(updated)
	s.api.oracle.specChanged()
	if err := s.api.answered(); err != nil {
		return err
	}
	s.api.Cached.Parents[updated.Name] = updated
	if parent, ok := o.(*v1alpha1.UnitedDeployment); ok {
		updated.DeepCopyInto(parent) // the response
	}
	return nil
}

// merged returns a parent with the metadata and the status that it has after a patch of its status.
func (s apiStatus) merged(live *v1alpha1.UnitedDeployment, p client.Patch) (*v1alpha1.UnitedDeployment, error) {
	if s.api.Foreign == "" && p.Type() == types.JSONPatchType {
		status, known, err := replacedStatus(live, p)
		if known || err != nil {
			return &v1alpha1.UnitedDeployment{ObjectMeta: live.ObjectMeta, Status: status}, err
		}
	}
	merged := &v1alpha1.UnitedDeployment{}
	return merged, merge(live, p, s.api.Foreign, merged)
}

// testFailed returns the response to a JSON patch with a failed test.
func testFailed(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// patchSet patches the status of a child; its spec and generation do not change.
func (s apiStatus) patchSet(u *unstructured.Unstructured, p client.Patch) error {
	live := s.api.Live.Sets[u.GetName()]
	if live == nil {
		return notFound(client.ObjectKeyFromObject(u))
	}
	merged := &unstructured.Unstructured{}
	switch err := merge(live, p, "", merged); {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return testFailed(err)
	case err != nil:
		return err
	}
	current, _, _ := unstructured.NestedString(merged.Object, "status", "currentRevision")
	if err := s.api.wrote(live, "remind %s of %s", u.GetName(), current); err != nil {
		return err
	}
	updated := live.DeepCopy()
	updated.Object["status"] = merged.Object["status"]
	s.api.PutSet(updated)
	if err := s.api.answered(); err != nil {
		return err
	}
	s.api.Cached.Sets[u.GetName()] = updated
	u.Object = updated.DeepCopy().Object
	return nil
}
