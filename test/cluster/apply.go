// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

const fieldManager = "united-test"

// Apply applies the objects of YAML files in order, by server-side apply (field manager united-test, forcing conflicts).
// A path is a file of one or more documents, or a directory: then its files *.yaml and *.yml are applied in the order of
// their names, without subdirectories and kustomization files. Apply waits until a CustomResourceDefinition is
// Established, so objects of its kind may follow. The default namespace is default.
func (c *Cluster) Apply(ctx context.Context, paths ...string) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	a := &applier{client: client, mapper: mapper}
	for _, path := range paths {
		files, err := yamlFiles(path)
		if err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		for _, file := range files {
			if err := a.applyFile(ctx, file); err != nil {
				return fmt.Errorf("apply %s: %w", file, err)
			}
		}
	}
	return nil
}

// Kubectl runs kubectl with all permissions and returns its standard output. An error contains the standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + c.path("kubectl-cache")}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %q: %w: %s", args[2:], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// yamlFiles returns the files of a path: the file itself, or the manifests of a directory.
func yamlFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		isYAML := slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(entry.Name()))
		if isYAML && !entry.IsDir() && entry.Name() != "kustomization.yaml" {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no YAML files: %w", path, fs.ErrNotExist)
	}
	return files, nil
}

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func (a *applier) applyFile(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue // a document with comments only
		}
		if err := a.applyObject(ctx, object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// applyObject retries for a while: a kind is served only a moment after its definition is Established.
func (a *applier) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		resource, err := a.resource(object)
		if err == nil {
			_, err = resource.Apply(ctx, object.GetName(), object,
				metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		}
		last = err
		switch {
		case err == nil:
			return true, nil
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			a.mapper.Reset()
			return false, nil
		default:
			return false, err
		}
	})
	if err != nil {
		return errors.Join(last, ctx.Err())
	}
	if object.GetKind() == "CustomResourceDefinition" {
		return a.waitEstablished(ctx, object)
	}
	return nil
}

func (a *applier) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	resource := a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return resource, nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return resource.Namespace(namespace), nil
}

func (a *applier) waitEstablished(ctx context.Context, crd *unstructured.Unstructured) error {
	resource, err := a.resource(crd)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		current, err := resource.Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		// An error means that there are no conditions yet: the status is created with the value null.
		conditions, _, _ := unstructured.NestedSlice(current.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(condition any) bool {
			fields, ok := condition.(map[string]any)
			return ok && fields["type"] == "Established" && fields["status"] == "True"
		}), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until it is Established: %w", err)
	}
	return nil
}
