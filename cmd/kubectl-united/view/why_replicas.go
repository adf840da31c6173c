// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Container is a container whose log says why it ended. Previous: that of its last run does.
type Container struct {
	Pod, Name string
	Previous  bool
}

// Questions returns what to ask the API server beside the world: nodes, by name, the logs of containers, and the events of
// children, by name. There are few of each, because the first ones say it.
func Questions(in *planner.Input) (nodes []string, logs []Container, children []string) {
	const most = 5
	for _, name := range slices.Sorted(maps.Keys(in.Children)) {
		o := in.Children[name].Observed
		if lacksSomething := o.Lacks() || slices.ContainsFunc(o.Pods, lacksPods); lacksSomething && o.Refused == "" && len(children) < most {
			children = append(children, o.Meta.Name)
		}
		for i := range o.Pods {
			r := &o.Pods[i]
			if available, _ := r.Available(o.MinReadySeconds, in.Now); available {
				continue
			}
			if r.Node != "" && len(nodes) < most && !slices.Contains(nodes, r.Node) {
				nodes = append(nodes, r.Node)
			}
			pod, c := culprit(in.Pods[name], r)
			if (r.Failure != "" || r.Crashed) && c != nil && (c.RestartCount > 0 || c.State.Terminated != nil) && len(logs) < most {
				logs = append(logs, Container{pod.Name, c.Name, c.State.Terminated == nil})
			}
		}
	}
	return nodes, logs, children
}

func lacksPods(r adapters.Replica) bool { return r.Lacks != "" }

// culprit returns the container that keeps a replica from being ready, with its pod: one that failed or crashed, otherwise one
// that is not ready. nil if there is none. A replica can be a group of pods, whose names begin with its name.
func culprit(pods []*corev1.Pod, r *adapters.Replica) (found *corev1.Pod, container *corev1.ContainerStatus) {
	best := 0
	for _, pod := range pods {
		if pod.Name != r.Name && !strings.HasPrefix(pod.Name, r.Name+"-") {
			continue
		}
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				c, rank := &statuses[i], 0
				switch {
				case c.Ready:
				case c.State.Waiting != nil && c.State.Waiting.Reason == r.Failure && r.Failure != "":
					rank = 3
				case exitCode(c) != 0:
					rank = 2
				case c.State.Running != nil || c.State.Waiting != nil:
					rank = 1
				}
				if rank > best {
					best, found, container = rank, pod, c
				}
			}
		}
	}
	return found, container
}

// ended returns how a container ended last; nil if it did not.
func ended(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
}

func exitCode(c *corev1.ContainerStatus) int32 {
	if t := ended(c); t != nil {
		return t.ExitCode
	}
	return 0
}

// replicas looks at those that are not available. Those of a subset with the same finding are one finding, and so are all that the
// scheduler says the same of.
func (q *inquiry) replicas() {
	if q.in == nil {
		return
	}
	for _, s := range q.plan.Subsets {
		o := s.Observed
		if o == nil {
			continue
		}
		first, more := map[string]*Finding{}, map[string]int{}
		var order []string
		note := func(f Finding) {
			if first[f.Finding] == nil {
				first[f.Finding], order = &f, append(order, f.Finding)
				return
			}
			more[f.Finding]++
		}
		for _, r := range s.States(q.in.Terms()) {
			if !r.Available && !s.IsReserved(r.Replica) {
				note(q.replica(s, r.Replica))
			}
		}
		switch {
		case o.ExpectsMissing():
			note(q.missing(o, o.Missing()))
		case o.Lacks() && (o.Unmade || q.refusal(o) != ""): // otherwise, its controller may get to it yet
			note(q.uncreated(s))
		}
		for _, word := range order {
			f := first[word]
			if n := more[word]; n > 0 {
				f.Subject += fmt.Sprintf(" and %d more of %s", n, s.Name)
			}
			q.explained[s.Name] = true
			if f.Finding == v1alpha1.ReasonUnschedulable && q.saidOfOthers(f) {
				continue
			}
			q.findings = append(q.findings, *f)
			if f.Finding == v1alpha1.ReasonReplicaFailed && !q.coordinates() {
				q.back(&q.findings[len(q.findings)-1], func(after *outlook) bool { return subsetPlan(after.Plan, s.Name).Proven })
			}
		}
	}
}

// saidOfOthers adds a finding to one of another subset that differs at most in the time; false if there is none.
func (q *inquiry) saidOfOthers(f *Finding) bool {
	_, what, _ := strings.Cut(f.Detail, ": ")
	for i := range q.findings {
		other := &q.findings[i]
		if _, said, _ := strings.Cut(other.Detail, ": "); other.Finding == f.Finding && said == what {
			other.Subject += ", " + f.Subject
			other.Detail = min(other.Detail, f.Detail) // since the earlier time
			return true
		}
	}
	return false
}

// replica says why a replica is not available.
func (q *inquiry) replica(s *planner.SubsetPlan, r *adapters.Replica) Finding {
	f := Finding{Kind: Passing, Subject: r.Name, Finding: notReady, Detail: r.WhyUnavailable()}
	pod, c := culprit(q.in.Pods[s.Name], r)
	switch failed, at := q.in.Terms().Failed(r); {
	case r.Terminating:
		f.Finding = terminating
	case r.Unschedulable != "" && r.Failure == "" && !r.Crashed:
		f.Kind, f.Finding = Fault, v1alpha1.ReasonUnschedulable
	case failed:
		f.Kind, f.Finding = Fault, v1alpha1.ReasonReplicaFailed
		if r.Failure == "" && !r.Crashed {
			f.Detail += fmt.Sprintf(", which is longer than progressDeadlineSeconds (%.0f)", q.in.Terms().Deadline.Seconds())
		}
	case r.Gated:
		f.Kind, f.Finding = Fault, v1alpha1.ReasonUngrouped
	case r.Lacks != "" && q.refusal(s.Observed) != "":
		f.quotes(s.Observed, q.refusal(s.Observed))
	case !at.IsZero():
		f.Detail += "; it counts as failed from " + utc(at) + " on"
	}
	if c != nil && !r.Terminating {
		f.Detail += "; " + q.container(pod, c)
	}
	if o := s.Observed; f.Kind == Fault && q.plan.Initialized && !s.Proven && r.Position < s.Decision.Partition && r.Hash != o.UpdateHash {
		f.Detail += "; it is protected from the new revision"
	}
	return f
}

// container says what a container does: why it waits, how it ended, and its last line.
func (q *inquiry) container(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	text := "container " + c.Name
	switch {
	case c.State.Waiting != nil:
		text += strings.TrimSuffix(fmt.Sprintf(" waits (%s): %s", c.State.Waiting.Reason, c.State.Waiting.Message), ": ")
	case c.State.Running != nil:
		text += " runs since " + utc(c.State.Running.StartedAt.Time) + " and is not ready"
	}
	if t := ended(c); t != nil {
		text += fmt.Sprintf(", ended with exit code %d", t.ExitCode)
		if t.Reason != "" && t.Reason != "Error" {
			text += " (" + t.Reason + ")"
		}
		if t.Message != "" {
			text += ": " + strings.TrimSpace(t.Message)
		}
		text += fmt.Sprintf(", %d restarts", c.RestartCount)
	}
	for _, previous := range []bool{true, false} {
		if line := q.Logs[Container{pod.Name, c.Name, previous}]; line != "" {
			return text + "; its last line: " + line
		}
	}
	return text
}

// missing says why a replica does not exist.
func (q *inquiry) missing(o *adapters.Observed, position int32) Finding {
	f := Finding{Kind: Passing, Subject: cmp.Or(o.MissingName, fmt.Sprintf("%s #%d", o.Meta.Name, position)), Finding: missing, Detail: "it does not exist"}
	if o.Holder != "" {
		f.Kind, f.Detail = Fault, f.Detail+"; "+o.Holder
	}
	if said := q.refusal(o); said != "" {
		f.quotes(o, said)
	}
	return f
}

// refusal returns why a child's controller could not create something, as far as anybody says so.
func (q *inquiry) refusal(o *adapters.Observed) string {
	return cmp.Or(o.Refused, q.Warnings[o.Meta.Name])
}

// quotes adds what is said of a child, which makes it a fault.
func (f *Finding) quotes(o *adapters.Observed, said string) {
	f.Kind, f.Detail, f.quoted = Fault, f.Detail+"; "+o.Meta.Name+" says: "+said, true
}

// uncreated says why a child's controller does not get to create replicas.
func (q *inquiry) uncreated(s *planner.SubsetPlan) Finding {
	f := Finding{Kind: Fault, Subject: s.Name, Finding: cannotCreate, Detail: "its controller cannot create replicas"}
	if said := q.refusal(s.Observed); said != "" {
		f.quotes(s.Observed, said)
		return f
	}
	f.Detail = "its controller cannot create what the template asks for; " + world.DescribeCommand(q.in.Spec.Adapter.GroupVersionKind(), s.Observed)
	return f
}

// nodes looks at the nodes of replicas that are not available.
func (q *inquiry) nodes() {
	for _, name := range slices.Sorted(maps.Keys(q.Nodes)) {
		conditions := q.Nodes[name].Status.Conditions
		for i := range conditions {
			if c := &conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				q.add(Fault, "node "+name, nodeNotReady, fmt.Sprintf("it is not ready since %s: %s", utc(c.LastTransitionTime.Time), c.Message))
			}
		}
	}
}
