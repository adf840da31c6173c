// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
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

// RightsPrefix is the prefix of the namespaces of these tests.
const RightsPrefix = "rights-"

// ClassicInformers disables informers that read with a watch alone. API servers before 1.34 do not
// support that, and informers then list.
const ClassicInformers = "KUBE_FEATURE_WatchListClient=false"

// StartAudit follows the audit log until the test ends.
func StartAudit(t *testing.T) *auditTail {
	t.Helper()
	audit := &auditTail{byUser: map[string][]cluster.Event{}}
	following, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	go audit.follow(following, Shared.Cluster)
	return audit
}

// Unused returns the rights that the manager has not used. It checks that nothing was refused.
func (s *scenario) Unused(all []right) []right {
	s.T.Helper()
	events, err := s.audit.wholly(s.Ctx, Shared.Cluster, s.Namespace, install.ServiceAccount)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(Refusals(events)).To(BeEmpty(), "with all rights nothing is refused")
	return slices.DeleteFunc(slices.Clone(all), func(r right) bool {
		return r.Resource == "uniteddeployments/finalizers" || slices.ContainsFunc(events, r.usedBy)
	})
}

func Refusals(events []cluster.Event) []cluster.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e cluster.Event) bool { return e.Code != http.StatusForbidden })
}

// Render returns the objects of the chart that concern rights, for a manager that works in its own
// namespace.
func (e *Env) Render(namespace string) []*unstructured.Unstructured {
	e.T.Helper()
	out := e.Helm("template", "united", e.Chart("united"), "--namespace="+namespace,
		"--set="+RestIsInstalled+",rbac.aggregate=false,watchNamespaces={"+namespace+"}",
		"--set=metrics.readers[0].name=reader,metrics.readers[0].namespace="+namespace)
	var objects []*unstructured.Unstructured
	for _, object := range e.Decode([]byte(out)) {
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

// RightsOf lists the rights that roles give, one by one.
func RightsOf(objects []*unstructured.Unstructured) []right {
	var all []right
	for _, object := range objects {
		_, role, _ := strings.Cut(object.GetName(), "united-")
		for _, rule := range rulesOf(object) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{role: role, Verb: verb, Group: rule.APIGroups[0], Resource: resource})
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
				if rule.APIGroups[0] == r.Group && resource == r.Resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(verb string) bool { return verb == r.Verb })
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
