// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

// Wide is a StatefulSet of any number of replicas: the same controller, for who does not
// hash sets by the million. All of its pods and revisions are its own.
type Wide struct {
	Template            Version
	Replicas, Partition int
	// Current and Update are the two revisions of the status.
	Current, Update Version
	// Pods are the pods by ordinal, those that are not there included.
	Pods []Pod
}

// Sync is one pass of the StatefulSet controller. It gives the ordinals that it created
// and deleted.
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
