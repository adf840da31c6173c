// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/unitedworkloads/united/test/cluster"
)

// right is what a rule of a role grants: one verb on one resource.
type right struct {
	role                  string // the role that grants it
	Verb, Group, Resource string // resource/subresource
}

func (r right) String() string {
	name := r.Verb + " " + r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	return name
}

// usedBy reports whether a request had, and needed, this right, regardless of its result.
func (r right) usedBy(e cluster.Event) bool {
	resource := strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/")
	if e.Code == http.StatusForbidden || e.Group != r.Group || resource != r.Resource {
		return false
	}
	// A server-side apply that creates an object is a patch, but also needs the right to create.
	return e.Verb == r.Verb || (r.Verb == "create" && e.Verb == "patch" && e.Code == http.StatusCreated)
}

// RefusedBy reports whether a request was refused because exactly this right was missing.
func (r right) RefusedBy(e cluster.Event) bool {
	if e.Code != http.StatusForbidden {
		return false
	}
	if r.Resource == "uniteddeployments/finalizers" {
		// There is no write to this resource: the API server checks the right when an owner is set.
		return strings.Contains(e.Message, "cannot set blockOwnerDeletion")
	}
	return strings.Contains(e.Message, fmt.Sprintf("cannot %s resource %q in API group %q", r.Verb, r.Resource, r.Group))
}

// auditTail reads the audit log while it grows, for all tests at once.
type auditTail struct {
	mu     sync.Mutex
	byUser map[string][]cluster.Event
	err    error
}

// follow reads until ctx ends.
func (a *auditTail) follow(ctx context.Context, c *cluster.Cluster) {
	since := int64(0)
	_ = wait.PollUntilContextCancel(ctx, 2*interval, true, func(ctx context.Context) (bool, error) {
		requests, next, err := c.Requests(ctx, since, func(e cluster.Event) bool {
			return strings.HasPrefix(e.User, "system:serviceaccount:"+RightsPrefix)
		})
		since = next
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, e := range requests {
			a.byUser[e.User] = append(a.byUser[e.User], e)
		}
		if err != nil && ctx.Err() == nil {
			a.err = err
			return true, nil
		}
		return false, nil
	})
}

// Of returns the requests of a ServiceAccount so far.
func (a *auditTail) Of(namespace, account string) ([]cluster.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byUser["system:serviceaccount:"+namespace+":"+account], a.err
}

// wholly waits until the log contains everything that was answered before the call.
func (a *auditTail) wholly(ctx context.Context, c *cluster.Cluster, namespace, account string) ([]cluster.Event, error) {
	all, err := c.Writes(ctx, 0, func(e cluster.Event) bool { return e.User == "system:serviceaccount:"+namespace+":"+account })
	if err != nil {
		return nil, err
	}
	var events []cluster.Event
	err = wait.PollUntilContextTimeout(ctx, interval, time.Minute, true, func(context.Context) (bool, error) {
		events, err = a.Of(namespace, account)
		writes := 0
		for _, e := range events {
			if e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" {
				writes++
			}
		}
		return writes >= len(all), err
	})
	return events, err
}
