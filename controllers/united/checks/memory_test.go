// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// large is an API server whose objects are large. It counts how many of them are in memory at the same time.
type large struct {
	dynamic.Interface
	objects int
	// streams: it serves all objects in a watch.
	streams bool
	// alive is how many objects are in memory, and most the highest number at the end of a reading.
	alive, most, read atomic.Int64
	// before is called in the middle of a stream.
	before func()
}

type largeObjects struct {
	dynamic.ResourceInterface
	*large
}

func (l *large) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &largeNamespaces{large: l}
}

type largeNamespaces struct {
	dynamic.NamespaceableResourceInterface
	*large
}

func (n *largeNamespaces) Namespace(string) dynamic.ResourceInterface {
	return &largeObjects{large: n.large}
}

// object returns an object that counts while anything of it but its status and metadata is in memory.
func (l *large) object(i int) *unstructured.Unstructured {
	u := withHealthy(fmt.Sprintf("db-%d", i), "True")
	template := &[]byte{}
	*template = make([]byte, 1024)
	l.alive.Add(1)
	l.read.Add(1)
	runtime.AddCleanup(template, func(alive *atomic.Int64) { alive.Add(-1) }, &l.alive)
	u.Object["spec"] = template
	u.SetResourceVersion(fmt.Sprint(i + 1))
	return u
}

// measure waits until the garbage is collected, and counts what lives.
func (l *large) measure() {
	least := l.alive.Load()
	for range 50 {
		runtime.GC()
		if now := l.alive.Load(); now < least {
			least = now
		}
		if least <= 2 {
			break
		}
		runtime.Gosched()
	}
	l.most.Store(max(l.most.Load(), least))
}

func (o *largeObjects) Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	events := make(chan apiwatch.Event)
	watch := apiwatch.NewProxyWatcher(events)
	if options.SendInitialEvents == nil {
		return watch, nil
	}
	if !o.streams {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	send := func(event apiwatch.Event) {
		select {
		case events <- event:
		case <-watch.StopChan():
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(events)
		for i := range o.objects {
			if i == o.objects/2 && o.before != nil {
				o.before()
			}
			send(apiwatch.Event{Type: apiwatch.Added, Object: o.object(i)})
		}
		o.measure()
		bookmark := mysql("", nil)
		bookmark.SetResourceVersion("1000")
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send(apiwatch.Event{Type: apiwatch.Bookmark, Object: bookmark})
		select {
		case <-watch.StopChan():
		case <-ctx.Done():
		}
	}()
	return watch, nil
}

func (o *largeObjects) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1000")
	for i := range o.objects {
		if options.Limit > 0 && int64(i) == options.Limit {
			list.SetContinue("more")
			break
		}
		list.Items = append(list.Items, *o.object(i))
	}
	o.measure()
	runtime.KeepAlive(list)
	return list, nil
}

func (o *largeObjects) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	i := 0
	if n, err := fmt.Sscanf(name, "db-%d", &i); n != 1 || err != nil || i >= o.objects {
		return nil, apierrors.NewNotFound(resource.GroupResource(), name)
	}
	u := o.object(i)
	o.measure()
	runtime.KeepAlive(u)
	return u, nil
}

// TestLargeObjects: however many objects of the kind there are, and however large, no more than a few are in memory, also
// while all are read. Only the API server can say how large they are.
func TestLargeObjects(t *testing.T) {
	for name, streams := range map[string]bool{"in a stream": true, "where there is none": false} {
		t.Run(name, func(t *testing.T) {
			server := &large{objects: 50, streams: streams}
			s := newSceneOn(t, server)
			s.Ask(parentOf("api"), askFor("MySQLCluster", "none"))
			s.becomes("web", "MySQLCluster", "db-7", true, "")
			s.becomes("api", "MySQLCluster", "none", false, "MySQLCluster none does not exist")
			s.becomes("later", "MySQLCluster", "db-49", true, "")
			s.Expect(server.most.Load()).To(And(BeNumerically(">", 0), BeNumerically("<=", 3)))
			if streams {
				s.Expect(server.read.Load()).To(BeNumerically(">=", 50), "all were sent")
			} else {
				s.Expect(server.read.Load()).To(BeNumerically("<", 10), "only what is named was read")
			}
		})
	}
}

// TestNamedWhileAllAreRead: an object that a check names while the others are read exists all the same.
func TestNamedWhileAllAreRead(t *testing.T) {
	server, half := &large{objects: 20, streams: true}, make(chan struct{})
	named := make(chan struct{})
	server.before = func() { close(half); <-named }
	s := newSceneOn(t, server)
	s.Ask(parentOf("web"), askFor("MySQLCluster", "db-7"))
	<-half
	s.Expect(s.result("later", "MySQLCluster", "db-3")).To(Equal(known.CheckResult{}), "it was sent before anybody named it")
	s.Expect(s.result("soon", "MySQLCluster", "db-17")).To(Equal(known.CheckResult{}))
	message := []string{}
	s.OnChange(func(parent types.NamespacedName) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if result := s.Results(parent)["c"]; result.Seen && !result.Met {
			message = append(message, result.Message)
		}
	})
	close(named)
	s.becomes("web", "MySQLCluster", "db-7", true, "")
	s.becomes("later", "MySQLCluster", "db-3", true, "")
	s.becomes("soon", "MySQLCluster", "db-17", true, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Expect(message).To(BeEmpty())
}

// TestANamespaceHasBounds: what is beyond them is not met, and says why; it is read when there is room.
func TestANamespaceHasBounds(t *testing.T) {
	var objects []k8sruntime.Object
	for i := range mostObjects + 1 {
		objects = append(objects, withHealthy(fmt.Sprintf("db-%d", i), "True"))
	}
	s := newScene(t, objects...)
	var asks []known.CheckAsk
	for i := range mostObjects {
		asks = append(asks, askFor("MySQLCluster", fmt.Sprintf("db-%d", i))...)
	}
	s.Ask(parentOf("greedy"), asks)
	last := fmt.Sprintf("db-%d", mostObjects)
	is := known.CheckResult{Seen: true, Refused: true, Message: "MySQLCluster " + last + " is not read: the checks in a namespace can name at most 200 objects of 20 kinds " +
		"together, including Jobs and AnalysisRuns; name fewer, or use another namespace"}
	s.Expect(s.result("web", "MySQLCluster", last)).To(Equal(is))
	s.Eventually(func() known.CheckResult { return s.result("api", "MySQLCluster", "db-3") }).Should(Equal(known.CheckResult{Seen: true, Met: true}), "it is followed already")
	elsewhere := types.NamespacedName{Namespace: "other", Name: "web"}
	s.Eventually(func() string { return s.observe(elsewhere, askFor("MySQLCluster", "db")).Message }).Should(Equal("MySQLCluster db does not exist"))
	before := s.timesTold("web")
	s.Ask(parentOf("greedy"), asks[1:])
	s.Expect(s.timesTold("web")).To(BeNumerically(">", before), "there is room")
	s.becomes("web", "MySQLCluster", last, true, "")
	s.Ask(parentOf("greedy"), asks)
	s.Forget(parentOf("web"))
	s.Ask(parentOf("greedy"), asks)
	s.Expect(s.crowded).To(BeEmpty())

	for i := range mostKinds + 1 {
		s.Ask(types.NamespacedName{Namespace: "kinds", Name: fmt.Sprint(i)}, askFor(fmt.Sprintf("Kind%d", i), "db"))
	}
	s.Expect(s.Results(types.NamespacedName{Namespace: "kinds", Name: fmt.Sprint(mostKinds - 1)})["c"].Message).NotTo(ContainSubstring("at most"))
	s.Expect(s.Results(types.NamespacedName{Namespace: "kinds", Name: fmt.Sprint(mostKinds)})["c"].Message).To(ContainSubstring("at most 200 objects of 20 kinds"))
}

// TestManyConditions: those that a check may ask for are kept, and not as many as somebody could store.
func TestManyConditions(t *testing.T) {
	conditions := []any{map[string]any{"type": strings.Repeat("x", longestType+1), "status": "True"}}
	for i := range 100_000 {
		conditions = append(conditions, map[string]any{"type": fmt.Sprint("c-", i), "status": "True"})
	}
	o := reduce(mysql("shop", map[string]any{"conditions": conditions}))
	NewWithT(t).Expect(o.conditions).To(HaveLen(mostConditions))
	asked := v1alpha1.ObjectCondition{Kind: "MySQLCluster", Name: "shop", Type: "c-99"}
	NewWithT(t).Expect(o.judge(&asked).Met).To(BeTrue())
	asked.Type = "c-100"
	NewWithT(t).Expect(o.judge(&asked).Message).To(Equal("MySQLCluster shop has no condition c-100 among its first 100, and no more are read"))
	o = reduce(mysql("shop", map[string]any{"conditions": conditions[:mostConditions]}))
	asked.Type = "c-200"
	NewWithT(t).Expect(o.judge(&asked).Message).To(Equal("MySQLCluster shop has no condition c-200"))
}
