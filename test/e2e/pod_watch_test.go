// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

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

// incarnation is one life of a pod. A recreated pod is a new incarnation, and so is, with InPlace set,
// a pod whose image was changed.
type incarnation struct {
	pod
	InPlace bool
	// Deleted: the pod is gone.
	Deleted bool
}

// podEvent is one change of a pod.
type podEvent struct {
	pod
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
	history []*incarnation
	events  []podEvent
	living  map[types.UID]*incarnation
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
		living: map[types.UID]*incarnation{},
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
			case <-time.After(interval):
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
	seen, now := w.living[p.UID], readPod(p, w.zones)
	w.events = append(w.events, podEvent{pod: now, Gone: event == watch.Deleted, At: time.Now()})
	switch {
	case event == watch.Deleted && seen != nil:
		seen.Deleted = true
		delete(w.living, p.UID)
	case seen == nil || seen.Image != now.Image:
		next := &incarnation{pod: now, InPlace: seen != nil}
		w.history = append(w.history, next)
		w.living[p.UID] = next
	default:
		seen.pod = now // the node is known only after scheduling
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
	timeout := time.NewTimer(waitTimeout)
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
	e *env
}

// Since returns the incarnations since a mark in the order of their creation.
func (h History) Since(mark int) []incarnation {
	h.e.t.Helper()
	if err := h.e.watch.sync(h.e.ctx); err != nil {
		h.e.t.Fatal(err)
	}
	h.e.watch.mu.Lock()
	defer h.e.watch.mu.Unlock()
	var list []incarnation
	for _, i := range h.e.watch.history[mark:] {
		if i.Namespace == h.e.Namespace {
			list = append(list, *i)
		}
	}
	return list
}

// Events returns everything that happened to the replicas of a UnitedDeployment, in order.
func (h History) Events(parent string) []podEvent {
	h.e.t.Helper()
	if err := h.e.watch.sync(h.e.ctx); err != nil {
		h.e.t.Fatal(err)
	}
	h.e.watch.mu.Lock()
	defer h.e.watch.mu.Unlock()
	var list []podEvent
	for _, event := range h.e.watch.events {
		if event.Namespace == h.e.Namespace && event.Parent == parent {
			list = append(list, event)
		}
	}
	return ofReplicas(list)
}

// Mark returns the place in the history after everything that has happened so far.
func (h History) Mark() int {
	h.e.t.Helper()
	h.Since(0)
	h.e.watch.mu.Lock()
	defer h.e.watch.mu.Unlock()
	return len(h.e.watch.history)
}

// CreatedOn returns the images that the incarnations of a pod had, in order: "v1 v2".
func (h History) CreatedOn(name string) string {
	h.e.t.Helper()
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
	h.e.t.Helper()
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
func (h History) Forbid(rules ...rule) *Ban {
	h.e.t.Helper()
	return &Ban{history: h, from: h.Mark(), rules: rules}
}

// rule returns why an incarnation is forbidden, "" if it is allowed.
type rule func(incarnation) string

// Ban describes what must not happen to pods.
type Ban struct {
	history History
	from    int
	rules   []rule
}

// Broken returns the incarnations so far that broke the ban.
func (b *Ban) Broken() []string {
	b.history.e.t.Helper()
	var broken []string
	for _, i := range b.history.Since(b.from) {
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
	b.history.e.t.Helper()
	if broken := b.Broken(); len(broken) > 0 {
		b.history.e.t.Fatalf("forbidden:\n  %s", strings.Join(broken, "\n  "))
	}
}

// Fires is the positive control of a ban: it fails the test if nothing forbidden has happened by now.
func (b *Ban) Fires() {
	b.history.e.t.Helper()
	if len(b.Broken()) == 0 {
		b.history.e.t.Fatalf("positive control: the ban has seen nothing, but should have; history since:\n%v", b.history.Since(b.from))
	}
}

// String formats an incarnation as one line for messages.
func (i incarnation) String() string {
	how := "created"
	if i.InPlace {
		how = "changed"
	}
	return fmt.Sprintf("%s %s on %s", i.Name, how, i.Image)
}

// anyNewPod forbids all new pods.
func anyNewPod(incarnation) string { return "no pod may be created" }

// protect forbids pods of a subset's ordinals below the partition with any other image.
func protect(subset string, partition int, image string) rule {
	return func(i incarnation) string {
		if i.Subset == subset && i.Ordinal < partition && i.Image != image {
			return fmt.Sprintf("%s is protected below %d on %s", subset, partition, image)
		}
		return ""
	}
}

// outside forbids new pods in all subsets except the given ones.
func outside(subsets ...string) rule {
	return func(i incarnation) string {
		if !slices.Contains(subsets, i.Subset) {
			return fmt.Sprintf("only %s may move", strings.Join(subsets, ", "))
		}
		return ""
	}
}

// restartOf forbids new incarnations of the pods that currently run the image.
func restartOf(living []pod, image string) rule {
	return func(i incarnation) string {
		for _, p := range living {
			if p.Name == i.Name && p.Image == image {
				return fmt.Sprintf("it ran %s already and need not be restarted", image)
			}
		}
		return ""
	}
}
