// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// accused is a test that records its failure.
type accused struct{ *testing.T }

type verdict string

// Fatalf ends the current action.
func (accused) Fatalf(format string, args ...any) { panic(verdict(fmt.Sprintf(format, args...))) }

// court is a world in which actions of the controller are forged.
type court struct{ *World }

// staged has a and b with 2 replicas of v1 each, and v2 is staged.
func staged(t *testing.T, change func(*v1alpha1.RollingUpdate)) *court {
	c := &court{New(accused{t}, "Parallel", "a", "b")}
	strategy := &v1alpha1.RollingUpdate{MaxUnavailable: amountOf("3")}
	change(strategy)
	c.Edit("strategy", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: strategy}
	})
	c.Rest()
	return c.image("v2").pass().moves("a", "b")
}

func (c *court) image(image string) *court {
	c.Edit("image "+image, func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = TemplateOf(image, "Parallel") })
	return c
}

func (c *court) pass() *court {
	c.API.Refresh()
	c.Reconcile()
	return c
}

func (c *court) moves(subsets ...string) *court {
	for _, name := range subsets {
		c.Sync(c.Child(name))
	}
	return c
}

// come lets pods be deleted, created, and become ready.
func (c *court) come(rounds int) *court {
	for range rounds {
		c.others()
	}
	return c
}

func (c *court) spec(change func(*v1alpha1.UnitedDeploymentSpec)) *court {
	c.Edit("spec", change)
	return c
}

// begins starts a pass of the controller, which sees everything.
func (c *court) begins() {
	c.API.Refresh()
	c.Oracle.beforePass()
}

// partition forges a write of a child's partition.
func (c *court) partition(subset string, to int64) *court {
	c.begins()
	c.applies(c.Child(subset), to)
	return c
}

func (c *court) applies(child string, to int64) {
	u := c.API.Live.Sets[child].DeepCopy()
	u.SetManagedFields(nil)
	delete(u.Object, "status")
	if err := unstructured.SetNestedField(u.Object, to, "spec", "updateStrategy", "rollingUpdate", "partition"); err != nil {
		panic(err)
	}
	if err := c.API.Client().Apply(c.T.Context(), client.ApplyConfigurationFromUnstructured(u)); err != nil {
		panic(err)
	}
}

// delete forges the deletion of a pod or a child.
func (c *court) delete(o client.Object) *court {
	c.begins()
	if err := c.API.Client().Delete(c.T.Context(), o, client.Preconditions{UID: ptr.To(o.GetUID())}); err != nil {
		panic(err)
	}
	return c
}

func (c *court) pod(name string) client.Object { return c.API.Live.Pods[c.Child(name)] }

// step forges a status that is one step further.
func (c *court) step() *court {
	c.begins()
	c.tells(fmt.Sprintf(`{"status": {"rollout": {"step": %d}}}`, c.Parent().Status.Rollout.Step+1))
	return c
}

// reached makes the current step reached.
func (c *court) reached() *court {
	for range 20 {
		c.Everybody()
	}
	return c
}

func (c *court) ready(pod string) *court {
	c.Sets.SetReady(c.API.Live.Pods[c.Child(pod)], true)
	return c
}

func (c *court) unready(pod string) *court {
	c.Sets.SetReady(c.API.Live.Pods[c.Child(pod)], false)
	return c
}

func (c *court) fails(pod string) *court {
	c.Sets.SetFailure(c.API.Live.Pods[c.Child(pod)], "CrashLoopBackOff")
	return c
}

// forgets makes a child forget what it protects, like a controller that does not see its revisions; remembers reverts
// that.
func (c *court) forgets(subset string) *court {
	u := c.API.Live.Sets[c.Child(subset)].DeepCopy()
	status, _ := u.Object["status"].(map[string]any)
	was, _ := status["currentRevision"].(string)
	c.API.forgot[u.GetUID()], status["currentRevision"] = was, status["updateRevision"]
	c.API.PutSet(u)
	return c
}

func (c *court) remembers(subset string) *court {
	u := c.API.Live.Sets[c.Child(subset)].DeepCopy()
	status, _ := u.Object["status"].(map[string]any)
	status["currentRevision"] = c.API.forgot[u.GetUID()]
	delete(c.API.forgot, u.GetUID())
	c.API.PutSet(u)
	return c
}

// loses deletes a pod as somebody else.
func (c *court) loses(pod string) *court {
	c.API.DeletePod(c.API.Live.Pods[c.Child(pod)])
	return c
}

func (c *court) scale(to int32) *court {
	return c.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Replicas = &to })
}

func (c *court) later(d time.Duration) *court {
	c.Clock.SetTime(c.Clock.Now().Add(d))
	return c
}

func (c *court) tells(patch string) {
	if err := c.API.Client().Status().Patch(c.T.Context(), c.Parent(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		panic(err)
	}
}

// misled is the controller's client with incorrect lists.
type misled struct {
	client.Client
	lie func(client.ObjectList)
}

func (c misled) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, into, opts...)
	c.lie(into)
	return err
}

func (c *court) mislead(lie func(client.ObjectList)) *court {
	c.Reconciler.Client = misled{c.Reconciler.Client, lie}
	return c
}

// forgotten: children have lost the record that they are as they must be, each time they are written.
func forgotten(list client.ObjectList) {
	if sets, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range sets.Items {
			u := sets.Items[i].DeepCopy()
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", v1alpha1.AnnotationFingerprint)
			sets.Items[i] = *u
		}
	}
}

// remembered: web-a has not forgotten, and web-a-0 runs the revision of web-a-1.
func remembered(list client.ObjectList) {
	var hash string
	switch list := list.(type) {
	case *corev1.PodList:
		for i := range list.Items {
			if list.Items[i].Name == "web-a-1" {
				hash = list.Items[i].Labels[appsv1.ControllerRevisionHashLabelKey]
			}
		}
		for i := range list.Items {
			if p := list.Items[i].DeepCopy(); p.Name == "web-a-0" {
				p.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
				list.Items[i] = *p
			}
		}
	case *unstructured.UnstructuredList:
		for i := range list.Items {
			if u := list.Items[i].DeepCopy(); u.GetName() == "web-a" {
				status, _ := u.Object["status"].(map[string]any)
				status["currentRevision"] = u.GetAnnotations()[v1alpha1.AnnotationProtectedHash]
				list.Items[i] = *u
			}
		}
	}
}

// adopted: web-a-9 has the owner of web-a-0.
func adopted(list client.ObjectList) {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return
	}
	for i := range pods.Items {
		if p := pods.Items[i].DeepCopy(); p.Name == "web-a-9" {
			p.OwnerReferences = pods.Items[0].OwnerReferences // the list is sorted
			pods.Items[i] = *p
		}
	}
}

// unready: web-b-0 is not ready.
func unready(list client.ObjectList) {
	if pods, ok := list.(*corev1.PodList); ok {
		for i := range pods.Items {
			if p := pods.Items[i].DeepCopy(); p.Name == "web-b-0" {
				p.Status.Conditions = nil
				pods.Items[i] = *p
			}
		}
	}
}

// TestTheOracleConvicts: every rule of the oracle can fail. A check that cannot fail shows nothing.
func TestTheOracleConvicts(t *testing.T) {
	plain := func(*v1alpha1.RollingUpdate) {}
	held := func(s *v1alpha1.RollingUpdate) { s.Partition = amountOf("100%") }
	inOrder := func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder }
	waits := func(pause *v1alpha1.RolloutPause) func(*v1alpha1.RollingUpdate) {
		return func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amountOf("1"), Pause: pause}}
		}
	}
	for _, tc := range []struct {
		name     string
		strategy func(*v1alpha1.RollingUpdate)
		crime    func(*court)
		says     string // "" for what is no crime
	}{
		{"nothing wrong", plain, func(c *court) { c.partition("a", 1).come(5).partition("b", 0).come(5) }, ""},
		{"I1 a replica below the floor moves", func(s *v1alpha1.RollingUpdate) { s.Partition = amountOf("1") },
			func(c *court) { c.partition("a", 0).come(5) }, "below the partition 1"},
		{"I1 a replica below the step's target moves", waits(nil), func(c *court) { c.partition("a", 0).come(5) }, "below the partition 1"},
		{"I1 a subset that no step names moves", waits(nil), func(c *court) { c.partition("b", 1).come(5) }, "below the partition 2147483647"},
		{"I1 a protected replica is deleted", plain, func(c *court) { c.delete(c.pod("a-1")) }, "is not released or is updated"},
		{"I2 more than may be", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = nil },
			func(c *court) { c.partition("a", 0) }, "I2: writing web-a makes 2 unavailable"},
		{"I2 one too many in another subset", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = nil },
			func(c *court) { c.partition("a", 1).partition("b", 1) }, "I2: writing web-b makes 2 unavailable"},
		{"I2 more of a subset than may be", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amountOf("1") },
			func(c *court) { c.partition("a", 0) }, "I2: writing web-a makes 2 of a unavailable"},
		{"I2 as many of each subset as may be", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amountOf("1") },
			func(c *court) { c.partition("a", 1).partition("b", 1) }, ""},
		{"I2 of a subset in a calm world", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amountOf("1") }, func(c *court) {
			c.Oracle.Calm = true
			for _, name := range []string{"a-0", "a-1"} {
				c.Sets.SetReady(c.API.Live.Pods["web-"+name], false)
			}
			c.Look()
		}, "I2: 2 replicas of a are down; maxUnavailablePerSubset is 1"},
		{"I2 a deletion too many", plain, func(c *court) {
			c.partition("a", 0).spec(func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
			}).delete(c.pod("a-1")).delete(c.pod("a-0"))
		}, "I2: deleting web-a-0 makes 2 unavailable"},
		{"I2 in a calm world", plain, func(c *court) {
			c.Oracle.Calm = true
			for _, name := range []string{"a-0", "a-1", "b-0", "b-1"} {
				c.Sets.SetReady(c.API.Live.Pods["web-"+name], false)
			}
			c.Look()
		}, "I2: 4 replicas are down"},
		{"I3 too far ahead", func(s *v1alpha1.RollingUpdate) { s.MaxSkew = "10%" },
			func(c *court) { c.partition("a", 0) }, "I3: 2 of 2 replicas of web-a are released"},
		{"I3 in a calm world", func(s *v1alpha1.RollingUpdate) { s.MaxSkew = "10%" }, func(c *court) {
			c.partition("a", 1).come(5).pass().Oracle.Calm = true
			u := c.API.Live.Sets["web-a"].DeepCopy() // without calling the oracle
			if err := unstructured.SetNestedField(u.Object, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition"); err != nil {
				panic(err)
			}
			c.API.PutSet(u)
			c.come(5)
		}, "I3: the shares are 1.00 apart"},
		{"I4 a partition rises", plain, func(c *court) { c.partition("a", 1).partition("a", 2) }, "I4: the partition of web-a rises from 1 to 2"},
		{"a partition rises while the spec asks for another revision", plain, func(c *court) {
			c.partition("a", 1).image("v3").partition("a", 2)
		}, ""},
		{"I5 out of turn", inOrder,
			func(c *court) { c.partition("b", 1) }, "I5: web-b is released"},
		{"I5 out of turn by force, before what is ahead has failed", inOrder, func(c *court) {
			c.partition("a", 0).come(8).unready("a-1").forces().partition("b", 1)
		}, "I5: web-b is released, though of web-a 1 of 2"},
		{"I5 out of turn by force, before what is ahead is released", inOrder, func(c *court) {
			c.partition("a", 1).come(8).fails("a-1").forces().partition("b", 1)
		}, "I5: web-b is released, though of web-a 0 of 2"},
		{"I5 by force, after what is ahead has failed", inOrder, func(c *court) {
			c.partition("a", 0).come(8).fails("a-1").fails("a-0").forces().partition("b", 1)
		}, ""},
		{"released by a pass for which an event may have been gathered", plain, func(c *court) {
			c.Oracle.gathers = true
			c.partition("a", 1)
		}, "the event may have waited for others"},
		{"released while paused", plain, func(c *court) {
			c.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = true }).partition("a", 1)
		}, "is released while paused"},
		{"released before it is observed", plain, func(c *court) { c.partition("a", 1).partition("a", 0) }, "before its controller has observed it"},
		{"released before it is on record", plain, func(c *court) {
			parent := c.Parent().DeepCopy()
			parent.Status.Rollout = nil
			c.API.Live.Parents[c.Name] = parent
			c.partition("a", 1)
		}, "is staged and on record"},
		{"released though another failed", plain, func(c *court) {
			c.partition("a", 1).come(3)
			c.Sets.SetFailure(c.API.Live.Pods["web-a-1"], "CrashLoopBackOff")
			c.partition("b", 1)
		}, "though web-a-1 failed"},
		{"a step that is not reached", waits(nil), func(c *court) { c.step() }, "of web-a only 0 of 1 are updated"},
		{"a step of replicas that are gone, and may come back as they were", waits(nil), func(c *court) { c.gone("a", "b").step() },
			"of web-a only 0 of 1 are updated"},
		{"a step of replicas that are gone, and shall come back as they were", waits(nil), func(c *court) {
			c.forgets("a").forgets("b").gone("a", "b").step()
		}, "of web-a only 0 of 1 are updated"},
		{"a step of replicas that are gone, of which some can be nothing else", waits(nil), func(c *court) {
			c.knowsOnly("a").gone("a", "b").step()
		}, "of web-a only 0 of 1 are updated"},
		{"a step of replicas that are gone, and can be nothing else", waits(nil), func(c *court) {
			c.knowsOnly("a").knowsOnly("b").gone("a", "b").step()
		}, ""},
		{"a step without its approval", waits(&v1alpha1.RolloutPause{}), func(c *court) { c.Rest(); c.step() }, "step 0 is over with the approval"},
		{"a step that is promoted", waits(&v1alpha1.RolloutPause{}), func(c *court) { c.Rest(); c.promotes("/1").step() }, ""},
		{"a step with a promote that was there before", waits(&v1alpha1.RolloutPause{}), func(c *court) {
			c.promotes("/1").image("v3").Rest()
			c.image("v2").Rest()
			c.step()
		}, "step 0 is over with the approval"},
		{"promoted with what was there before", waits(&v1alpha1.RolloutPause{}), func(c *court) {
			c.promotes("/1").image("v3").Rest()
			c.image("v2").Rest()
			c.begins()
			c.tells(`{"status": {"rollout": {"promoted": true}}}`)
		}, "the rollout is promoted by what was there before"},
		{"forced with what was there before", plain, func(c *court) {
			c.image("v3").pass()
			c.forces().image("v2").pass().image("v3").pass().begins()
			c.tells(`{"status": {"rollout": {"forced": true}}}`)
		}, "the rollout is forced by what was there before"},
		{"a step with another promote", waits(&v1alpha1.RolloutPause{}), func(c *court) {
			c.promotes("/1").image("v3").Rest()
			c.image("v2").Rest()
			c.promotes("/2").step()
		}, ""},
		{"a step before its time", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			for range 20 {
				c.Everybody()
			}
			c.step()
		}, "before its pause of 10m"},
		{"a step that did not stand for its time", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			c.reached().unready("a-1").later(20 * time.Minute).ready("a-1").step()
		}, "step 0 is over after it stood for"},
		{"a step that stood before a failure", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			c.reached().later(9 * time.Minute).fails("a-1").pass().ready("a-1").later(9 * time.Minute).step()
		}, "step 0 is over after it stood for 9m"},
		{"a step that stood for its time, in two parts", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			c.reached().later(5 * time.Minute).unready("a-1").pass().later(time.Minute).ready("a-1").pass().later(6 * time.Minute).step()
		}, ""},
		{"a step that stood, as far as could be seen", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			c.reached().later(8 * time.Minute).API.Refresh()
			c.unready("a-1").later(3 * time.Minute)
			c.Oracle.beforePass() // with an old cache
			c.tells(`{"status": {"rollout": {"step": 1}}}`)
		}, ""},
		{"a pause while the controller was away", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			c.reached().unready("a-1").later(9 * time.Minute).pass().ready("a-1").pass().later(2 * time.Minute).pass()
		}, ""},
		{"what was forgotten is repaired", held, func(c *court) { c.forgets("a").loses("a-0").come(3).Rest() }, ""},
		{"what was forgotten stays", held, func(c *court) { c.forgets("a").loses("a-0").come(3).mislead(remembered).Rest() },
			"web-a-0 stays on v2, which it was not released to"},
		{"taken back to come up the same", held, func(c *court) { c.forgets("a").loses("a-0").come(3).delete(c.pod("a-0")) },
			"takes back web-a-0, of a set that would make it as it is"},
		{"taken back while paused", held, func(c *court) {
			c.forgets("a").loses("a-0").come(3).remembers("a").spec(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = true }).delete(c.pod("a-0"))
		}, "takes back web-a-0 while paused"},
		{"I2 taken back outside the ledger", func(s *v1alpha1.RollingUpdate) { s.Partition = amountOf("100%"); s.MaxUnavailable = nil },
			func(c *court) {
				c.forgets("a").loses("a-0").come(3).remembers("a").unready("b-0").delete(c.pod("a-0"))
			}, "I2: taking back web-a-0 makes 2 unavailable"},
		{"a pod of nobody", plain, func(c *court) { c.delete(c.Stray("a", "debug", "")) }, "the controller writes to *v1.Pod web-a-debug,"},
		{"a pod of a child that is gone", plain, func(c *court) { c.delete(c.Stray("a", "9", "gone")) }, "the controller writes to *v1.Pod web-a-9,"},
		{"a stray that is counted", held, func(c *court) {
			c.Stray("a", "9", "gone")
			c.mislead(adopted).pass()
		}, "the status counts 3 replicas of a; its child has 2"},
		{"counts that wait", plain, func(c *court) {
			c.collects(5*time.Second).scale(6).pass().counted(1, 3, 4).writesNothing().later(4 * time.Second).writesNothing()
		}, ""},
		{"counts that wait for too long", plain, func(c *court) {
			c.collects(5*time.Second).scale(6).pass().counted(1, 3, 4).writesNothing().later(5 * time.Second).writesNothing()
		}, "the status counts 3 replicas of b for 5s; its child has 2"},
		{"counts that wait anew, for another controller does not remember", plain, func(c *court) {
			c.collects(5*time.Second).scale(6).pass().counted(1, 3, 4).writesNothing().later(4 * time.Second).collects(5 * time.Second).writesNothing().later(4 * time.Second).writesNothing()
		}, ""},
		{"counts that wait, of a controller that does not let them", plain, func(c *court) {
			c.scale(6).pass().counted(1, 3, 4).writesNothing()
		}, "the status counts 3 replicas of b for 0s"},
		{"counts that are not true as they are written", plain, func(c *court) {
			c.collects(5*time.Second).scale(6).pass().counted(1, 3, 4).writesStatus()
		}, "the status counts 1 replicas of a; its child has 2"},
		{"a count that waits, and is what is wanted", plain, func(c *court) {
			c.collects(5*time.Second).pass().counted(1, 3, 4).phase(v1alpha1.PhaseScaling).writesNothing()
		}, "the status counts 1 replicas of a; its child has 2"},
		{"a count that waits, and is what is wanted for a moment", plain, func(c *court) {
			c.collects(5*time.Second).pass().counted(1, 3, 4).phase(v1alpha1.PhaseUpdating).writesNothing()
		}, ""},
		{"a count that waits while all are made", plain, func(c *court) {
			c.collects(5*time.Second).pass().counted(1, 3, 4).phase(v1alpha1.PhaseScaling).neverReady().writesNothing().later(59 * time.Second).writesNothing()
		}, ""},
		{"a count that waits for too long while all are made", plain, func(c *court) {
			c.collects(5*time.Second).pass().counted(1, 3, 4).phase(v1alpha1.PhaseScaling).neverReady().writesNothing().later(time.Minute).writesNothing()
		}, "the status counts 3 replicas of b for 1m0s; its child has 2"},
		{"the number of all replicas is not that of the subsets", plain, func(c *court) {
			c.collects(5*time.Second).scale(6).pass().counted(2, 2, 3).writesNothing()
		}, "the status counts 3 replicas in all, and 4 in its subsets"},
		{"what is protected is told late", plain, func(c *court) { c.partition("a", 0).come(8).sees("sets", "pods") },
			`the status says that a protects "v1"; it is [v2]`},
		{"what is protected is not known yet", plain, func(c *court) { c.partition("a", 0).come(8).sees("sets") }, ""},
		{"what is protected is not known for a while, and is told late", plain, func(c *court) {
			c.partition("a", 0).come(8).sees("sets").sees("pods")
		}, `the status says that a protects "v1"; it is [v2]`},
		{"what is protected waits", plain, func(c *court) {
			c.collects(5 * time.Second).scale(6).pass().protects("a").writesNothing()
		}, "the status says that a protects"},
		{"zero approves", waits(&v1alpha1.RolloutPause{}), func(c *court) {
			c.Rest()
			c.scale(0).scale(4).partition("a", 0).come(3)
		}, "web-a-0 is created on v2; it is below the partition"},
		{"zero finishes", held, func(c *court) {
			c.scale(0).Rest()
			c.begins()
			c.tells(fmt.Sprintf(`{"status": {"currentRevision": %q}}`, c.Parent().Status.UpdateRevision))
			c.Oracle.afterPass(true)
		}, "though there are no replicas"},
		{"a child that is not drained", plain, func(c *court) {
			c.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { ComeOrGo(spec, "b") }).delete(c.API.Live.Sets["web-b"])
		}, "removes web-b, which still has"},
		{"a rollout that does not end", plain, func(c *court) { c.image("crash1").Ends() }, "it does not end: Failed"},
		{"a controller that never rests", plain, func(c *court) {
			c.Ends()
			c.Restart() // clears the memory, which no list replaces
			c.mislead(forgotten).Rest()
		}, "at rest the controller writes [apply web-a"},
		{"blocked by nothing", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = nil },
			func(c *court) { c.mislead(unready).Ends() }, "it is blocked, though nothing out of reach uses up the ledger: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			says := judged(func() { tc.crime(staged(t, tc.strategy)) })
			if tc.says == "" && says != "" || !strings.Contains(says, tc.says) {
				t.Errorf("want %q, have %q", tc.says, says)
			}
		})
	}
}

// judged returns what the oracle says; "" if nothing.
func judged(play func()) (says string) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(verdict)
			if !ok {
				panic(r)
			}
			says = string(v)
		}
	}()
	play()
	return ""
}
