// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"
)

// Health is what Argo CD shows about an object.
type Health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// Action is an action that Argo CD offers.
type Action struct {
	DisplayName string `json:"displayName"`
	IconClass   string `json:"iconClass"`
	Disabled    bool   `json:"disabled"`
}

// ArgoCD has the scripts of config/argocd/argocd-cm.yaml.
type ArgoCD struct {
	health, discovery string
	actions           map[string]string
}

// LoadArgoCD reads the scripts of the repository at root.
func LoadArgoCD(root string) (*ArgoCD, error) {
	const key = "apps.united.dev_UnitedDeployment"
	text, err := os.ReadFile(filepath.Join(root, "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		return nil, err
	}
	patch := struct {
		Data map[string]string `json:"data"`
	}{}
	if err := yaml.UnmarshalStrict(text, &patch); err != nil {
		return nil, err
	}
	actions := struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string `json:"name"`
			Action string `json:"action.lua"`
		} `json:"definitions"`
	}{}
	if err := yaml.UnmarshalStrict([]byte(patch.Data["resource.customizations.actions."+key]), &actions); err != nil {
		return nil, err
	}
	a := &ArgoCD{health: patch.Data["resource.customizations.health."+key], discovery: actions.Discovery, actions: map[string]string{}}
	for _, d := range actions.Definitions {
		a.actions[d.Name] = d.Action
	}
	return a, nil
}

// Health returns what Argo CD shows about the object.
func (a *ArgoCD) Health(object map[string]any) (Health, error) {
	result, err := runLua(a.health, object)
	if err != nil {
		return Health{}, err
	}
	health := Health{}
	if err := convert(result, &health); err != nil {
		return Health{}, err
	}
	// Argo CD shows Unknown for anything else.
	if !slices.Contains([]string{"Healthy", "Suspended", "Progressing", "Degraded"}, health.Status) {
		return Health{}, fmt.Errorf("the health is %q", health.Status)
	}
	return health, nil
}

// Actions returns the actions for the object, by name. Each of them has a definition.
func (a *ArgoCD) Actions(object map[string]any) (map[string]Action, error) {
	result, err := runLua(a.discovery, object)
	if err != nil {
		return nil, err
	}
	actions := map[string]Action{}
	if err := convert(result, &actions); err != nil {
		return nil, err
	}
	for name := range actions {
		if a.actions[name] == "" {
			return nil, fmt.Errorf("action %q has no definition", name)
		}
	}
	return actions, nil
}

// Patch runs an action, and returns the merge patch that Argo CD sends: what differs between the
// object and the result of the action.
func (a *ArgoCD) Patch(name string, object map[string]any) ([]byte, error) {
	result, err := runLua(a.actions[name], object)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(withObjects(result, object))
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}

// withObjects turns the empty lists in the result of an action that were empty objects before back into
// objects, as Argo CD does.
func withObjects(after, before any) any {
	switch now := after.(type) {
	case map[string]any:
		old, _ := before.(map[string]any)
		for key := range now {
			if _, known := old[key]; known {
				now[key] = withObjects(now[key], old[key])
			}
		}
	case []any:
		if _, wasObject := before.(map[string]any); wasObject && len(now) == 0 {
			return map[string]any{}
		}
		old, _ := before.([]any)
		for i := range min(len(now), len(old)) {
			// In lists, Argo CD does so only within objects and lists: an item {} becomes [].
			if list, isList := now[i].([]any); !isList || len(list) > 0 {
				now[i] = withObjects(now[i], old[i])
			}
		}
	}
	return after
}

func convert(from, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
