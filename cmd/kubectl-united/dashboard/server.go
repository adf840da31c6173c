// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard is the page: what status, plan, why, history and diff say, live, with the commands as buttons. It is served on
// this machine alone, and does what the user may do.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
)

//go:embed static templates
var files embed.FS

// policy lets the page load and ask nothing but this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// heartbeat is how often a stream says something, so that a connection that is gone is noticed.
const heartbeat = 15 * time.Second

// Options are where the page comes from.
type Options struct {
	// Config has the cluster and the rights of the user. Namespace is what is shown; "" is all.
	Config           *rest.Config
	Getter           genericclioptions.RESTClientGetter
	Namespace        string
	ManagerNamespace string
	// Where says which cluster it is.
	Where string
	// NewClient makes a client that uses a configuration.
	NewClient func(*rest.Config) (client.WithWatch, error)
}

// server serves the page.
type server struct {
	*cluster
	api     client.WithWatch
	getter  genericclioptions.RESTClientGetter
	hub     *hub
	manager string
	// where says which cluster it is.
	where string
	// token is the secret in all addresses, and hosts are the names of this server.
	token string
	hosts []string
}

// Serve serves the page on a port until the context ends. said is called with its address.
func Serve(ctx context.Context, o *Options, port int, said func(url string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	address, _ := listener.Addr().(*net.TCPAddr)
	s, err := newServer(ctx, o)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		s.hosts = append(s.hosts, fmt.Sprintf("%s:%d", name, address.Port))
	}
	said(fmt.Sprintf("http://%s/%s/", s.hosts[0], s.token))
	served := &http.Server{Handler: s.guarded(s.routes()), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		_ = served.Close() // the streams of the tabs would not end
	}()
	if err = served.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func newServer(ctx context.Context, o *Options) (*server, error) {
	s := &server{getter: o.Getter, manager: o.ManagerNamespace, where: o.Where, token: rand.Text()}
	s.cluster = &cluster{namespace: o.Namespace, rights: map[authorizationv1.ResourceAttributes]right{}}
	config := rest.CopyConfig(o.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return answers{next, s.cluster} })
	api, err := o.NewClient(config)
	if err != nil {
		return nil, err
	}
	s.api, s.cluster.api, s.config = api, api, config
	s.hub = &hub{ctx: ctx, page: s.live, rooms: map[client.ObjectKey]*room{}}
	s.changed = s.hub.changed
	if err := s.renew(ctx); err != nil {
		return nil, err
	}
	go s.probe(ctx)
	return s, nil
}

// seen is what the maker of one page remembers.
type seen struct{ *look.Looker }

func newSeen() *seen { return &seen{} }

// user looks at what is watched, and acts past it.
func (s *server) user(remembered *seen) *drive.User {
	if remembered.Looker == nil {
		remembered.Looker = &look.Looker{From: s.cluster, Live: s.api}
	}
	return &drive.User{API: s.api, Config: s.getter, Looker: remembered.Looker}
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	static, _ := fs.Sub(files, "static")
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	mux.HandleFunc("GET /{$}", s.list)
	mux.HandleFunc("GET /o/{namespace}/{name}", s.object)
	mux.HandleFunc("GET /live", s.stream)
	mux.HandleFunc("GET /live/{namespace}/{name}", s.stream)
	mux.HandleFunc("GET /o/{namespace}/{name}/why", s.why)
	mux.HandleFunc("GET /o/{namespace}/{name}/diff", s.diff)
	mux.HandleFunc("POST /o/{namespace}/{name}/plan", s.plan)
	mux.HandleFunc("POST /o/{namespace}/{name}/do", s.do)
	return mux
}

// guarded lets through what comes from the page itself. The token keeps out other users of this machine and other pages, the Host
// a name of somebody else that leads here, and the Origin a form of another page that has learned the token.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		// Trap: with no-referrer, a browser would send the Origin null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if why := s.refuses(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		http.StripPrefix("/"+s.token, next).ServeHTTP(w, r)
	})
}

// refuses says why a request is not answered.
func (s *server) refuses(r *http.Request) string {
	known := false
	for _, host := range s.hosts {
		known = known || r.Host == host
	}
	token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !known:
		return "This page is served as " + s.hosts[0] + " only."
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		return "Open the address that kubectl united dashboard has printed: it has a token of its own for each start."
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("Origin") != "http://"+r.Host:
		return "A change must come from the page itself."
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		return "This page is not part of another one."
	}
	return ""
}

// lineEnds begins a line of an event anew after whatever ends a line in a stream. In a page they are all the same.
var lineEnds = strings.NewReplacer("\r\n", "\ndata: ", "\r", "\ndata: ", "\n", "\ndata: ")

// stream sends the live part of a page, again when something in it has changed.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	tab, leave := s.hub.join(keyOf(r))
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		text := ":\n\n"
		select {
		case <-r.Context().Done():
			return
		case page := <-tab:
			text = "data: " + lineEnds.Replace(page) + "\n\n"
		case <-ticker.C:
		}
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
	}
}

func keyOf(r *http.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}
