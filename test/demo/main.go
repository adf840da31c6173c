// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// The demo shows the purpose of United, on a real control plane that it starts and deletes: one
// workload over three zones, and a new image that kubectl patch releases to one zone after the other.
// It checks what it shows against the pods, and exits with an error if anything is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

func main() { install.Main("demo", run) }

func run(ctx context.Context) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "united-demo-")
	if err != nil {
		return err
	}
	defer func() {
		// Only the logs, if there are any, can show what went wrong.
		logs := filepath.Join(dir, "cluster", "logs", "*.log")
		if found, _ := filepath.Glob(logs); err != nil && ctx.Err() == nil && len(found) > 0 {
			err = fmt.Errorf("%w\nthe logs are kept: %s", err, logs)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	fmt.Print(introduction)
	c, manager, err := install.UpWithoutHelm(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	sample, err := samplePath()
	if err != nil {
		return err
	}
	bin, err := cluster.BinDir()
	if err != nil {
		return err
	}
	fmt.Printf("It is running after %s. The demo runs every command below, with this kubeconfig:\n\n  export PATH=%s:$PATH KUBECONFIG=%s\n",
		time.Since(began).Round(100*time.Millisecond), bin, c.Kubeconfig())
	d, err := newDemo(c, manager, os.Stdout)
	if err != nil {
		return err
	}
	if err := d.play(ctx, script(sample)); err != nil {
		return err
	}
	fmt.Printf(conclusion, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// samplePath returns the path of the sample relative to the working directory: short in the root of the
// repository, and correct everywhere.
func samplePath() (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Rel(working, filepath.Join(root, "config", "samples", "web.yaml"))
}

const introduction = `United runs one workload in several zones, and releases a new version to one zone at a time.

Starting a Kubernetes control plane with two nodes in each of zone-a, zone-b and zone-c, and United in it. API server,
controllers and scheduler are real; only the containers are simulated.
`

const conclusion = `
Done: six replicas were updated from v1 to v2, zone by zone, and no pod was updated before it was released. (%s in total)

Try it by hand: make playground. It prints the address of a page that shows all this live; in a cluster of yours, kubectl united dashboard does.
`

// demo runs steps on a cluster and reports them.
type demo struct {
	cluster *cluster.Cluster
	reader  *reader
	out     io.Writer
}

func newDemo(c *cluster.Cluster, manager *install.Manager, out io.Writer) (*demo, error) {
	r, err := newReader(c.Config(), manager.Done())
	if err != nil {
		return nil, err
	}
	return &demo{cluster: c, reader: r, out: out}, nil
}

func (d *demo) play(ctx context.Context, steps []step) error {
	var before *picture
	for i := range steps {
		s := &steps[i]
		fmt.Fprintf(d.out, "\n--- %d of %d: %s ---\n\n%s\n\n", i+1, len(steps), s.title, s.why)
		after, err := d.run(ctx, s)
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.title, err)
		}
		show(d.out, before, after)
		findings, wrong := check(s, before, after)
		for _, finding := range findings {
			fmt.Fprintln(d.out, "  ok:", finding)
		}
		if len(wrong) > 0 {
			return fmt.Errorf("step %d, %s:\n%w", i+1, s.title, errors.Join(wrong...))
		}
		before = after
	}
	return nil
}

// run runs the command of a step, and returns the state of the cluster when United reports that it is
// done.
func (d *demo) run(ctx context.Context, s *step) (*picture, error) {
	fmt.Fprintf(d.out, "$ kubectl %s\n", shell(s.command))
	began := time.Now()
	out, err := d.cluster.Kubectl(ctx, s.command...)
	fmt.Fprint(d.out, out)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	parent, err := d.reader.settled(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(d.out, "\n  Ready after %s: %s\n\n", time.Since(began).Round(10*time.Millisecond), readyMessage(parent))
	return d.reader.picture(ctx, parent)
}
