// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/runs"
)

// run is what is kept of a Job or an AnalysisRun.
type run struct {
	runs.Outcome
	uid, owner types.UID
	deleted    bool
	// gone: it does not exist any more, but its result does.
	gone bool
	// unexplained: its pods have not been asked yet why it failed, and explanation is what they said.
	unexplained bool
	explanation string
}

// reduceRun returns what is kept of a Job or an AnalysisRun; nil for all other kinds.
func reduceRun(u *unstructured.Unstructured) *run {
	kind := u.GroupVersionKind()
	if kind != runs.JobKind && kind != runs.AnalysisKind {
		return nil
	}
	r := &run{Outcome: runs.Read(u), uid: u.GetUID(), deleted: u.GetDeletionTimestamp() != nil}
	if owner := metav1.GetControllerOfNoCopy(u); owner != nil {
		r.owner = owner.UID
	}
	r.unexplained = kind == runs.JobKind && r.State == runs.Failed
	return r
}

// judgeRun returns the result of a check whose run this is; nil if it does not exist.
func (o *object) judgeRun(name string, ask *known.CheckAsk) known.CheckResult {
	if o == nil || o.run.gone && o.run.owner != ask.Owner {
		return known.CheckResult{Seen: true, Absent: true, Message: name + " does not exist yet"}
	}
	switch r := o.run; {
	case r.owner != ask.Owner:
		return known.CheckResult{Seen: true, Refused: true, Message: name + " is in the way: it is not controlled by this UnitedDeployment; delete it, or rename the check"}
	case r.State == runs.Succeeded:
		return known.CheckResult{Seen: true, Met: true}
	case r.State == runs.Failed && r.unexplained:
		return known.CheckResult{} // in a moment
	case r.State == runs.Failed:
		return known.CheckResult{Seen: true, Failed: true, Message: runs.Cut(r.Message + r.explanation)}
	case r.State == runs.Undecided:
		return known.CheckResult{Seen: true, Unjudged: true, Message: r.Message}
	case r.deleted:
		return known.CheckResult{Seen: true, Running: true, Message: name + " is being deleted"}
	default:
		return known.CheckResult{Seen: true, Running: true, Message: r.Message}
	}
}

// ofRun returns the result of a check whose run cannot be read. Whatever the reason, the version is not to blame.
func (p *problem) ofRun(kind schema.GroupVersionKind) known.CheckResult {
	message := p.message
	if p.refused {
		message = runs.NotPermitted(kind)
	}
	return known.CheckResult{Seen: true, Refused: p.certain, Unjudged: !p.certain, Message: message}
}

// set replaces an object, and reports whether that may change a result. What the pods of a Job said is kept. r.mu is held.
func (r *Runner) set(w *watch, name string, is *object) bool {
	was, read := w.objects[name]
	if is != nil && is.run != nil && is.run.unexplained {
		if was != nil && was.run != nil && was.run.uid == is.run.uid && was.run.State == runs.Failed {
			is.run.unexplained, is.run.explanation = was.run.unexplained, was.run.explanation
		} else {
			r.queue.Add(w.source)
		}
	}
	if read && reflect.DeepEqual(was, is) {
		return false
	}
	w.objects[name] = is
	return true
}

// explain asks the pods of Jobs that have failed why, once. A failed Job is failed also if they do not say it.
func (r *Runner) explain(ctx context.Context, w *watch) {
	for {
		r.mu.Lock()
		names := slices.Sorted(maps.Keys(w.objects))
		i := slices.IndexFunc(names, func(name string) bool { o := w.objects[name]; return o != nil && o.run != nil && o.run.unexplained })
		var uid types.UID
		if i >= 0 {
			uid = w.objects[names[i]].run.uid
		}
		r.mu.Unlock()
		if i < 0 {
			return
		}
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		said := r.lastWords(reading, w.namespace, uid)
		cancel()
		r.mu.Lock()
		parents := slices.Collect(maps.Keys(w.named[names[i]]))
		if o := w.objects[names[i]]; o != nil && o.run != nil && o.run.uid == uid {
			explained := *o.run
			explained.unexplained, explained.explanation = false, said
			w.objects[names[i]] = &object{behind: o.behind, conditions: o.conditions, run: &explained}
		}
		r.mu.Unlock()
		r.tell(parents)
	}
}

// lastWords returns what the pod of a Job that failed last said when it ended; "" if that is not known.
func (r *Runner) lastWords(ctx context.Context, namespace string, job types.UID) string {
	said, last := "", time.Time{}
	// Pods may be large, and the pages are decoded as a whole.
	page := metav1.ListOptions{LabelSelector: "batch.kubernetes.io/controller-uid=" + string(job), Limit: 2}
	for range 10 {
		list, err := r.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).List(ctx, page)
		if err != nil {
			return said
		}
		for i := range list.Items {
			pod := &corev1.Pod{}
			if k8sruntime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, pod) != nil {
				continue
			}
			if words, at := wordsOf(pod); words != "" && !at.Before(last) {
				said, last = words, at
			}
		}
		if page.Continue = list.GetContinue(); page.Continue == "" {
			break
		}
	}
	return said
}

// wordsOf returns what the container of a pod said that ended last with an error, and when; "" if none did.
func wordsOf(pod *corev1.Pod) (said string, last time.Time) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended := c.State.Terminated
		if ended == nil {
			ended = c.LastTerminationState.Terminated
		}
		if ended == nil || ended.ExitCode == 0 || ended.FinishedAt.Time.Before(last) {
			continue
		}
		last = ended.FinishedAt.Time
		said = fmt.Sprintf(", container %s of %s ended with exit code %d", c.Name, pod.Name, ended.ExitCode)
		if message := strings.TrimSpace(ended.Message); message != "" {
			said += ": " + message
		}
	}
	return said, last
}
