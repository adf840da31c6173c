// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// Why is why a UnitedDeployment does not move.
type Why struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Answer says it in one sentence.
	Answer string `json:"answer"`
	// Findings are in the order in which one would check.
	Findings []Finding `json:"findings"`
	// Unseen says what could not be looked at, and why.
	Unseen []string `json:"unseen,omitempty"`
}

// Finding is one thing that was found.
type Finding struct {
	// Kind is one of: fault, told, passing, nothing.
	Kind string `json:"kind"`
	// Subject is what it is about: the object, a subset or several, a replica or a node.
	Subject string `json:"subject"`
	// Finding is one word for it; where the API has a reason for it, that reason.
	Finding string `json:"finding"`
	Detail  string `json:"detail"`
	// Command ends it, and Does says what it does; "" unless the planner says that it would.
	Command string `json:"command,omitempty"`
	Does    string `json:"does,omitempty"`
	// quoted: Detail is what somebody else says. Otherwise, its first part says it in short.
	quoted bool
}

// Kinds of a Finding.
const (
	// Fault: somebody has to repair it.
	Fault = "fault"
	// Told: somebody asked for it.
	Told = "told"
	// Passing: it ends by itself.
	Passing = "passing"
	// Nothing is left to do.
	Nothing = "nothing"
)

// Words for what the API has no reason for.
const (
	noManager    = "NoManager"
	notObserved  = "NotObserved"
	deleting     = "Deleting"
	notReady     = "NotReady"
	nodeNotReady = "NodeNotReady"
	missing      = "Missing"
	cannotCreate = "CannotCreate"
	terminating  = "Terminating"
	bound        = "BoundToRevision"
	laterStep    = "LaterStep"
	ledgerFull   = "MaxUnavailable"
	skewed       = "MaxSkew"
	outOfTurn    = "Order"
)

// Evidence is what the API server says beside the world, as far as the user may ask.
type Evidence struct {
	// Lease is that of the manager; nil if it could not be read.
	Lease *Lease
	// Nodes, by name, are those of replicas that are not available.
	Nodes map[string]*corev1.Node
	// Logs are the last lines of containers.
	Logs map[Container]string
	// Warnings are the last warnings about children, by name.
	Warnings map[string]string
	// Unseen says what could not be asked, and why.
	Unseen []string
}

// Lease is the Lease with which a manager leads. Without a Holder none does.
type Lease struct {
	Namespace, Name, Holder string
	Renewed                 time.Time
	Duration                time.Duration
}

// inquiry is the work of WhyOf.
type inquiry struct {
	parent *v1alpha1.UnitedDeployment
	now    time.Time
	*Evidence
	// in and plan are nil if the world could not be read. status is what the manager would report now; without the world,
	// what it reported last.
	in   *planner.Input
	plan *planner.Plan
	// unchanged is the outlook of the parent as it is.
	unchanged *outlook
	status    *v1alpha1.UnitedDeploymentStatus
	// refused are the subsets that cannot be written, explained those about whose replicas something was found, and said those
	// of which it was said what they do.
	refused, explained, said map[string]bool
	// undone: the way back is one of the findings.
	undone   bool
	findings []Finding
}

// WhyOf returns why a parent does not move. in is its world; nil if it could not be read.
func WhyOf(parent *v1alpha1.UnitedDeployment, in *planner.Input, seen *Evidence, now time.Time) *Why {
	q := &inquiry{parent: parent, now: now, Evidence: seen, in: in, status: &parent.Status, refused: map[string]bool{}, explained: map[string]bool{}, said: map[string]bool{}}
	if in != nil {
		q.plan = planner.Make(in)
		q.status, _ = report.Status(in, q.plan, nil, report.Undone{})
	}
	led := q.manager()
	q.refusals()
	q.replicas()
	q.nodes()
	if led { // otherwise, nobody does what the planner decides
		q.progress()
		q.waits()
	}
	q.rollout()
	q.deadline()
	q.holds()
	q.paused()
	if len(q.findings) == 0 {
		q.nothing()
	}
	q.together()
	if !led {
		for i := range q.findings {
			q.findings[i].Command, q.findings[i].Does = "", "" // nobody would act on it
		}
	}
	return &Why{Namespace: parent.Namespace, Name: parent.Name, Answer: q.answer(), Findings: q.findings, Unseen: seen.Unseen}
}

// together puts findings of which only the subject differs into one.
func (q *inquiry) together() {
	var kept []Finding
	subjects := map[Finding][]string{}
	for _, f := range q.findings {
		alike := f
		if alike.Subject = ""; subjects[alike] == nil {
			kept = append(kept, f)
		}
		subjects[alike] = append(subjects[alike], f.Subject)
	}
	for i := range kept {
		alike := kept[i]
		alike.Subject = ""
		kept[i].Subject = shorten(subjects[alike], 3)
	}
	q.findings = kept
}

// add adds a finding. It can be changed until the next one comes.
func (q *inquiry) add(kind, subject, finding, detail string) *Finding {
	q.findings = append(q.findings, Finding{Kind: kind, Subject: subject, Finding: finding, Detail: detail})
	return &q.findings[len(q.findings)-1]
}

// observed reports whether the status is of the spec.
func (q *inquiry) observed() bool { return q.parent.Status.ObservedGeneration == q.parent.Generation }

// manager looks for a manager that leads and has seen the spec, and reports whether there is one.
func (q *inquiry) manager() bool {
	led := true
	if l := q.Lease; l != nil {
		subject := "Lease " + l.Namespace + "/" + l.Name
		// Twice the duration, because the clock here may differ from that of the manager.
		if end := l.Renewed.Add(2 * l.Duration); l.Holder == "" || end.Before(q.now) {
			led = false
			detail := "no manager leads"
			if l.Holder != "" {
				detail = fmt.Sprintf("no manager leads since %s, when %s renewed it last; see its Deployment and its log", utc(l.Renewed), l.Holder)
			}
			q.add(Fault, subject, noManager, detail)
		}
	}
	if d := q.parent.DeletionTimestamp; d != nil {
		q.add(Passing, q.parent.Name, deleting, "it is being deleted since "+utc(d.Time)+finalizers(q.parent.Finalizers))
	}
	if q.observed() {
		return led
	}
	detail := fmt.Sprintf("no manager has observed generation %d; the last one is %d", q.parent.Generation, q.parent.Status.ObservedGeneration)
	if led && q.Lease != nil {
		detail += fmt.Sprintf("; %s leads: if it stays so for more than a moment, see its log, and whether its --watch-namespaces has %s", q.Lease.Holder, q.parent.Namespace)
	}
	kind := Fault
	if led && q.now.Sub(changed(q.parent)) < moment {
		kind = Passing
	}
	q.add(kind, q.parent.Name, notObserved, detail)
	return false
}

// moment is how long a manager may take to observe a change.
const moment = 10 * time.Second

// changed returns when somebody last wrote to a parent, beside its status.
func changed(parent *v1alpha1.UnitedDeployment) time.Time {
	last := parent.CreationTimestamp.Time
	for i := range parent.ManagedFields {
		if f := &parent.ManagedFields[i]; f.Subresource == "" && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

func finalizers(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; its finalizers are " + strings.Join(names, ", ")
}

// refusals looks at what the manager could not do: only its status has what the API server answered.
func (q *inquiry) refusals() {
	was := &q.parent.Status
	stalled := meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionStalled)
	ready := meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionReady)
	isStalled := stalled != nil && stalled.Status == "True" && !ofReplicas(stalled.Reason)
	var subsets []*v1alpha1.SubsetStatus
	for i := range was.Subsets {
		if s := &was.Subsets[i]; s.Phase == v1alpha1.PhaseStalled {
			q.refused[s.Name], q.explained[s.Name] = true, true
			subsets = append(subsets, s)
		}
	}
	const most = 3 // with more of them, the condition says it shorter
	switch {
	case len(subsets) > 0 && (len(subsets) <= most || !isStalled):
		for _, s := range subsets {
			reason := v1alpha1.ReasonApplyRefused
			if isStalled {
				reason = stalled.Reason
			}
			q.findings = append(q.findings, Finding{Kind: Fault, Subject: s.Name, Finding: reason, Detail: s.Message + q.asOf(), quoted: true})
		}
		return
	case isStalled:
		ready = stalled
	case ready == nil || ready.Status != "False":
		return
	case slices.Contains([]string{v1alpha1.ReasonApplyFailed, v1alpha1.ReasonReadFailed, v1alpha1.ReasonOverridden}, ready.Reason):
	case q.in == nil && ofReplicas(ready.Reason): // otherwise, the replicas themselves are looked at
		q.add(Fault, q.parent.Name, ready.Reason, uncapitalized(ready.Message)+q.asOf())
		return
	default:
		return
	}
	if ready.Reason == v1alpha1.ReasonRevisionRejected {
		q.rejected(brief(uncapitalized(ready.Message)) + q.asOf())
		return
	}
	q.add(Fault, q.parent.Name, ready.Reason, uncapitalized(ready.Message)+q.asOf())
	for i := range q.status.Subsets {
		q.explained[q.status.Subsets[i].Name] = true // what the planner would do with them does not matter
	}
}

// uncapitalized returns the message of a condition as part of a sentence.
func uncapitalized(message string) string {
	first, _, _ := strings.Cut(message, " ")
	if first == "" || strings.ToLower(first[1:]) != first[1:] || first != strings.Trim(first, "-0123456789") {
		return message
	}
	return strings.ToLower(first[:1]) + message[1:]
}

// ofReplicas reports whether a reason is about replicas or time, which are looked at themselves.
func ofReplicas(reason string) bool {
	return slices.Contains([]string{
		v1alpha1.ReasonProgressDeadlineExceeded, v1alpha1.ReasonReplicaFailed, v1alpha1.ReasonBlocked, v1alpha1.ReasonCheckFailed, v1alpha1.ReasonUnschedulable,
	}, reason)
}

// asOf says of what generation the status is, if that is not the present one.
func (q *inquiry) asOf() string {
	if q.observed() {
		return ""
	}
	return fmt.Sprintf(" (of generation %d)", q.parent.Status.ObservedGeneration)
}

// progress says what subsets do that are neither at rest nor explained by their replicas.
func (q *inquiry) progress() {
	for i := range q.status.Subsets {
		s := &q.status.Subsets[i]
		if q.explained[s.Name] || s.Message == "" || q.plan != nil && s.Message == subsetPlan(q.plan, s.Name).Decision.WaitReason {
			continue
		}
		switch s.Phase {
		case v1alpha1.PhaseComplete, v1alpha1.PhaseHeld, v1alpha1.PhasePaused:
		case v1alpha1.PhaseStalled:
			q.add(Fault, s.Name, string(s.Phase), s.Message)
		default:
			q.said[s.Name] = true
			q.add(Passing, s.Name, string(s.Phase), cmp.Or(q.lastTold(s), s.Message))
		}
	}
}

// lastTold returns what the manager said of a subset that waits for its child to be written: only it knows what came of that.
func (q *inquiry) lastTold(s *v1alpha1.SubsetStatus) string {
	for i := range q.parent.Status.Subsets {
		if was := &q.parent.Status.Subsets[i]; was.Name == s.Name && s.Phase == v1alpha1.PhasePending && q.observed() {
			return was.Message
		}
	}
	return ""
}

func (q *inquiry) deadline() {
	c := meta.FindStatusCondition(q.status.Conditions, v1alpha1.ConditionStalled)
	if c != nil && c.Status == "True" && c.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		q.add(Fault, q.parent.Name, c.Reason, uncapitalized(c.Message))
	}
}

// nothing is for a parent of which nothing was found.
func (q *inquiry) nothing() {
	c := meta.FindStatusCondition(q.status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		q.add(Passing, q.parent.Name, notObserved, "no manager has written a status yet")
	case c.Status != "True":
		q.add(Passing, q.parent.Name, c.Reason, uncapitalized(c.Message))
	default:
		q.add(Nothing, q.parent.Name, c.Reason, uncapitalized(c.Message))
	}
}

// answer is the sentence that answers the question, from the finding that says most: a fault, what keeps all of it waiting,
// anything that passes, or what was asked for.
func (q *inquiry) answer() string {
	best := slices.MaxFunc(q.findings, func(a, b Finding) int { return q.rank(&a) - q.rank(&b) })
	cause, _, _ := strings.Cut(best.Detail, "; ")
	if best.quoted {
		cause = best.Detail
	}
	const most = 240 // an answer of the API server can be very long
	if text := []rune(cause); len(text) > most {
		cause = string(text[:most]) + "..."
	}
	switch {
	case strings.HasPrefix(cause, isHeld), strings.HasPrefix(cause, areHeld):
		cause = best.Subject + " " + cause
	case best.Subject != q.parent.Name:
		cause = best.Subject + ": " + cause
	}
	told := 0
	for _, f := range q.findings {
		if f.Kind == Told {
			told++
		}
	}
	name := q.parent.Name
	switch best.Kind {
	case Fault:
		name += " does not move, because something is wrong: " + cause
	case Passing:
		name += " is on its way: " + cause
	case Told:
		name += " stands still as you asked: " + cause
		told = 0
	default:
		name += " has nothing to do: " + cause
	}
	if told > 0 {
		name += "; besides, you hold a part of it"
	}
	return strings.TrimSuffix(name, ".") + "."
}

// rank says how much of the answer a finding is.
func (q *inquiry) rank(f *Finding) int {
	switch {
	case f.Kind == Fault:
		return 6
	case f.Finding == ledgerFull:
		return 5
	case f.Kind == Passing && slices.Contains([]string{skewed, outOfTurn, v1alpha1.ReasonStepPaused}, f.Finding):
		return 4
	case f.Kind == Passing:
		return 3
	case f.Finding == v1alpha1.ReasonPaused && (f.Command != "" || q.coordinates()):
		return 2
	case f.Kind == Told:
		return 1
	}
	return 0
}

func utc(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// PrintWhy writes why something does not move.
func (s Style) PrintWhy(w io.Writer, why *Why) {
	for _, line := range s.wrap(oneLine(why.Answer), 0) {
		_, _ = fmt.Fprintln(w, s.paint(bold, line))
	}
	_, _ = fmt.Fprintln(w)
	rows := [][]cell{{{"SUBJECT", dim}, {"FINDING", dim}, {"DETAIL", dim}}}
	commands := [][2]string{}
	for _, f := range why.Findings {
		color := map[string]string{Fault: red, Told: blue, Passing: yellow, Nothing: green}[f.Kind]
		rows = append(rows, []cell{{f.Subject, ""}, {f.Finding, color}, {f.Detail, ""}})
		if f.Command != "" {
			commands = append(commands, [2]string{f.Does, f.Command})
		}
	}
	s.table(w, rows)
	for i, c := range commands {
		if i == 0 {
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintf(w, "%s  %s\n", c[1], s.paint(dim, "# "+c[0]))
	}
	for i, unseen := range why.Unseen {
		if i == 0 {
			_, _ = fmt.Fprintln(w)
		}
		for _, line := range s.wrap(oneLine("Not seen: "+unseen), 0) {
			_, _ = fmt.Fprintln(w, s.paint(dim, line))
		}
	}
}
