// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Both say it in their own way: the API server of Kubernetes 1.36 names what can be changed, and that of 1.37 what cannot.
const (
	as136 = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
	as137 = ": Invalid value: field is immutable"
)

func TestFixed(t *testing.T) {
	const live = `{podManagementPolicy: OrderedReady, serviceName: web, replicas: 3, minReadySeconds: 0, revisionHistoryLimit: 10,
 template: {spec: {containers: [{name: web, image: v1}]}}, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 3}},
 volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeMode: Filesystem}, status: {phase: Pending}}]}`
	const claims = `volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: SIZE}}}}]`
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		spec := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		u.Object["spec"] = spec
		return u
	}
	was := object(live)
	was.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:serviceName":{},"f:volumeClaimTemplates":{},"f:replicas":{}}}`),
	}})
	const size = "spec.volumeClaimTemplates[data].spec.resources.requests.storage is 1Gi and cannot become 2Gi"
	for wanted, want := range map[string]string{
		`{serviceName: web, replicas: 5, revisionHistoryLimit: 4, template: {spec: {}}, updateStrategy: {type: RollingUpdate}, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]}`: size,
		`{serviceName: web, podManagementPolicy: Parallel, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`:                                                                     "spec.podManagementPolicy is OrderedReady and cannot become Parallel",
		`{serviceName: web}`: "spec.volumeClaimTemplates is [{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metad... and cannot become (none)",
	} {
		if got := Fixed(all.Registry()[0], object(wanted), was, as136); got != want {
			t.Errorf("%s\n%s", wanted, got)
		}
	}
	both := object(`{serviceName: other, revisionHistoryLimit: 4, ` + claims + `}`)
	if got := Fixed(all.Registry()[0], both, was, "spec.serviceName"+as137); got != "spec.serviceName is web and cannot become other" {
		t.Error(got)
	}
}
