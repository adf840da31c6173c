// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/unitedworkloads/united/test/cluster"
)

// Incarnation is one life of a pod. A recreated pod is a new incarnation, and so is, with InPlace set,
// a pod whose image was changed.
type Incarnation struct {
	Pod
	InPlace bool
	// Deleted: the pod is gone.
	Deleted bool
}

// PodEvent is one change of a pod.
type PodEvent struct {
	Pod
	Gone bool
	// At is the time at which the watch saw it.
	At time.Time
}

// podWatch has seen every incarnation of every pod of the cluster since before the first test: it lists
// once and then watches from there. A watch that ends is resumed at the resource version where it
// ended. If that is no longer possible (410), it may have missed events, and every test fails.
type podWatch struct {
	client kubernetes.Interface
	zones  map[string]string // of each node
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	history []*Incarnation
	events  []PodEvent
	living  map[types.UID]*Incarnation
	ticks   int // the highest tick of the marker that the watch saw
	asked   int // the last tick that sync asked for
	changed chan struct{}
	err     error
}

// The marker is a pod that nobody schedules. Changing it and waiting until the watch shows the change
// proves that the watch has shown all earlier changes.
const (
	markerName = "e2e-marker"
	tickKey    = "united.dev/e2e-tick"
)

func startPodWatch(ctx context.Context, c *cluster.Cluster, zones map[string]string) (*podWatch, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("pod watch: %w", err)
	}
	_, err = client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: markerName},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers:    []corev1.Container{{Name: "marker", Image: "marker"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("pod watch: %w", err)
	}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("pod watch: %w", err)
	}
	watching, cancel := context.WithCancel(context.Background())
	w := &podWatch{
		client: client, zones: zones, cancel: cancel, ended: make(chan struct{}), changed: make(chan struct{}),
		living: map[types.UID]*Incarnation{},
	}
	for i := range list.Items {
		w.note(watch.Added, &list.Items[i])
	}
	go func() {
		defer close(w.ended)
		err := w.follow(watching, list.ResourceVersion)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
		w.wake()
	}()
	return w, nil
}

func (w *podWatch) stop() {
	w.cancel()
	<-w.ended
}

// follow always returns an error.
func (w *podWatch) follow(ctx context.Context, from string) error {
	for ctx.Err() == nil {
		watching, err := w.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{
			ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(7200)),
		})
		if gone(err) {
			return fmt.Errorf("pod watch from %s: %w", from, err)
		}
		if err != nil {
			// The API server may be unavailable for a while.
			select {
			case <-time.After(Interval):
			case <-ctx.Done():
			}
			continue
		}
		for event := range watching.ResultChan() {
			if event.Type == watch.Error {
				watching.Stop()
				if err := apierrors.FromObject(event.Object); gone(err) {
					return fmt.Errorf("pod watch from %s: %w", from, err)
				}
				break
			}
			p, ok := event.Object.(*corev1.Pod)
			if !ok {
				watching.Stop()
				return fmt.Errorf("pod watch: %T", event.Object)
			}
			from = p.ResourceVersion
			if event.Type != watch.Bookmark {
				w.note(event.Type, p)
			}
		}
	}
	return ctx.Err()
}

// gone reports whether events were missed, as opposed to an unavailable API server.
func gone(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

func (w *podWatch) note(event watch.EventType, p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	if p.Name == markerName && p.Namespace == metav1.NamespaceDefault {
		tick, err := strconv.Atoi(p.Annotations[tickKey])
		if err == nil {
			w.ticks = max(w.ticks, tick)
		}
		return
	}
	seen, now := w.living[p.UID], ReadPod(p, w.zones)
	w.events = append(w.events, PodEvent{Pod: now, Gone: event == watch.Deleted, At: time.Now()})
	switch {
	case event == watch.Deleted && seen != nil:
		seen.Deleted = true
		delete(w.living, p.UID)
	case seen == nil || seen.Image != now.Image:
		next := &Incarnation{Pod: now, InPlace: seen != nil}
		w.history = append(w.history, next)
		w.living[p.UID] = next
	default:
		seen.Pod = now // the node is known only after scheduling
	}
}

// wake wakes all waiting goroutines; the caller holds w.mu.
func (w *podWatch) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// sync waits until the watch has seen everything that happened before the call.
func (w *podWatch) sync(ctx context.Context) error {
	w.mu.Lock()
	w.asked++
	tick := w.asked
	w.mu.Unlock()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{tickKey: strconv.Itoa(tick)}}})
	if err != nil {
		return err
	}
	if _, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, markerName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("pod watch: %w", err)
	}
	timeout := time.NewTimer(WaitTimeout)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		err, seen, changed := w.err, w.ticks >= tick, w.changed
		w.mu.Unlock()
		switch {
		case err != nil:
			return err
		case seen:
			return nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return errors.New("pod watch: it stands still")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// History is what the watch has seen of one namespace. Each call first waits until the watch has caught
// up with the cluster, and fails the test if the watch may have missed something.
type History struct {
	E *Env
}

// Since returns the incarnations since a mark in the order of their creation.
func (h History) Since(mark int) []Incarnation {
	h.E.T.Helper()
	if err := h.E.watch.sync(h.E.Ctx); err != nil {
		h.E.T.Fatal(err)
	}
	h.E.watch.mu.Lock()
	defer h.E.watch.mu.Unlock()
	var list []Incarnation
	for _, i := range h.E.watch.history[mark:] {
		if i.Namespace == h.E.Namespace {
			list = append(list, *i)
		}
	}
	return list
}

// Events returns everything that happened to the replicas of a UnitedDeployment, in order.
func (h History) Events(parent string) []PodEvent {
	h.E.T.Helper()
	if err := h.E.watch.sync(h.E.Ctx); err != nil {
		h.E.T.Fatal(err)
	}
	h.E.watch.mu.Lock()
	defer h.E.watch.mu.Unlock()
	var list []PodEvent
	for _, event := range h.E.watch.events {
		if event.Namespace == h.E.Namespace && event.Parent == parent {
			list = append(list, event)
		}
	}
	return OfReplicas(list)
}

// Mark returns the place in the history after everything that has happened so far.
func (h History) Mark() int {
	h.E.T.Helper()
	h.Since(0)
	h.E.watch.mu.Lock()
	defer h.E.watch.mu.Unlock()
	return len(h.E.watch.history)
}

// CreatedOn returns the images that the incarnations of a pod had, in order: "v1 v2".
func (h History) CreatedOn(name string) string {
	h.E.T.Helper()
	var list []string
	for _, i := range h.Since(0) {
		if i.Name == name {
			list = append(list, i.Image)
		}
	}
	return strings.Join(list, " ")
}

// Living returns the UIDs of the existing pods, by name.
func (h History) Living() map[string]types.UID {
	h.E.T.Helper()
	living := map[string]types.UID{}
	for _, i := range h.Since(0) {
		if !i.Deleted {
			living[i.Name] = i.UID
		}
	}
	return living
}

// Forbid forbids, from now on, every incarnation for which a rule returns a reason. Nothing is checked
// until Holds is called.
func (h History) Forbid(rules ...Rule) *Ban {
	h.E.T.Helper()
	return &Ban{History: h, from: h.Mark(), rules: rules}
}

// Rule returns why an incarnation is forbidden, "" if it is allowed.
type Rule func(Incarnation) string

// Ban describes what must not happen to pods.
type Ban struct {
	History History
	from    int
	rules   []Rule
}

// Broken returns the incarnations so far that broke the ban.
func (b *Ban) Broken() []string {
	b.History.E.T.Helper()
	var broken []string
	for _, i := range b.History.Since(b.from) {
		for _, r := range b.rules {
			if why := r(i); why != "" {
				broken = append(broken, fmt.Sprintf("%s: %s", i, why))
			}
		}
	}
	return broken
}

// Holds fails the test if the ban was broken since Forbid was called.
func (b *Ban) Holds() {
	b.History.E.T.Helper()
	if broken := b.Broken(); len(broken) > 0 {
		b.History.E.T.Fatalf("forbidden:\n  %s", strings.Join(broken, "\n  "))
	}
}

// Fires is the positive control of a ban: it fails the test if nothing forbidden has happened by now.
func (b *Ban) Fires() {
	b.History.E.T.Helper()
	if len(b.Broken()) == 0 {
		b.History.E.T.Fatalf("positive control: the ban has seen nothing, but should have; history since:\n%v", b.History.Since(b.from))
	}
}

// String formats an incarnation as one line for messages.
func (i Incarnation) String() string {
	how := "created"
	if i.InPlace {
		how = "changed"
	}
	return fmt.Sprintf("%s %s on %s", i.Name, how, i.Image)
}

// AnyNewPod forbids all new pods.
func AnyNewPod(Incarnation) string { return "no pod may be created" }

// Protect forbids pods of a subset's ordinals below the partition with any other image.
func Protect(subset string, partition int, image string) Rule {
	return func(i Incarnation) string {
		if i.Subset == subset && i.Ordinal < partition && i.Image != image {
			return fmt.Sprintf("%s is protected below %d on %s", subset, partition, image)
		}
		return ""
	}
}

// Outside forbids new pods in all subsets except the given ones.
func Outside(subsets ...string) Rule {
	return func(i Incarnation) string {
		if !slices.Contains(subsets, i.Subset) {
			return fmt.Sprintf("only %s may move", strings.Join(subsets, ", "))
		}
		return ""
	}
}

// RestartOf forbids new incarnations of the pods that currently run the image.
func RestartOf(living []Pod, image string) Rule {
	return func(i Incarnation) string {
		for _, p := range living {
			if p.Name == i.Name && p.Image == image {
				return fmt.Sprintf("it ran %s already and need not be restarted", image)
			}
		}
		return ""
	}
}
