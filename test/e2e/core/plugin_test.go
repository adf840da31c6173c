// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestPluginCanary releases a version zone by zone with the plugin, and stops it.
func TestPluginCanary(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), Hold()))
	w.Settle()
	first := w.Parent().Status.UpdateRevision
	w.SetImage("v2")
	w.Settle()
	update := w.Parent().Status.UpdateRevision

	e.Step("what only the API server can refuse is foreseen, also where it changes no pod", func() {
		object := e.Kubectl("get", "united", "web", "-o", "json")
		for edit, says := range map[[2]string]string{
			{`"podManagementPolicy": "Parallel"`, `"podManagementPolicy": "OrderedReady"`}:                                          `Refused +web-zone-a, web-zone-b, web-zone-c: spec.podManagementPolicy is Parallel and cannot become OrderedReady; see https`,
			{`"image": "registry.example/web:v2"`, `"image": "registry.example/web:v2", "resources": {"requests": {"cpu": "abc"}}`}: "quantities must match",
		} {
			file := filepath.Join(t.TempDir(), "web.json")
			e.Expect(object).To(ContainSubstring(edit[0]))
			e.Expect(os.WriteFile(file, []byte(strings.Replace(object, edit[0], edit[1], 1)), 0o600)).To(Succeed())
			plan := e.Plugin("plan", "-f", file)
			e.Expect(plan.Code).To(Equal(1), plan.Out+plan.Err)
			e.Expect(plan.Out + plan.Err).To(MatchRegexp(says))
		}
	})
	e.Step("one replica of zone-a, and the command that does the same", func() {
		out := e.Does("release", "web", "zone-a", "--canary", "--revision", update)
		e.Expect(out).To(And(HavePrefix("$ kubectl patch united web -n "+e.Namespace+" --type=json -p '["), ContainSubstring(`partition "50%" releases 1 of 2 replicas of zone-a`)))
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"})
		e.Expect(w.Parent().Spec.UpdateStrategy.ManualUpdate.Revision).To(Equal(update))
	})
	e.Step("the screen, and the same facts as JSON", func() {
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		e.Expect(e.Does("status", "web", "--pods")).To(And(ContainSubstring("RolloutHeld"), ContainSubstring("web:v2"), MatchRegexp(`zone-a +1/2 +2/2 +░█ +v1, v2 +50% \(1\) +Held`), MatchRegexp(`web-zone-a-1 +updated +`+known.Short(update))))
		st := &view.Status{}
		e.Expect(json.Unmarshal([]byte(e.Does("status", "web", "-o", "json")), st)).To(Succeed())
		e.Expect(st.Update.Name).To(Equal(update))
		e.Expect(st.Current.Images).To(Equal([]string{"registry.example/web:v1"}))
		e.Expect(st.Subsets[0].Bar).To(Equal(view.Bar{Updated: 1, Protected: 1}))
		e.Expect(st.Subsets[1].Bar).To(Equal(view.Bar{Protected: 2}))
		e.Expect(e.Does("status")).To(MatchRegexp(`web +6 +1 +6 +RolloutHeld`))
		e.Expect(e.Does("get", "united/web", "-o", "name")).To(Equal("uniteddeployment.apps.united.dev/web\n"))
	})
	e.Step("a pipeline waits for what it asks for, and no longer than it may", func() {
		e.Expect(e.Plugin("wait", "web", "--for", "held").Code).To(BeZero())
		late := e.Plugin("wait", "web", "--for", "complete", "--timeout", "2s")
		e.Expect(late.Code).To(Equal(2), late.Err)
	})
	e.Step("what is not so is refused, and changes nothing", func() {
		before := w.Parent().Generation
		e.Refuses("did you mean web?", "status", "wen")
		e.Refuses("did you mean zone-a?", "release", "web", "zone-d")
		e.Refuses("and no longer "+first+": nothing was done", "release", "web", "zone-b", "--revision", first)
		e.Refuses("zone-b is there twice", "release", "web", "zone-b=1", "zone-b=2")
		e.Refuses("zone-b=7: it must be at most 2, the replicas of the subset", "release", "web", "zone-b=7")
		e.Refuses("waits for no approval", "approve", "web")
		e.Refuses("is of type Manual", "force", "web", "--yes")
		e.Expect(e.Does("release", "web", "zone-c", "--dry-run")).To(ContainSubstring("dry run: nothing was changed"))
		e.Expect(w.Parent().Generation).To(Equal(before))
	})
	e.Step("paused, nothing is released", func() {
		e.Does("pause", "web")
		e.Does("release", "web", "zone-b=1", "-o", "name")
		w.IsReady(v1alpha1.ReasonPaused)
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"})
		e.Does("resume", "web")
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v2", "zone-c": "v1 v1"})
	})
	e.Step("held, and the next template opens nothing", func() {
		e.Does("hold", "web", "zone-a")
		e.Does("partition", "web", "zone-b=0")
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v2 v2", "zone-c": "v1 v1"})
		w.SetImage("v3")
		w.Settle()
		e.Expect(e.Does("status", "web")).To(ContainSubstring("are for " + known.Short(update) + ", so everything else is held"))
		e.Does("release", "web", "zone-c")
		w.Settle()
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v2 v2", "zone-c": "v3 v3"})
	})
	e.Step("who may only read sees, and may not act", func() {
		e.Kubectl("create", "serviceaccount", "reader")
		e.Kubectl("create", "role", "reader", "--verb=get,list", "--resource=uniteddeployments.apps.united.dev")
		e.Kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+e.Namespace+":reader")
		as := "--as=system:serviceaccount:" + e.Namespace + ":reader"
		e.Eventually(func() int { return e.Plugin("status", "web", as).Code }).Should(BeZero())
		e.Expect(e.Does("status", "web", as)).To(And(ContainSubstring("Not seen: replicas: you have no right to list "), MatchRegexp(`zone-c +2/2 +2/2 +██`)))
		e.Refuses("you may not do that", "pause", "web", as)
		e.Expect(w.Parent().Spec.Paused).To(BeFalse())
		e.Kubectl("create", "role", "looker", "--verb=get,list", "--resource=pods,statefulsets.apps,controllerrevisions.apps")
		e.Kubectl("create", "rolebinding", "looker", "--role=looker", "--serviceaccount="+e.Namespace+":reader")
		e.Eventually(func() string { return e.Does("status", "web", "--pods", as) }).Should(MatchRegexp(`web-zone-c-1 +updated`))
		e.Expect(e.Does("plan", "web", "--image", "web="+Image("v4"), as)).To(And(ContainSubstring("no right to patch uniteddeployments"), ContainSubstring("no right to patch statefulsets")))
		e.Expect(e.Does("why", "web", as)).To(And(ContainSubstring("web "), ContainSubstring("Not seen: ")))
		e.Expect(e.Does("history", "web", as)).To(ContainSubstring("web:v3"))
	})
	e.Step("where what stalls is not in the pods, undo says which field to set back, and changes nothing", func() {
		e.Does("release", "web", "--all")
		w.Settle()
		third := w.Parent().Status.UpdateRevision
		const says = "set spec.template.statefulSetTemplate.spec.podManagementPolicy back to Parallel"
		refused := func(operation string, args ...any) {
			w.JSONPatch("["+operation+"]", args...)
			w.StallsWhole(v1alpha1.ReasonApplyRefused, "All subsets: ")
			before := w.Parent().Generation
			e.Refuses("what stalls web is not in its pods, which are what undo sets back: "+says, "undo", "web")
			e.Expect(w.Parent().Generation).To(Equal(before))
			e.Expect(e.Does("status", "web")).To(And(HaveSuffix("\nBack  "+says+"\n"), Not(ContainSubstring("kubectl united undo"))))
		}
		policy := TemplatePath + "/spec/podManagementPolicy"
		refused(`{"op":"replace","path":%q,"value":"OrderedReady"}`, policy)
		refused(`{"op":"remove","path":%q}`, policy)
		refused(`{"op":"replace","path":%q,"value":%q}`, ImagePath, Image("v4"))
		forced := e.Plugin("undo", "web", "--to-revision", third)
		e.Expect(forced.Code).To(BeZero(), forced.Err)
		e.Expect(forced.Err).To(ContainSubstring("only the pods go back; to end the stall, also " + says))
		w.JSONPatch(`[{"op":"add","path":%q,"value":"Parallel"}]`, policy)
		w.Settle()
		w.Runs(Images{"zone-a": "v3 v3", "zone-b": "v3 v3", "zone-c": "v3 v3"})
	})
	e.Step("where only one subset is refused, undo takes back what the others accepted, and says which field stays", func() {
		const says = "set spec.topology.subsets[zone-b].patch.spec.podManagementPolicy back to Parallel"
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":{"spec":{"podManagementPolicy":"OrderedReady"}}},{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image("v4"))
		w.StallsWhole(v1alpha1.ReasonApplyRefused, "zone-b: ")
		e.Expect(e.Does("status", "web")).To(HaveSuffix("\nBack  kubectl united undo web --kubeconfig " + e.Cluster.Kubeconfig() + " -n " + e.Namespace + "\nAlso  " + says + "\n"))
		undone := e.Plugin("undo", "web")
		e.Expect(undone.Code).To(BeZero(), undone.Err)
		e.Expect(undone.Err).To(ContainSubstring("only the pods go back; to end the stall, also " + says))
		w.StallsWhole(v1alpha1.ReasonApplyRefused, "zone-b: ")
		e.Expect(e.Does("status", "web")).To(HaveSuffix("\nBack  " + says + "\n"))
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch/spec/podManagementPolicy"}]`)
		w.Settle()
		w.Runs(Images{"zone-a": "v3 v3", "zone-b": "v3 v3", "zone-c": "v3 v3"})
	})
	e.Step("versions, files, and what a shell completes", func() {
		e.Expect(e.Does("version")).To(ContainSubstring("united-system/united-manager"))
		file := filepath.Join(t.TempDir(), "web.json")
		e.Expect(os.WriteFile(file, []byte(strings.Replace(e.Kubectl("get", "united", "web", "-o", "json"), `"replicas": 6`, `"replicas": -1`, 1)), 0o600)).To(Succeed())
		bad := e.Plugin("lint", "-f", file)
		e.Expect(bad.Code).To(Equal(1))
		e.Expect(bad.Out).To(ContainSubstring("web: spec.replicas: Invalid value"))
		e.Expect(e.Does("__complete", "release", "")).To(HavePrefix("web\n"))
		e.Expect(e.Does("__complete", "release", "web", "")).To(HavePrefix("zone-a\nzone-b\nzone-c\n"))
	})
}

// TestPluginSteps approves and forces with the plugin.
func TestPluginSteps(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "50%", pause: {}}]}`)))
	w.Settle()
	e.Refuses("is of type RollingUpdate, so the controller releases", "release", "web", "zone-a")
	w.SetImage("v2")
	w.AwaitApproval(0)
	e.Expect(e.Does("status", "web")).To(MatchRegexp(`Next  kubectl united approve web --kubeconfig`))
	e.Expect(e.Does("approve", "web")).To(ContainSubstring("is approved; after the last step everything is released"))
	// An annotation does not change the generation, so the status before it counts as current.
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
	w.Settle()
	e.Step("promoted, the steps are passed, but not with the revision of another", func() {
		w.Patch(`{"metadata":{"annotations":{%q:"web-1"}}}`, v1alpha1.AnnotationPromote)
		w.SetImage("v4")
		w.AwaitApproval(0)
		w.Eventually(func() string { return w.Rollout().Message }).Should(HaveSuffix("; the annotation united.dev/promote is \"web-1\", which is not the update revision"))
		e.Does("promote", "web", "--yes")
		w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v4 v4", "zone-b": "v4 v4"}))
		w.Settle()
		w.Expect(w.Rollout().Promoted).To(BeTrue())
		w.SetImage("v2")
		w.Settle() // the way back: a promote of the revision that is left is spent
		w.SetImage("v4")
		w.AwaitApproval(0)
		w.Eventually(func() string { return w.Rollout().Message }).Should(HaveSuffix("; the annotation %s, which was there before this rollout; to set it again, run: "+
			"kubectl annotate --overwrite united -n %[2]s web %[1]s=%[3]s/$(date +%%s)", v1alpha1.AnnotationPromote, e.Namespace, w.Parent().Status.UpdateRevision))
		e.Does("promote", "web", "--yes")
		w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v4 v4", "zone-b": "v4 v4"}))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
	})
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))

	w.SetImage("broken-v3")
	w.IsNotReady(v1alpha1.ReasonReplicaFailed)
	failed := e.Plugin("wait", "web", "--timeout", "2m")
	e.Expect(failed.Code).To(Equal(1))
	e.Expect(failed.Err).To(ContainSubstring("ReplicaFailed"))
	e.Expect(e.Does("why", "web")).To(ContainSubstring("CrashLoopBackOff"))
	e.Refuses("To do it without a terminal, add --yes", "force", "web")
	e.Does("force", "web", "--yes")
	w.Eventually(func() bool { return w.Rollout().Forced }).Should(BeTrue())
}
