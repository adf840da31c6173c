// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, and kwok, which plays the nodes and their kubelets. Nothing is mocked but the containers.
//
//	c, err := cluster.Start(ctx, cluster.Options{})
//	defer c.Stop()
//	err = c.Apply(ctx, "config/crd")
//	client, err := client.New(c.Config(), client.Options{})
//
// The binaries come from UNITED_BIN_DIR (default: bin/ of this repository); `make control-plane` builds them. Each
// cluster has a directory of its own with its data, its logs (logs/<component>.log), its kubeconfig files and the audit
// log of every write.
//
// # Pods
//
// What happens to a pod is chosen by the tag of the image of its first container:
//
//   - broken...: the pod runs, but the container is in CrashLoopBackOff; it is never ready.
//   - slow...: the pod runs at once and is ready 5 to 6 seconds after its start.
//   - quiet...: the pod runs at once and is ready when its Ready condition is patched to True by hand.
//   - pull...: the pod stays Pending with ImagePullBackOff.
//   - any other tag, or none: ready at once.
//
// A Ready condition that is patched to False by hand stays so. Deleted pods are gone at once, unless a finalizer holds
// them. Job pods that are ready complete.
//
// Trap: kwok makes *every* scheduled pod ready, also one of a Deployment whose program nobody runs. A ready pod is no
// proof that a controller works: look for its Lease.
//
// # Processes
//
// A process that is started here ends with [Cluster.Stop], and on Linux also when this process dies in whatever way.
// The package runs on Unix only.
package cluster
