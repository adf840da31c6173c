// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

// Wide is a StatefulSet of any number of replicas, with the same controller, for callers that need not hash it. It
// owns all of its pods and revisions.
type Wide struct {
	Template            Version
	Replicas, Partition int
	// Current and Update are the revisions in the status.
	Current, Update Version
	// Pods are the pods by ordinal, including those that do not exist.
	Pods []Pod
}

// Sync runs one sync of the StatefulSet controller, and returns the ordinals that it created and deleted.
func (w *Wide) Sync(kind Kind) (created, deleted []int) {
	for len(w.Pods) < w.Replicas {
		w.Pods = append(w.Pods, Pod{})
	}
	var revisions [MaxVersions + 1]Owner
	revisions[w.Template], revisions[w.Current] = Mine, Mine
	p := sync{
		kind: kind, replicas: w.Replicas, partition: w.Partition, template: w.Template, current: w.Current,
		revisions: &revisions, pods: w.Pods, before: make([]Pod, len(w.Pods)),
	}
	p.pass()
	w.Current, w.Update = p.current, p.update
	for i := range w.Pods {
		if p.created(i) {
			created = append(created, i)
		}
		if p.deleted(i) {
			deleted = append(deleted, i)
		}
	}
	return created, deleted
}
