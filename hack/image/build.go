// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and the group of the process: those of the chart, and of most images without a root
// user.
const user = "65532:65532"

// build says what goes into an image.
type build struct {
	binaries          map[string]string // by platform, such as linux/amd64
	license           string
	version, revision string
	created           time.Time
}

// write writes the image into an OCI image layout, and returns the digest of its index.
func (b build) write(dir string) (oci.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range slices.Sorted(maps.Keys(b.binaries)) {
		platform, err := oci.ParsePlatform(name)
		if err != nil {
			return oci.Hash{}, err
		}
		image, err := b.image(platform, b.binaries[name])
		if err != nil {
			return oci.Hash{}, fmt.Errorf("%s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: oci.Descriptor{Platform: platform}})
	}
	return save(dir, index, b.version)
}

// save writes an index into a layout, in place of what is there.
func save(dir string, index oci.ImageIndex, name string) (oci.Hash, error) {
	if err := clearLayout(dir); err != nil {
		return oci.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return oci.Hash{}, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name})); err != nil {
		return oci.Hash{}, err
	}
	return index.Digest()
}

// clearLayout removes an earlier layout. It removes nothing else.
func clearLayout(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%q must be empty, or an OCI image layout", dir)
	}
	return os.RemoveAll(dir)
}

// image returns the image of one platform.
func (b build) image(platform *oci.Platform, binary string) (oci.Image, error) {
	content, err := b.layer(binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: oci.History{
		Created: oci.Time{Time: b.created}, CreatedBy: "hack/image", Comment: "united-manager and LICENSE",
	}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = oci.Time{Time: b.created}
	config.Config = oci.Config{User: user, WorkingDir: "/", Entrypoint: []string{"/united-manager"}, Labels: b.labels()}
	return mutate.ConfigFile(image, config)
}

func (b build) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "united-manager",
		"org.opencontainers.image.description": "The controller of UnitedDeployments: one workload over several zones, released zone by zone",
		"org.opencontainers.image.source":      "https://github.com/unitedworkloads/united",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     b.version,
		"org.opencontainers.image.revision":    b.revision,
		"org.opencontainers.image.created":     b.created.Format(time.RFC3339),
	}
}

// layer returns the files of the image as a tar archive. Nothing in it depends on the machine.
func (b build) layer(binary string) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range []struct {
		name, from string
		mode       int64
	}{{"LICENSE", b.license, 0o644}, {"united-manager", binary, 0o755}} {
		content, err := os.ReadFile(file.from)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(content)), ModTime: b.created, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
