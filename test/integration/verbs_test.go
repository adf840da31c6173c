// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

// author writes the UnitedDeployments of a namespace as one user.
type author = dynamic.ResourceInterface

func as(g *WithT, user, namespace string) author {
	config := rest.CopyConfig(fixture.cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	return client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(namespace)
}

// withVerbs makes a namespace in which the policy of verbs is in force, with a ServiceAccount that may edit UnitedDeployments, and one
// for each verb that has it too, and is named after it.
func withVerbs(t *testing.T, namespace string, verbs ...string) *verbsWorld {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	client, err := kubernetes.NewForConfig(fixture.cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	meta := metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"verbs": "true"}}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w := &verbsWorld{namespace: namespace, by: map[string]author{}, admin: fixture.client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(namespace)}
	for _, verb := range append(verbs, "edit") {
		meta := metav1.ObjectMeta{Name: verb}
		group := v1alpha1.GroupVersion.Group
		_, err := client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{ // as the chart's role for editors
			{APIGroups: []string{group}, Resources: []string{"uniteddeployments"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection", verb}},
			{APIGroups: []string{group}, Resources: []string{"uniteddeployments/scale"}, Verbs: []string{"update", "patch"}},
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: verb},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: verb}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		w.by[verb] = as(g, "system:serviceaccount:"+namespace+":"+verb, namespace)
	}
	installOfChart(t, "authorization.yaml", "Deny", "verbs")
	g.Eventually(func() error {
		object := with(t, "probe", put(`{type: Manual, manualUpdate: {defaultPartition: 0}}`, "spec", "updateStrategy"))
		object.SetNamespace(namespace)
		_, err := w.by["edit"].Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}).WithTimeout(startTimeout).Should(MatchError(ContainSubstring("you need the verb release")))
	return w
}

// installOfChart installs policies of the chart, for the namespaces with a label if there is one.
func installOfChart(t *testing.T, file, action, label string, set ...string) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	chart, err := install.ChartDir("united")
	g.Expect(err).NotTo(HaveOccurred())
	args := append([]string{"template", "united", chart, "--set=authorization.verbs=true", "--show-only=templates/" + file}, set...)
	rendered, err := install.Helm(ctx, fixture.cluster, args...)
	g.Expect(err).NotTo(HaveOccurred())
	actions := "  validationActions: [" + action + "]\n"
	g.Expect(rendered).To(ContainSubstring(actions))
	if label != "" {
		rendered = strings.Replace(rendered, actions, actions+"  matchResources: {namespaceSelector: {matchLabels: {"+label+": \"true\"}}}\n", 1)
	}
	path := filepath.Join(t.TempDir(), file)
	g.Expect(os.WriteFile(path, []byte(rendered), 0o600)).To(Succeed())
	g.Expect(fixture.cluster.Apply(ctx, path)).To(Succeed())
}

// TestVerbs checks with ServiceAccounts who may release, approve and force, and that nothing else needs a verb.
func TestVerbs(t *testing.T) {
	w := withVerbs(t, "verbs", "approve", "force", "release")
	g, by, verbsNamespace := NewWithT(t), w.by, w.namespace
	needs := func(verb string) string { return "you need the verb " + verb + " on uniteddeployments to " }
	create := func(author, strategy string) error {
		object := with(t, "web", put(strategy, "spec", "updateStrategy"))
		object.SetNamespace(verbsNamespace)
		_, err := by[author].Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	patch := func(author string, kind types.PatchType, body string, to ...string) error {
		_, err := by[author].Patch(t.Context(), "web", kind, []byte(body), metav1.PatchOptions{DryRun: dryRun}, to...)
		return err
	}
	const open = `{type: Manual, manualUpdate: {defaultPartition: 0}}`
	g.Expect(create("edit", open)).To(MatchError(ContainSubstring(needs("release") + `create one that is not held: set defaultPartition and all partitions to "100%"`)))
	g.Expect(create("release", open)).To(Succeed())
	for _, held := range []string{
		`{type: Manual}`, `{type: Manual, manualUpdate: {partitions: {zone-a: "100%"}}}`, `{type: RollingUpdate, rollingUpdate: {}}`,
	} {
		g.Expect(create("edit", held)).To(Succeed(), held)
	}

	admin := fixture.client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(verbsNamespace)
	set := func(strategy string) {
		t.Helper()
		_ = admin.Delete(context.Background(), "web", metav1.DeleteOptions{})
		object := with(t, "web", put(strategy, "spec", "updateStrategy"))
		object.SetNamespace(verbsNamespace)
		object.SetAnnotations(map[string]string{v1alpha1.AnnotationForceUpdate: "web-1"})
		_, err := admin.Create(t.Context(), object, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	merge, json := types.MergePatchType, types.JSONPatchType
	annotate := func(key, value string) string { return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}` }
	for _, tc := range []struct {
		title, strategy string
		kind            types.PatchType
		patch           string
		verb            string // that it needs; "" if none
	}{
		{"approve", `{type: Manual}`, merge, annotate(v1alpha1.AnnotationApproved, `"x"`), "approve"},
		{"promote", `{type: Manual}`, merge, annotate("united.dev/promote", `"x"`), "approve"},
		{"retry", `{type: Manual}`, merge, annotate("united.dev/retry", `"x"`), "approve"},
		{"force", `{type: Manual}`, merge, annotate(v1alpha1.AnnotationForceUpdate, `"web-2"`), "force"},
		{"force as before", `{type: Manual}`, merge, annotate(v1alpha1.AnnotationForceUpdate, `"web-1"`), ""},
		{"take force away", `{type: Manual}`, merge, annotate(v1alpha1.AnnotationForceUpdate, `null`), ""},
		{"release", `{type: Manual}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}}`, "release"},
		{"release by half", `{type: Manual}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":"50%"}}}}}`, "release"},
		{"release by default", `{type: Manual}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"defaultPartition":3}}}}`, "release"},
		{"bind", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"revision":"web-1"}}}}`, "release"},
		{"hold one", `{type: Manual, manualUpdate: {partitions: {zone-a: 0, zone-b: 1}}}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":"100%"}}}}}`, ""},
		{"hold one by the default", `{type: Manual, manualUpdate: {partitions: {zone-a: 0, zone-b: 1}}}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":null}}}}}`, ""},
		{"hold all", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}, defaultPartition: 0}}`, json, `[{"op":"replace","path":"/spec/updateStrategy/manualUpdate","value":{"defaultPartition":"100%"}}]`, ""},
		{"release by no longer naming", `{type: Manual, manualUpdate: {partitions: {zone-a: "100%"}, defaultPartition: 0}}`, merge, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`, "release"},
		{"another strategy", `{type: Manual}`, merge, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{}}}}`, "release"},
		{"fewer steps", `{type: RollingUpdate, rollingUpdate: {steps: [{subsets: [zone-a], partition: 0, pause: {}}]}}`, merge, `{"spec":{"updateStrategy":{"rollingUpdate":{"steps":null}}}}`, "release"},
		{"raise the floor", `{type: RollingUpdate, rollingUpdate: {partition: 1}}`, merge, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"100%"}}}}`, ""},
		{"a new image, held", `{type: Manual}`, merge, newImage, ""},
		{"a new image, rolling", `{type: RollingUpdate, rollingUpdate: {}}`, merge, newImage, ""},
		{"a new image in an open zone", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, merge, newImage, "release"},
		{"a new image while partitions are bound", `{type: Manual, manualUpdate: {revision: web-1, partitions: {zone-a: 0}}}`, merge, newImage, ""},
		{"a patch of an open zone", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, json,
			`[{"op":"add","path":"/spec/topology/subsets/0/patch","value":{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}}]`, "release"},
		{"replicas", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, merge, `{"spec":{"replicas":7}}`, ""},
		{"pause", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, merge, `{"spec":{"paused":true}}`, ""},
		{"a label", `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`, merge, `{"metadata":{"labels":{"a":"b"}}}`, ""},
	} {
		set(tc.strategy)
		err := patch("edit", tc.kind, tc.patch)
		if tc.verb == "" {
			g.Expect(err).NotTo(HaveOccurred(), tc.title)
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring(needs(tc.verb))), tc.title)
		for author := range by {
			if err := patch(author, tc.kind, tc.patch); author == tc.verb {
				g.Expect(err).NotTo(HaveOccurred(), tc.title)
			} else {
				g.Expect(err).To(HaveOccurred(), "%s by %s", tc.title, author)
			}
		}
	}

	set(`{type: Manual}`)
	_, err := by["edit"].Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patch("edit", merge, `{"spec":{"replicas":9}}`, "scale")).To(Succeed())
	_, err = admin.Patch(t.Context(), "web", merge, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patch("edit", merge, `{"spec":{"paused":false}}`)).To(MatchError(ContainSubstring(needs("release") + "set spec.paused to false")))
	g.Expect(patch("edit", merge, `{"spec":{"paused":null}}`)).To(MatchError(ContainSubstring(needs("release"))))
	g.Expect(patch("release", merge, `{"spec":{"paused":false}}`)).To(Succeed())

	hasNoWarnings(t, "united-verbs")

	// The largest object is within the budget.
	largest := with(t, "l", all(setReleased(100), put(open, "spec", "updateStrategy")))
	largest.SetNamespace(verbsNamespace)
	_, err = admin.Create(t.Context(), largest, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = by["release"].Patch(t.Context(), "l", merge, []byte(newImage), metav1.PatchOptions{DryRun: dryRun})
	g.Expect(err).NotTo(HaveOccurred())
}

const newImage = `{"spec":{"template":{"statefulSetTemplate":{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}}}}`

// setReleased sets so many subsets, each with a patch.
func setReleased(n int) edit {
	list := subsets(n, "zone-")
	for _, s := range list {
		s.(map[string]any)["patch"] = parse(`{spec: {template: {metadata: {labels: {a: b}}}}}`)
	}
	return set(list, "spec", "topology", "subsets")
}
