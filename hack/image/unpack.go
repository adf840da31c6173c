// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// unpack writes the files of one platform of an image into a directory.
func unpack(layout, platform, dir string) error {
	index, err := load(layout)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform == nil || descriptor.Platform.String() != platform {
			continue
		}
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		return extract(image, dir)
	}
	return fmt.Errorf("%s has no image for %s", layout, platform)
}

func extract(image oci.Image, dir string) error {
	files := mutate.Extract(image)
	defer files.Close() //nolint:errcheck // it was read to its end
	reader := tar.NewReader(files)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%q is not a plain file", header.Name)
		}
		if err := writeFile(filepath.Join(dir, header.Name), header.FileInfo().Mode().Perm(), reader); err != nil {
			return err
		}
	}
}

func writeFile(path string, mode os.FileMode, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// archive writes a layout as a tar archive, which tools such as skopeo read as oci-archive. The same
// layout gives the same archive.
func archive(layout, to string) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	// WalkDir goes through the files in lexical order.
	err = filepath.WalkDir(layout, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(layout, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), file.Close())
}
