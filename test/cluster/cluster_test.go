// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace   = metav1.NamespaceDefault
	waitTimeout = time.Minute
	// calm is how long a test watches that nothing happens. kwok reacts in milliseconds, as the positive controls show.
	calm = 3 * time.Second
)

// TestCluster starts one cluster for all subtests, which use different names.
func TestCluster(t *testing.T) {
	ctx := t.Context()
	t.Setenv("UNITED_KEEP", "") // the test checks that nothing is left
	began := time.Now()
	c, err := Start(ctx, Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start took %s", time.Since(began).Round(10*time.Millisecond))
	t.Cleanup(func() { _ = c.Stop() })
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{ctx: ctx, c: c, client: client}

	t.Run("StatefulSet", f.testStatefulSet)
	t.Run("tags", f.testTags)
	t.Run("several containers", f.testSeveralContainers)
	t.Run("ready by hand", f.testReadyByHand)
	t.Run("deletion", f.testDeletion)
	t.Run("next pod of the name", f.testNextOfTheName)
	t.Run("stopped kubelet", f.testStopKubelet)
	t.Run("audit", f.testAudit)
	t.Run("ServiceAccount", f.testServiceAccount)
	t.Run("apply", f.testApply)
	t.Run("processes", f.testProcesses)
	t.Run("second cluster", f.testSecondCluster)
	t.Run("restart of the API server", f.testRestartAPIServer)
	t.Run("stop", f.testStop) // must be last
}

type fixture struct {
	ctx    context.Context
	c      *Cluster
	client kubernetes.Interface
}

func (f *fixture) testAudit(t *testing.T) {
	g := NewWithT(t)
	maps := f.client.CoreV1().ConfigMaps(namespace)
	ours := func(e Event) bool { return e.User == "admin" && e.Resource == "configmaps" }
	create := func(name string, options metav1.CreateOptions) error {
		_, err := maps.Create(f.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, options)
		return err
	}

	g.Expect(create("early", metav1.CreateOptions{})).To(Succeed())
	mark, err := f.c.AuditMark(f.ctx)
	g.Expect(err).NotTo(HaveOccurred())
	events, err := f.c.Writes(f.ctx, mark, ours)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(BeEmpty(), "the write before the mark")

	g.Expect(create("dry", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})).To(Succeed())
	for i := range 50 {
		g.Expect(create(fmt.Sprintf("late-%02d", i), metav1.CreateOptions{})).To(Succeed())
	}
	g.Expect(create("late-00", metav1.CreateOptions{})).NotTo(Succeed())
	_, err = maps.Get(f.ctx, "late-00", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	events, err = f.c.Writes(f.ctx, mark, ours)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(HaveLen(52), "reads are not in it")
	g.Expect(events[0]).To(And(HaveField("Name", "dry"), HaveField("DryRun", true)))
	g.Expect(events[1]).To(And(HaveField("Verb", "create"), HaveField("Namespace", namespace), HaveField("Name", "late-00"),
		HaveField("Code", 201), HaveField("DryRun", false), HaveField("Request", ContainSubstring(`"late-00"`))))
	g.Expect(events[51]).To(And(HaveField("Name", "late-00"), HaveField("Code", 409)))

	events, err = f.c.Writes(f.ctx, 0, ByServiceAccount("kube-system", "statefulset-controller"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(ContainElement(And(HaveField("Verb", "create"), HaveField("Resource", "pods"), HaveField("Name", "web-0"))))
}

// testRestartAPIServer checks that the data still exist, that the rest of the control plane continues to work, and that
// the audit log continues in the same file.
func (f *fixture) testRestartAPIServer(t *testing.T) {
	g := NewWithT(t)
	maps := f.client.CoreV1().ConfigMaps(namespace)
	mark, err := f.c.AuditMark(f.ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = maps.Create(f.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	first := f.c.apiserver

	g.Expect(f.c.RestartAPIServer(f.ctx)).To(Succeed())
	g.Expect(first.Done()).To(BeClosed())
	g.Expect(f.c.apiserver.Pid()).NotTo(Equal(first.Pid()))
	_, err = maps.Get(f.ctx, "before", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "after"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:v1"}}},
	}
	g.Eventually(func() error {
		_, err := f.client.CoreV1().Pods(namespace).Create(f.ctx, pod, metav1.CreateOptions{})
		return err
	}, waitTimeout).Should(Succeed())
	g.Eventually(func(g Gomega) {
		now, err := f.client.CoreV1().Pods(namespace).Get(f.ctx, "after", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning), "the scheduler and kwok are back")
	}, waitTimeout).Should(Succeed())
	events, err := f.c.Writes(f.ctx, mark, func(e Event) bool {
		return e.User == "admin" && e.Code == 201 && e.Resource != "selfsubjectaccessreviews"
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(HaveExactElements(HaveField("Name", "before"), HaveField("Name", "after")))
}

func (f *fixture) testServiceAccount(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(f.c.WriteServiceAccountKubeconfig(f.ctx, namespace, "default", path)).To(Succeed())
	// kubectl uses the last --kubeconfig.
	who, err := f.c.Kubectl(f.ctx, "--kubeconfig="+path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(who).To(Equal("system:serviceaccount:default:default"))
	_, err = f.c.Kubectl(f.ctx, "--kubeconfig="+path, "get", "pods")
	g.Expect(err).To(MatchError(ContainSubstring("forbidden")), "RBAC is on")
}

func (f *fixture) testApply(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"1-namespace.yaml": "# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: applied}\n",
		"2-crd.yaml":       crd,
		"3-thing.yaml":     "apiVersion: united.test/v1\nkind: Thing\nmetadata: {name: one, namespace: applied}\nspec: {size: 1}\n",
		"README.md":        "not YAML",
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	g.Expect(f.c.Apply(f.ctx, dir)).To(Succeed())
	g.Expect(f.c.Apply(f.ctx, dir)).To(Succeed(), "a second time")
	size, err := f.c.Kubectl(f.ctx, "get", "-n", "applied", "things", "one", "-o", "jsonpath={.spec.size}")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(size).To(Equal("1"))

	bad := filepath.Join(dir, "3-thing.yaml")
	g.Expect(os.WriteFile(bad, []byte("apiVersion: united.test/v1\nkind: Thing\nmetadata: {name: two}\nspec: {size: no}\n"), 0o600)).To(Succeed())
	g.Expect(f.c.Apply(f.ctx, bad)).To(MatchError(And(ContainSubstring("3-thing.yaml: Thing two:"), ContainSubstring("spec.size"))))
}

func (f *fixture) testProcesses(t *testing.T) {
	g := NewWithT(t)
	polite, err := f.c.StartProcess("polite", "/bin/sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
	g.Expect(err).NotTo(HaveOccurred())
	log := func() ([]byte, error) { return os.ReadFile(polite.LogPath()) }
	g.Eventually(log, waitTimeout).Should(ContainSubstring("ready"))
	g.Expect(polite.Stop()).To(Succeed())
	g.Expect(log()).To(ContainSubstring("bye"))
	g.Expect(polite.Done()).To(BeClosed())

	failing, err := f.c.StartProcess("failing", "/bin/sh", "-c", "echo reason; exit 3")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(failing.Done(), waitTimeout).Should(BeClosed())
	g.Expect(failing.Stop()).To(MatchError(And(ContainSubstring("exit status 3"), ContainSubstring("reason"))))

	killed, err := f.c.StartProcess("killed", "/bin/sleep", "1000")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(killed.Kill()).To(Succeed())
	g.Expect(alive(killed.Pid())).To(BeFalse())

	_, err = f.c.StartProcess("absent", "no-such-program")
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

// testSecondCluster: two clusters do not disturb each other, and Stop reports a component that died.
func (f *fixture) testSecondCluster(t *testing.T) {
	g := NewWithT(t)
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "second")
	second, err := Start(f.ctx, Options{Dir: dir, Zones: []string{"only"}, NodesPerZone: 1, Log: &log})
	g.Expect(err).NotTo(HaveOccurred())
	nodes, err := second.Kubectl(f.ctx, "get", "nodes", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Fields(nodes)).To(Equal([]string{"node/only-1"}))

	scheduler := second.components()[3]
	g.Expect(scheduler.name).To(Equal("kube-scheduler"))
	g.Expect(scheduler.Signal(syscall.SIGKILL)).To(Succeed())
	g.Eventually(scheduler.Done(), waitTimeout).Should(BeClosed())
	g.Expect(second.Stop()).To(MatchError(And(ContainSubstring("kube-scheduler ended by itself"), ContainSubstring("killed"))))
	g.Expect(log.String()).To(ContainSubstring("kube-scheduler ended by itself"))
	g.Expect(dir).To(BeADirectory(), "a directory of the caller stays")

	_, err = Start(f.ctx, Options{Dir: dir})
	g.Expect(err).To(MatchError(ContainSubstring("is not empty")))
	g.Expect(f.c.Kubectl(f.ctx, "get", "--raw=/readyz")).To(Equal("ok"))
}

func (f *fixture) testStop(t *testing.T) {
	g := NewWithT(t)
	_, err := f.c.StartProcess("left", "/bin/sleep", "1000")
	g.Expect(err).NotTo(HaveOccurred())
	f.c.mu.Lock()
	// Skip those that have ended: another process may have their process id by now.
	running := slices.DeleteFunc(slices.Clone(f.c.processes), (*Process).Exited)
	f.c.mu.Unlock()
	g.Expect(running).To(HaveLen(6), "the control plane and the process of this test")
	for _, p := range running {
		g.Expect(alive(p.Pid())).To(BeTrue(), "%s: alive sees it", p.name)
	}

	began := time.Now()
	g.Expect(f.c.Stop()).To(Succeed())
	t.Logf("stop took %s", time.Since(began).Round(10*time.Millisecond))
	for _, p := range running {
		g.Expect(alive(p.Pid())).To(BeFalse(), p.name)
	}
	g.Expect(f.c.Dir()).NotTo(BeAnExistingFile())
	g.Expect(f.c.Stop()).To(Succeed(), "a second time")
	_, err = f.c.StartProcess("late", "/bin/true")
	g.Expect(err).To(MatchError(ContainSubstring("stopped")))
}

// alive reports whether a process exists, including a zombie.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.united.test}
spec:
  group: united.test
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
`
