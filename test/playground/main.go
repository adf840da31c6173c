// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// The playground is a throw-away cluster with United in it, to try things by
// hand. It runs until it is interrupted and leaves nothing behind but its logs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/united"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".playground")
	if err := claim(dir); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster"), Log: os.Stdout})
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	defer func() {
		// Whoever finds the kubeconfig may rely on a cluster behind it.
		_ = os.Remove(kubeconfig)
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
		fmt.Println("stopped; logs are in", filepath.Join(c.Dir(), "logs"))
	}()
	if err := united.Install(ctx, c); err != nil {
		return err
	}
	manager, err := united.Start(ctx, c, "united-manager", "--zap-log-level=debug")
	if err != nil {
		return err
	}
	// Written last, and whole: that it is there says that all is ready.
	if err := publish(c.Kubeconfig(), kubeconfig); err != nil {
		return err
	}
	fmt.Printf(welcome, filepath.Join(root, "bin"), kubeconfig, filepath.Join(root, "config", "samples", "web.yaml"), manager.LogPath())
	select {
	case <-ctx.Done():
		return nil
	case <-manager.Done():
		return fmt.Errorf("the manager ended; see %s", manager.LogPath())
	}
}

// claim makes room for a new cluster. A kubeconfig is the sign of a playground
// that runs.
func claim(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err == nil {
		return fmt.Errorf("%s exists: another playground seems to run; if none does, remove that file", filepath.Join(dir, "kubeconfig"))
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

func publish(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

const welcome = `
A Kubernetes control plane with nodes in zone-a, zone-b and zone-c is up, and United runs in it. In another terminal:

  export PATH=%s:$PATH KUBECONFIG=%s
  kubectl apply -f %s
  kubectl get ud,sts,pods -o wide

Stage a new image (nothing moves, every zone is held), then release zone by zone:

  kubectl patch ud web --type=json -p '[{"op":"replace","path":"/spec/template/statefulSetTemplate/spec/template/spec/containers/0/image","value":"registry.example/web:v2"}]'
  kubectl patch ud web --type=merge -p '{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}}'
  kubectl patch ud web --type=merge -p '{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":"50%%"}}}}}'
  kubectl get ud web -o wide

Pods are simulated. An image tag that starts with "broken" crashes, "slow" takes 5 seconds, "pull" is never pulled.
The manager's log: %s
Ctrl-C stops everything.
`
