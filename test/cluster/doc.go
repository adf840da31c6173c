// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, and kwok, which simulates the nodes and their kubelets (kubelet.go deletes terminated pods). Only the containers are not real.
//
//	c, err := cluster.Start(ctx, cluster.Options{})
//	defer c.Stop()
//	err = c.Apply(ctx, "config/crd")
//	client, err := client.New(c.Config(), client.Options{})
//
// The binaries come from UNITED_BIN_DIR (default: bin/ of this repository); `make control-plane` builds them. Each
// cluster has its own directory with its data, logs (logs/<component>.log), kubeconfig files and the audit log of every
// write.
//
// # Pods
//
// The image tag of a pod's first container determines what happens to the pod:
//
//   - broken...: the pod runs, but the container is in CrashLoopBackOff; it is never ready.
//   - slow...: the pod runs at once and is ready 5 to 6 seconds after its start.
//   - quiet...: the pod runs at once and is ready when its Ready condition is patched to True.
//   - pull...: the pod stays Pending with ImagePullBackOff.
//   - any other tag, or none: ready at once.
//
// A Ready condition that is patched to False stays False. Deleted pods are gone at once, unless they have a finalizer.
// Job pods that are ready complete.
//
// Trap: kwok makes *every* scheduled pod ready, also one of a Deployment whose program does not run. A ready pod does not
// prove that a controller works: look for its Lease.
//
// # Processes
//
// A process that is started here ends with [Cluster.Stop], and on Linux also when this process dies in any way. The
// package runs on Unix only.
package cluster
