// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// markerPrefix is the prefix of the audit ids of requests that mark a place in the log.
const markerPrefix = "united-mark-"

// Event is a write that the API server has answered, as recorded in its audit log.
type Event struct {
	ID        string
	Time      time.Time // when the request came in
	User      string    // for a ServiceAccount system:serviceaccount:<namespace>:<name>
	UserAgent string
	Verb      string // create, update, patch, delete, deletecollection; with Options.AuditReads get, list, watch

	Group       string // of the API; empty for the core group
	Resource    string // plural
	Subresource string
	Namespace   string
	Name        string // of a created object too, except with generateName
	Code        int    // HTTP status of the answer
	Message     string // of an answer that rejects the request
	DryRun      bool

	// Request is the body of the request as JSON: the object, the patch, or the delete options. Empty for secrets.
	Request json.RawMessage
}

// String returns a line for messages of tests.
func (e Event) String() string {
	resource := strings.Trim(e.Resource+"/"+e.Subresource, "/")
	return fmt.Sprintf("%s %s %s %s/%s by %s: %d", e.Time.Format("15:04:05.000"), e.Verb, resource, e.Namespace, e.Name,
		e.User, e.Code)
}

// ByServiceAccount selects the writes of a ServiceAccount.
func ByServiceAccount(namespace, name string) func(Event) bool {
	user := "system:serviceaccount:" + namespace + ":" + name
	return func(e Event) bool { return e.User == user }
}

// AuditLog returns the path of the audit log: one JSON object (audit.k8s.io/v1 Event) a line for every write.
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// AuditMark returns the place in the audit log, in bytes, after all writes that have been answered so far.
//
// That is not simply the end of the file: the API server may log a write right after the client has received the answer.
// So AuditMark sends a request that changes nothing, and waits until that is in the log.
func (c *Cluster) AuditMark(ctx context.Context) (int64, error) {
	info, err := os.Stat(c.AuditLog())
	if err != nil {
		return 0, fmt.Errorf("audit mark: %w", err)
	}
	place := info.Size()
	id := markerPrefix + string(uuid.NewUUID())
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"},
	}}
	err = c.client.AuthorizationV1().RESTClient().Post().Resource("selfsubjectaccessreviews").
		SetHeader("Audit-ID", id).Body(review).Do(ctx).Error()
	if err != nil {
		return 0, fmt.Errorf("audit mark: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = c.poll(ctx, func(context.Context) (bool, error) {
		found := false
		var err error
		place, err = readLines(c.AuditLog(), place, func(line []byte) (bool, error) {
			found = bytes.Contains(line, []byte(id))
			return !found, nil
		})
		return found, err
	})
	if err != nil {
		return 0, fmt.Errorf("audit mark: %w", err)
	}
	return place, nil
}

// Writes returns the writes that keep selects (all if it is nil), in the order in which they were answered: from the
// place since (0, or a mark of AuditMark) to the last one that was answered before this call. They include rejected
// writes; see Event.Code.
func (c *Cluster) Writes(ctx context.Context, since int64, keep func(Event) bool) ([]Event, error) {
	events, _, err := c.Requests(ctx, since, func(e Event) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, e.Verb) && (keep == nil || keep(e))
	})
	return events, err
}

// Requests returns the requests in the audit log, in the order of the answers: those of Writes, and the reads of
// Options.AuditReads. It also returns the place after the last one, to continue from.
func (c *Cluster) Requests(ctx context.Context, since int64, keep func(Event) bool) ([]Event, int64, error) {
	until, err := c.AuditMark(ctx)
	if err != nil {
		return nil, since, err
	}
	var events []Event
	at := since
	_, err = readLines(c.AuditLog(), since, func(line []byte) (bool, error) {
		event, err := parseEvent(line)
		if err != nil {
			return false, err
		}
		if !strings.HasPrefix(event.ID, markerPrefix) && (keep == nil || keep(event)) {
			events = append(events, event)
		}
		at += int64(len(line))
		return at < until, nil
	})
	if err != nil {
		return nil, since, fmt.Errorf("reading the audit log: %w", err)
	}
	return events, at, nil
}

// parseEvent parses a line of the log, which has a ResponseComplete (or Panic) stage: the policy omits the others.
func parseEvent(line []byte) (Event, error) {
	var raw struct {
		AuditID                  string
		RequestReceivedTimestamp time.Time
		Verb, UserAgent          string
		RequestURI               string
		User                     struct{ Username string }
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct {
			Code    int
			Message string
		}
		RequestObject json.RawMessage
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Event{}, fmt.Errorf("%w in %q", err, line)
	}
	return Event{
		ID: raw.AuditID, Time: raw.RequestReceivedTimestamp, User: raw.User.Username, UserAgent: raw.UserAgent,
		Verb: raw.Verb, Group: raw.ObjectRef.APIGroup, Resource: raw.ObjectRef.Resource,
		Subresource: raw.ObjectRef.Subresource, Namespace: raw.ObjectRef.Namespace, Name: raw.ObjectRef.Name,
		Code: raw.ResponseStatus.Code, Message: raw.ResponseStatus.Message, DryRun: strings.Contains(raw.RequestURI, "dryRun="), Request: raw.RequestObject,
	}, nil
}

// readLines calls each with the complete lines of a file from a place on, until it returns false or an error, and returns
// the place after the last line that it has passed. It leaves a line that is still being written for the next call.
func readLines(path string, from int64, each func(line []byte) (more bool, err error)) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return from, err
	}
	defer f.Close() //nolint:errcheck // read only
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, err
	}
	reader := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		from += int64(len(line))
		if more, err := each(line); err != nil || !more {
			return from, err
		}
	}
}
