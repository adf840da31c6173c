// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// gather is how long changes are gathered before they are shown.
	gather = 150 * time.Millisecond
	// lookAgain is how often a page is made again if nothing is heard: a replica is available because time passes.
	lookAgain = 5 * time.Second
)

// hub makes each page once for all tabs that show it, when something in it has changed.
type hub struct {
	ctx context.Context
	// page makes the live part of a page: of one object, or without a name the list.
	page func(ctx context.Context, key client.ObjectKey, seen *seen) string

	mu    sync.Mutex
	rooms map[client.ObjectKey]*room
}

// room are the tabs that show the same page.
type room struct {
	tabs  map[chan string]bool
	dirty chan struct{}
	last  string
	leave context.CancelFunc
}

// join adds a tab. What it receives is the whole live part of the page; one that is slow misses what is outdated.
func (h *hub) join(key client.ObjectKey) (tab chan string, leave func()) {
	tab = make(chan string, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[key]
	if r == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		r = &room{tabs: map[chan string]bool{}, dirty: make(chan struct{}, 1), leave: cancel}
		h.rooms[key] = r
		go h.run(ctx, key, r)
	}
	if r.tabs[tab] = true; r.last != "" {
		tab <- r.last
	}
	return tab, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(r.tabs, tab); len(r.tabs) == 0 && h.rooms[key] == r {
			r.leave()
			delete(h.rooms, key)
		}
	}
}

// changed makes the pages again that show an object; all of them without a name.
func (h *hub) changed(key client.ObjectKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, r := range h.rooms {
		if key.Name == "" || at.Name == "" || at == key {
			select {
			case r.dirty <- struct{}{}:
			default:
			}
		}
	}
}

// run makes a page again and again, until nobody shows it.
func (h *hub) run(ctx context.Context, key client.ObjectKey, r *room) {
	s, ticker := newSeen(), time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		began := time.Now()
		page := h.page(ctx, key, s)
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		if page != r.last {
			r.last = page
			for tab := range r.tabs {
				select { // what the tab has not taken is outdated
				case <-tab:
				default:
				}
				tab <- page
			}
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-r.dirty:
		case <-ticker.C:
		}
		select { // a page that takes long is made less often
		case <-ctx.Done():
			return
		case <-time.After(max(gather, 2*took)):
		}
	}
}
