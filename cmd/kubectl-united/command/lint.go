// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unitedworkloads/united/cmd/kubectl-united/lint"
)

func (o *options) lint() *cobra.Command {
	var files []string
	var recursive bool
	var output string
	cmd := &cobra.Command{
		Use:   "lint -f FILE...",
		Short: "Find what is wrong in manifests, without a cluster",
		Long: `Find what is wrong in the UnitedDeployments of manifests, without a cluster: unknown fields, also in templates and patches;
what the manager would refuse; and what is legal, but surely not meant. Other kinds are passed over, except
OpenKruise's UnitedDeployment, of which it says that it is not translated. Render charts and overlays first. A field that is newer than this plugin counts as unknown.

It prints FILE: NAME: FIELD: MESSAGE, and the exit code is 1 if there is anything to print.`,
		Example: `  kubectl united lint -f web.yaml
  kubectl united lint -R -f deploy/
  helm template web ./chart | kubectl united lint -f -`,
		RunE: func(_ *cobra.Command, args []string) error {
			// A shell makes "-f a.yaml b.yaml" of "-f *.yaml".
			if files = append(files, args...); len(files) == 0 {
				return errors.New("say which files: -f FILE, or -f - for the standard input")
			}
			return o.lintFiles(files, recursive, output)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "a file or a directory; - is the standard input")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "look into the directories of directories too")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

func (o *options) lintFiles(files []string, recursive bool, output string) error {
	findings, count := []lint.Finding{}, 0
	for _, path := range files {
		contents, err := manifests(path, recursive)
		if err != nil {
			return err
		}
		for _, file := range contents {
			content, err := o.read(file)
			if err != nil {
				return err
			}
			of, n := lint.File(file, content)
			findings, count = append(findings, of...), count+n
		}
	}
	if output != "" {
		if err := structured(o.Out, output, findings, ""); err != nil {
			return err
		}
	}
	for _, f := range findings {
		if output == "" {
			_, _ = fmt.Fprintln(o.Out, f)
		}
	}
	switch {
	case len(findings) > 0 && count == 0:
		return fmt.Errorf("%s, and no UnitedDeployment of apps.united.dev", counted(len(findings), "finding"))
	case len(findings) > 0:
		return fmt.Errorf("%s in %s", counted(len(findings), "finding"), counted(count, "UnitedDeployment"))
	case count == 0:
		_, _ = fmt.Fprintln(o.ErrOut, "There is no UnitedDeployment of apps.united.dev in these files.")
	}
	return nil
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// read reads a file, or the standard input.
func (o *options) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(o.In)
	}
	return os.ReadFile(file)
}

// manifests returns the files that a path stands for: itself, or the manifests of a directory.
func manifests(path string, recursive bool) (files []string, err error) {
	if path == "-" {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file == path && !entry.IsDir():
			files = append(files, file)
		case entry.IsDir() && file != path && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}
