// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderworkerset makes LeaderWorkerSets (leaderworkerset.x-k8s.io/v1) the children of a
// UnitedDeployment. A replica is a group: a leader pod and its workers.
//
// What is true of the controller of version 0.9.0, by its source and as tried on Kubernetes 1.37.1:
//
//   - It keeps the leaders as a StatefulSet of the child's name, whose pods have the ordinals of the groups, and the
//     workers of each as a StatefulSet of the leader's name, which the leader pod owns. The partition of the first is
//     never below rollingUpdateConfiguration.partition, so groups below that stay. Above it comes down by
//     maxUnavailable, which counts every group that is not ready, protected ones too; with 100% it is the child's at once.
//   - Its memory is that StatefulSet's status.currentRevision. A leader below the partition that is deleted comes back on
//     that, and its workers on the same: the leader's label names a ControllerRevision of the LeaderWorkerSet, which has
//     both templates. Those are truncated only when the partition is 0 and all groups are updated and ready.
//   - So it forgets as a StatefulSet does: scaled to 0 and back in the middle of a canary all groups are on the new
//     revision, and it is to be seeded. But it forgets when the *leaders* are updated and ready, ready workers or not
//     (adapters.Traits.Hasty).
//   - One that is orphaned leaves its StatefulSet, which keeps its pods and its memory. The next LeaderWorkerSet of the
//     name takes that over by a forced apply, whoever it was made by.
//   - What is added in the same write as it is released comes up on the earlier revision, and is replaced then: replicas
//     reach the StatefulSet before the partition comes down.
//   - A revision is leaderWorkerTemplate and networkConfig. Of a group that is made again on an earlier one the templates
//     are that revision's, but size, and what else is no template, is the LeaderWorkerSet's of now.
//   - The annotations for exclusive placement are in no revision, and reach leaders all the same.
//   - maxSurge makes groups as soon as there is a new revision, with everything held too, and keeps them while the
//     partition is above 0. It is refused.
//   - With the default restartPolicy a group of which a container restarts is made again, leader first, over and over: a
//     crash loop shows for moments only.
//   - Its status has no current or update revision and no count of what is available. Neither that StatefulSet nor its
//     ControllerRevisions carry labels of ours, but the templates in them do (adapters.Delegating).
package leaderworkerset

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxNameLength leaves room for what the workers carry as the value of a label, which may have 63 characters:
// "<name>-<group>-<hash of ten>", of a group below 1000.
const maxNameLength = 48

// New is the adapter for LeaderWorkerSets.
func New() adapters.Delegating { return adapter{} }

type adapter struct{}

var (
	_ adapters.Adopting = adapter{}
	_ adapters.Grouping = adapter{}
)

// GroupVersionKind is leaderworkerset.x-k8s.io/v1 LeaderWorkerSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return lwsv1.GroupVersion.WithKind("LeaderWorkerSet")
}

// Delegate is the StatefulSet of the leaders.
func (adapter) Delegate() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
}

// Related are the StatefulSets of leaders and workers, and the ControllerRevisions of the
// LeaderWorkerSets.
func (a adapter) Related() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{a.Delegate(), appsv1.SchemeGroupVersion.WithKind("ControllerRevision")}
}

// RelatedLabel is what their controller labels them by.
func (adapter) RelatedLabel() string { return lwsv1.SetNameLabelKey }

// ReplicaLabels are those of leaders.
func (adapter) ReplicaLabels() map[string]string {
	return map[string]string{lwsv1.WorkerIndexLabelKey: "0"}
}

// TemplateField is spec.template.leaderWorkerSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "leaderWorkerSetTemplate", t.LeaderWorkerSetTemplate
}

// MaxNameLength is 48.
func (adapter) MaxNameLength() int { return maxNameLength }

// FieldPaths are where it has its replicas, its partition and its strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{
		Replicas: []string{"spec", "replicas"}, Partition: []string{"spec", strategyField, rollingField, "partition"},
		Strategy: []string{"spec", strategyField, "type"},
	}
}

const (
	strategyField = "rolloutStrategy"
	rollingField  = "rollingUpdateConfiguration"
)

// Traits are those of a StatefulSet with a maxUnavailable, which looks at the leaders alone to
// see whether it has finished.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered, Hasty: true, Paced: true}
}

// RevisionPaths are what its own controller takes for another revision.
func (adapter) RevisionPaths() [][]string {
	return [][]string{{"spec", "leaderWorkerTemplate"}, {"spec", "networkConfig"}}
}

// PodTemplates are those of leaders, which may be absent, and of workers.
func (adapter) PodTemplates() [][]string {
	return [][]string{{"spec", "leaderWorkerTemplate", "leaderTemplate"}, {"spec", "leaderWorkerTemplate", "workerTemplate"}}
}

// PatchSchema is that of the Go type. Fields it does not know are for render.Merge to
// handle.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(lwsv1.LeaderWorkerSet{})
}

// SetControllerFields sets replicas, the partition, where c has a pace how many groups may be unavailable, and, in an
// annotation since it has no field for that, minReadySeconds. Errors are *field.Error from the workload on.
func (adapter) SetControllerFields(workload map[string]any, c *adapters.Child) error {
	spec, err := tree.Ensure(workload, "spec", nil)
	if err != nil {
		return err
	}
	rolling, err := ensureRolling(spec)
	if err != nil {
		return err
	}
	spec["replicas"], rolling["partition"] = int64(c.Replicas), int64(c.Partition)
	if c.Pace != nil {
		rolling["maxUnavailable"] = "100%"
		if c.Pace.MaxUnavailable != math.MaxInt32 {
			rolling["maxUnavailable"] = int64(c.Pace.MaxUnavailable)
		}
	}
	owned.SetDefaults(rolling, map[string]any{"maxUnavailable": int64(1), "maxSurge": int64(0)})
	metadata, err := tree.Ensure(workload, "metadata", nil)
	if err != nil {
		return err
	}
	annotations, err := tree.Ensure(metadata, "annotations", field.NewPath("metadata"))
	if err != nil {
		return err
	}
	owned.SetDefaults(annotations, map[string]any{v1alpha1.AnnotationMinReadySeconds: strconv.FormatInt(int64(c.MinReadySeconds), 10)})
	return nil
}

// ensureRolling makes the strategy a rolling update, and gives what configures that.
func ensureRolling(spec map[string]any) (map[string]any, error) {
	at := field.NewPath("spec")
	strategy, err := tree.Ensure(spec, strategyField, at)
	if err != nil {
		return nil, err
	}
	rolling, err := tree.Ensure(strategy, rollingField, at.Child(strategyField))
	if err != nil {
		return nil, err
	}
	strategy["type"] = owned.RollingUpdate
	return rolling, nil
}
