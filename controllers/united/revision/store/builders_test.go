// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

type (
	object   = map[string]any
	overlays = map[string]revision.Overlay
)

func parent() *v1alpha1.UnitedDeployment {
	return &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}}
}

func ownerOf(p *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(p, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}

// template is a pod part with one image.
func template(image string) object {
	return object{"spec": object{"containers": []any{object{"name": "web", "image": image}}}}
}

func patched(image string) revision.Overlay { return revision.Overlay{Patch: template(image)} }

func content(image string, subsets overlays) revision.Content {
	return revision.Content{Template: template(image), Subsets: subsets}
}

func names(revisions []*revision.Revision) []string {
	list := []string{}
	for _, r := range revisions {
		list = append(list, r.Name)
	}
	return list
}
