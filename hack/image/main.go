// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Image builds and pushes the container image of the manager, without a container engine:
//
//	image build -layout DIR -created SECONDS -version V -revision R linux/amd64=FILE linux/arm64=FILE
//	image push -layout DIR REFERENCE
//	image pull -layout DIR REFERENCE
//	image unpack -layout DIR -platform linux/amd64 DIR
//	image archive -layout DIR FILE
//	image serve ADDRESS
//
// A layout is a directory in the format OCI image layout. The image has one layer with the static
// binary and the license, no shell, and a user that is not root. The same files give the same digest.
// serve is a registry in memory, for tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run runs a command.
func run(args []string, out io.Writer) error {
	commands := map[string]func([]string, io.Writer) error{
		"build": runBuild, "push": runPush, "pull": runPull, "unpack": runUnpack, "archive": runArchive, "serve": runServe,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("the command must be build, push, pull, unpack, archive or serve")
	}
	return commands[args[0]](args[1:], out)
}

// parse parses flags, and returns the given number of arguments after them; at least one if it is 0.
func parse(flags *flag.FlagSet, args []string, count int) ([]string, error) {
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if rest := flags.Args(); len(rest) == count || count == 0 && len(rest) > 0 {
		return rest, nil
	}
	return nil, fmt.Errorf("%s: wrong number of arguments: %q", flags.Name(), flags.Args())
}

func newFlags(name string) (flags *flag.FlagSet, layout *string) {
	flags = flag.NewFlagSet(name, flag.ContinueOnError)
	layout = flags.String("layout", "", "directory of the OCI image layout")
	return flags, layout
}

func runBuild(args []string, out io.Writer) error {
	flags, layout := newFlags("build")
	created := flags.Int64("created", 0, "creation time in seconds since 1970")
	b := build{binaries: map[string]string{}}
	flags.StringVar(&b.version, "version", "", "version of the image")
	flags.StringVar(&b.revision, "revision", "", "commit that the image is built from")
	flags.StringVar(&b.license, "license", "LICENSE", "file of the license")
	binaries, err := parse(flags, args, 0)
	if err != nil {
		return err
	}
	b.created = time.Unix(*created, 0).UTC()
	for _, binary := range binaries {
		platform, file, found := strings.Cut(binary, "=")
		if !found || b.binaries[platform] != "" {
			return fmt.Errorf("%q must be a new platform and its binary, such as linux/amd64=FILE", binary)
		}
		b.binaries[platform] = file
	}
	digest, err := b.write(*layout)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", *layout, digest)
	return nil
}

func runPush(args []string, out io.Writer) error {
	flags, layout := newFlags("push")
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	pushed, err := push(*layout, rest[0])
	if err != nil {
		return err
	}
	fmt.Fprintln(out, pushed)
	return nil
}

func runPull(args []string, out io.Writer) error {
	flags, layout := newFlags("pull")
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	digest, err := pull(*layout, rest[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", *layout, digest)
	return nil
}

func runUnpack(args []string, _ io.Writer) error {
	flags, layout := newFlags("unpack")
	platform := flags.String("platform", "linux/amd64", "platform of the image")
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	return unpack(*layout, *platform, rest[0])
}

func runArchive(args []string, _ io.Writer) error {
	flags, layout := newFlags("archive")
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	return archive(*layout, rest[0])
}

func runServe(args []string, out io.Writer) error {
	flags, _ := newFlags("serve")
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	return serve(rest[0], out)
}
