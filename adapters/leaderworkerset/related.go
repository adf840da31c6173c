// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkerset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// contentAnnotation stands, on a ControllerRevision that was reduced, for what it has. It is in no object of the API
// server.
const contentAnnotation = "united.dev/content"

// Reduce keeps of a StatefulSet what is read of it, and of a ControllerRevision a hash. They get the labels that the pod
// templates in them have: by those the subset is found that they are of.
//
// Trap: an informer hands what it has reduced in again.
func (adapter) Reduce(u *unstructured.Unstructured) {
	pods := u.Object
	switch u.GetKind() {
	case "StatefulSet":
		pods = nested(u.Object, "spec", "template")
		template := map[string]any{"metadata": map[string]any{"labels": labelsIn(pods)}}
		spec := map[string]any{"template": template}
		for _, key := range []string{"replicas", "updateStrategy"} {
			if v := nested(u.Object, "spec")[key]; v != nil {
				spec[key] = v
			}
		}
		u.Object["spec"] = spec
		u.SetManagedFields(reminders(u.GetManagedFields()))
	case "ControllerRevision":
		if u.Object["data"] == nil {
			return // it has been reduced
		}
		spec := nested(u.Object, "data", "spec")
		pods = nested(spec, "leaderWorkerTemplate", "workerTemplate")
		u.SetAnnotations(nil)
		if spec["leaderWorkerTemplate"] != nil { // those of StatefulSets carry the label too
			u.SetAnnotations(map[string]string{contentAnnotation: contentOf(spec)})
		}
		delete(u.Object, "data")
		u.SetManagedFields(nil)
	}
	labels := maps.Clone(u.GetLabels())
	for _, key := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		if v, ok := labelsIn(pods)[key].(string); ok && labels != nil {
			labels[key] = v
		}
	}
	u.SetLabels(labels)
}

// reminders are what tells when United last wrote a status.
func reminders(managed []metav1.ManagedFieldsEntry) (ours []metav1.ManagedFieldsEntry) {
	for _, entry := range managed {
		if entry.Manager == v1alpha1.FieldManager && entry.Subresource == "status" {
			entry.FieldsV1 = nil
			ours = append(ours, entry)
		}
	}
	return ours
}

// nested is an object in JSON; nil where there is none.
func nested(object map[string]any, path ...string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

func labelsIn(pods map[string]any) map[string]any { return nested(pods, "metadata", "labels") }

// contentOf is a hash of what a LeaderWorkerSet's own controller takes for a revision, of a spec as the API server has it
// or as that controller has written it down. Both are read into the types first: it writes a field with the value zero
// in other words.
func contentOf(spec map[string]any) string {
	var typed struct {
		NetworkConfig        *lwsv1.NetworkConfig       `json:"networkConfig,omitempty"`
		LeaderWorkerTemplate lwsv1.LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
	}
	parts := map[string]any{"networkConfig": spec["networkConfig"], "leaderWorkerTemplate": spec["leaderWorkerTemplate"]}
	content := any(&typed)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(parts, &typed); err != nil {
		content = withoutDirectives(parts) // of other types than ours: as it is written, then
	} else if typed.NetworkConfig == nil || typed.NetworkConfig.SubdomainPolicy == nil {
		typed.NetworkConfig = &lwsv1.NetworkConfig{SubdomainPolicy: ptr.To(lwsv1.SubdomainShared)}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// withoutDirectives are parts less the patch directives that their controller adds.
func withoutDirectives(parts map[string]any) map[string]any {
	clean := map[string]any{}
	for key, part := range parts {
		object, ok := part.(map[string]any)
		if !ok {
			continue
		}
		object = maps.Clone(object)
		delete(object, "$patch")
		clean[key] = object
	}
	return clean
}

// family are the objects that a LeaderWorkerSet has others make its groups with.
type family struct {
	// leaders is the StatefulSet of the leaders, nil where there is none.
	leaders *appsv1.StatefulSet
	// workers are the StatefulSets of workers, by the UID of the leader.
	workers map[types.UID]*appsv1.StatefulSet
	// contents are what the revisions hold, by the key by which pods name one.
	contents map[string]string
	// latest is that with the highest number.
	latest struct {
		number       int64
		key, content string
	}
}

// familyOf tells by owners what of the related objects is of the child.
func familyOf(child *lwsv1.LeaderWorkerSet, related []*unstructured.Unstructured) (*family, error) {
	f := &family{workers: map[types.UID]*appsv1.StatefulSet{}, contents: map[string]string{}}
	for _, object := range related {
		owner := metav1.GetControllerOfNoCopy(object)
		if object.GetNamespace() != child.Namespace {
			continue
		}
		switch {
		case object.GetKind() == "ControllerRevision":
			// One that was orphaned counts for its controller as well.
			if content := object.GetAnnotations()[contentAnnotation]; content != "" && (owner == nil || owner.UID == child.UID) {
				key := object.GetLabels()[lwsv1.RevisionKey]
				f.contents[key] = content
				if number, _ := object.Object["revision"].(int64); number >= f.latest.number {
					f.latest.number, f.latest.key, f.latest.content = number, key, content
				}
			}
		case owner == nil:
		case owner.Kind == "Pod":
			set, err := statefulSet(object)
			if err != nil {
				return nil, err
			}
			f.workers[owner.UID] = set
		case owner.UID == child.UID && object.GetName() == child.Name:
			set, err := statefulSet(object)
			if err != nil {
				return nil, err
			}
			f.leaders = set
		}
	}
	return f, nil
}

func statefulSet(object *unstructured.Unstructured) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	return set, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, set)
}
