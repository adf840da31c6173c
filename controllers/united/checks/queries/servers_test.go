// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
)

// The real Prometheus is in test/e2e. These servers do what it does not.

// data answers with the data of a query.
func data(kind, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result)
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func series(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"metric":{"pod":"web-0"},"value":[1767225600,"1"]},`, n), ",") + "]"
}

// configured returns the servers of a file.
func configured(t *testing.T, content string) (*Servers, string, *testclock.FakeClock) {
	file := filepath.Join(t.TempDir(), "servers.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testclock.NewFakeClock(time.Unix(1767225600, 0))
	return NewServers(file, c), file, c
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   any // a number, nil for no data, or a text for an error
	}{
		"a scalar":        {data("scalar", `[1767225600.1,"0.5"]`), 0.5},
		"one series":      {data("vector", series(1)), 1.0},
		"infinite":        {data("scalar", `[1767225600,"-Inf"]`), math.Inf(-1)},
		"no series":       {data("vector", `[]`), nil},
		"two series":      {data("vector", series(2)), "the query returned more than one series: aggregate them, for example with sum()"},
		"100,000 series":  {data("vector", series(100_000)), "the answer is longer than 1 MiB: the query must return one series"},
		"a range":         {data("matrix", `[{"metric":{},"values":[[1767225600,"1"]]}]`), "the query returned a matrix: a number, or one series, is needed"},
		"a string":        {data("string", `[1767225600,"1"]`), "the query returned a string: a number, or one series, is needed"},
		"a histogram":     {data("vector", `[{"metric":{},"histogram":[1767225600,{"count":"1","sum":"1","buckets":[]}]}]`), "the query returned a histogram: use histogram_quantile() or a part of it"},
		"no value":        {data("vector", `[{"metric":{"pod":"web-0"}}]`), errNoNumber.Error()},
		"a time alone":    {data("vector", `[{"metric":{},"value":[1767225600]}]`), errNoNumber.Error()},
		"a null value":    {data("vector", `[{"metric":{},"value":[1767225600,null]}]`), errNoNumber.Error()},
		"a bare number":   {data("vector", `[{"metric":{},"value":[1767225600,1]}]`), errNoNumber.Error()},
		"two values":      {data("vector", `[{"metric":{},"value":[1767225600,"1","9"]}]`), errNoNumber.Error()},
		"an empty value":  {data("vector", `[{"metric":{},"value":[1767225600,""]}]`), errNoPrometheus.Error()},
		"a null series":   {data("vector", `[null]`), errNoNumber.Error()},
		"null":            {data("vector", `null`), errNoNumber.Error()},
		"no scalar":       {data("scalar", `[1767225600,null]`), errNoNumber.Error()},
		"a short scalar":  {data("scalar", `[1767225600]`), errNoNumber.Error()},
		"a null scalar":   {data("scalar", `null`), errNoNumber.Error()},
		"a long scalar":   {data("scalar", `[1767225600,"1","9"]`), errNoNumber.Error()},
		"a bad query":     {status(400, `{"status":"error","errorType":"bad_data","error":"1:1: parse error:\n no"}`), "the server cannot evaluate the query: 1:1: parse error: no"},
		"it gave up":      {status(503, `{"status":"error","errorType":"timeout","error":"query timed out in 3.141s"}`), "the server answered: server error: 503"},
		"a long error":    {status(422, `{"status":"error","errorType":"execution","error":"`+strings.Repeat("é", 400)+`"}`), "the server cannot evaluate the query: " + strings.Repeat("é", 300) + "..."},
		"down":            {status(502, `<html>`), "the server answered: server error: 502"},
		"no permission":   {status(401, `secret`), "the server answered: client error: 401"},
		"forbidden":       {status(403, `secret`), "the server answered 403 Forbidden"},
		"no POST":         {status(405, ``), "the server answered 405 Method Not Allowed"},
		"another server":  {status(200, `<html>`), "the answer is not one of the Prometheus API"},
		"no status":       {status(200, `{"data":{"resultType":"scalar","result":[1767225600,"1"]}}`), errNoNumber.Error()},
		"no data at all":  {status(200, `{"status":"success"}`), "the answer is not one of the Prometheus API"},
		"an empty answer": {status(204, ``), "the answer is not one of the Prometheus API"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "{")
		}, "the connection to the server failed"},
		"an absurd status": {status(299, `{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}`), "the answer is not one of the Prometheus API"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.String()+" "+r.FormValue("query")+" "+r.Header.Get("X-Scope-OrgID"))
				test.answer(w, r)
			}))
			defer server.Close()
			s, _, _ := configured(t, "servers: {default: {url: "+server.URL+"/prom/, namespaces: [shop], headers: {X-Scope-OrgID: shop}}}")
			value, err := s.Query(t.Context(), "default", "shop", "up")
			switch want := test.want.(type) {
			case string:
				g.Expect(err).To(MatchError(want))
			case float64:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(value).To(HaveValue(Equal(want)))
			default:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(value).To(BeNil())
			}
			g.Expect(asked).To(Equal([]string{"POST /prom/api/v1/query up shop"}))
		})
	}
	g := NewWithT(t)
	server := httptest.NewServer(data("vector", `[{"metric":{},"value":[1767225600,"NaN"]}]`))
	defer server.Close()
	s, _, _ := configured(t, "servers: {default: {url: "+server.URL+", namespaces: ['*']}}")
	value, err := s.Query(t.Context(), "default", "any", "0/0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(math.IsNaN(*value)).To(BeTrue())
}

// TestNoOtherServer: neither a redirect nor a closed port, or one with another certificate, makes United connect elsewhere or tell where it did.
func TestNoOtherServer(t *testing.T) {
	g := NewWithT(t)
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		data("scalar", `[1,"1"]`)(w, r)
	}))
	defer other.Close()
	secure := httptest.NewTLSServer(data("scalar", `[1,"1"]`))
	defer secure.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	config := "servers:\n"
	for _, code := range []int{301, 302, 303, 307, 308} {
		redirects := httptest.NewServer(http.RedirectHandler(other.URL+"/api/v1/query", code))
		t.Cleanup(redirects.Close)
		config += fmt.Sprintf("  r%d: {url: %s, namespaces: [shop]}\n", code, redirects.URL)
	}
	config += "  closed: {url: " + closed.URL + ", namespaces: [shop]}\n" +
		"  unknown: {url: 'http://a.invalid', namespaces: [shop]}\n" +
		"  untrusted: {url: " + secure.URL + ", namespaces: [shop]}\n" +
		"  trusted: {url: " + secure.URL + ", namespaces: [shop], tls: {serverName: example.com, ca: " + fmt.Sprintf("%q", ca) + "}}\n" +
		"  another: {url: " + secure.URL + ", namespaces: [shop], tls: {serverName: other.test, ca: " + fmt.Sprintf("%q", ca) + "}}\n" +
		"  anyway: {url: " + secure.URL + ", namespaces: [shop], tls: {insecureSkipVerify: true}}\n" +
		"  direct: {url: " + other.URL + ", namespaces: [shop]}\n"
	s, _, _ := configured(t, config)
	for name, want := range map[string]string{
		"r301": errRedirect.Error(), "r302": errRedirect.Error(), "r303": errRedirect.Error(), "r307": errRedirect.Error(), "r308": errRedirect.Error(),
		"closed": "the server refuses connections", "unknown": "the name of the server cannot be resolved",
		"untrusted": "the certificate of the server is not trusted", "another": "the certificate of the server is not trusted",
	} {
		_, err := s.Query(t.Context(), name, "shop", "up")
		g.Expect(err).To(MatchError(want), name)
	}
	g.Expect(elsewhere.Load()).To(BeZero())
	for _, name := range []string{"trusted", "anyway", "direct"} {
		_, err := s.Query(t.Context(), name, "shop", "up")
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
	g.Expect(elsewhere.Load()).To(Equal(int32(1)), "the control: it can be reached")
}

func TestSlow(t *testing.T) {
	g := NewWithT(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	s, _, _ := configured(t, "servers: {default: {url: "+server.URL+", namespaces: [shop], timeout: 50ms}}")
	_, err := s.Query(t.Context(), "default", "shop", "up")
	g.Expect(err).To(MatchError("no answer within 50ms"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Query(ended, "default", "shop", "up")
	g.Expect(err).To(MatchError(context.Canceled))
}

// TestWhoMayAsk: a namespace that is not listed learns nothing, also not whether the server exists; and the file is read again.
func TestWhoMayAsk(t *testing.T) {
	g := NewWithT(t)
	var token atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		data("scalar", `[1,"1"]`)(w, r)
	}))
	defer server.Close()
	entry := func(name, more string) string { return name + ": {url: " + server.URL + more + "}" }
	s, file, clock := configured(t, "servers: {"+entry("a", ", namespaces: [shop, ops], bearerTokenFile: token")+", "+entry("b", "")+"}")
	g.Expect(os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("from a file\n"), 0o600)).To(Succeed())
	ask := func(name, namespace string) error {
		_, err := s.Query(t.Context(), name, namespace, "up")
		return err
	}
	refusal := "server %s is not open to namespace %s, or does not exist: whoever runs United sets checks.prometheus.servers.%s.namespaces, and its url, in the values of its Helm chart"
	g.Expect(ask("a", "shop")).To(Succeed())
	g.Expect(token.Load()).To(Equal("Bearer from a file"))
	for _, c := range [][2]string{{"a", "other"}, {"a", "sho"}, {"b", "shop"}, {"c", "shop"}, {"", "shop"}} {
		err := ask(c[0], c[1])
		g.Expect(err).To(MatchError(fmt.Sprintf(refusal, c[0], c[1], c[0])))
		g.Expect(IsNotPermitted(err)).To(BeTrue())
	}
	write := func(content string) {
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		clock.Step(lookAgain)
	}
	write("servers: {" + entry("a", ", namespaces: [other], basicAuth: {username: u, password: p}") + "}")
	g.Expect(ask("a", "shop")).NotTo(Succeed())
	g.Expect(ask("a", "other")).To(Succeed())
	g.Expect(token.Load()).To(Equal("Basic dTpw"))
	write("servers: {a: {uri: typo}}")
	g.Expect(ask("a", "other")).To(Succeed(), "it remains as it was")
	write("servers: {}")
	g.Expect(IsNotPermitted(ask("a", "other"))).To(BeTrue())
	g.Expect(IsNotPermitted(NewServers("", clock).mustNotFind())).To(BeTrue())
	unusable, _, _ := configured(t, "servers: {a: {uri: typo}}")
	_, err := unusable.Query(t.Context(), "a", "shop", "up")
	g.Expect(err).To(MatchError("the configuration of Prometheus servers cannot be used; United's log says why"))
	g.Expect(IsNotPermitted(err)).To(BeFalse())
}

func (s *Servers) mustNotFind() error {
	_, err := s.find(context.Background(), "a", "shop")
	return err
}

func TestReadConfig(t *testing.T) {
	for content, want := range map[string]string{
		`servers: {a: {url: "https://prom:9090/x", namespaces: [a, "*"], timeout: 5s, tls: {caFile: ca.crt, certFile: c, keyFile: k}}}`: "",
		`{}`:         "",
		``:           "",
		`server: {}`: `unknown field "server"`,
		`servers: {a: {url: "http://a", namespace: [a]}}`:                             `unknown field "servers.a.namespace"`,
		"servers:\n  a: {url: 'http://a'}\n  a: {}":                                   `no YAML: yaml: unmarshal errors:`,
		`servers: {a: {url: "http://a", namespaces: a}}`:                              `servers: json: cannot unmarshal string into Go struct field Server.servers.namespaces of type []string`,
		`servers: {A: {url: "http://a"}}`:                                             `servers[A]: Invalid value: "A": must be a DNS label`,
		`servers: {a: {}}`:                                                            `servers[a].url: Invalid value: must be http(s)://host[:port][/path]`,
		`servers: {a: {url: "file:///etc"}}`:                                          `servers[a].url: Invalid value: must be http(s)://host[:port][/path]`,
		`servers: {a: {url: "http://u:secret@a"}}`:                                    `servers[a].url: Invalid value: must have no user, query and fragment: basicAuth has the password`,
		`servers: {a: {url: "http://a?x=y"}}`:                                         `servers[a].url: Invalid value: must have no user, query and fragment: basicAuth has the password`,
		`servers: {a: {url: "http://a", namespaces: [a*]}}`:                           `servers[a].namespaces[0]: Invalid value: "a*": must be the name of a namespace, or "*"`,
		`servers: {a: {url: "http://a", timeout: 2m}}`:                                `servers[a].timeout: Invalid value: "2m0s": must be at most 1m0s`,
		`servers: {a: {url: "http://a", timeout: 5}}`:                                 `servers: json: cannot unmarshal`,
		`servers: {a: {url: "http://a", bearerToken: s, basicAuth: {}}}`:              `servers[a]: Forbidden: only one of bearerToken, bearerTokenFile and basicAuth can be given`,
		`servers: {a: {url: "http://a", tls: {ca: x, caFile: f}}}`:                    `servers[a].tls.ca: Forbidden: cannot be combined with caFile`,
		`servers: {a: {url: "http://a", tls: {certFile: f}}}`:                         `servers[a].tls: Required value: cert and key go together`,
		`servers: {a: {url: "http://a", tls: {caFile: f, insecureSkipVerify: true}}}`: `servers[a].tls.insecureSkipVerify: Forbidden: cannot be combined with a CA`,
	} {
		_, err := ReadConfig([]byte(content))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", content, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}
