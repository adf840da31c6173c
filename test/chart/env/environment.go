// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// Env is the environment of a test with the shared cluster.
type Env struct {
	*WithT
	T    *testing.T // of the step
	Root *testing.T // of the whole test
	Ctx  context.Context
	client.Client
}

func NewEnv(t *testing.T) *Env {
	t.Helper()
	return &Env{WithT: NewWithT(t), T: t, Root: t, Ctx: t.Context(), Client: Shared.client}
}

// Step runs a part of the test as a subtest. Parts depend on each other: if one fails, the test ends.
func (e *Env) Step(name string, run func()) {
	e.T.Helper()
	fixtures.Step(&e.T, &e.WithT, name, run)
}

// Helm runs helm, or fails the test.
func (e *Env) Helm(args ...string) string {
	e.T.Helper()
	out, err := install.Helm(e.Ctx, Shared.Cluster, args...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// Chart returns the directory of a chart.
func (e *Env) Chart(name string) string {
	e.T.Helper()
	dir, err := install.ChartDir(name)
	e.Expect(err).NotTo(HaveOccurred())
	return dir
}

// Namespace creates a namespace in which pods can be created.
func (e *Env) Namespace(name string, labels map[string]string) {
	e.T.Helper()
	e.Expect(e.Create(e.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(Succeed())
	e.Eventually(func() error {
		return e.Get(e.Ctx, types.NamespacedName{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed(), "without its ServiceAccount no pod is admitted")
}

// Start runs the manager of a release until the test ends, and waits until it holds the Lease.
func (e *Env) Start(namespace, deployment, name string) (*install.Manager, *install.Deployed) {
	e.T.Helper()
	d, err := install.FromChart(e.Ctx, Shared.Cluster, namespace, deployment)
	e.Expect(err).NotTo(HaveOccurred())
	m, err := d.Start(e.Ctx, Shared.Cluster, name)
	e.Expect(err).NotTo(HaveOccurred())
	e.CleanUp(m)
	return m, d
}

// CleanUp stops a process when the test ends, and logs its output if the test failed.
func (e *Env) CleanUp(m *install.Manager) {
	t := e.Root
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			return
		}
		log, err := os.ReadFile(m.LogPath())
		t.Logf("log of the manager (%v):\n%s", err, log[max(0, len(log)-8000):])
	})
}

var base struct {
	once sync.Once
	err  error
}

// NeedCRD installs the objects that exist once per cluster, as a separate release with only the CRD and
// the policy.
func (e *Env) NeedCRD() {
	e.T.Helper()
	base.once.Do(func() { base.err = installCRD(context.WithoutCancel(e.Ctx)) })
	e.Expect(base.err).NotTo(HaveOccurred())
}

func installCRD(ctx context.Context) error {
	chart, err := install.ChartDir("united")
	if err != nil {
		return err
	}
	if _, err := install.Helm(ctx, Shared.Cluster, "install", "base", chart, "--namespace=base", "--create-namespace", "--wait",
		"--set=replicas=0,rbac.create=false,rbac.aggregate=false,metrics.enabled=false"); err != nil {
		return err
	}
	return ownable(ctx)
}

// ownable waits until a UnitedDeployment can own objects. The admission plugin that checks owners looks
// for new kinds only every 30 seconds, and until then refuses objects with an owner of a new kind. It
// skips users with all rights, so ownable uses a user that has only the necessary rights.
func ownable(ctx context.Context) error {
	const who = "owner-probe"
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: who},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"uniteddeployments/finalizers"}, Verbs: []string{"update"}},
		},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: who},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := Shared.client.Create(ctx, object); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(Shared.Cluster.Config())
	config.Impersonate.UserName = who
	asking, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "any", UID: "any", BlockOwnerDeletion: ptr.To(true),
		}},
	}}
	var last error
	err = wait.PollUntilContextTimeout(ctx, interval, waitTimeout, true, func(ctx context.Context) (bool, error) {
		last = asking.Create(ctx, owned.DeepCopy(), client.DryRunAll)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// RestIsInstalled are the values of other releases after needCRD.
const RestIsInstalled = "crds.install=false,admissionPolicy.enabled=false,colocationPolicy.enabled=false"

// NewParent returns a held UnitedDeployment of OrderedReady StatefulSets over the first two zones.
func NewParent(namespace, name, tag string, replicas int32) *v1alpha1.UnitedDeployment {
	d, err := fixtures.New(name, fixtures.Namespace(namespace), fixtures.FirstImage(tag), fixtures.Replicas(replicas),
		fixtures.OnAnyNode("zone-a", ""), fixtures.OnAnyNode("zone-b", ""), fixtures.Held()).Object()
	if err != nil {
		panic(err) // it has only maps of strings
	}
	return d
}

// Patch sends a merge patch of a UnitedDeployment.
func Patch(ctx context.Context, namespace, name, format string, args ...any) error {
	object := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return Shared.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// SetImage stages another image tag.
func SetImage(ctx context.Context, namespace, name, tag string) error {
	object := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return Shared.client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"replace","path":%q,"value":%q}]`, fixtures.ImagePath, fixtures.Image(tag))))
}

// Settled returns "" if the controller is done with the current spec, and the given number of replicas
// is ready; otherwise what is missing.
func Settled(ctx context.Context, namespace, name string, ready int32) (string, error) {
	d := &v1alpha1.UnitedDeployment{}
	if err := Shared.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, d); err != nil {
		return "", err
	}
	why := fixtures.WhyNotReady(d)
	if why == "" && d.Status.ReadyReplicas != ready {
		why = fmt.Sprintf("%d of %d replicas are ready", d.Status.ReadyReplicas, ready)
	}
	return why, nil
}

func (e *Env) Settle(namespace, name string, ready int32) {
	e.T.Helper()
	e.Eventually(func() (string, error) { return Settled(e.Ctx, namespace, name, ready) }).Should(BeEmpty())
}

// PodState identifies a pod, and what it runs.
type PodState struct {
	UID   types.UID
	Image string
}

// Pods returns the pods of a UnitedDeployment by name.
func (e *Env) Pods(namespace, name string) map[string]PodState {
	e.T.Helper()
	list := &corev1.PodList{}
	e.Expect(e.List(e.Ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelName: name})).To(Succeed())
	found := map[string]PodState{}
	for _, p := range list.Items {
		_, tag, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
		found[p.Name] = PodState{UID: p.UID, Image: tag}
	}
	return found
}

// Moved returns the names of the pods that differ from before.
func Moved(before, after map[string]PodState) []string {
	var names []string
	for name, now := range after {
		if before[name] != now {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Token returns a token of a ServiceAccount.
func (e *Env) Token(namespace, name string) string {
	e.T.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Expect(e.SubResource("token").Create(e.Ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// Fetch gets a URL from the manager, whose certificate is self-signed, and returns the HTTP status.
func Fetch(ctx context.Context, url, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
