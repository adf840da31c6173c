// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

// Tools are the GitOps tools, with the files of this repository.
type Tools struct {
	Argo *ArgoCD
	Flux *Flux
}

// Load reads the files of the repository at root.
func Load(root string) (*Tools, error) {
	argo, err := LoadArgoCD(root)
	if err != nil {
		return nil, err
	}
	flux, err := LoadFlux(root)
	if err != nil {
		return nil, err
	}
	return &Tools{Argo: argo, Flux: flux}, nil
}

// Verdicts returns the state of an object: its reason, and what the tools say.
func (t *Tools) Verdicts(name string, object map[string]any) (State, error) {
	s := State{Name: name, Reason: Ready(object)["reason"]}
	health, err := t.Argo.Health(object)
	if err != nil {
		return s, err
	}
	s.Argo = health.Status
	if s.KStatus, err = KStatus(object); err != nil {
		return s, err
	}
	s.Flux, err = t.Flux.Health(object)
	return s, err
}

// Ready returns the status, the reason and the message of the condition Ready; nothing if there is none.
func Ready(object map[string]any) map[string]string {
	parent := struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}{}
	if err := convert(object, &parent); err != nil {
		return nil
	}
	for _, c := range parent.Status.Conditions {
		if c.Type == "Ready" {
			return map[string]string{"status": c.Status, "reason": c.Reason, "message": c.Message}
		}
	}
	return nil
}
