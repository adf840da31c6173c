// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/unitedworkloads/united/test/cluster"
)

// Helm runs helm with all rights and returns its standard output. An error contains the standard error.
func Helm(ctx context.Context, c *cluster.Cluster, args ...string) (string, error) {
	bin, err := cluster.BinDir()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "helm"), append(args, "--kubeconfig="+c.Kubeconfig())...)
	cmd.Env = append(os.Environ(), helmEnv(c)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %q: %w: %s", args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// StartHelm starts helm with all rights and --debug, and does not wait for it. name is the name of its
// log file.
func StartHelm(c *cluster.Cluster, name string, args ...string) (*cluster.Process, error) {
	return c.StartProcessWithEnv(helmEnv(c), name, "helm", append(args, "--debug", "--kubeconfig="+c.Kubeconfig())...)
}

// helmEnv keeps helm away from the user's own configuration.
func helmEnv(c *cluster.Cluster) []string {
	home := filepath.Join(c.Dir(), "helm")
	return []string{
		"HELM_CACHE_HOME=" + filepath.Join(home, "cache"), "HELM_CONFIG_HOME=" + filepath.Join(home, "config"),
		"HELM_DATA_HOME=" + filepath.Join(home, "data"), "HELM_DRIVER=", "HELM_NAMESPACE=", "HELM_KUBECONTEXT=",
	}
}

// ChartDir returns the directory of a chart of this repository.
func ChartDir(name string) (string, error) {
	root, err := cluster.Root()
	return filepath.Join(root, "charts", name), err
}

// Deployed describes how a release of the chart runs its manager.
type Deployed struct {
	// Options have the ServiceAccount and the arguments of the chart's Deployment, except for the
	// ports.
	Options
	// Metrics and Probes are the addresses at which the manager serves them, in place of the
	// container's ports; Metrics is empty when they are disabled.
	Metrics, Probes string
}

// FromChart reads from the Deployment of a release how to run its manager: kwok marks the pods ready
// without running anything. Each call returns different ports.
func FromChart(ctx context.Context, c *cluster.Cluster, namespace, deployment string) (*Deployed, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	found, err := client.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("how the chart runs the manager: %w", err)
	}
	pod := found.Spec.Template.Spec
	d := &Deployed{Options: Options{Namespace: namespace, ServiceAccount: pod.ServiceAccountName}}
	for _, env := range pod.Containers[0].Env {
		d.Env = append(d.Env, env.Name+"="+env.Value)
	}
	if limit := pod.Containers[0].Resources.Limits.Memory(); !limit.IsZero() {
		d.Env = append(d.Env, fmt.Sprintf("GOMEMLIMIT=%d", limit.Value()*9/10)) // the manager takes it from its container, which is missing here
	}
	for _, arg := range pod.Containers[0].Args {
		flag, value, _ := strings.Cut(arg, "=")
		if strings.HasSuffix(flag, "-bind-address") && value != "0" {
			port, err := c.FreePort()
			if err != nil {
				return nil, err
			}
			value = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			arg = flag + "=" + value
		}
		switch {
		case flag == "--metrics-bind-address" && value != "0":
			d.Metrics = value
		case flag == "--health-probe-bind-address":
			d.Probes = value
		}
		d.Args = append(d.Args, arg)
	}
	return d, mount(ctx, client, &pod, filepath.Join(c.Dir(), "mounts", namespace, deployment), d)
}

// mount writes the Secrets that the pod mounts, as the kubelet does, and points the arguments there. Another call writes them
// again: that is what brings a changed Secret to a manager that runs.
func mount(ctx context.Context, client kubernetes.Interface, pod *corev1.PodSpec, dir string, d *Deployed) error {
	for _, m := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.Secret != nil })
		if i < 0 {
			continue
		}
		secret, err := client.CoreV1().Secrets(d.Namespace).Get(ctx, pod.Volumes[i].Secret.SecretName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("mount: %w", err)
		}
		if err != nil { // it is gone
			if err := os.RemoveAll(filepath.Join(dir, m.Name)); err != nil {
				return fmt.Errorf("mount: %w", err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, m.Name), 0o700); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		for key, value := range secret.Data {
			file := filepath.Join(dir, m.Name, key)
			if err := errors.Join(os.WriteFile(file+".new", value, 0o600), os.Rename(file+".new", file)); err != nil {
				return fmt.Errorf("mount: %w", err)
			}
		}
		for j := range d.Args {
			d.Args[j] = strings.Replace(d.Args[j], "="+m.MountPath+"/", "="+filepath.Join(dir, m.Name)+"/", 1)
		}
	}
	return nil
}
