// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package unreadable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
)

// nest returns n nested objects.
func nest(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }

// typed rejects objects with a bad status, as a Go type would.
var typed Check = func(object []byte) error {
	return json.Unmarshal(object, &struct {
		Status struct{ Time int } `json:"status"`
	}{})
}

const good = `{"metadata":{"name":"good","uid":"g"},"spec":{"x":"}]\"{["},"status":{"time":1}}`

var (
	deep       = fmt.Sprintf(`{"kind":"K","metadata":{"name":"deep","uid":"d","annotations":{"b":"c"}},"spec":%s,"status":{"time":2}}`, nest(maxDepth-2))
	deepest    = fmt.Sprintf(`{"metadata":{"name":"fits"},"spec":%s}`, nest(maxDepth-3))
	deepOwner  = fmt.Sprintf(`{"metadata":{"managedFields":[{"manager":"x","fieldsV1":%s},{"manager":"united","fieldsV1":{"f:a":{}}}],"name":"owned"},"spec":{}}`, nest(maxDepth-4))
	badStatus  = `{"metadata":{"name":"bad"},"spec":{},"status":{"time":"1"}}`
	bothAreBad = fmt.Sprintf(`{"metadata":{"name":"both","annotations":null,"managedFields":[]},"spec":%s,"status":{"time":"1"}}`, nest(maxDepth))
)

// instead has what is read, by what is sent.
var instead = map[string]string{
	good: good, deepest: deepest,
	deep:       `{"kind":"K","metadata":{"annotations":{"b":"c","united.dev/unreadable":"it is nested deeper than can be read"},"name":"deep","uid":"d"},"status":{"time":2}}`,
	deepOwner:  `{"metadata":{"managedFields":[{"manager":"united","fieldsV1":{"f:a":{}}}],"name":"owned"},"spec":{}}`,
	badStatus:  `{"metadata":{"annotations":{"united.dev/unreadable":"json: cannot unmarshal string into Go struct field .status.Time of type int"},"name":"bad"}}`,
	bothAreBad: `{"metadata":{"annotations":{"united.dev/unreadable":"it is nested deeper than can be read"},"name":"both"}}`,
}

func ask(t *testing.T, contentType, body, query string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	client := http.Client{Transport: Wrap(map[string]Check{"things": typed})(http.DefaultTransport)}
	resp, err := client.Get(server.URL + "/apis/g/v1/namespaces/n/things" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestLists(t *testing.T) {
	g := NewWithT(t)
	var sent, want []string
	for s, w := range instead {
		sent, want = append(sent, s), append(want, w)
	}
	list := func(items []string) string {
		return `{"kind":"List", "items" : [` + strings.Join(items, " ,\n") + "],\"metadata\":{\"resourceVersion\":\"7\"}}\n"
	}
	got := ask(t, "application/json;charset=utf-8", list(sent), "")
	g.Expect(got).To(Equal(list(want)))
	g.Expect(json.Unmarshal([]byte(got), new(any))).To(Succeed())
	g.Expect(json.Unmarshal([]byte(list(sent)), new(any))).NotTo(Succeed(), "the control")

	for _, same := range []string{list(nil), good, `{}`, `[]`, ``, `"x"`, `null`, `{"items":null}`, `{"items":{"a":1}}`, `{"items":[`, `{"items":[{"metadata":` + nest(maxDepth)} {
		g.Expect(ask(t, "application/json", same, "")).To(Equal(same))
	}
	g.Expect(ask(t, "application/vnd.kubernetes.protobuf", list(sent), "")).To(Equal(list(sent)))
}

func TestWatches(t *testing.T) {
	g := NewWithT(t)
	var sent, want string
	for s, w := range instead {
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
			sent += fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, s)
			want += fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, w)
		}
	}
	for _, kind := range []string{"BOOKMARK", "ERROR"} {
		sent += fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, badStatus)
		want += fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, badStatus)
	}
	g.Expect(ask(t, "application/json", sent, "?watch=true")).To(Equal(want))
	g.Expect(ask(t, "application/json", sent+`{"type":`, "?watch=1")).To(Equal(want + `{"type":`))
}

// An event is passed on when it is complete, and not with the next one.
func TestWatchDoesNotWait(t *testing.T) {
	g := NewWithT(t)
	from, to := io.Pipe()
	client := http.Client{Transport: Wrap(nil)(body{from})}
	resp, err := client.Get("http://x/apis/g/v1/things?watch=true")
	g.Expect(err).NotTo(HaveOccurred())
	event := fmt.Sprintf(`{"type":"ADDED","object":%s}`, good)
	for range 3 {
		go func() { _, _ = io.Copy(to, iotest.OneByteReader(strings.NewReader(event))) }()
		got := make([]byte, len(event))
		_, err = io.ReadFull(resp.Body, got)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(Equal(event))
	}
	broke := errors.New("it broke")
	go func() { _ = to.CloseWithError(broke) }()
	_, err = resp.Body.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(broke))
	g.Expect(resp.Body.Close()).To(Succeed())
	_, err = to.Write([]byte("x"))
	g.Expect(err).To(HaveOccurred(), "closing reaches the connection")
}

// A list that ends early returns the original error.
func TestBrokenList(t *testing.T) {
	g := NewWithT(t)
	broke := errors.New("it broke")
	client := http.Client{Transport: Wrap(nil)(body{io.NopCloser(io.MultiReader(strings.NewReader(`{"items":`), iotest.ErrReader(broke)))})}
	resp, err := client.Get("http://x/apis/g/v1/things")
	g.Expect(err).NotTo(HaveOccurred())
	got, err := io.ReadAll(resp.Body)
	g.Expect(err).To(MatchError(broke))
	g.Expect(string(got)).To(Equal(`{"items":`))
	g.Expect(resp.Body.Close()).To(Succeed())
}

// body is the response to every request.
type body struct{ io.ReadCloser }

func (b body) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: b, Header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// FuzzRepair: for any input, nothing panics; objects that can be decoded stay as they are; and JSON stays JSON. NEST in
// the object is as deep as the other argument says.
func FuzzRepair(f *testing.F) {
	for _, depth := range []int{1, maxDepth - 6, maxDepth - 4, maxDepth - 3, maxDepth - 2, maxDepth, maxDepth + 1} {
		f.Add([]byte(`{"metadata":{"name":"x"},"spec":NEST,"status":{"time":1}}`), uint16(depth))
		f.Add([]byte(`{"metadata":{"name":"x","managedFields":[{"fieldsV1":NEST}]},"status":{"time":"1"}}`), uint16(depth))
	}
	for _, seed := range []string{good, badStatus, `{"metadata":{}}`, `{"metadata":[],"status":{"time":"x"}}`,
		`{"metadata":{"annotations":7},"status":1}`, "{\"a\\u0062\":\"\\\\\"}", `{"a":1e400}`, `{"items":[1,2,]}`, `{"":}`} {
		f.Add([]byte(seed), uint16(0))
	}
	f.Fuzz(func(t *testing.T, object []byte, depth uint16) {
		if depth > 0 {
			object = bytes.Replace(object, []byte("NEST"), []byte(nest(int(depth))), 1)
		}
		for _, wrap := range []struct {
			with    string
			through func([]byte) []byte
		}{{`{"items":[%s]}`, typed.list}, {`{"type":"ADDED","object":%s}`, typed.event}} {
			sent := fmt.Appendf(nil, wrap.with, object)
			got := wrap.through(bytes.Clone(sent))
			if json.Valid(sent) && !json.Valid(got) {
				t.Errorf("%s became %s", sent, got)
			}
			if json.Valid(sent) && typed(object) == nil && depthOf(object) <= maxDepth-levels && !bytes.Equal(sent, got) {
				t.Errorf("%s was readable, and became %s", sent, got)
			}
		}
	})
}
