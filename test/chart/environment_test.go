// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

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

// env is the environment of a test with the shared cluster.
type env struct {
	*WithT
	t    *testing.T // of the step
	root *testing.T // of the whole test
	ctx  context.Context
	client.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{WithT: NewWithT(t), t: t, root: t, ctx: t.Context(), Client: shared.client}
}

// step runs a part of the test as a subtest. Parts depend on each other: if one fails, the test ends.
func (e *env) step(name string, run func()) {
	e.t.Helper()
	fixtures.Step(&e.t, &e.WithT, name, run)
}

// helm runs helm, or fails the test.
func (e *env) helm(args ...string) string {
	e.t.Helper()
	out, err := install.Helm(e.ctx, shared.cluster, args...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// helmRefuses runs helm, which must fail, and returns the error.
func (e *env) helmRefuses(args ...string) string {
	e.t.Helper()
	_, err := install.Helm(e.ctx, shared.cluster, args...)
	e.Expect(err).To(HaveOccurred())
	return err.Error()
}

func (e *env) kubectl(args ...string) string {
	e.t.Helper()
	out, err := shared.cluster.Kubectl(e.ctx, args...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// chart returns the directory of a chart.
func (e *env) chart(name string) string {
	e.t.Helper()
	dir, err := install.ChartDir(name)
	e.Expect(err).NotTo(HaveOccurred())
	return dir
}

// namespace creates a namespace in which pods can be created.
func (e *env) namespace(name string, labels map[string]string) {
	e.t.Helper()
	e.Expect(e.Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(Succeed())
	e.Eventually(func() error {
		return e.Get(e.ctx, types.NamespacedName{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed(), "without its ServiceAccount no pod is admitted")
}

// start runs the manager of a release until the test ends, and waits until it holds the Lease.
func (e *env) start(namespace, deployment, name string) (*install.Manager, *install.Deployed) {
	e.t.Helper()
	d, err := install.FromChart(e.ctx, shared.cluster, namespace, deployment)
	e.Expect(err).NotTo(HaveOccurred())
	m, err := d.Start(e.ctx, shared.cluster, name)
	e.Expect(err).NotTo(HaveOccurred())
	e.cleanUp(m)
	return m, d
}

// cleanUp stops a process when the test ends, and logs its output if the test failed.
func (e *env) cleanUp(m *install.Manager) {
	t := e.root
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

// needCRD installs the objects that exist once per cluster, as a separate release with only the CRD and
// the policy.
func (e *env) needCRD() {
	e.t.Helper()
	base.once.Do(func() { base.err = installCRD(context.WithoutCancel(e.ctx)) })
	e.Expect(base.err).NotTo(HaveOccurred())
}

func installCRD(ctx context.Context) error {
	chart, err := install.ChartDir("united")
	if err != nil {
		return err
	}
	if _, err := install.Helm(ctx, shared.cluster, "install", "base", chart, "--namespace=base", "--create-namespace", "--wait",
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
		if err := shared.client.Create(ctx, object); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(shared.cluster.Config())
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

// restIsInstalled are the values of other releases after needCRD.
const restIsInstalled = "crds.install=false,admissionPolicy.enabled=false,colocationPolicy.enabled=false"

// parent returns a held UnitedDeployment of OrderedReady StatefulSets over the first two zones.
func parent(namespace, name, tag string, replicas int32) *v1alpha1.UnitedDeployment {
	d, err := fixtures.New(name, fixtures.Namespace(namespace), fixtures.FirstImage(tag), fixtures.Replicas(replicas),
		fixtures.OnAnyNode("zone-a", ""), fixtures.OnAnyNode("zone-b", ""), fixtures.Held()).Object()
	if err != nil {
		panic(err) // it has only maps of strings
	}
	return d
}

// patch sends a merge patch of a UnitedDeployment.
func patch(ctx context.Context, namespace, name, format string, args ...any) error {
	object := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return shared.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// setImage stages another image tag.
func setImage(ctx context.Context, namespace, name, tag string) error {
	object := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return shared.client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"replace","path":%q,"value":%q}]`, fixtures.ImagePath, fixtures.Image(tag))))
}

// settled returns "" if the controller is done with the current spec, and the given number of replicas
// is ready; otherwise what is missing.
func settled(ctx context.Context, namespace, name string, ready int32) (string, error) {
	d := &v1alpha1.UnitedDeployment{}
	if err := shared.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, d); err != nil {
		return "", err
	}
	why := fixtures.WhyNotReady(d)
	if why == "" && d.Status.ReadyReplicas != ready {
		why = fmt.Sprintf("%d of %d replicas are ready", d.Status.ReadyReplicas, ready)
	}
	return why, nil
}

func (e *env) settle(namespace, name string, ready int32) {
	e.t.Helper()
	e.Eventually(func() (string, error) { return settled(e.ctx, namespace, name, ready) }).Should(BeEmpty())
}

// podState identifies a pod, and what it runs.
type podState struct {
	UID   types.UID
	Image string
}

// pods returns the pods of a UnitedDeployment by name.
func (e *env) pods(namespace, name string) map[string]podState {
	e.t.Helper()
	list := &corev1.PodList{}
	e.Expect(e.List(e.ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelName: name})).To(Succeed())
	found := map[string]podState{}
	for _, p := range list.Items {
		_, tag, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
		found[p.Name] = podState{UID: p.UID, Image: tag}
	}
	return found
}

// moved returns the names of the pods that differ from before.
func moved(before, after map[string]podState) []string {
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

// token returns a token of a ServiceAccount.
func (e *env) token(namespace, name string) string {
	e.t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Expect(e.SubResource("token").Create(e.ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// fetch gets a URL from the manager, whose certificate is self-signed, and returns the HTTP status.
func fetch(ctx context.Context, url, token string) (int, error) {
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
