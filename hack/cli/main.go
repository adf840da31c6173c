// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Cli writes docs/cli.md from the commands of the plugin, and from the screens with which test/e2e/core compares what the plugin
// shows. `make verify` fails if it is not up to date.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/unitedworkloads/united/cmd/kubectl-united/command"
)

const intro = `# The command line: kubectl united

A plugin for kubectl. It uses your kubeconfig and your rights, and it needs nothing in the cluster beside United. Every command that changes something
prints the kubectl command that does the same, acts on the revision that you look at, and does nothing if somebody has changed the object since.

Install it with ` + "`make install-plugin`" + ` from a clone, or put ` + "`kubectl-united`" + ` and ` + "`kubectl_complete-united`" + ` (for completion; on Windows with ` + "`.cmd`" + `) of a release on your PATH.

[The dashboard](dashboard.md) shows the same on a page, with buttons for the commands.

All commands take kubectl's own options, such as ` + "`-n`, `--context` and `--as`" + `.

`

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	text, err := page(filepath.Join(root, "test", "e2e", "core", "testdata", "screens"))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "docs", "cli.md"), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cli:", err)
		os.Exit(1)
	}
}

// page returns the page; screens is the directory of the screens, by the name of their command.
func page(screens string) (string, error) {
	b := &strings.Builder{}
	b.WriteString(intro)
	commands := command.New(genericiooptions.NewTestIOStreamsDiscard()).Commands()
	b.WriteString("| command | does |\n| --- | --- |\n")
	for _, c := range commands {
		if listed(c) {
			fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", c.Name(), c.Name(), c.Short)
		}
	}
	for _, c := range commands {
		if !listed(c) {
			continue
		}
		if err := section(b, c, screens); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func listed(c *cobra.Command) bool { return c.Name() != "help" && c.Name() != "completion" }

func section(b *strings.Builder, c *cobra.Command, screens string) error {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.Name(), strings.TrimSuffix(orShort(c), "."))
	if c.HasSubCommands() {
		for _, sub := range c.Commands() {
			fmt.Fprintf(b, "\n```\nkubectl united %s %s\n```\n\n%s.\n", c.Name(), sub.Use, strings.TrimSuffix(orShort(sub), "."))
			options(b, sub)
		}
		return nil
	}
	fmt.Fprintf(b, "\n```\nkubectl united %s\n```\n", c.Use)
	if c.Example != "" {
		fmt.Fprintf(b, "\n```console\n%s\n```\n", strings.ReplaceAll("$ "+strings.TrimSpace(c.Example), "\n  ", "\n$ "))
	}
	options(b, c)
	screen, err := os.ReadFile(filepath.Join(screens, c.Name()+".txt"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimSpace(string(screen)))
	return nil
}

func orShort(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short
}

func options(b *strings.Builder, c *cobra.Command) {
	if usage := c.NonInheritedFlags().FlagUsagesWrapped(110); usage != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", usage)
	}
}
