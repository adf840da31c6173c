// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// rightsPrefix is the prefix of the namespaces of these tests.
const rightsPrefix = "rights-"

// classicInformers disables informers that read with a watch alone. API servers before 1.34 do not
// support that, and informers then list.
const classicInformers = "KUBE_FEATURE_WatchListClient=false"

// TestRightsSuffice runs the manager through the scenario of the built-in kinds with the rights of the chart: nothing is
// refused, and only rights for other kinds are not used.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.needCRD()
	audit := startAudit(t)
	s := newScenario(t, audit, nil, rightsPrefix+"built-in", nil, classicInformers)
	s.Expect(s.run()).To(Succeed())
	s.stop()
	unused := s.unused(rightsOf(e.render(rightsPrefix + "none")))
	s.Expect(unused).NotTo(BeEmpty(), "the control: those for other kinds")
	for _, r := range unused {
		s.Expect(r.group).To(Or(Equal(kruiseGroup), Equal(lwsGroup)), "a right that the scenario does not use: %s", r)
	}
}

// startAudit follows the audit log until the test ends.
func startAudit(t *testing.T) *auditTail {
	t.Helper()
	audit := &auditTail{byUser: map[string][]cluster.Event{}}
	following, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	go audit.follow(following, shared.cluster)
	return audit
}

// unused returns the rights that the manager has not used. It checks that nothing was refused.
func (s *scenario) unused(all []right) []right {
	s.t.Helper()
	events, err := s.audit.wholly(s.ctx, shared.cluster, s.namespace, install.ServiceAccount)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(refusals(events)).To(BeEmpty(), "with all rights nothing is refused")
	return slices.DeleteFunc(slices.Clone(all), func(r right) bool {
		return r.resource == "uniteddeployments/finalizers" || slices.ContainsFunc(events, r.usedBy)
	})
}

// TestEveryRightIsNeeded removes every verb on every resource in turn, runs the manager in a separate
// namespace through the scenario, and checks that the API server refuses exactly that. Two runs with
// all rights are the control: nothing is refused, and every right is used.
func TestEveryRightIsNeeded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.needCRD()
	e.Expect(errors.Join(shared.cluster.StartKruise(e.ctx), shared.cluster.StartLWS(e.ctx))).To(Succeed())
	audit := startAudit(t)
	all := rightsOf(e.render(rightsPrefix + "none"))
	e.Expect(len(all)).To(BeNumerically(">", 20), "%v", all)
	for _, r := range all {
		e.Expect(r.verb+r.group+r.resource).NotTo(Or(ContainSubstring("*"), ContainSubstring("secrets"), ContainSubstring("exec")), r.String())
	}

	for i, env := range []string{"", classicInformers} {
		t.Run("complete "+env, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, audit, foreignKinds(), fmt.Sprintf("%scomplete-%d", rightsPrefix, i), nil, env)
			s.Expect(s.run()).To(Succeed())
			s.stop()
			if unused := s.unused(all); env != "" {
				s.Expect(unused).To(BeEmpty(), "rights that the scenario does not use")
			}
		})
	}
	for i, r := range all {
		t.Run("without "+r.String(), func(t *testing.T) {
			t.Parallel()
			env := ""
			if r.verb == "list" {
				env = classicInformers
			}
			s := newScenario(t, audit, foreignKinds(), fmt.Sprintf("%s%d", rightsPrefix, i), &all[i], env)
			s.Expect(s.run()).To(MatchError(errRefused))
			events, err := audit.of(s.namespace, install.ServiceAccount)
			s.Expect(err).NotTo(HaveOccurred())
			for _, event := range refusals(events) {
				s.Expect(r.refusedBy(event)).To(BeTrue(), "refused for another reason: %s: %s", event, event.Message)
			}
		})
	}
}

func refusals(events []cluster.Event) []cluster.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e cluster.Event) bool { return e.Code != http.StatusForbidden })
}

// render returns the objects of the chart that concern rights, for a manager that works in its own
// namespace.
func (e *env) render(namespace string) []*unstructured.Unstructured {
	e.t.Helper()
	out := e.helm("template", "united", e.chart("united"), "--namespace="+namespace,
		"--set="+restIsInstalled+",rbac.aggregate=false,watchNamespaces={"+namespace+"}",
		"--set=metrics.readers[0].name=reader,metrics.readers[0].namespace="+namespace)
	var objects []*unstructured.Unstructured
	for _, object := range e.decode([]byte(out)) {
		if object.GroupVersionKind().Group != rbacv1.GroupName && object.GetKind() != "ServiceAccount" && object.GetKind() != "Deployment" {
			continue
		}
		if object.GetNamespace() == "" {
			// Each namespace here gets its own copy of a cluster-scoped object, and references to that
			// copy.
			object.SetName(namespace + "-" + object.GetName())
			if name, found, _ := unstructured.NestedString(object.Object, "roleRef", "name"); found {
				e.Expect(unstructured.SetNestedField(object.Object, namespace+"-"+name, "roleRef", "name")).To(Succeed())
			}
		}
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+a.GetName(), b.GetKind()+b.GetName())
	})
	return objects
}

// rulesOf returns the rules of a role; nil for any other object.
func rulesOf(object *unstructured.Unstructured) []rbacv1.PolicyRule {
	role := &rbacv1.ClusterRole{}
	isRole := slices.Contains([]string{"Role", "ClusterRole"}, object.GetKind()) && !strings.HasSuffix(object.GetName(), "-metrics-reader")
	if !isRole || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role) != nil {
		return nil
	}
	return role.Rules
}

// rightsOf lists the rights that roles give, one by one.
func rightsOf(objects []*unstructured.Unstructured) []right {
	var all []right
	for _, object := range objects {
		_, role, _ := strings.Cut(object.GetName(), "united-")
		for _, rule := range rulesOf(object) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{role: role, verb: verb, group: rule.APIGroups[0], resource: resource})
				}
			}
		}
	}
	return all
}

// without removes a right from the roles.
func without(objects []*unstructured.Unstructured, r right) error {
	for _, object := range objects {
		_, role, _ := strings.Cut(object.GetName(), "united-")
		rules := rulesOf(object)
		if rules == nil || role != r.role {
			continue
		}
		var reduced []any
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				one := rule.DeepCopy()
				one.Resources = []string{resource}
				if rule.APIGroups[0] == r.group && resource == r.resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(verb string) bool { return verb == r.verb })
				}
				if len(one.Verbs) == 0 {
					continue
				}
				u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one)
				if err != nil {
					return err
				}
				reduced = append(reduced, u)
			}
		}
		object.Object["rules"] = reduced
		return nil
	}
	return fmt.Errorf("no role %s", r.role)
}
