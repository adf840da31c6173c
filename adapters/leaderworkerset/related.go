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

// contentAnnotation replaces the content of a reduced ControllerRevision. No object in the API server has it.
const contentAnnotation = "united.dev/content"

// Reduce keeps of a StatefulSet what is read of it, and of a ControllerRevision only a hash. They get the labels of the
// pod template in them, by which their subset is found.
//
// Trap: an informer passes reduced objects to Reduce again.
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
			return // it has been reduced already
		}
		spec := nested(u.Object, "data", "spec")
		pods = nested(spec, "leaderWorkerTemplate", "workerTemplate")
		u.SetAnnotations(nil)
		if spec["leaderWorkerTemplate"] != nil { // the ControllerRevisions of StatefulSets have the label too
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

// reminders returns the entries that show when United last wrote a status.
func reminders(managed []metav1.ManagedFieldsEntry) (ours []metav1.ManagedFieldsEntry) {
	for _, entry := range managed {
		if entry.Manager == v1alpha1.FieldManager && entry.Subresource == "status" {
			entry.FieldsV1 = nil
			ours = append(ours, entry)
		}
	}
	return ours
}

// nested returns a nested JSON object; nil if it does not exist.
func nested(object map[string]any, path ...string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

func labelsIn(pods map[string]any) map[string]any { return nested(pods, "metadata", "labels") }

// contentOf returns a hash of what the controller of the kind stores in a revision, from a spec as the API server has it
// or as that controller has stored it. Both are converted to the types first, because the controller writes zero values
// in another form.
func contentOf(spec map[string]any) string {
	var typed struct {
		NetworkConfig        *lwsv1.NetworkConfig       `json:"networkConfig,omitempty"`
		LeaderWorkerTemplate lwsv1.LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
	}
	parts := map[string]any{"networkConfig": spec["networkConfig"], "leaderWorkerTemplate": spec["leaderWorkerTemplate"]}
	content := any(&typed)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(parts, &typed); err != nil {
		content = withoutDirectives(parts) // not valid as our types: hash it as it is
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

// withoutDirectives returns parts without the patch directives that the controller of the kind adds.
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

// family are the objects from which the groups of a LeaderWorkerSet are created.
type family struct {
	// leaders is the StatefulSet of the leaders; nil if it does not exist.
	leaders *appsv1.StatefulSet
	// workers are the StatefulSets of workers, by the UID of the leader.
	workers map[types.UID]*appsv1.StatefulSet
	// contents are the contents of revisions, by the key with which pods refer to them.
	contents map[string]string
	// latest is the revision with the highest number.
	latest struct {
		number       int64
		key, content string
	}
}

// familyOf selects the related objects of the child by their owners.
func familyOf(child *lwsv1.LeaderWorkerSet, related []*unstructured.Unstructured) (*family, error) {
	f := &family{workers: map[types.UID]*appsv1.StatefulSet{}, contents: map[string]string{}}
	for _, object := range related {
		owner := metav1.GetControllerOfNoCopy(object)
		if object.GetNamespace() != child.Namespace {
			continue
		}
		switch {
		case object.GetKind() == "ControllerRevision":
			// The controller of the kind also uses orphaned ones.
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
