// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// ignored returns the JSON pointers that config/argocd/application.yaml ignores, which must be those of docs/gitops.md.
func ignored(e *Env) []string {
	e.T.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	read := func(path ...string) []byte {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		e.Expect(err).NotTo(HaveOccurred())
		return text
	}
	application := struct {
		Spec struct {
			IgnoreDifferences []struct {
				Group, Kind  string
				JSONPointers []string
			}
			SyncPolicy struct{ SyncOptions []string }
		}
	}{}
	e.Expect(yaml.Unmarshal(read("config", "argocd", "application.yaml"), &application)).To(Succeed())
	e.Expect(application.Spec.SyncPolicy.SyncOptions).To(ContainElement("RespectIgnoreDifferences=true"))
	e.Expect(application.Spec.IgnoreDifferences).To(HaveLen(1))
	fields := application.Spec.IgnoreDifferences[0]
	e.Expect([]string{fields.Group, fields.Kind}).To(Equal([]string{v1alpha1.GroupVersion.Group, v1alpha1.Kind}))
	list := "    jsonPointers:\n"
	for _, pointer := range fields.JSONPointers {
		list += "    - " + pointer + "\n"
	}
	e.Expect(string(read("docs", "gitops.md"))).To(ContainSubstring(list + "  syncPolicy:\n"))
	return fields.JSONPointers
}

// TestGitOpsIgnored syncs a manifest that has all fields that are changed in the cluster, as the Application in
// config/argocd says: what it ignores stays, and what it does not ignore is reset. Without the option
// RespectIgnoreDifferences, all of it is reset.
func TestGitOpsIgnored(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(*Env, Git){"Argo CD": argoSync, "Argo CD server-side": argoServerSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			all := append(heldInGit(), "spec:\n  selector:", "spec:\n  replicas: 2\n  paused: false\n  minReadySeconds: 0\n  selector:")
			sync(e, gitOf(e, all...))
			w := e.Workload("web")
			w.Settle()
			byHand(w)
			w.Settle()
			w.Kubectl("patch", "united", "web", "--type=merge", "-p", `{"spec":{"paused":true,"minReadySeconds":1}}`)
			w.Settle()

			next := gitOf(e, append([]string{"web:v1", "web:v2"}, all...)...)
			sync(e, keeping(next, w.Object(), ignored(e)...))
			w.Settle()
			e.Expect(*w.Parent().Spec.Replicas).To(BeEquivalentTo(4))
			e.Expect(w.Parent().Spec.Paused).To(BeTrue())
			e.Expect(partitionsNow(w)).To(Equal(map[string]string{"zone-a": "0"}))
			e.Expect(annotated(w)).To(BeTrue())
			e.Expect(w.Parent().Spec.MinReadySeconds).To(BeZero(), "positive control: the Application does not ignore it")
			w.Kubectl("patch", "united", "web", "--type=merge", "-p", `{"spec":{"paused":false}}`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"}))

			w.Kubectl("patch", "united", "web", "--type=merge", "-p", `{"spec":{"paused":true}}`)
			sync(e, next)
			w.Settle()
			e.Expect(*w.Parent().Spec.Replicas).To(BeEquivalentTo(2))
			e.Expect(w.Parent().Spec.Paused).To(BeFalse())
			e.Expect(partitionsNow(w)).To(Equal(map[string]string{"zone-a": "100%"}))
			e.Expect(annotated(w)).To(BeTrue(), "Git does not have them")
		})
	}
}
