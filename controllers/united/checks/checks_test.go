// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// The real API server is in test/e2e. These tests are about what cannot be seen there: what is kept, what is asked for, and
// who waits.

func TestJudge(t *testing.T) {
	healthy := v1alpha1.ObjectCondition{Kind: "MySQLCluster", Name: "shop", Type: "Healthy"}
	degraded := v1alpha1.ObjectCondition{Kind: "MySQLCluster", Name: "shop", Type: "Degraded", Status: "False"}
	condition := func(kind, status string, more map[string]any) map[string]any {
		c := map[string]any{"type": kind, "status": status}
		for k, v := range more {
			c[k] = v
		}
		return c
	}
	for name, test := range map[string]struct {
		status map[string]any
		asked  v1alpha1.ObjectCondition
		want   string // "" is met
	}{
		"met":                        {map[string]any{"conditions": []any{condition("Other", "False", nil), condition("Healthy", "True", nil)}}, healthy, ""},
		"observed":                   {map[string]any{"observedGeneration": int64(3), "conditions": []any{condition("Healthy", "True", map[string]any{"observedGeneration": int64(3)})}}, healthy, ""},
		"not met":                    {map[string]any{"conditions": []any{condition("Healthy", "False", map[string]any{"reason": "Failover", "message": "2 of 3"})}}, healthy, "MySQLCluster shop is not Healthy (False, Failover)"},
		"unknown":                    {map[string]any{"conditions": []any{condition("Healthy", "Unknown", nil)}}, healthy, "MySQLCluster shop is not Healthy (Unknown)"},
		"no status":                  {nil, healthy, "MySQLCluster shop has no condition Healthy"},
		"another condition":          {map[string]any{"conditions": []any{condition("Ready", "True", nil)}}, healthy, "MySQLCluster shop has no condition Healthy"},
		"not observed":               {map[string]any{"observedGeneration": int64(2), "conditions": []any{condition("Healthy", "True", nil)}}, healthy, "MySQLCluster shop has a change that its controller has not observed yet"},
		"of an earlier generation":   {map[string]any{"observedGeneration": int64(3), "conditions": []any{condition("Healthy", "True", map[string]any{"observedGeneration": int64(2)})}}, healthy, "MySQLCluster shop has a change that its controller has not observed yet"},
		"False is asked for":         {map[string]any{"conditions": []any{condition("Degraded", "False", nil)}}, degraded, ""},
		"False is asked for, True":   {map[string]any{"conditions": []any{condition("Degraded", "True", map[string]any{"reason": "Lag"})}}, degraded, "MySQLCluster shop has the condition Degraded (True, Lag), and not with status False"},
		"False is asked for, absent": {map[string]any{}, degraded, "MySQLCluster shop has no condition Degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			u := mysql("shop", test.status)
			u.SetGeneration(3)
			want := known.CheckResult{Seen: true, Met: test.want == "", Message: test.want}
			if got := reduce(u).judge(&test.asked); got != want {
				t.Errorf("%+v", got)
			}
		})
	}
	deleted := withHealthy("shop", "True")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	if got := reduce(deleted).judge(&healthy); got.Met || got.Message != "MySQLCluster shop is being deleted" {
		t.Errorf("%+v", got)
	}
	if got := (*object)(nil).judge(&healthy); got.Met || got.Message != "MySQLCluster shop does not exist" {
		t.Errorf("%+v", got)
	}
}

var resource = schema.GroupVersionResource{Group: "moco.cybozu.com", Version: "v1beta2", Resource: "mysqlclusters"}

func mysql(name string, status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"big": "as can be"}}}
	if status != nil {
		u.Object["status"] = status
	}
	u.SetAPIVersion("moco.cybozu.com/v1beta2")
	u.SetKind("MySQLCluster")
	u.SetNamespace("shop")
	u.SetName(name)
	return u
}

func withHealthy(name, status string) *unstructured.Unstructured {
	return mysql(name, map[string]any{"conditions": []any{map[string]any{"type": "Healthy", "status": status}}})
}

func askFor(kind, name string) []known.CheckAsk {
	return []known.CheckAsk{{Round: "1", Check: &v1alpha1.RolloutCheck{
		Name: "c", ObjectCondition: &v1alpha1.ObjectCondition{APIVersion: "moco.cybozu.com/v1beta2", Kind: kind, Name: name, Type: "Healthy"},
	}}}
}

// observe asks, and returns what is known so far, without what all results have.
func (s *scene) observe(parent types.NamespacedName, asks []known.CheckAsk) known.CheckResult {
	s.Ask(parent, asks)
	result := s.Results(parent)["c"]
	if len(asks) > 0 && (result.Round != "1" || !result.Reached) {
		s.t.Errorf("%+v is not of what is asked", result)
	}
	result.Round, result.Reached = "", false
	return result
}

func parentOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// mapper knows the kinds that a test serves, and counts who asks.
type mapper struct {
	meta.RESTMapper
	sync.Mutex
	served map[string]bool
	asked  int
	hangs  chan struct{}
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.Lock()
	m.asked++
	served := m.served[kind.Kind]
	m.Unlock()
	if kind.Kind == "Hangs" {
		<-m.hangs
	}
	if kind.Kind == "Panics" {
		panic("a list of no items")
	}
	if !served {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	scope := meta.RESTScopeNamespace
	if kind.Kind == "ClusterWide" {
		scope = meta.RESTScopeRoot
	}
	resource := resource
	if kind.Kind == "Job" {
		resource = jobResource
	}
	return &meta.RESTMapping{Resource: resource, GroupVersionKind: kind.WithVersion(versions[0]), Scope: scope}, nil
}

// scene is a Runner with an API server that is not real.
type scene struct {
	*WithT
	*Runner
	t      *testing.T
	client *fake.FakeDynamicClient
	mapper *mapper
	clock  *testclock.FakeClock
	mu     sync.Mutex
	told   map[types.NamespacedName]int
}

func newScene(t *testing.T, objects ...k8sruntime.Object) *scene {
	return newSceneOn(t, nil, objects...)
}

// newSceneOn returns a scene whose objects are those of another API server, unless that is nil.
func newSceneOn(t *testing.T, other dynamic.Interface, objects ...k8sruntime.Object) *scene {
	s := &scene{
		WithT: NewWithT(t), t: t, told: map[types.NamespacedName]int{}, clock: testclock.NewFakeClock(time.Unix(1767225600, 0)),
		client: fake.NewSimpleDynamicClientWithCustomListKinds(k8sruntime.NewScheme(), map[schema.GroupVersionResource]string{resource: "MySQLClusterList", jobResource: "JobList", podResource: "PodList"}, objects...),
		mapper: &mapper{served: map[string]bool{"MySQLCluster": true}, hangs: make(chan struct{})},
	}
	if other == nil {
		other = s.client
	}
	s.Runner = New(other, s.mapper, []schema.GroupResource{resource.GroupResource()}, nil, s.clock)
	s.OnChange(func(parent types.NamespacedName) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told[parent]++
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		close(s.mapper.hangs)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scene) timesTold(parent string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[parentOf(parent)]
}

func (s *scene) result(parent, kind, name string) known.CheckResult {
	return s.observe(parentOf(parent), askFor(kind, name))
}

// becomes waits until a check has a result.
func (s *scene) becomes(parent, kind, name string, met bool, message string) {
	s.Eventually(func() known.CheckResult { return s.result(parent, kind, name) }, 10*time.Second, 5*time.Millisecond).
		Should(Equal(known.CheckResult{Seen: true, Met: met, Message: message}))
}

func (s *scene) update(u *unstructured.Unstructured) {
	_, err := s.client.Resource(resource).Namespace("shop").Update(context.Background(), u, metav1.UpdateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
}

// TestObserves: what is not read yet has no result; then every change is told to those who named the object, and to no others.
func TestObserves(t *testing.T) {
	s := newScene(t, withHealthy("shop", "False"), withHealthy("other", "True"))
	s.Expect(s.result("web", "MySQLCluster", "shop")).To(Equal(known.CheckResult{}))
	s.becomes("web", "MySQLCluster", "shop", false, "MySQLCluster shop is not Healthy (False)")
	s.becomes("api", "MySQLCluster", "other", true, "") // it was named after the others were listed
	s.becomes("new", "MySQLCluster", "absent", false, "MySQLCluster absent does not exist")
	before := s.timesTold("api")
	s.update(withHealthy("shop", "True"))
	s.becomes("web", "MySQLCluster", "shop", true, "")
	s.Eventually(func() int { return s.timesTold("web") }).Should(BeNumerically(">=", 2))
	s.Expect(s.timesTold("api")).To(Equal(before))
	s.Expect(s.client.Resource(resource).Namespace("shop").Delete(context.Background(), "shop", metav1.DeleteOptions{})).To(Succeed())
	s.becomes("web", "MySQLCluster", "shop", false, "MySQLCluster shop does not exist")
}

// TestKeepsLittle: of a kind in a namespace there is one watch, whoever names how many of its objects, and only these are
// kept. It ends when nobody names one.
func TestKeepsLittle(t *testing.T) {
	var objects []k8sruntime.Object
	for i := range 90 {
		objects = append(objects, withHealthy(fmt.Sprintf("db-%d", i), "True"))
	}
	s := newScene(t, objects...)
	for i := range 20 {
		s.becomes(fmt.Sprintf("web-%d", i), "MySQLCluster", fmt.Sprintf("db-%d", i/2), true, "")
	}
	watches := 0
	for _, action := range s.client.Actions() {
		if action.GetVerb() == "watch" {
			watches++
		}
	}
	s.Expect(watches).To(Equal(1))
	kept := func() (watches, objects int) {
		s.Runner.mu.Lock()
		defer s.Runner.mu.Unlock()
		for _, w := range s.watches {
			objects += len(w.objects)
		}
		return len(s.watches), objects
	}
	_, n := kept()
	s.Expect(n).To(Equal(10))
	goroutines := runtime.NumGoroutine()
	for i := range 20 {
		s.becomes(fmt.Sprintf("more-%d", i), "MySQLCluster", fmt.Sprintf("db-%d", 50+i), true, "")
	}
	s.Expect(runtime.NumGoroutine()).To(BeNumerically("<", goroutines+10), "no goroutine of its own for a check")
	for i := range 20 {
		s.Forget(parentOf(fmt.Sprintf("more-%d", i)))
		s.observe(parentOf(fmt.Sprintf("web-%d", i)), nil)
	}
	w, n := kept()
	s.Expect([]int{w, n}).To(Equal([]int{0, 0}))
	s.Expect(s.asks).To(BeEmpty())
	s.becomes("web", "MySQLCluster", "db-7", true, "") // it begins anew
}

// TestAKindThatComesLater: the API server is asked once for all who wait for it, and no more often than every ten seconds.
func TestAKindThatComesLater(t *testing.T) {
	s := newScene(t)
	const message = "the API server does not serve Later of moco.cybozu.com/v1beta2: install its CustomResourceDefinition"
	for i := range 50 {
		parent := types.NamespacedName{Namespace: fmt.Sprint("ns-", i), Name: "web"}
		s.Eventually(func() string { return s.observe(parent, askFor("Later", "shop")).Message }).Should(Equal(message))
	}
	asked := func() int {
		s.mapper.Lock()
		defer s.mapper.Unlock()
		return s.mapper.asked
	}
	s.Expect(asked()).To(Equal(1))
	s.clock.Step(retryAfter + time.Second)
	s.Eventually(asked).Should(Equal(2))
	s.mapper.Lock()
	s.mapper.served["Later"] = true
	s.mapper.Unlock()
	s.Eventually(func() string {
		s.clock.Step(time.Second)
		return s.observe(types.NamespacedName{Namespace: "ns-1", Name: "web"}, askFor("Later", "shop")).Message
	}).Should(Equal("Later shop does not exist"))
}

// TestNobodyWaitsForWhatHangs: neither does a pass, nor the checks of others.
func TestNobodyWaitsForWhatHangs(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"))
	s.Expect(s.result("hung", "Hangs", "shop")).To(Equal(known.CheckResult{}))
	s.becomes("web", "MySQLCluster", "shop", true, "")
	s.Expect(s.result("hung", "Hangs", "shop")).To(Equal(known.CheckResult{}))
}

func TestAKindWithoutNamespaces(t *testing.T) {
	s := newScene(t)
	s.mapper.served["ClusterWide"] = true
	s.becomes("web", "ClusterWide", "shop", false, "ClusterWide is not a kind with namespaces: a check can name only an object in the namespace of the UnitedDeployment")
}

// TestWhatMayNotBeRead: what was read before does not count while the permission is missing, and what fails for a moment only
// holds.
func TestWhatMayNotBeRead(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"))
	s.becomes("web", "MySQLCluster", "shop", true, "")
	s.Runner.mu.Lock()
	w := s.watches[source{schema.FromAPIVersionAndKind("moco.cybozu.com/v1beta2", "MySQLCluster"), "shop", false}]
	s.Runner.mu.Unlock()
	forbidden := apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no"))
	s.noted(w, forbidden, &problem{})
	s.Expect(s.result("web", "MySQLCluster", "shop")).To(Equal(known.CheckResult{Seen: true, Refused: true,
		Message: "United is not permitted to read mysqlclusters.moco.cybozu.com: add {apiGroup: moco.cybozu.com, resources: [mysqlclusters]} to checks.objects in the values of its Helm chart"}))
	s.watching(w, false)
	s.becomes("web", "MySQLCluster", "shop", true, "")

	s.noted(w, errors.New("connection refused"), &problem{watching: true})
	s.Expect(s.result("web", "MySQLCluster", "shop")).To(Equal(known.CheckResult{}), "for a moment")
	s.clock.Step(patience)
	s.noted(w, errors.New("connection refused"), &problem{watching: true})
	s.Expect(s.result("web", "MySQLCluster", "shop").Message).To(Equal("MySQLCluster cannot be read: connection refused"))
	s.Expect((&store{s.Runner, w, func() bool { return true }}).Replace(nil, "")).To(Succeed())
	s.Expect(s.result("web", "MySQLCluster", "shop").Message).To(ContainSubstring("cannot be read"), "only the next watch shows that it is over")
	s.watching(w, false)
	s.becomes("web", "MySQLCluster", "shop", false, "MySQLCluster shop does not exist")
}

// What the manager may read for other reasons is refused nevertheless, with what lets checks name it; what checks started is not
// looked up in that list.
func TestOnlyWhatIsListedIsRead(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"))
	s.mapper.served["Job"] = true
	s.Eventually(func() known.CheckResult { return s.result("web", "Job", "shop") }).Should(Equal(known.CheckResult{Seen: true, Refused: true,
		Message: "United is not permitted to read jobs.batch: add {apiGroup: batch, resources: [jobs]} to checks.objects in the values of its Helm chart"}))
	for _, action := range s.client.Actions() {
		s.Expect(action.GetResource()).NotTo(Equal(jobResource), "%v", action)
	}
	run := askFor("Job", "shop")
	run[0].Run = "job/web-smoke"
	s.Eventually(func() string { return s.observe(parentOf("other"), run).Message }).Should(Equal("Job web-smoke does not exist yet"))
	s.Expect(s.result("web", "Job", "shop").Refused).To(BeTrue(), "still")
	s.becomes("api", "MySQLCluster", "shop", true, "")
}

// TestOneCheckThatPanics is refused, and tried again; all others go on.
func TestOneCheckThatPanics(t *testing.T) {
	refused := func(s *scene, kind, why string) {
		s.Eventually(func() known.CheckResult { return s.result("bad", kind, "shop") }).Should(Equal(known.CheckResult{Seen: true, Refused: true,
			Message: kind + " cannot be read: this is a bug in United, and its log has more: panic: " + why}))
	}
	t.Run("where it is looked up", func(t *testing.T) {
		s := newScene(t, withHealthy("shop", "True"))
		for range 2 * workers {
			refused(s, "Panics", "a list of no items")
			s.clock.Step(retryAfter)
		}
		s.becomes("web", "MySQLCluster", "shop", true, "")
	})
	for _, verb := range []string{"list", "watch"} {
		t.Run("in "+verb, func(t *testing.T) {
			s := newScene(t, withHealthy("shop", "True"))
			var fixed atomic.Bool
			panics := func() {
				if !fixed.Load() {
					panic("nil map")
				}
			}
			s.client.PrependReactor(verb, "*", func(clienttesting.Action) (bool, k8sruntime.Object, error) { panics(); return false, nil, nil })
			s.client.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
				if verb == "watch" {
					panics()
				}
				return false, nil, nil
			})
			refused(s, "MySQLCluster", "nil map")
			told := s.timesTold("bad")
			s.clock.Step(retryAfter)
			refused(s, "MySQLCluster", "nil map")
			s.Expect(s.timesTold("bad")).To(BeNumerically("<=", told+1), "it is not told again and again")
			fixed.Store(true)
			s.Eventually(func() known.CheckResult {
				s.clock.Step(time.Second)
				return s.result("bad", "MySQLCluster", "shop")
			}, 10*time.Second).Should(Equal(known.CheckResult{Seen: true, Met: true}))
		})
	}
}

// The status of a condition can be anything.
func TestHugeCondition(t *testing.T) {
	g := NewWithT(t)
	u := mysql("shop", map[string]any{"conditions": []any{map[string]any{"type": "Healthy", "status": strings.Repeat("é", 1<<20), "reason": strings.Repeat("r", 1<<20)}}})
	message := reduce(u).judge(askFor("MySQLCluster", "shop")[0].Check.ObjectCondition).Message
	g.Expect(message).To(HavePrefix("MySQLCluster shop is not Healthy (ééé"))
	g.Expect(len(message)).To(BeNumerically("<", 250))
}

// TestOneReadThatFails holds the object that it is about, for a moment, and nothing else.
func TestOneReadThatFails(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"), withHealthy("other", "True"))
	s.becomes("web", "MySQLCluster", "shop", true, "")
	var failed atomic.Int32
	s.client.PrependReactor("get", "*", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return failed.Add(1) == 1, nil, context.DeadlineExceeded
	})
	s.Expect(s.result("api", "MySQLCluster", "other")).To(Equal(known.CheckResult{}))
	s.Eventually(failed.Load).Should(BeEquivalentTo(1))
	s.clock.Step(patience + time.Second)
	s.Expect(s.result("web", "MySQLCluster", "shop")).To(Equal(known.CheckResult{Seen: true, Met: true}))
	s.Eventually(func() known.CheckResult {
		s.clock.Step(time.Second)
		return s.result("api", "MySQLCluster", "other")
	}, 10*time.Second).Should(Equal(known.CheckResult{Seen: true, Met: true}))
}

// TestTwoChecksOnOneObject are observed, and end, like one.
func TestTwoChecksOnOneObject(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"))
	asks := append(askFor("MySQLCluster", "shop"), askFor("MySQLCluster", "shop")...)
	asks[1].Check.Name, asks[1].Check.ObjectCondition.Type = "other", "Available"
	s.Ask(parentOf("web"), asks)
	s.Eventually(func() bool { return s.Results(parentOf("web"))["other"].Seen }).Should(BeTrue())
	s.Expect(s.Results(parentOf("web"))["c"].Met).To(BeTrue())
	s.Ask(parentOf("web"), asks[:1])
	s.becomes("web", "MySQLCluster", "shop", true, "")
	s.Ask(parentOf("web"), asks)
	s.Forget(parentOf("web"))
	s.Runner.mu.Lock()
	defer s.Runner.mu.Unlock()
	s.Expect(s.watches).To(BeEmpty())
}

// TestARemovedKindIsNotServed: it is looked up again.
func TestARemovedKindIsNotServed(t *testing.T) {
	s := newScene(t, withHealthy("shop", "True"))
	gone := false
	var mu sync.Mutex
	s.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			return true, nil, apierrors.NewNotFound(resource.GroupResource(), "")
		}
		return false, nil, nil
	})
	mu.Lock()
	gone = true
	mu.Unlock()
	s.becomes("web", "MySQLCluster", "shop", false, notServed(schema.FromAPIVersionAndKind("moco.cybozu.com/v1beta2", "MySQLCluster")))
	mu.Lock()
	gone = false
	mu.Unlock()
	s.Eventually(func() known.CheckResult {
		s.clock.Step(time.Second)
		return s.result("web", "MySQLCluster", "shop")
	}, 10*time.Second).Should(Equal(known.CheckResult{Seen: true, Met: true}))
}

// TestFollowIsExact: what is followed is what was asked for last, for every history.
func TestFollowIsExact(t *testing.T) {
	s := newScene(t)
	names := []string{"a", "b", "c"}
	for i := range 200 {
		var asked []known.CheckAsk
		for j, name := range names {
			if (i>>j)&1 == 1 {
				asked = append(asked, askFor("MySQLCluster", name)...)
			}
		}
		s.Ask(parentOf(fmt.Sprint("web-", i%3)), asked)
		want := map[string]bool{}
		s.Runner.mu.Lock()
		for parent, asks := range s.asks {
			for _, t := range targetsOf(parent.Namespace, asks) {
				want[t.name] = true
			}
		}
		var got []string
		for _, w := range s.watches {
			for name := range w.named {
				got = append(got, name)
			}
		}
		s.Runner.mu.Unlock()
		s.Expect(got).To(HaveLen(len(want)))
		for name := range want {
			s.Expect(slices.Contains(got, name)).To(BeTrue())
		}
	}
}
