// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foresee says what would happen to a UnitedDeployment, before it happens. It lets the manager's own planner decide, carries
// out in memory what that decides, and plays the controllers of the children, the kubelets and the clock in between. It is pure.
package foresee

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Plan is what would happen until nothing moves by itself any more.
type Plan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	// New: there is no such UnitedDeployment yet.
	New bool `json:"new,omitempty"`
	// Current is the revision that all replicas ran last, and Update the one that is asked for; "" if it is not known.
	Current string `json:"current,omitempty"`
	Update  string `json:"update,omitempty"`
	// Refused is what would be refused, in the words of who refuses it. Then nothing else can be relied on.
	Refused []string `json:"refused,omitempty"`
	// Unfinished is what was not checked, and why.
	Unfinished []string `json:"unchecked,omitempty"`
	// Assumed is what the plan takes for granted.
	Assumed []string `json:"assumed,omitempty"`

	// Subsets are in the order of the spec, followed by those that the spec no longer has.
	Subsets []Subset `json:"subsets"`
	// Waves are in the order in which they happen. The replicas of a wave are down or coming up at the same time.
	Waves []Wave `json:"waves"`
	// End is the state in which it ends, or waits for somebody.
	End End `json:"end"`

	// Writes are the children that would be written, for a dry run.
	Writes []Write `json:"-"`
}

// Subset is what would happen to one subset.
type Subset struct {
	Name     string `json:"name"`
	Workload string `json:"workload"`
	// Gone: the spec no longer has it.
	Gone bool `json:"gone,omitempty"`
	// Now and Then are the numbers of replicas asked for before and after. Updated is how many run the update revision then, and
	// Partition how many are protected from it.
	Now       int32 `json:"now"`
	Then      int32 `json:"then"`
	Updated   int32 `json:"updated"`
	Partition int32 `json:"partition"`
	// Restarts, Created and Removed are the replicas that are replaced, that are new, and that are not replaced.
	Restarts []Restart `json:"restarts,omitempty"`
	Created  *Replicas `json:"created,omitempty"`
	Removed  *Replicas `json:"removed,omitempty"`
	// Phase and Message are those of its status in the end: what holds it, or what it waits for.
	Phase   string `json:"phase"`
	Message string `json:"message,omitempty"`
}

// Replicas are replicas of one subset. Names are in the order in which it happens to them; there are none if nobody knows which
// replicas it will be.
type Replicas struct {
	Count int32    `json:"count"`
	Names []string `json:"names,omitempty"`
}

// Restart is why replicas are replaced.
type Restart struct {
	Replicas
	// From and To are revisions; From is "" if it is not known.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Why are the fields of the pod templates that differ; none if both are the same.
	Why []string `json:"why,omitempty"`
}

// Wave is what happens at the same time.
type Wave struct {
	Changes []Change `json:"changes,omitempty"`
	// Pause is how long nothing happens, and Why says why. Such a wave has no changes.
	Pause string `json:"pause,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Change is what happens to replicas of one subset.
type Change struct {
	Subset string `json:"subset"`
	// Action is one of: restart, create, remove.
	Action string `json:"action"`
	Replicas
}

// Actions of a Change.
const (
	Restarted = "restart"
	Created   = "create"
	Removed   = "remove"
)

// End is a state that does not change by itself.
type End struct {
	// State is one of: complete, held, paused, awaiting-approval, waiting, unfinished.
	State string `json:"state"`
	// Reason and Message are those of the condition Ready.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// States of an End.
const (
	Complete         = "complete"
	Held             = "held"
	Paused           = "paused"
	AwaitingApproval = "awaiting-approval"
	Waiting          = "waiting"
	Unfinished       = "unfinished"
)

// Write is one child that would be written.
type Write struct {
	Subset string
	// Creates: it does not exist yet.
	Creates bool
	Object  *unstructured.Unstructured
}

// Options are what is known of the cluster.
type Options struct {
	// CountsUnavailable: the controller of StatefulSets has maxUnavailable, as from Kubernetes 1.37 on.
	CountsUnavailable bool
	// Unchanged are the subsets in which the update revision makes the pods that the child's template makes now, though it is
	// written in another way, such as "1024Mi" for "1Gi".
	Unchanged map[string]bool
	// Refused are the subsets of which the API server refuses the child, and why.
	Refused map[string]string
}

// Of returns what would happen. in is the world as it is now, with the parent as it would be.
func Of(in *planner.Input, opts Options) (*Plan, error) {
	checked := *in
	checked.Checks = planner.RecordedChecks(in.Parent)
	in = &checked
	f := newFuture(in, opts)
	p := &Plan{
		Namespace: in.Parent.Namespace, Name: in.Parent.Name, Kind: in.Spec.Adapter.GroupVersionKind().Kind,
		Current: in.Parent.Status.CurrentRevision, Update: in.Asked().Name, Subsets: []Subset{}, Waves: []Wave{},
	}
	p.Assumed = append(f.assumed(), assumedOfChecks(in)...)
	if in.Rejected != nil {
		p.Assumed = append(p.Assumed, known.Short(in.Rejected.Name)+" is rejected, so replicas go back to "+known.Short(in.Update.Name)+" until somebody retries it")
	}
	finished, err := f.play()
	if err != nil {
		return nil, err
	}
	if f.hurried != "" {
		p.Assumed = append(p.Assumed, f.hurried)
	}
	if len(f.early) > 0 {
		p.Assumed = append(p.Assumed, "these new replicas start on the update revision, and not on the earlier one first: "+strings.Join(f.early, ", "))
	}
	if len(f.waves) > 0 {
		p.Assumed = append(p.Assumed, "every new replica becomes ready")
	}
	p.Waves, p.Refused, p.Writes = append(p.Waves, f.waves...), f.refused, f.writes
	p.Subsets = append(p.Subsets, f.subsets(in)...)
	p.End = f.end(finished)
	return p, nil
}

// assumed names the replicas of which the plan takes for granted that they become ready, or that they do not.
func (f *future) assumed() (texts []string) {
	var starting, stuck []string
	for _, name := range f.names() {
		for _, r := range f.children[name].pods {
			switch {
			case r.Ready || r.Terminating:
			case f.stuck[r.UID]:
				stuck = append(stuck, r.Describe())
			default:
				starting = append(starting, r.Describe())
			}
		}
	}
	if len(starting) > 0 {
		texts = append(texts, "these replicas become ready: "+strings.Join(starting, ", "))
	}
	if len(stuck) > 0 {
		texts = append(texts, "these replicas stay as they are unless they are replaced: "+strings.Join(stuck, ", "))
	}
	return texts
}

// assumedOfChecks says what the plan takes for granted of the checks, if they matter.
func assumedOfChecks(in *planner.Input) (texts []string) {
	if p := planner.Make(in); p.Rollout == nil || !p.Rollout.Unfinished {
		return nil
	}
	var met []string
	for _, c := range in.Parent.Spec.UpdateStrategy.RollingUpdate.Checks {
		if r := in.Checks[c.Name]; r.Seen && !r.Met {
			texts = append(texts, fmt.Sprintf("check %s holds the rollout, as it does now: %s", c.Name, r.Message))
		} else {
			met = append(met, c.Name)
		}
	}
	if len(met) > 0 {
		texts = append(texts, "these checks are met: "+strings.Join(met, ", "))
	}
	return texts
}

// subsets sums up what happened to each subset.
func (f *future) subsets(before *planner.Input) []Subset {
	var all []Subset
	for _, was := range f.world.Parent.Status.Subsets {
		if f.world.Spec.Has(was.Name) {
			all = append(all, f.subset(before, was.Name, &was))
		}
	}
	for _, name := range f.known {
		if !f.world.Spec.Has(name) {
			all = append(all, f.subset(before, name, world.SubsetStatus(&f.world.Parent.Status, name)))
		}
	}
	return all
}

func (f *future) subset(before *planner.Input, name string, was *v1alpha1.SubsetStatus) Subset {
	s := Subset{Name: name, Workload: adapters.ChildName(f.world.Parent.Name, name), Gone: !f.world.Spec.Has(name), Restarts: f.restarts[name]}
	if o := before.Observed(name); o != nil {
		s.Now = o.Replicas
	}
	if c := f.children[name]; c != nil {
		s.Then = c.observed.Replicas
	}
	if was != nil {
		s.Updated, s.Partition = was.UpdatedReplicas, min(was.Partition, s.Then)
		s.Phase, s.Message = string(was.Phase), timeless(was.Message)
	}
	s.Created, s.Removed = f.total(name, Created), f.total(name, Removed)
	return s
}

// total returns all replicas of a subset to which something happens; nil if it happens to none.
func (f *future) total(name, action string) *Replicas {
	var all *Replicas
	for _, w := range f.waves {
		for _, c := range w.Changes {
			if c.Subset != name || c.Action != action {
				continue
			}
			all = cmp.Or(all, &Replicas{})
			all.Count += c.Count
			all.Names = append(all.Names, c.Names...)
		}
	}
	return all
}

// end returns the last state.
func (f *future) end(finished bool) End {
	status := &f.world.Parent.Status
	e := End{State: Waiting}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		e.Reason, e.Message = ready.Reason, timeless(ready.Message)
		held := slices.ContainsFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Phase == v1alpha1.PhaseHeld })
		switch {
		case !finished:
			e.State = Unfinished
		case f.world.Parent.Spec.Paused:
			e.State = Paused
		case status.Rollout != nil && status.Rollout.Phase == v1alpha1.RolloutAwaitingApproval:
			e.State = AwaitingApproval
		case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionComplete):
			e.State = Complete
		case ready.Status == "True" && held, ready.Reason == v1alpha1.ReasonRolloutHeld:
			e.State = Held
		case ready.Status == "True":
			e.State = Complete // without replicas the condition Complete is False
		}
	}
	return e
}

// timeless is a message without what follows from when it is said: an approval is for one rollout, and a pause ends at a time.
func timeless(message string) string {
	for _, from := range []string{"; to continue, run: ", "; continues at "} {
		message, _, _ = strings.Cut(message, from)
	}
	return message
}
