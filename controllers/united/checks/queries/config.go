// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queries asks the Prometheus servers that the operator of United has configured. Users name a server, and never say
// where it is.
package queries

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Everywhere in the namespaces of a server opens it to all of them.
const Everywhere = "*"

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)

// Config is the content of the file with the servers.
type Config struct {
	// Servers by the name that checks give.
	Servers map[string]Server `json:"servers"`
}

// Server is a Prometheus server, or another one with its API. Files are relative to the directory of the file with the servers.
type Server struct {
	URL string `json:"url"`
	// Namespaces whose checks may use the server; Everywhere stands for all.
	Namespaces []string `json:"namespaces"`
	// Timeout of a query; 10s if it is not set.
	Timeout metav1.Duration `json:"timeout"`
	// Headers of the requests, such as X-Scope-OrgID.
	Headers         map[string]string `json:"headers"`
	BearerToken     string            `json:"bearerToken"`
	BearerTokenFile string            `json:"bearerTokenFile"`
	BasicAuth       *BasicAuth        `json:"basicAuth"`
	TLS             TLS               `json:"tls"`
}

// BasicAuth is a user with a password.
type BasicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// TLS is how the server shows who it is, and United to the server. Certificates are PEM.
type TLS struct {
	CA                 string `json:"ca"`
	CAFile             string `json:"caFile"`
	Cert               string `json:"cert"`
	CertFile           string `json:"certFile"`
	Key                string `json:"key"`
	KeyFile            string `json:"keyFile"`
	ServerName         string `json:"serverName"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
}

// ReadConfig parses the content of a file with servers. Errors name the field, and no value that may be secret.
func ReadConfig(raw []byte) (*Config, error) {
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	c := &Config{}
	strict, err := json.UnmarshalStrict(asJSON, c)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	if len(strict) > 0 {
		return nil, strict[0]
	}
	var errs field.ErrorList
	for name := range c.Servers {
		s := c.Servers[name]
		errs = append(errs, s.check(name, field.NewPath("servers").Key(name))...)
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
	return c, errs.ToAggregate() //nolint:wrapcheck // it names the fields
}

func (s *Server) check(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(validation.IsDNS1123Label(name)) > 0 {
		errs = append(errs, field.Invalid(at, name, "must be a DNS label"))
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		errs = append(errs, field.Invalid(at.Child("url"), field.OmitValueType{}, "must be http(s)://host[:port][/path]"))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, field.Invalid(at.Child("url"), field.OmitValueType{}, "must have no user, query and fragment: basicAuth has the password"))
	}
	for i, namespace := range s.Namespaces {
		if namespace != Everywhere && len(validation.IsDNS1123Label(namespace)) > 0 {
			errs = append(errs, field.Invalid(at.Child("namespaces").Index(i), namespace, `must be the name of a namespace, or "*"`))
		}
	}
	if s.Timeout.Duration < 0 || s.Timeout.Duration > maxTimeout {
		errs = append(errs, field.Invalid(at.Child("timeout"), s.Timeout.Duration.String(), "must be at most "+maxTimeout.String()))
	}
	ways := 0
	for _, given := range []bool{s.BearerToken != "", s.BearerTokenFile != "", s.BasicAuth != nil} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, field.Forbidden(at, "only one of bearerToken, bearerTokenFile and basicAuth can be given"))
	}
	return append(errs, s.TLS.check(at.Child("tls"))...)
}

func (t *TLS) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range []struct{ field, value, file string }{{"ca", t.CA, t.CAFile}, {"cert", t.Cert, t.CertFile}, {"key", t.Key, t.KeyFile}} {
		if pair.value != "" && pair.file != "" {
			errs = append(errs, field.Forbidden(at.Child(pair.field), "cannot be combined with "+pair.field+"File"))
		}
	}
	if (t.Cert+t.CertFile == "") != (t.Key+t.KeyFile == "") {
		errs = append(errs, field.Required(at, "cert and key go together"))
	}
	if t.InsecureSkipVerify && t.CA+t.CAFile != "" {
		errs = append(errs, field.Forbidden(at.Child("insecureSkipVerify"), "cannot be combined with a CA"))
	}
	return errs
}

// permits reports whether checks of a namespace may use the server.
func (s *Server) permits(namespace string) bool {
	return slices.Contains(s.Namespaces, namespace) || slices.Contains(s.Namespaces, Everywhere)
}

// client returns a client of the server. dir is the directory of the file that names it.
func (s *Server) client(dir string) (api.Client, error) {
	in := func(file string) string {
		if file == "" || filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(dir, file)
	}
	c := &rest.Config{
		UserAgent: "united-manager", BearerToken: s.BearerToken, BearerTokenFile: in(s.BearerTokenFile),
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: s.TLS.InsecureSkipVerify, ServerName: s.TLS.ServerName,
			CAData: []byte(s.TLS.CA), CAFile: in(s.TLS.CAFile),
			CertData: []byte(s.TLS.Cert), CertFile: in(s.TLS.CertFile), KeyData: []byte(s.TLS.Key), KeyFile: in(s.TLS.KeyFile),
		},
	}
	if s.BasicAuth != nil {
		c.Username, c.Password = s.BasicAuth.Username, s.BasicAuth.Password
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next: next, headers: s.Headers} })
	// An own transport would not close the connections of a server that is no longer configured. client-go keeps one for each
	// content of the TLS fields.
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	made, err := api.NewClient(api.Config{Address: s.URL, Client: &own})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return made, nil
}
