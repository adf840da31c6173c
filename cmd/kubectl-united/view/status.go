// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view says what one looks at during a rollout, as values: what the command line prints, and under -o json. It is pure.
package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Status is the state of one UnitedDeployment. What the manager says is in Reason and Message; if Observed is false, it says it
// of an earlier generation.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Created   string `json:"created"`
	// Generation is metadata.generation. Observed: the manager has seen it.
	Generation int64 `json:"generation"`
	Observed   bool  `json:"observed"`
	// State is one of: ok, held (a rollout waits for somebody), waiting, failed. Reason and Message are those of the condition that says so.
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Message string `json:"message"`

	Strategy string    `json:"strategy"`
	Paused   bool      `json:"paused"`
	Current  *Revision `json:"current,omitempty"`
	Update   *Revision `json:"update,omitempty"`
	// BoundTo is manualUpdate.revision.
	BoundTo string `json:"boundTo,omitempty"`

	Desired   int32 `json:"desired"`
	Ready     int32 `json:"ready"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`

	Rollout *Rollout `json:"rollout,omitempty"`
	// Steps are those of type RollingUpdate.
	Steps   []Step   `json:"steps,omitempty"`
	Subsets []Subset `json:"subsets"`
	// Unseen says why replicas are not shown one by one; "" if they are.
	Unseen string `json:"unseen,omitempty"`
	// Setback says which fields to set back to what, because going back does not end what stalls; "" if that is not known, or does.
	Setback string `json:"setback,omitempty"`
	// Left is how long the current step pauses; "" if it does not.
	Left string `json:"left,omitempty"`
	// stuck: what stalls is not in the pods, so there is no way back.
	stuck bool
}

// Rollout is a rollout of type RollingUpdate.
type Rollout struct {
	Phase       string `json:"phase"`
	Message     string `json:"message,omitempty"`
	Step        int32  `json:"step"`
	Steps       int    `json:"steps"`
	ApprovalKey string `json:"approvalKey,omitempty"`
	Forced      bool   `json:"forced,omitempty"`
	// Rejected is the update revision while it is rejected: the rollout is the way back from it.
	Rejected string `json:"rejectedRevision,omitempty"`
	// Checks are the last results of its checks.
	Checks []Check `json:"checks,omitempty"`
}

// Check is the last result of a check. State is one of: Met, NotMet, Running, Failed. Message says why it is not met.
type Check struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Since   string `json:"since"`
	Message string `json:"message,omitempty"`
}

// Revision is a version of the pods.
type Revision struct {
	Name   string   `json:"name"`
	Images []string `json:"images,omitempty"`
}

// Subset is one subset.
type Subset struct {
	Name     string `json:"name"`
	Workload string `json:"workload"`
	Phase    string `json:"phase"`
	Message  string `json:"message,omitempty"`

	Desired   int32 `json:"desired"`
	Ready     int32 `json:"ready"`
	Available int32 `json:"available"`
	// Partition is the one in effect, as it was written, and Protected how many replicas that protects.
	Partition string `json:"partition"`
	Protected int32  `json:"protected"`
	// Updated is how many replicas run the update revision, available or not.
	Updated int32 `json:"updated"`
	// Bar counts the replicas; their sum is at least Desired.
	Bar Bar `json:"bar"`
	// Runs are the revisions that its replicas run, the current one of the parent first; none if the replicas could not be read. One
	// that is not known has no name, and the images of the pods.
	Runs []Run `json:"runs,omitempty"`
	// Replicas are the replicas one by one, if they could be read.
	Replicas []Replica `json:"replicas,omitempty"`
}

// Run is a revision, and how many replicas of a subset run it.
type Run struct {
	Revision
	Replicas int32 `json:"replicas"`
}

// Bar counts the replicas of a subset, each once: Updated are on the update revision and available, Updating are released and not
// yet that, Protected are protected and stay, Down are protected and not available, Broken have failed, in any revision, and
// Missing do not exist.
type Bar struct {
	Updated   int32 `json:"updated"`
	Updating  int32 `json:"updating"`
	Protected int32 `json:"protected"`
	Down      int32 `json:"down"`
	Broken    int32 `json:"broken"`
	Missing   int32 `json:"missing"`
}

func (b *Bar) count(state string) *int32 {
	return map[string]*int32{Updated: &b.Updated, Updating: &b.Updating, Protected: &b.Protected, Down: &b.Down, Broken: &b.Broken, Missing: &b.Missing}[state]
}

// Of returns how many replicas are in a state.
func (b *Bar) Of(state string) int32 { return *b.count(state) }

// Replica is one replica.
type Replica struct {
	Name     string `json:"name"`
	Position int32  `json:"position"`
	Revision string `json:"revision,omitempty"`
	// Images are those of its pod, if its revision is not known.
	Images []string `json:"images,omitempty"`
	// State is one of: updated, updating, protected, down, broken, missing. Why says why it is not available; "" if it is.
	State  string   `json:"state"`
	Why    string   `json:"why,omitempty"`
	Node   string   `json:"node,omitempty"`
	Claims []string `json:"claims,omitempty"`
}

// States of a Status.
const (
	OK      = "ok"
	Held    = "held"
	Waiting = "waiting"
	Failed  = "failed"
)

// States of a Replica.
const (
	Updated   = "updated"
	Updating  = "updating"
	Protected = "protected"
	Down      = "down"
	Broken    = "broken"
	Missing   = "missing"
)

// StatusOf returns the status of a parent. in is its world; nil if it could not be read, and then unseen says why.
func StatusOf(parent *v1alpha1.UnitedDeployment, in *planner.Input, unseen string) *Status {
	was, stall := &parent.Status, StallOf(parent, in)
	s := &Status{
		Namespace: parent.Namespace, Name: parent.Name, Kind: kindOf(parent), Created: parent.CreationTimestamp.UTC().Format(time.RFC3339),
		Generation: parent.Generation, Observed: was.ObservedGeneration == parent.Generation, Unseen: unseen,
		Strategy: string(cmp.Or(parent.Spec.UpdateStrategy.Type, v1alpha1.ManualUpdateStrategy)), Paused: parent.Spec.Paused,
		Current: revisionOf(in, was.CurrentRevision), Update: revisionOf(in, was.UpdateRevision),
		Desired: spec.Replicas(parent), Ready: was.ReadyReplicas, Updated: was.UpdatedReplicas, Available: was.AvailableReplicas,
		Rollout: rolloutOf(parent), Steps: StepsOf(parent), stuck: stall.KeepsFrom(parent), Setback: stall.Setback(),
	}
	if m := parent.Spec.UpdateStrategy.ManualUpdate; m != nil {
		s.BoundTo = m.Revision
	}
	s.State, s.Reason, s.Message = Headline(parent)
	facts := map[string]known.Facts{}
	if in != nil {
		facts = planner.Asked(in)
	}
	for i := range s.Steps {
		if ends := s.Steps[i].Ends; in != nil && ends.After(in.Now) {
			s.Left = (ends.Sub(in.Now) + time.Second - 1).Truncate(time.Second).String()
		}
	}
	for i := range was.Subsets {
		s.Subsets = append(s.Subsets, subsetOf(parent, in, facts, &was.Subsets[i]))
	}
	return s
}

// Headline is what one reads first: what is wrong, otherwise what Ready says.
func Headline(parent *v1alpha1.UnitedDeployment) (state, reason, message string) {
	conditions := parent.Status.Conditions
	if parent.Status.ObservedGeneration != parent.Generation {
		return Waiting, "NotObserved", fmt.Sprintf("no manager has seen generation %d yet; what follows is of generation %d", parent.Generation, parent.Status.ObservedGeneration)
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); c != nil && c.Status == "True" {
		return Failed, c.Reason, c.Message
	}
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return Waiting, "NotObserved", "no manager has written a status yet"
	case c.Status == "True" && parent.Status.CurrentRevision != "" && parent.Status.CurrentRevision != parent.Status.UpdateRevision:
		return Held, c.Reason, c.Message
	case c.Status == "True":
		return OK, c.Reason, c.Message
	}
	return Waiting, c.Reason, c.Message
}

// kindOf is the kind of the children, from the member of the template.
func kindOf(parent *v1alpha1.UnitedDeployment) string {
	if adapter, err := all.Registry().For(&parent.Spec.Template); err == nil {
		return adapter.GroupVersionKind().Kind
	}
	return ""
}

func rolloutOf(parent *v1alpha1.UnitedDeployment) *Rollout {
	r := parent.Status.Rollout
	if r == nil {
		return nil
	}
	steps := 0
	if u := parent.Spec.UpdateStrategy.RollingUpdate; u != nil {
		steps = len(u.Steps)
	}
	rollout := &Rollout{Phase: string(r.Phase), Message: r.Message, Step: r.Step, Steps: steps, ApprovalKey: r.ApprovalKey, Forced: r.Forced, Rejected: r.RejectedRevision}
	for _, c := range r.Checks {
		rollout.Checks = append(rollout.Checks, Check{c.Name, string(c.State), c.SinceTime.UTC().Format(time.RFC3339), c.Message})
	}
	return rollout
}

func revisionOf(in *planner.Input, name string) *Revision {
	if name == "" {
		return nil
	}
	r := &Revision{Name: name}
	if in != nil {
		r.Images = Images(in.Spec.Adapter, revision.ByName(in.Revisions, name))
	}
	return r
}

// Images returns the images of a revision's pods, each once, in the order of its containers; none if the revision is nil.
func Images(adapter adapters.Adapter, r *revision.Revision) (images []string) {
	if r == nil {
		return nil
	}
	for _, c := range adapters.Images(adapter, r.Template()) {
		if c.Image != "" && !slices.Contains(images, c.Image) {
			images = append(images, c.Image)
		}
	}
	return images
}

func subsetOf(parent *v1alpha1.UnitedDeployment, in *planner.Input, facts map[string]known.Facts, was *v1alpha1.SubsetStatus) Subset {
	s := Subset{
		Name: was.Name, Workload: was.Workload, Phase: string(was.Phase), Message: was.Message,
		Desired: was.DesiredReplicas, Ready: was.ReadyReplicas, Available: was.AvailableReplicas, Updated: was.UpdatedReplicas,
		Partition: Asked(parent, was.Name), Protected: min(was.Partition, was.DesiredReplicas),
	}
	of := facts[was.Name]
	if of.Observed == nil {
		s.Bar = Bar{
			Updated: was.UpdatedReadyReplicas, Protected: min(s.Protected, max(0, was.Replicas-was.UpdatedReplicas)),
			Missing: max(0, was.DesiredReplicas-was.Replicas),
		}
		if r := parent.Status.Rollout; r != nil && r.RejectedRevision != "" && was.Phase == v1alpha1.PhaseHeld { // all has gone back
			s.Bar.Protected = max(0, was.Replicas-s.Bar.Updated)
		}
		s.Bar.Updating = max(0, was.Replicas-s.Bar.Updated-s.Bar.Protected)
		return s
	}
	s.Replicas = replicasOf(parent, in, &of, &s)
	running, unknown := map[string]int32{}, []string(nil)
	for i := range s.Replicas {
		r := &s.Replicas[i]
		*s.Bar.count(r.State)++
		if r.State != Missing {
			running[r.Revision]++
		}
		for _, image := range r.Images {
			if !slices.Contains(unknown, image) {
				unknown = append(unknown, image)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(running), func(a, b string) int {
		return cmp.Or(rank(parent, a)-rank(parent, b), cmp.Compare(a, b))
	})
	for _, name := range names {
		run := Run{Replicas: running[name], Revision: Revision{Images: unknown}}
		if r := revisionOf(in, name); r != nil {
			run.Revision = *r
		}
		s.Runs = append(s.Runs, run)
	}
	return s
}

// rank orders revisions: the current one first, the update revision last.
func rank(parent *v1alpha1.UnitedDeployment, name string) int {
	switch name {
	case parent.Status.UpdateRevision:
		return 2
	case parent.Status.CurrentRevision:
		return 0
	}
	return 1
}

// Asked returns the partition that is in effect in a subset, as it was written.
func Asked(parent *v1alpha1.UnitedDeployment, name string) string {
	written := coordination.Applies(&parent.Spec.UpdateStrategy, name, parent.Status.UpdateRevision)
	if written.Bound != "" {
		return "100%"
	}
	return written.Value.String()
}

// replicasOf returns the replicas of a child, by position, and those that are missing.
func replicasOf(parent *v1alpha1.UnitedDeployment, in *planner.Input, facts *known.Facts, s *Subset) []Replica {
	var all []Replica
	there := map[int32]bool{}
	claims, images := claimsOf(in, s.Name), imagesOf(in, s.Name)
	for _, r := range facts.States(in.Terms()) {
		there[r.Position] = true
		runs := runs(facts.Observed, r.Replica)
		replica := Replica{Name: r.Name, Position: r.Position, Revision: runs, Node: r.Node, Claims: claims[r.Name]}
		switch {
		case r.Broken:
			replica.State = Broken
		case r.Updated && r.Available:
			replica.State = Updated
		case r.Available && runs != "" && runs == backOn(parent):
			replica.State = Protected
		case r.Position >= 0 && r.Position < s.Protected && !r.Available:
			replica.State = Down
		case r.Position >= 0 && r.Position < s.Protected:
			replica.State = Protected
		default:
			replica.State = Updating
		}
		if runs == "" {
			replica.Images = images[r.Name]
		}
		if !r.Available {
			replica.Why = strings.TrimSuffix(strings.TrimPrefix(r.Describe(), r.Name+" ("), ")")
		}
		all = append(all, replica)
	}
	for position := range s.Desired {
		if !there[position] {
			all = append(all, Replica{Position: position, State: Missing})
		}
	}
	slices.SortFunc(all, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// backOn returns the revision to which replicas go back while the update revision is rejected; "" if it is not.
func backOn(parent *v1alpha1.UnitedDeployment) string {
	if r := parent.Status.Rollout; r != nil && r.RejectedRevision != "" {
		return r.Revision
	}
	return ""
}

// runs returns the name of the revision that a replica runs; "" if it is not known.
func runs(o *adapters.Observed, r *adapters.Replica) string {
	switch {
	case r.Hash == "" || r.HashChanged != "":
		return ""
	case o.SpecObserved && r.Hash == o.UpdateHash:
		return subset.RevisionOf(o)
	case r.Hash == subset.ProtectedHash(o):
		return o.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]
	}
	return ""
}

// claimsOf returns the names of the claims of the pods of a subset, by pod.
func claimsOf(in *planner.Input, name string) map[string][]string {
	claims := map[string][]string{}
	for _, pod := range in.Pods[name] {
		for i := range pod.Spec.Volumes {
			if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
				claims[pod.Name] = append(claims[pod.Name], c.ClaimName)
			}
		}
	}
	return claims
}

// imagesOf returns the images of the pods of a subset, by pod.
func imagesOf(in *planner.Input, name string) map[string][]string {
	images := map[string][]string{}
	for _, pod := range in.Pods[name] {
		for i := range pod.Spec.Containers {
			if image := pod.Spec.Containers[i].Image; image != "" && !slices.Contains(images[pod.Name], image) {
				images[pod.Name] = append(images[pod.Name], image)
			}
		}
	}
	return images
}

// Worst orders statuses: what failed first, then what waits, then what waits for somebody, then by name.
func Worst(a, b *Status) int {
	rank := map[string]int{Failed: 0, Waiting: 1, Held: 2, OK: 3}
	return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
