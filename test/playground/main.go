// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// The playground is a temporary cluster with United in it, for experiments by hand. It runs until it is
// interrupted and leaves nothing behind except its logs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/unitedworkloads/united/cmd/kubectl-united/command"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// volumes is how many static volumes the playground has of each StorageClass.
const volumes = 20

func main() { install.Main("playground", run) }

func run(ctx context.Context) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	bin, err := cluster.BinDir()
	if err != nil {
		return err
	}
	ground, err := claim(filepath.Join(root, ".playground"))
	if err != nil {
		return err
	}
	defer ground.release()
	fmt.Println("Starting a Kubernetes control plane and United in it. Ctrl-C stops everything.")
	c, manager, err := install.Up(ctx, cluster.Options{Dir: ground.clusterDir(), Log: os.Stdout}, "--set=log.level=debug",
		"--set=checks.jobs=true", "--set=checks.analysis=true",
		`--set-json=checks.prometheus.servers={"default":{"url":"http://127.0.0.1:9090","namespaces":["*"]}}`)
	if err != nil {
		return err
	}
	defer func() {
		// If the kubeconfig exists, users can rely on a cluster behind it.
		ground.unpublish()
		fmt.Println("stopping")
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
		fmt.Println("stopped; the logs are in", filepath.Join(c.Dir(), "logs"))
	}()
	if err := c.Furnish(ctx, volumes); err != nil {
		return err
	}
	if kinds := os.Getenv("KINDS"); kinds == "all" {
		fmt.Println("Starting the managers of OpenKruise and LeaderWorkerSet, and the controller of Argo Rollouts.")
		if err := errors.Join(c.StartKruise(ctx), c.StartLWS(ctx), c.StartRollouts(ctx)); err != nil {
			return err
		}
	} else if kinds != "" {
		return fmt.Errorf("KINDS=%s: it can be all", kinds)
	}
	// Write it last: its existence means that everything is ready.
	if err := ground.publish(c.Kubeconfig()); err != nil {
		return err
	}
	go dashboard(ctx, ground.kubeconfig())
	fmt.Printf(welcome, volumes, bin, ground.kubeconfig(), filepath.Join(root, "config", "samples", "web.yaml"), manager.LogPath())
	select {
	case <-ctx.Done():
	case <-manager.Done(): // for example because United was uninstalled
		fmt.Printf("The manager of United has ended, see %s. The cluster stays until Ctrl-C.\n", manager.LogPath())
		<-ctx.Done()
	}
	return nil
}

// dashboard serves the page, and prints its address, until the context ends.
func dashboard(ctx context.Context, kubeconfig string) {
	command.Run(ctx, []string{"dashboard", "--all-namespaces", "--kubeconfig", kubeconfig}, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
}

const welcome = `
A Kubernetes control plane with nodes in zone-a, zone-b and zone-c is running, with United in it.
The samples in config/samples come up in it (their README says what a few need); there are %d volumes of each of the StorageClasses standard and fast. In another terminal:

  export PATH=%s:$PATH KUBECONFIG=%s
  kubectl apply -f %s
  kubectl get united,sts,pods -o wide

Stage a new image (no pod is updated, because every zone is held), then release that revision zone by zone:

  kubectl patch united web --type=json -p '[{"op":"replace","path":"/spec/template/statefulSetTemplate/spec/template/spec/containers/0/image","value":"registry.example/web:v2"}]'
  kubectl wait --for=condition=Ready united/web
  REVISION=$(kubectl get united web -o jsonpath='{.status.updateRevision}')
  kubectl patch united web --type=json -p '[{"op":"add","path":"/spec/updateStrategy/manualUpdate","value":{"revision":"'$REVISION'","partitions":{"zone-a":0}}}]'
  kubectl patch united web --type=json -p '[{"op":"add","path":"/spec/updateStrategy/manualUpdate","value":{"revision":"'$REVISION'","partitions":{"zone-a":0,"zone-b":"50%%"}}}]'
  kubectl get united web -o wide

Or with the plugin: kubectl united status web, kubectl united release web zone-a, kubectl united why web. Or on a page: kubectl united dashboard prints the address of one,
as it does below.

Pods are simulated. If the tag of the image starts with "broken", the pod crashes; with "slow", it is ready after 5 seconds; with "pull", its image cannot be pulled;
with "fail", its Job fails. Checks of type prometheus ask a server that you start on 127.0.0.1:9090.
docs/tutorial.md has more. The log of the manager: %s
Ctrl-C here stops everything.
`
