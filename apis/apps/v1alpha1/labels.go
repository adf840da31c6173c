// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels on every child workload, in its selector and on its pods. The
// controller owns them: a template or a patch that sets them is overruled.
const (
	// LabelName holds the name of the UnitedDeployment. Revisions carry it too.
	LabelName = "united.dev/name"
	// LabelSubset holds the name of the subset.
	LabelSubset = "united.dev/subset"
)

// LabelCheck holds the name of the check that started a Job or an AnalysisRun. These have LabelName, too;
// their pods have neither.
const LabelCheck = "united.dev/check"

// LabelVersion is on every pod of all subsets where spec.versionLabel is TemplateHash. Its value
// tells the version of spec.template. It is reserved: a template or a patch that sets it is refused.
const LabelVersion = "united.dev/version"

// With spec.topology.colocation, on the pods of the members. The labels are reserved: a template or a
// patch that sets them is refused. The annotation is overruled.
const (
	// LabelColocation identifies the colocation: its topology key, exclusive and ratios. Only pods with
	// the same value are in groups together, so that after a change of these, the new pods of a group
	// need not run where its old ones do.
	LabelColocation = "united.dev/colocation"
	// LabelColocationGroup holds the number of the group. The MutatingAdmissionPolicy of the chart
	// sets it when a pod is created.
	LabelColocationGroup = "united.dev/colocation-group"
	// LabelColocationRatio holds how many replicas of the subset are in a group.
	LabelColocationRatio = "united.dev/colocation-ratio"
	// AnnotationColocationStart holds the first ordinal, at which group 0 begins.
	AnnotationColocationStart = "united.dev/colocation-start"
)

// GateColocation is the scheduling gate of the pods of members. The MutatingAdmissionPolicy removes it
// in the same mutation that sets the label of the group, so that no pod is scheduled without the label.
const GateColocation = "united.dev/colocation"

// Annotations on a child workload. They are written together with the template
// they speak of, so that what a child runs is known even when the status of
// its parent is lost.
const (
	// AnnotationRevision names the parent revision that the child's template is.
	AnnotationRevision = "united.dev/revision"
	// AnnotationProtectedRevision names the parent revision that the child's
	// protected ordinals run. A child where it is empty protects nothing yet: its
	// template was replaced before a replica of its parent was ever ready.
	AnnotationProtectedRevision = "united.dev/protected-revision"
	// AnnotationParentGeneration is the metadata.generation of the parent that
	// the child was last written from. A controller that knows only an older
	// generation leaves the child alone.
	AnnotationParentGeneration = "united.dev/parent-generation"
	// AnnotationPartition is the partition as it was last written. What the spec of
	// the child says beside it, somebody else has said.
	AnnotationPartition = "united.dev/partition"
	// AnnotationProtectedHash names the child's own ControllerRevision that its
	// protected ordinals run. A child can forget it, and is reminded of it then.
	AnnotationProtectedHash = "united.dev/protected-hash"
	// AnnotationReleasedFrom is the position below which no replica was ever released
	// to the revision of the child's template, nor is known to have run it before.
	// Such a child cannot have finished that revision. After a slash, where that is
	// another, it has the position below which none was released to what the template
	// was before that.
	AnnotationReleasedFrom = "united.dev/released-from"
	// AnnotationSeeding is "true" on a child that has its protected revision, and as
	// many replicas as are protected, until those exist.
	AnnotationSeeding = "united.dev/seeding"
	// AnnotationAsked is what spec.updateStrategy last asked of the child: with type Manual
	// the value of the partition, the update revision, and the partition and replicas that
	// followed from them. Scaling releases nothing, so the partition depends on that.
	AnnotationAsked = "united.dev/asked"
	// AnnotationRecordChecksum is a checksum over all of the above. A child where it
	// does not match was changed by somebody as it was written, or later.
	AnnotationRecordChecksum = "united.dev/record-checksum"
	// AnnotationPlacement is a hash of the nodeSelector with which the child was made. A child
	// where it differs from that of its subset was made for other nodes: the subset was removed
	// and added again while nobody looked.
	AnnotationPlacement = "united.dev/placement"
	// AnnotationMinReadySeconds is for how many seconds a replica must be ready to count as
	// available, on a child of a kind that has no field for that.
	AnnotationMinReadySeconds = "united.dev/min-ready-seconds"
	// AnnotationFingerprint is a hash of everything that was applied to the
	// child except its replicas and partition.
	AnnotationFingerprint = "united.dev/fingerprint"
)

// AnnotationSubsets on a ControllerRevision records, as a JSON object by subset
// name, subsets that came (their patch and tolerations) or went (null) after
// the revision was taken. The data of a ControllerRevision cannot be changed.
const AnnotationSubsets = "united.dev/subsets"

// AnnotationCurrent on a ControllerRevision of a parent records that it became the current
// revision: "<UID of the parent>/<number>", where the one that became it last has the
// highest number. status.currentRevision is its copy.
const AnnotationCurrent = "united.dev/current"

// AnnotationLeft on a ControllerRevision says that its parent was on the way back from it, and that
// it was not rolled out again since: going to it is no way back. The value has "forced", "promoted"
// and "retried", with commas between them, if the annotations united.dev/force-update,
// united.dev/promote and united.dev/retry named it then, so that they are spent; the first two only
// as long as they still do. Else it is "true". If it begins with "forward", the parent went on from it to another one, and only that
// matters which is spent.
const AnnotationLeft = "united.dev/left"

// AnnotationRejected on a ControllerRevision says that it failed with onFailure Rollback, and how: it
// is not rolled out until the annotation united.dev/retry asks for it.
const AnnotationRejected = "united.dev/rejected"

// Annotations that a user sets on a UnitedDeployment of type RollingUpdate.
const (
	// AnnotationApproved opens the step whose status.rollout.approvalKey it is.
	AnnotationApproved = "united.dev/approved"
	// AnnotationForceUpdate, set to status.updateRevision, or to that with a slash and any text, lets
	// the rollout to that revision go on whatever the health of the replicas and the skew. The
	// floor, the steps and their approvals stay in force. A value that was there before the rollout
	// does not count (status.rollout.spent).
	AnnotationForceUpdate = "united.dev/force-update"

	// AnnotationPromote, set in the same way, passes the steps of the rollout to that revision, with
	// their pauses and approvals. It ignores neither the floor, nor maxUnavailable, nor a failure.
	AnnotationPromote = "united.dev/promote"

	// AnnotationRetry, set to status.updateRevision, or to that with a slash and any text, measures the checks
	// of the rollout to that revision anew, and rolls it out once more if it was rejected. Each value has that
	// effect once.
	AnnotationRetry = "united.dev/retry"
)

// FieldManager is the field owner of everything the controller applies.
const FieldManager = "united"
