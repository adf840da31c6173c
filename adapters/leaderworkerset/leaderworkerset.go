// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderworkerset makes LeaderWorkerSets (leaderworkerset.x-k8s.io/v1) the children of a UnitedDeployment. A
// replica is a group: a leader pod and its workers.
//
// Facts about the controller of version 0.9.0, from its source and from tests on Kubernetes 1.37.1:
//
//   - It keeps the leaders as a StatefulSet with the name of the child, whose pods have the ordinals of the groups, and the
//     workers of each group as a StatefulSet with the name of the leader, which the leader pod owns. The partition of the
//     first is never below rollingUpdateConfiguration.partition, so groups below that stay. The controller lowers it by
//     maxUnavailable, which counts every group that is not ready, including protected ones; with 100%, it follows the child's
//     at once.
//   - It remembers the previous revision in that StatefulSet's status.currentRevision. A leader below the partition that is
//     deleted comes back on that revision, and so do its workers: the leader's label names a ControllerRevision of the
//     LeaderWorkerSet, which has both templates. Those are truncated only when the partition is 0 and all groups are updated
//     and ready.
//   - So it forgets as a StatefulSet does: scaled to 0 and back in the middle of a canary, all groups are on the new
//     revision, and it must be seeded. But it forgets when the *leaders* are updated and ready, whether workers are ready or
//     not (adapters.Traits.Hasty).
//   - An orphaning deletion leaves its StatefulSet, which keeps its pods and the previous revision. The next LeaderWorkerSet
//     with the name takes that over by a forced apply, regardless of its creator.
//   - Replicas that are added in the same write as they are released come up on the previous revision, and are replaced
//     afterwards: replicas reach the StatefulSet before the partition does.
//   - A revision is leaderWorkerTemplate and networkConfig. If a group comes back on an earlier revision, the templates are
//     those of that revision, but size and everything else that is not a template is that of the current LeaderWorkerSet.
//   - The annotations for exclusive placement are in no revision, but reach leaders.
//   - maxSurge creates groups as soon as there is a new revision, even if everything is held, and keeps them while the
//     partition is above 0. United rejects it.
//   - With the default restartPolicy, a group in which a container restarts is replaced, leader first, again each time: a
//     crash loop is visible only for moments.
//   - Its status has no current or update revision, and no number of available replicas. Neither that StatefulSet nor its
//     ControllerRevisions carry our labels, but the templates in them do (adapters.Delegating).
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

// maxNameLength leaves room for a label of the workers with the value "<name>-<group>-<hash of ten>", which may have 63
// characters, for groups below 1000.
const maxNameLength = 48

// New returns the adapter for LeaderWorkerSets.
func New() adapters.Delegating { return adapter{} }

type adapter struct{}

var (
	_ adapters.Adopting = adapter{}
	_ adapters.Grouping = adapter{}
)

// GroupVersionKind returns leaderworkerset.x-k8s.io/v1 LeaderWorkerSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return lwsv1.GroupVersion.WithKind("LeaderWorkerSet")
}

// Delegate returns the kind of the leaders' StatefulSet.
func (adapter) Delegate() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
}

// Related returns the kinds StatefulSet, of leaders and workers, and ControllerRevision, of the LeaderWorkerSets.
func (a adapter) Related() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{a.Delegate(), appsv1.SchemeGroupVersion.WithKind("ControllerRevision")}
}

// RelatedLabel returns the label that their controller sets.
func (adapter) RelatedLabel() string { return lwsv1.SetNameLabelKey }

// ReplicaLabels returns the labels of leaders.
func (adapter) ReplicaLabels() map[string]string {
	return map[string]string{lwsv1.WorkerIndexLabelKey: "0"}
}

// TemplateField returns spec.template.leaderWorkerSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "leaderWorkerSetTemplate", t.LeaderWorkerSetTemplate
}

// MaxNameLength returns 48.
func (adapter) MaxNameLength() int { return maxNameLength }

// FieldPaths returns the paths of replicas, partition and strategy.
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

// Traits returns those of a StatefulSet with maxUnavailable that depends only on the leaders to decide whether it has
// finished.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered, Hasty: true, Paced: true}
}

// RevisionPaths returns the paths of what the controller of the kind stores in a revision.
func (adapter) RevisionPaths() [][]string {
	return [][]string{{"spec", "leaderWorkerTemplate"}, {"spec", "networkConfig"}}
}

// PlacementAnnotations returns those for exclusive placement.
func (adapter) PlacementAnnotations() []string {
	return []string{lwsv1.ExclusiveKeyAnnotationKey, lwsv1.SubGroupExclusiveKeyAnnotationKey}
}

// PodTemplates returns the paths of the templates of leaders, which may be absent, and of workers.
func (adapter) PodTemplates() [][]string {
	return [][]string{{"spec", "leaderWorkerTemplate", "leaderTemplate"}, {"spec", "leaderWorkerTemplate", "workerTemplate"}}
}

// PatchSchema returns that of the Go type. render.Merge handles fields that the type does not have.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(lwsv1.LeaderWorkerSet{})
}

// SetControllerFields sets replicas, the partition, maxUnavailable if c has a pace, and minReadySeconds, which is an
// annotation, because the kind has no such field. Errors are *field.Error relative to the workload.
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

// ensureRolling makes the strategy a rolling update, and returns its configuration.
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
