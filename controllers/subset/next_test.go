// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// asText returns a step as one line: the action, the fields of the child that differ between steps, and the protected
// revision.
func asText(s Step) string {
	switch s.Action {
	case ActionWait, ActionHalt:
		return string(s.Action)
	case ActionRemind:
		return string(s.Action) + " " + s.Hash
	}
	c := &s.Child
	text := fmt.Sprintf("%s %s x%d p%d", s.Action, c.Revision, c.Replicas, c.Partition)
	if c.ProtectedRevision != "" {
		text += " protects " + c.ProtectedRevision
	}
	return text
}

// finished returns a child on r3, which protects r1.
func finished(members ...string) *childBuilder {
	return aChild().on("r3").hashes("h1", "h3").members(members...)
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name  string
		goal  *goalBuilder
		child *childBuilder // nil if there is none
		want  string
		says  string // says is part of the reason; "" if there is no reason
	}{
		// There is no child.
		{"the first one is created", aGoal().uninitialized(), nil, "Create r2 x4 p3 protects r2", "creating web-zone-a on r2"},
		{"the first one without replicas is created", aGoal().uninitialized().replicas(0), nil, "Create r2 x0 p3 protects r2", "creating"},
		{"one with replicas to protect is seeded", aGoal(), nil, "Seed r1 x3 p3 protects r1", "creating web-zone-a on r1 first"},
		{"one that protects all is seeded with all", aGoal().partition(9), nil, "Seed r1 x4 p9 protects r1", "creating web-zone-a on r1 first"},
		{"one with nothing to protect is seeded too, since its partition may rise", aGoal().partition(0), nil, "Seed r1 x0 p0 protects r1", "creating web-zone-a on r1 first"},
		{"one whose revisions make the same pods is created", aGoal().samePods(), nil, "Create r2 x4 p3 protects r2", "creating"},
		{"one without replicas is created, and protects what is to be protected", aGoal().replicas(0), nil, "Create r2 x0 p3 protects r1", "creating"},
		{"one whose protected revision is lost is halted", aGoal().lost(), nil, "Halt", "revision r1, which the protected replicas of web-zone-a run, is lost; to move to r2, lower the partition to 0 with updateStrategy.type Manual"},
		{"a lost revision does not matter with nothing to protect", aGoal().lost().partition(0), nil, "Create r2 x4 p0 protects r2", "creating"},

		// There is one, but we cannot write it now.
		{"being deleted", aGoal(), aChild().deleted(), "Wait", "waiting for web-zone-a to be deleted"},
		{"deleted, and held", aGoal(), aChild().deleted("example.com/a", "example.com/b"), "Wait", "waiting for web-zone-a to be deleted; its finalizers are example.com/a, example.com/b"},
		{"written from a later generation", aGoal(), aChild().writtenFrom(6), "Wait", "later generation"},
		{"nobody knows what its template is", aGoal(), aChild().without(v1alpha1.AnnotationRevision), "Halt", "somebody removed or changed [united.dev/revision]"},
		{"nobody knows what it protects", aGoal(), aChild().without(v1alpha1.AnnotationProtectedRevision), "Halt", "somebody removed or changed [united.dev/protected-revision]"},
		{"nobody knows, and nothing is protected", aGoal().partition(0), aChild().without(v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision), "Apply r2 x4 p0 protects r1", ""},
		{"nobody knows, and it has no replicas", aGoal(), aChild().replicas(0).without(v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision), "Seed r1 x0 p3 protects r1", "returning web-zone-a to r1 first"},
		{"written from this generation", aGoal(), aChild().writtenFrom(5), "Apply r2 x4 p3 protects r1", ""},
		{"a generation that cannot be read is none", aGoal(), withAnnotation(aChild(), "x"), "Apply r2 x4 p3 protects r1", ""},

		// It is running.
		{"the update revision is staged", aGoal(), aChild(), "Apply r2 x4 p3 protects r1", ""},
		{"at rest", aGoal(), aChild().on("r2").hashes("h1", "h2"), "Apply r2 x4 p3 protects r1", ""},
		{"nothing is protected", aGoal().partition(0), aChild(), "Apply r2 x4 p0 protects r1", ""},
		{"scaled in mid-canary", aGoal().replicas(9), aChild().on("r2").hashes("h1", "h2").unseen(), "Apply r2 x9 p3 protects r1", ""},
		{"scaled to 0 in mid-canary", aGoal().replicas(0), aChild().on("r2").hashes("h1", "h2"), "Apply r2 x0 p3 protects r1", ""},
		{"the protected revision of a running child is not needed", aGoal().lost(), aChild().on("r2").hashes("h1", "h2"), "Apply r2 x4 p3 protects r1", ""},
		{"another template waits until this one is seen", aGoal(), aChild().unseen(), "Wait", "to observe its latest spec"},
		{"another template waits until the child has a revision", aGoal(), aChild().hashes("", ""), "Wait", "to observe its latest spec"},
		{"another template does not wait for one of which nothing can be made", aGoal(), aChild().unseen().unmade(), "Apply r2 x4 p3 protects r1", ""},
		{"another template waits for nothing when pods are the same", aGoal().samePods(), aChild().unseen(), "Apply r2 x4 p3 protects r1", ""},
		{"the same template waits for nothing", aGoal(), aChild().on("r2").unseen(), "Apply r2 x4 p3 protects r1", ""},
		{"before the first replica nothing waits", aGoal().uninitialized().partition(0), aChild().protecting("").unseen().hashes("", ""), "Apply r2 x4 p0", ""},
		{"before the first replica a child at rest protects what it is", aGoal().uninitialized(), aChild().on("r2").protecting("r2"), "Apply r2 x4 p3 protects r2", ""},
		{"before the first replica a corrected child at rest protects nothing", aGoal().uninitialized(), aChild().on("r2").protecting(""), "Apply r2 x4 p3", ""},
		{"before the first replica a corrected template protects nothing", aGoal().uninitialized().partition(0), aChild().protecting("r1"), "Apply r2 x4 p0", ""},
		{"before the first replica nothing is protected", aGoal().uninitialized(), aChild().protecting(""), "Apply r2 x4 p3", ""},

		// It has just finished r3, and its controller has not settled on that.
		{"another template waits until what is finished is noted", aGoal(), finished("0 h3", "1 h3", "2 h3", "3 h3"), "Wait", "to record revision r3, which it has finished"},
		{"also one that makes the pods of before", aGoal().samePods(), finished("0 h3", "1 h3", "2 h3", "3 h3"), "Wait", "to record revision r3"},
		{"and one that nothing is protected from", aGoal().partition(0), finished("0 h3", "1 h3", "2 h3", "3 h3"), "Wait", "to record revision r3"},
		{"the same template does not wait", aGoal().update("r3"), finished("0 h3", "1 h3", "2 h3", "3 h3"), "Apply r3 x4 p3 protects r1", ""},
		{"nor before the first replica", aGoal().uninitialized().partition(0), finished("0 h3", "1 h3", "2 h3", "3 h3"), "Apply r2 x4 p0", ""},
		{"it is noted", aGoal(), finished("0 h3", "1 h3", "2 h3", "3 h3").hashes("h3", "h3"), "Apply r2 x4 p3 protects r1", ""},
		{"one is of before", aGoal(), finished("0 h1", "1 h3", "2 h3", "3 h3"), "Apply r2 x4 p3 protects r1", ""},
		{"one is not ready", aGoal(), finished("0 h3", "1 h3 unready", "2 h3", "3 h3"), "Apply r2 x4 p3 protects r1", ""},
		{"one is terminating", aGoal(), finished("0 h3", "1 h3", "2 h3 terminating", "3 h3"), "Apply r2 x4 p3 protects r1", ""},
		{"one is missing", aGoal(), finished("0 h3", "1 h3", "2 h3"), "Apply r2 x4 p3 protects r1", ""},
		{"one is surplus", aGoal(), finished("0 h3", "1 h3", "2 h3", "3 h3", "4 h3"), "Apply r2 x4 p3 protects r1", ""},

		// It has no replicas and should get some that are protected.
		{"back from 0 on another revision", aGoal(), aChild().on("r2").replicas(0).hashes("h2", "h2"), "Seed r1 x0 p3 protects r1", "returning web-zone-a to r1 first"},
		{"back from 0 on another revision, before it was seen", aGoal(), aChild().on("r2").replicas(0).unseen(), "Seed r1 x0 p3 protects r1", "returning web-zone-a to r1 first"},
		{"back from 0 on another revision, which is lost", aGoal().lost(), aChild().on("r2").replicas(0), "Halt", "is lost"},
		{"seeded, not seen", aGoal(), aChild().replicas(0).unseen(), "Wait", "to record revision r1"},
		{"seeded, with old replicas that keep it from settling", aGoal(), aChild().replicas(0).hashes("h2", "h1"), "Wait", "to record revision r1"},
		{"seeded, new", aGoal(), aChild().replicas(0).hashes("", ""), "Wait", "to record revision r1"},
		{"seeded and settled", aGoal(), aChild().replicas(0), "Seed r1 x3 p3 protects r1", "creating the protected replicas of web-zone-a on r1 first"},
		{"seeded and settled, all is held", aGoal().partition(9), aChild().replicas(0), "Seed r1 x4 p9 protects r1", "creating the protected replicas"},
		{"seeded and settled, nothing is held", aGoal().partition(0), aChild().replicas(0).seeding(), "Apply r2 x4 p0 protects r1", ""},
		{"seeded and settled, and both make the same pods", aGoal().samePods(), aChild().replicas(0), "Apply r2 x4 p3 protects r1", ""},
		{"seeded and settled, and the protected revision was lost since", aGoal().lost(), aChild().replicas(0), "Apply r2 x4 p3 protects r1", ""},
		{"still at 0", aGoal().replicas(0), aChild().on("r2").replicas(0), "Apply r2 x0 p3 protects r1", ""},
		{"back from 0 on the revision that is protected", aGoal().update("r1").samePods(), aChild().replicas(0), "Apply r1 x4 p3 protects r1", ""},
		{"back from 0 with nothing to protect, on the update revision", aGoal().partition(0), aChild().on("r2").replicas(0).hashes("h2", "h2"), "Seed r1 x0 p0 protects r1", "returning web-zone-a to r1 first"},
		{"back from 0 with nothing to protect, and the protected revision is lost", aGoal().lost().partition(0), aChild().on("r2").replicas(0).hashes("h2", "h2"), "Apply r2 x4 p0 protects r2", ""},
		// It still remembers r1 then, and would create replicas from that if the partition rose before it has settled
		// on r2.
		{"back from 0 with nothing to protect, on another revision", aGoal().partition(0), aChild().replicas(0), "Apply r2 x4 p0 protects r1", ""},
		{"back from 0 with nothing to protect, unsettled", aGoal().partition(0), aChild().on("r2").replicas(0).hashes("h1", "h2"), "Seed r1 x0 p0 protects r1", "returning web-zone-a to r1 first"},

		// It is being seeded, and its protected replicas are being created.
		{"none of the protected exists", aGoal(), seeded(3), "Wait", "waiting for replica 0 of web-zone-a to be created on r1"},
		{"one is missing", aGoal(), seeded(3, "0 h1", "2 h1"), "Wait", "replica 1 of web-zone-a"},
		{"one is of before, and goes", aGoal(), seeded(3, "0 h1", "1 h2 terminating", "2 h1"), "Wait", "replica 1 of web-zone-a to be created on r1; it waits for web-zone-a-1 (terminating since 0001-01-01T00:00:00Z)"},
		{"in order, one is not ready", aGoal(), seeded(3, "0 h1 unready").ordered(), "Wait", "replica 1 of web-zone-a to be created on r1; it waits for web-zone-a-0 (not ready since"},
		{"in order, one failed, under health gates", coordinated(aGoal()), seeded(3, "0 h1 failed").ordered(), "Apply r2 x4 p3 protects r1", ""},
		{"in order, one failed, and the users release replicas", aGoal(), seeded(3, "0 h1 failed").ordered(), "Wait", "replica 1 of web-zone-a"},
		{"in order, one is overdue, under health gates", coordinated(aGoal()), seeded(3, "0 h1", "1 h1 overdue").ordered(), "Apply r2 x4 p3 protects r1", ""},
		{"in order, one crashed, under health gates", coordinated(aGoal()), seeded(3, "0 h1 crashed").ordered(), "Wait", "replica 1 of web-zone-a"},
		{"in order, one is starting, under health gates", coordinated(aGoal()), seeded(3, "0 h1 new").ordered(), "Wait", "replica 1 of web-zone-a"},
		{"in order, one failed, under health gates, and the child has not settled", coordinated(aGoal()), seeded(3, "0 h1 failed").ordered().unseen(), "Wait", "to record revision r1"},
		{"in parallel, one failed, under health gates", coordinated(aGoal()), seeded(3, "0 h1 failed"), "Wait", "replica 1 of web-zone-a"},
		{"all exist, and are not ready", aGoal(), seeded(3, "0 h1 unready", "1 h1 unready", "2 h1"), "Apply r2 x4 p3 protects r1", ""},
		{"all exist, and the last was not seen", aGoal(), seeded(3, "0 h1", "1 h1", "2 h1").unseen(), "Wait", "waiting for web-zone-a to record revision r1"},
		{"all exist, and it has not settled", aGoal(), seeded(3, "0 h1", "1 h1", "2 h1").hashes("h2", "h1"), "Wait", "waiting for web-zone-a to record revision r1"},
		{"what outlived an earlier child had finished another revision", aGoal(), seeded(3, "0 h2", "1 h2", "2 h2").hashes("h2", "h1"), "Remind h1", "remembers another revision than r1"},
		{"what outlived it would make one of another revision", aGoal(), seeded(3, "0 h1", "1 h1").hashes("h2", "h1"), "Remind h1", "remembers another revision than r1"},
		{"what outlived an earlier child exists too", aGoal(), seeded(5, "0 h1", "1 h1", "2 h9", "4 h2"), "Apply r2 x4 p3 protects r1", ""},
		{"in order, what outlived is not ready, so that nothing comes after it", aGoal(), seeded(5, "0 h9 unready", "4 h2").ordered(), "Apply r2 x4 p3 protects r1", ""},
		{"in order, what outlived is ready", aGoal(), seeded(5, "0 h9", "4 h2").ordered(), "Wait", "replica 1"},
		{"an ordinary child that misses one waits for nothing", aGoal(), aChild().members("0 h1", "2 h1", "3 h1"), "Apply r2 x4 p3 protects r1", ""},
		{"scaled up meanwhile", aGoal().replicas(9).partition(7), seeded(3, "0 h1"), "Seed r1 x7 p7 protects r1", "creating the protected replicas"},
		{"scaled up meanwhile, what is protected is the same", aGoal().replicas(9), seeded(3, "0 h1"), "Wait", "replica 1"},
		{"scaled down meanwhile", aGoal().replicas(2), seeded(3, "0 h1", "1 h1"), "Apply r2 x2 p3 protects r1", ""},
		{"scaled to 0 meanwhile", aGoal().replicas(0), seeded(3, "0 h1"), "Apply r2 x0 p3 protects r1", ""},
		{"raised meanwhile", aGoal().partition(4), seeded(3, "0 h1", "1 h1", "2 h1"), "Seed r1 x4 p4 protects r1", "creating the protected replicas"},
		{"raised meanwhile, and its revision was lost", aGoal().lost().partition(4), seeded(3, "0 h1", "1 h1", "2 h1"), "Wait", "replica 3"},
		{"released meanwhile", aGoal().partition(1), seeded(3, "0 h1"), "Apply r2 x4 p1 protects r1", ""},
		{"released meanwhile, not settled", aGoal().partition(0), seeded(3, "0 h1").unseen(), "Wait", "waiting for web-zone-a to record revision r1"},
		{"released whole meanwhile", aGoal().partition(0), seeded(3), "Apply r2 x4 p0 protects r1", ""},
		{"a third revision meanwhile", aGoal().update("r3"), seeded(3, "0 h1"), "Wait", "replica 1"},
		{"a third revision then", aGoal().update("r3"), seeded(3, "0 h1", "1 h1", "2 h1"), "Apply r3 x4 p3 protects r1", ""},
		{"goes back meanwhile", aGoal().update("r1").samePods(), seeded(3, "0 h1"), "Seed r1 x4 p3 protects r1", "creating the protected replicas"},
		{"goes back meanwhile, and has all asked for", aGoal().update("r1").samePods(), seeded(4, "0 h1"), "Wait", "replica 1"},
		{"went back", aGoal().update("r1").samePods(), seeded(3, "0 h1", "1 h1", "2 h1"), "Apply r1 x4 p3 protects r1", ""},
		{"another was finished meanwhile, by the status", protecting(aGoal(), "r2"), seeded(3), "Apply r2 x4 p3 protects r2", ""},

		// It forgot what it protects.
		{"forgot", aGoal(), forgetful(), "Remind h1", "web-zone-a has forgotten that its protected replicas run r1; restoring that"},
		{"forgot, another template is asked for", aGoal().update("r3"), forgetful(), "Remind h1", "has forgotten"},
		{"forgot, goes back", aGoal().update("r1").samePods(), forgetful(), "Remind h1", "has forgotten"},
		{"forgot, scaled up", aGoal().replicas(9), forgetful(), "Remind h1", "has forgotten"},
		{"forgot, scaled down", aGoal().replicas(2), forgetful(), "Apply r2 x2 p3 protects r1", "writing what protects its replicas first"},
		{"forgot, scaled to 0", aGoal().replicas(0), forgetful(), "Apply r2 x0 p3 protects r1", ""},
		{"forgot, released", aGoal().partition(1), forgetful(), "Remind h1", "has forgotten"},
		{"forgot, released and scaled down", aGoal().partition(1).replicas(3), forgetful(), "Apply r2 x3 p3 protects r1", "writing what protects its replicas first"},
		{"forgot, released whole", aGoal().partition(0), forgetful(), "Apply r2 x4 p0 protects r1", ""},
		{"forgot, raised", aGoal().partition(4), forgetful(), "Apply r2 x4 p4 protects r1", "writing what protects its replicas first"},
		{"forgot, and somebody lowers its partition", aGoal(), forgetful().partition(0), "Apply r2 x4 p3 protects r1", "writing what protects its replicas first"},
		{"forgot, and all run the update", aGoal(), forgetful("0 h2", "1 h2", "2 h2", "3 h2"), "Relearn r1 x4 p4 protects r1", "returning web-zone-a to r1"},
		{"forgot, all run the update, and what it protects is lost", aGoal().lost(), forgetful("0 h2", "1 h2", "2 h2", "3 h2"), "Halt", "is lost"},
		{"relearns, and none is back", aGoal(), relearning(), "Relearn r1 x4 p4 protects r1", "returning web-zone-a to r1"},
		{"relearns, a third revision is asked for", aGoal().update("r3"), relearning(), "Relearn r1 x4 p4 protects r1", "returning web-zone-a to r1"},
		{"relearns, and one is being deleted", aGoal(), relearning("0 h2", "1 h2", "2 h2", "3 h1 terminating"), "Relearn r1 x4 p4 protects r1", "returning web-zone-a to r1"},
		{"relearns, and one is back", aGoal(), relearning("0 h2", "1 h2", "2 h1", "3 h2"), "Apply r2 x4 p3 protects r1", ""},
		{"relearns, and was not seen", aGoal(), relearning().unseen(), "Wait", "to observe its latest spec"},
		{"relearns, and all is released now", aGoal().partition(0), relearning(), "Apply r2 x4 p0 protects r1", ""},
		{"relearns, and is scaled down", aGoal().replicas(3), relearning(), "Relearn r1 x3 p4 protects r1", "returning web-zone-a to r1"},
		{"forgot, lowered, and another template is asked for", aGoal().update("r3"), forgetful().partition(0), "Apply r3 x4 p3 protects r1", "writing what protects its replicas first"},
		{"forgot, lowered, and back to what it protects", aGoal().update("r1").samePods(), forgetful().partition(0), "Apply r1 x4 p3 protects r1", "writing what protects its replicas first"},
		{"forgot, raised, and another template is asked for", aGoal().update("r3").partition(4), forgetful(), "Remind h1", "has forgotten"},
		{"remembers something else than is on record", aGoal().update("r3"), forgetful().hashes("h5", "h2"), "Remind h1", "has forgotten"},
		{"the same, and has the template that it protects", aGoal().update("r1").samePods(), forgetful().on("r1").hashes("h2", "h1"), "Remind h1", "has forgotten"},
		{"the same, and all is released", aGoal().update("r1").samePods().partition(0), forgetful().on("r1").hashes("h2", "h1"), "Apply r1 x4 p0 protects r1", ""},
		{"back, and it was not seen whether it has finished", aGoal().update("r1").samePods(), aChild().on("r2").unseen(), "Wait", "to observe its latest spec"},
		{"forgot, not initialized", aGoal().uninitialized(), forgetful(), "Apply r2 x4 p3 protects r1", ""},
		{"forgot, and was not seen since", aGoal(), forgetful().unseen(), "Apply r2 x4 p3 protects r1", ""},
		{"remembers", aGoal(), forgetful().hashes("h1", "h2"), "Apply r2 x4 p3 protects r1", ""},
		{"remembers though all came up on what it has", aGoal().update("r3"), forgetful("0 h2", "1 h2", "2 h2", "3 h2").hashes("h1", "h2"), "Apply r3 x4 p3 protects r1", ""},
		{"has finished, as it may", aGoal().partition(0), forgetful("0 h2", "1 h2", "2 h2", "3 h2").recorded(0, "h1", 0), "Apply r2 x4 p0 protects r1", ""},
		{"somebody lowers the partition of one that remembers", aGoal(), forgetful().hashes("h1", "h2").partition(0), "Apply r2 x4 p3 protects r1", ""},

		// It came up while nothing was protected, and has not settled since.
		{"comes up, its partition stays open", aGoal().update("r1").samePods(), aChild().protecting("").hashes("h0", "h1"), "Apply r1 x4 p0", "waiting for web-zone-a to come up on r1; its partition takes effect after that"},
		{"comes up while another template is asked for", aGoal(), aChild().protecting("").partition(1).hashes("h0", "h1"), "Apply r1 x4 p1", "to come up on r1"},
		{"comes up while it is scaled", aGoal().replicas(7), aChild().protecting("").hashes("h0", "h1"), "Apply r1 x7 p0", "to come up on r1"},
		{"comes up on a revision that is lost", aGoal().lost(), aChild().protecting("").hashes("h0", "h1"), "Apply r2 x4 p0", "to come up on r2"},
		{"comes up, with nothing to protect", aGoal().partition(0), aChild().protecting("").hashes("h0", "h1"), "Apply r2 x4 p0", ""},
		{"has come up", aGoal(), aChild().protecting(""), "Apply r2 x4 p3 protects r1", ""},
		{"scaled to 0 before it came up", aGoal(), aChild().protecting("").replicas(0).hashes("h0", "h1"), "Wait", "to record revision r1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var child *adapters.Observed
			if tc.child != nil {
				child = tc.child.observed()
			}
			s := nextStep(tc.goal.Goal, child)
			if got := asText(s); got != tc.want {
				t.Errorf("want %q, have %q", tc.want, got)
			}
			if !strings.Contains(s.Reason, tc.says) || (tc.says == "") != (s.Reason == "") {
				t.Errorf("it says %q", s.Reason)
			}
			checkChild(t, tc.goal.Child, s)
		})
	}
}

// seeded returns a child that is being seeded on r1, with that many replicas.
func seeded(replicas int32, members ...string) *childBuilder {
	return aChild().seeding().replicas(replicas).partition(3).members(members...)
}

// forgetful returns a child on r2 that protects 3 replicas on r1, and has forgotten that.
func forgetful(members ...string) *childBuilder {
	if len(members) == 0 {
		members = []string{"0 h1", "1 h1", "2 h1", "3 h2"}
	}
	return aChild().on("r2").recorded(3, "h1", 3).hashes("h2", "h2").members(members...)
}

// Somebody lowers the partition of the child again and again: it is raised again, and nothing else is done.
func TestNextContested(t *testing.T) {
	all := []string{"0 h2", "1 h2", "2 h2", "3 h2"}
	for _, tc := range []struct {
		name              string
		goal              *goalBuilder
		child             *childBuilder
		alone, want, says string
	}{
		{"all came up unreleased", aGoal(), forgetful(all...).partition(0), "Apply r2 x4 p3 protects r1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"the same, and it is closed", aGoal(), forgetful(all...), "Relearn r1 x4 p4 protects r1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"it has forgotten", aGoal(), forgetful(), "Remind h1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"it remembers", aGoal(), forgetful().hashes("h1", "h2").partition(0), "Apply r2 x4 p3 protects r1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"it relearns", aGoal().update("r1"), relearning().partition(0), "Apply r1 x4 p3 protects r1", "Apply r1 x4 p4 protects r1", "leaving web-zone-a unchanged"},
		{"it does not grow", aGoal().replicas(9), forgetful().hashes("h1", "h2"), "Apply r2 x9 p3 protects r1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"it shrinks as it is asked to", aGoal().replicas(2), forgetful().hashes("h1", "h2"), "Apply r2 x2 p3 protects r1", "Apply r2 x2 p3 protects r1", "leaving web-zone-a unchanged"},
		{"more is released by the spec, later", aGoal().partition(1), forgetful().hashes("h1", "h2").partition(0), "Apply r2 x4 p1 protects r1", "Apply r2 x4 p3 protects r1", "leaving web-zone-a unchanged"},
		{"more is protected by the spec, at once", aGoal().partition(4), forgetful().hashes("h1", "h2").partition(0), "Apply r2 x4 p4 protects r1", "Apply r2 x4 p4 protects r1", "leaving web-zone-a unchanged"},
		{"nothing is protected by the spec", aGoal().partition(0), forgetful().partition(0), "Apply r2 x4 p0 protects r1", "Apply r2 x4 p0 protects r1", ""},
		{"before the first replica", aGoal().uninitialized(), forgetful().partition(0), "Apply r2 x4 p3 protects r1", "Apply r2 x4 p3 protects r1", ""},
		{"without replicas", aGoal(), forgetful("9 h2").replicas(0), "Seed r1 x0 p3 protects r1", "Seed r1 x0 p3 protects r1", "returning web-zone-a to r1 first"},
		{"being deleted", aGoal(), forgetful().deleted(), "Wait", "Wait", "to be deleted"},
		{"written from a later generation", aGoal(), forgetful().writtenFrom(6), "Wait", "Wait", "later generation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := asText(nextStep(tc.goal.Goal, tc.child.observed())); got != tc.alone {
				t.Errorf("without a contest: want %s, have %s", tc.alone, got)
			}
			tc.goal.Contested = true
			got := nextStep(tc.goal.Goal, tc.child.observed())
			if asText(got) != tc.want || !strings.Contains(got.Reason, tc.says) || tc.says == "" && got.Reason != "" {
				t.Errorf("want %s, have %s: %s", tc.want, asText(got), got.Reason)
			}
		})
	}
	if seeding := nextStep(Goal{Child: aGoal().Child, Facts: known.Facts{Contested: true}, Initialized: true}, aChild().seeding().observed()); !seeding.Child.Seeding {
		t.Error("a seed is ended in the middle of a contest")
	}
}

// protecting sets another protected revision.
func protecting(b *goalBuilder, revision string) *goalBuilder {
	v := versionOf(revision)
	b.ProtectedRevision, b.Protected = revision, &v
	return b
}

// coordinated: a rollout under health gates replaces the replicas that failed.
func coordinated(b *goalBuilder) *goalBuilder {
	b.Terms = &adapters.Terms{Now: epoch(), Deadline: deadline}
	return b
}

// An ordered child that is being seeded is looked at again when the replica for which it waits is overdue.
func TestSeedWakes(t *testing.T) {
	starting := func() *adapters.Observed { return seeded(3, "0 h1 new").ordered().observed() }
	if at := nextStep(coordinated(aGoal()).Goal, starting()).Wake; !at.Equal(epoch().Add(deadline)) {
		t.Errorf("under health gates: it wakes at %s", at)
	}
	if at := nextStep(aGoal().Goal, starting()).Wake; !at.IsZero() {
		t.Errorf("with users who release replicas: it wakes at %s", at)
	}
}

func withAnnotation(b *childBuilder, generation string) *childBuilder {
	b.Meta.Annotations["united.dev/parent-generation"] = generation
	return b
}

// checkChild checks that a step writes the goal's child with one complete revision, never with the template of one and
// the patch of another.
func checkChild(t *testing.T, asked adapters.Child, s Step) {
	t.Helper()
	if s.Action == ActionWait || s.Action == ActionHalt || s.Action == ActionRemind {
		if diff := cmp.Diff(adapters.Child{}, s.Child); diff != "" {
			t.Error("there is a child to write:", diff)
		}
		return
	}
	v := versionOf(s.Child.Revision)
	asked.Revision, asked.RevisionTemplate, asked.RevisionPatch = v.Revision, v.RevisionTemplate, v.RevisionPatch
	asked.Replicas, asked.Partition, asked.ProtectedRevision = s.Child.Replicas, s.Child.Partition, s.Child.ProtectedRevision
	asked.ProtectedHash, asked.ReleasedFrom, asked.ReleasedBefore = s.Child.ProtectedHash, s.Child.ReleasedFrom, s.Child.ReleasedBefore // TestRecord
	asked.Seeding = s.Action == ActionSeed
	if diff := cmp.Diff(asked, s.Child); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// If a child gets another template before its controller has ever observed it, it never remembers the first one. So it
// waits even while nothing is protected, because the partition may rise before its controller observes the child.
func TestNextWaitsForAChildThatWasNeverSeen(t *testing.T) {
	never := func() *childBuilder { return aChild().unseen().hashes("", "") }
	for name, partition := range map[string]int32{"held": 4, "released": 0} {
		if s := nextStep(aGoal().partition(partition).Goal, never().observed()); s.Action != ActionWait {
			t.Errorf("%s: %s: the replicas below a partition that rises now come up on r2, though r1 is protected", name, asText(s))
		}
	}
}
