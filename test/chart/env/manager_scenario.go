// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// ErrRefused means that the API server has refused the request that the scenario expects to be refused.
var ErrRefused = errors.New("refused as expected")

// scenario runs a manager through steps that need every right it has.
type scenario struct {
	*Env
	audit     *auditTail
	kinds     []Foreign // beside the built-in ones
	Namespace string
	missing   *right // nil if it has all rights
	manager   *install.Manager
	deployed  *install.Deployed
	reader    string // a token
	taken     string // the name of a revision
}

// NewScenario creates a namespace, grants the manager there the rights of the chart except for the
// missing one, and starts it.
func NewScenario(t *testing.T, audit *auditTail, kinds []Foreign, namespace string, missing *right, environment string) *scenario {
	t.Helper()
	s := &scenario{Env: NewEnv(t), audit: audit, kinds: kinds, Namespace: namespace, missing: missing}
	s.Env.Namespace(namespace, nil)
	objects := s.Render(namespace)
	if missing != nil {
		s.Expect(without(objects, *missing)).To(Succeed())
	}
	for _, object := range objects {
		if object.GetNamespace() == "" {
			t.Cleanup(func() { _ = Shared.client.Delete(context.WithoutCancel(s.Ctx), object) })
		}
		s.Expect(s.Create(s.Ctx, object)).To(Succeed())
	}
	s.Expect(s.Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}})).To(Succeed())
	s.reader = s.Token(namespace, "reader")
	var err error
	s.deployed, err = install.FromChart(s.Ctx, Shared.Cluster, namespace, "united-manager")
	s.Expect(err).NotTo(HaveOccurred())
	if environment != "" {
		s.deployed.Env = append(s.deployed.Env, environment)
	}
	s.manager, err = s.deployed.Launch(s.Ctx, Shared.Cluster, namespace)
	s.Expect(err).NotTo(HaveOccurred())
	s.CleanUp(s.manager)
	return s
}

// Stop shuts down the manager gracefully.
func (s *scenario) Stop() {
	s.T.Helper()
	s.Expect(s.manager.Stop()).To(Succeed())
}

// Run runs the scenario. It ends early, with errRefused, as soon as the API server has refused a
// request because of the missing right.
func (s *scenario) Run() error {
	for _, step := range s.steps() {
		err := step.do(s.Ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		last := ""
		err = wait.PollUntilContextTimeout(s.Ctx, interval, waitTimeout, true, func(ctx context.Context) (bool, error) {
			if refused, err := s.refused(); err != nil || refused {
				return false, errors.Join(err, ErrRefused)
			}
			var err error
			last, err = step.until(ctx)
			return last == "", err
		})
		if err != nil {
			return fmt.Errorf("%s: %w %s", step.name, err, last)
		}
	}
	if s.missing == nil {
		return nil
	}
	// The manager writes events asynchronously: a refusal that the last step caused may come a moment
	// later.
	if _, err := s.audit.wholly(s.Ctx, Shared.Cluster, s.Namespace, install.ServiceAccount); err != nil {
		return err
	}
	if refused, err := s.refused(); err != nil || refused {
		return errors.Join(err, ErrRefused)
	}
	return nil
}

func (s *scenario) refused() (bool, error) {
	if s.missing == nil {
		return false, nil
	}
	events, err := s.audit.Of(s.Namespace, install.ServiceAccount)
	return slices.ContainsFunc(events, s.missing.RefusedBy), err
}

// step calls do, and waits until its result is complete: until returns what is missing, "" if nothing
// is.
type step struct {
	name  string
	do    func(context.Context) error
	until func(context.Context) (string, error)
}

// WebName is a parent with StatefulSets, apiName one with Deployments.
const WebName, apiName = "web", "api"

func (s *scenario) steps() []step {
	doTo := func(name, format string, args ...any) func(context.Context) error {
		return func(ctx context.Context) error { return Patch(ctx, s.Namespace, name, format, args...) }
	}
	do := func(format string, args ...any) func(context.Context) error { return doTo(WebName, format, args...) }
	deployed := func(replicas int32) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return Settled(ctx, s.Namespace, apiName, replicas) }
	}
	stage := func(tag string) func(context.Context) error {
		return func(ctx context.Context) error { return SetImage(ctx, s.Namespace, WebName, tag) }
	}
	ready := func(replicas int32) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return Settled(ctx, s.Namespace, WebName, replicas) }
	}
	var foreign, ofMissing []step
	for _, f := range s.kinds {
		foreign = append(foreign, f.steps(s)...)
		if s.missing != nil && s.missing.Group == f.Kind.Group {
			ofMissing = append(ofMissing, f.steps(s)...)
		}
	}
	if ofMissing != nil {
		return ofMissing // the other steps do not need the missing right
	}
	return append([]step{
		{"scrape", func(context.Context) error { return nil }, s.scraped},
		{"install", s.install, ready(4)},
		{"stage", stage("v2"), ready(4)},
		{"canary", do(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1}}}}}`), ready(4)},
		{"forget what is protected", s.forget, s.reminded},
		{"release", do(`{"spec":{"updateStrategy":{"manualUpdate":{"defaultPartition":0,"partitions":null}}}}`), s.complete},
		{"scale", s.scale(6), ready(6)},
		{"go back to a kept revision", stage("v1"), s.complete},
		{"go on, so that the history is truncated", stage("v3"), s.complete},
		{"add a subset", do(`{"spec":{"topology":{"subsets":[{"name":"zone-a"},{"name":"zone-b"},{"name":"zone-c"}]}}}`), ready(6)},
		{"remove it", do(`{"spec":{"topology":{"subsets":[{"name":"zone-a"},{"name":"zone-b"}]}}}`), s.without("zone-c")},
		{"break", stage("broken"), s.stuck},
		{"repair", stage("v3"), s.complete},
		{"install Deployments", s.installDeployments, deployed(2)},
		{"update them", doTo(apiName, `{"spec":{"template":{"deploymentTemplate":%s}}}`, deploymentTemplate("v2")), deployed(2)},
		{"remove one", doTo(apiName, `{"spec":{"topology":{"subsets":[{"name":"zone-a"}]}}}`), deployed(2)},
		{"take the name of its revision", s.squat, s.squatted},
		{"install again", s.reinstall, ready(4)},
	}, foreign...)
}

// scraped reports whether the manager serves the metrics to an account that may read them.
func (s *scenario) scraped(ctx context.Context) (string, error) {
	code, err := Fetch(ctx, "https://"+s.deployed.Metrics+"/metrics", s.reader)
	if err != nil || code != http.StatusOK {
		return fmt.Sprint(code, err), nil //nolint:nilerr // it may not listen yet
	}
	return "", nil
}

func (s *scenario) draft(tag string) *v1alpha1.UnitedDeployment {
	d := NewParent(s.Namespace, WebName, tag, 4)
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	return d
}

func (s *scenario) install(ctx context.Context) error { return s.Create(ctx, s.draft("v1")) }

func deploymentTemplate(tag string) string {
	return fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"app":"api"}},"spec":{"containers":[{"name":"api","image":%q}]}}}}`, fixtures.Image(tag))
}

func (s *scenario) installDeployments(ctx context.Context) error {
	d := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: apiName}}
	d.Spec.Replicas = ptr.To[int32](2)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}
	d.Spec.Template.DeploymentTemplate = &runtime.RawExtension{Raw: []byte(deploymentTemplate("v1"))}
	d.Spec.Topology.Subsets = []v1alpha1.Subset{{Name: "zone-a"}, {Name: "zone-b"}}
	return s.Create(ctx, d)
}

func (s *scenario) scale(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: WebName}}
		return s.SubResource("scale").Patch(ctx, d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)))
	}
}

// forget makes the child of zone-b forget what its protected replicas run, as its controller does when
// it does not see its revisions.
func (s *scenario) forget(ctx context.Context) error {
	child := &appsv1.StatefulSet{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: WebName + "-zone-b"}, child); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, child.Status.UpdateRevision)
	return s.Status().Patch(ctx, child, client.RawPatch(types.MergePatchType, patch))
}

// reminded reports whether the child of zone-b remembers it again.
func (s *scenario) reminded(ctx context.Context) (string, error) {
	child := &appsv1.StatefulSet{}
	err := s.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: WebName + "-zone-b"}, child)
	if child.Status.CurrentRevision == child.Status.UpdateRevision {
		return child.Name + " has forgotten what it protects", err
	}
	return "", err
}

// complete reports whether all replicas run what the spec asks for.
func (s *scenario) complete(ctx context.Context) (string, error) {
	d := &v1alpha1.UnitedDeployment{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: WebName}, d); err != nil {
		return "", err
	}
	missing, err := Settled(ctx, s.Namespace, WebName, *d.Spec.Replicas)
	if missing == "" && d.Status.CurrentRevision != d.Status.UpdateRevision {
		missing = "still current: " + d.Status.CurrentRevision
	}
	return missing, err
}

// without reports whether a subset and its child are gone.
func (s *scenario) without(subset string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := s.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: WebName + "-" + subset}, &appsv1.StatefulSet{})
		if !apierrors.IsNotFound(err) {
			return subset + " is there", err
		}
		return Settled(ctx, s.Namespace, WebName, 6)
	}
}

// stuck reports whether a released replica is broken.
func (s *scenario) stuck(ctx context.Context) (string, error) {
	list := &corev1.PodList{}
	if err := s.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return "", err
	}
	for _, p := range list.Items {
		broken := len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil
		if broken && p.Spec.Containers[0].Image == fixtures.Image("broken") {
			return "", nil
		}
	}
	return "no replica is broken", nil
}

// squat deletes the parent, and then creates an object with the name of its revision.
func (s *scenario) squat(ctx context.Context) error {
	d := &v1alpha1.UnitedDeployment{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: WebName}, d); err != nil {
		return err
	}
	s.taken = d.Status.UpdateRevision
	if err := s.Delete(ctx, d); err != nil {
		return err
	}
	// Delete them here, because the garbage collector looks for new kinds of owners only every 30
	// seconds.
	if err := s.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.LabelName: WebName}); err != nil {
		return err
	}
	return s.DeleteAllOf(ctx, &appsv1.StatefulSet{}, client.InNamespace(s.Namespace))
}

func (s *scenario) squatted(ctx context.Context) (string, error) {
	list := &corev1.PodList{}
	err := s.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.LabelName: WebName})
	if err != nil || len(list.Items) > 0 {
		return fmt.Sprintf("%d pods are there", len(list.Items)), err
	}
	err = s.Create(ctx, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.taken},
		Data:       runtime.RawExtension{Raw: []byte(`{"not":"ours"}`)},
	})
	if apierrors.IsAlreadyExists(err) {
		return "its revision is there", nil
	}
	return "", err
}

// reinstall creates the parent again with its previous spec, including the image.
func (s *scenario) reinstall(ctx context.Context) error {
	return s.Create(ctx, s.draft("v3"))
}
