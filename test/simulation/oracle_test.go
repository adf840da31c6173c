// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// accused is a test that keeps what it is told, instead of failing.
type accused struct{ *testing.T }

type verdict string

// Fatalf ends what is going on.
func (accused) Fatalf(format string, args ...any) { panic(verdict(fmt.Sprintf(format, args...))) }

// court is a world in which moves of the controller are forged.
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

// come lets replicas go, and come, and be ready.
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

// begins: what follows is done by the controller, which sees everything.
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

// step forges a status that is a step further.
func (c *court) step() *court {
	c.begins()
	c.tells(fmt.Sprintf(`{"status": {"rollout": {"step": %d}}}`, c.Parent().Status.Rollout.Step+1))
	return c
}

func (c *court) tells(patch string) {
	if err := c.API.Client().Status().Patch(c.T.Context(), c.Parent(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		panic(err)
	}
}

// misled is the controller's client, which gives it lists that are not true.
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

// forgotten: children have lost what tells that they are as they shall be, as often as
// they are written.
func forgotten(list client.ObjectList) {
	if sets, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range sets.Items {
			u := sets.Items[i].DeepCopy()
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", v1alpha1.AnnotationFingerprint)
			sets.Items[i] = *u
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

// Every rule of the oracle convicts somebody: a check that cannot fail shows nothing.
func TestTheOracleConvicts(t *testing.T) {
	plain := func(*v1alpha1.RollingUpdate) {}
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
			u := c.API.Live.Sets["web-a"].DeepCopy() // behind the back of all rules
			if err := unstructured.SetNestedField(u.Object, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition"); err != nil {
				panic(err)
			}
			c.API.PutSet(u)
			c.come(5)
		}, "I3: the shares are 1.00 apart"},
		{"I4 a partition rises", plain, func(c *court) { c.partition("a", 1).partition("a", 2) }, "I4: the partition of web-a rises from 1 to 2"},
		{"I5 out of turn", func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder },
			func(c *court) { c.partition("b", 1) }, "I5: web-b is released"},
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
		{"a step without its approval", waits(&v1alpha1.RolloutPause{}), func(c *court) { c.Rest(); c.step() }, "step 0 is over with the approval"},
		{"a step before its time", waits(&v1alpha1.RolloutPause{Duration: "10m"}), func(c *court) {
			for range 20 {
				c.Everybody()
			}
			c.step()
		}, "before its pause of 10m"},
		{"a child that is not drained", plain, func(c *court) {
			c.spec(func(spec *v1alpha1.UnitedDeploymentSpec) { ComeOrGo(spec, "b") }).delete(c.API.Live.Sets["web-b"])
		}, "removes web-b, which still has"},
		{"a rollout that does not end", plain, func(c *court) { c.image("crash1").Ends() }, "it does not end: Failed"},
		{"a controller that never rests", plain, func(c *court) {
			c.Ends()
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

// judged is what the oracle says, "" if nothing.
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
