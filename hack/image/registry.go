// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// load returns the only index of a layout.
func load(dir string) (oci.ImageIndex, error) {
	whole, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := whole.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s must have one index, and has %d", dir, len(manifest.Manifests))
	}
	return whole.ImageIndex(manifest.Manifests[0].Digest)
}

// credentials are those of docker or podman; for ghcr.io, the token in GITHUB_TOKEN if they have none.
func credentials() remote.Option {
	return remote.WithAuthFromKeychain(authn.NewMultiKeychain(authn.DefaultKeychain, github.Keychain))
}

// push writes the image of a layout to a registry, and returns the reference with its digest.
func push(dir, to string) (string, error) {
	ref, err := name.ParseReference(to)
	if err != nil {
		return "", err
	}
	index, err := load(dir)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(ref, index, credentials()); err != nil {
		return "", err
	}
	return ref.Context().Digest(digest.String()).String(), nil
}

// pull reads an image with all its platforms from a registry into a layout.
func pull(dir, from string) (oci.Hash, error) {
	ref, err := name.ParseReference(from)
	if err != nil {
		return oci.Hash{}, err
	}
	index, err := remote.Index(ref, credentials())
	if err != nil {
		return oci.Hash{}, err
	}
	return save(dir, index, ref.Identifier())
}

// serve runs a registry that keeps everything in memory, and prints its address.
func serve(address string, out io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listener.Addr())
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}
