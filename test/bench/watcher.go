// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
	"github.com/unitedworkloads/united/controllers/united/observe"
)

// watchOnly runs a manager that watches what United watches, with the same options of the cache, and does nothing: what it
// costs is the least that a controller costs here.
func watchOnly(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.Wrap(united.Transport())
	united.LimitGarbage()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	cached, err := united.CacheOptions()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("set up the watcher: %w", err)
	}
	for _, object := range []client.Object{
		&v1alpha1.UnitedDeployment{}, &corev1.Pod{}, &appsv1.ControllerRevision{}, observe.ObjectOf(appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return mgr.Start(ctx)
}

// startWatcher starts watchOnly in a process of its own, and returns its process ID.
func startWatcher(ctx context.Context, kubeconfig string) (pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, nil, fmt.Errorf("find the program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "-watch-only", kubeconfig)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("start the watcher: %w", err)
	}
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}, nil
}
