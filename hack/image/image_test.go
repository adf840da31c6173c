// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// files writes two binaries and a license, and returns the arguments of build.
func files(t *testing.T, content string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"amd": content, "arm": "arm", "LICENSE": "license"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-created", "1700000000", "-version", "1.2.3", "-revision", "abc", "-license", filepath.Join(dir, "LICENSE"),
		"linux/arm64=" + filepath.Join(dir, "arm"), "linux/amd64=" + filepath.Join(dir, "amd")}
}

// must runs a command, and returns the last word of its output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	words := strings.Fields(out.String())
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

func buildInto(t *testing.T, dir, content string) string {
	t.Helper()
	return must(t, append([]string{"build", "-layout", dir}, files(t, content)...)...)
}

func TestBuildIsReproducible(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	first := buildInto(t, one, "amd")
	if second := buildInto(t, two, "amd"); second != first {
		t.Errorf("the second build has another digest: %s, %s", first, second)
	}
	if again := buildInto(t, one, "amd"); again != first {
		t.Errorf("a build over an earlier one has another digest: %s, %s", first, again)
	}
	if other := buildInto(t, two, "other"); other == first {
		t.Error("another binary has the same digest")
	}
}

func TestImage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	buildInto(t, dir, "amd")
	index, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, image, descriptor.Platform)
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms: %s", got)
	}
}

func checkConfig(t *testing.T, image oci.Image, platform *oci.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Architecture != platform.Architecture {
		t.Errorf("%s runs as %s on %s/%s", platform, config.Config.User, config.OS, config.Architecture)
	}
	if e := config.Config.Entrypoint; len(e) != 1 || e[0] != "/united-manager" || config.Config.Cmd != nil {
		t.Errorf("entrypoint %v", e)
	}
	for label, want := range map[string]string{"version": "1.2.3", "revision": "abc", "created": "2023-11-14T22:13:20Z", "licenses": "Apache-2.0"} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q", label, got)
		}
	}
	if config.Created.Unix() != 1700000000 {
		t.Errorf("created %s", config.Created)
	}
}

func TestPushAndPull(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	digest := buildInto(t, from, "amd")
	ref := strings.TrimPrefix(server.URL, "http://") + "/team/united-manager"
	if pushed := must(t, "push", "-layout", from, ref+":v1"); pushed != ref+"@"+digest {
		t.Errorf("pushed %s, not %s@%s", pushed, ref, digest)
	}
	for _, what := range []string{ref + ":v1", ref + "@" + digest} {
		if pulled := must(t, "pull", "-layout", to, what); pulled != digest {
			t.Errorf("pulled %s, not %s", pulled, digest)
		}
	}
	dir := t.TempDir()
	must(t, "unpack", "-layout", to, "-platform", "linux/amd64", dir)
	for name, want := range map[string]string{"united-manager": "amd", "LICENSE": "license"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "united-manager")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is %v: %v", info, err)
	}
}

func TestArchive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	buildInto(t, dir, "amd")
	var archives [][]byte
	for range 2 {
		file := filepath.Join(t.TempDir(), "image.tar")
		must(t, "archive", "-layout", dir, file)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives differ")
	}
	names := map[string]bool{}
	reader := tar.NewReader(bytes.NewReader(archives[0]))
	for header, err := reader.Next(); err == nil; header, err = reader.Next() {
		names[header.Name] = true
	}
	if !names["index.json"] || !names["oci-layout"] || len(names) != 2+1+2*3 {
		t.Errorf("the archive has %v", names)
	}
}

func TestMistakes(t *testing.T) {
	full, layout := t.TempDir(), filepath.Join(t.TempDir(), "layout")
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	buildInto(t, layout, "amd")
	for words, args := range map[string][]string{
		"the command must be":       {"make"},
		"wrong number of arguments": {"push", "-layout", layout},
		"must be a new platform":    {"build", "-layout", layout, "linux/amd64"},
		"must be empty, or an OCI":  append([]string{"build", "-layout", full}, files(t, "amd")...),
		"no such file":              {"build", "-layout", layout, "linux/amd64=/none"},
		"has no image for":          {"unpack", "-layout", layout, "-platform", "linux/s390x", t.TempDir()},
		"could not parse reference": {"push", "-layout", layout, "UPPER CASE"},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v, and not %q", args, err, words)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}
