// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
)

// TestWorld checks that what is printed can be read again, also after it has passed what protects a terminal.
func TestWorld(t *testing.T) {
	g := NewWithT(t)
	kinds, err := scheme()
	g.Expect(err).NotTo(HaveOccurred())
	raw, err := os.ReadFile("../../../config/samples/web.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(yaml.Unmarshal(raw, parent)).To(Succeed())
	parent.Namespace, parent.UID = "default", "u-1"
	parent.Annotations = map[string]string{"note": "red \x1b[31m"}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true), api: fake.NewClientBuilder().WithScheme(kinds).WithObjects(parent).Build()}
	o.config.Namespace = &parent.Namespace
	root := o.root()
	root.SetArgs([]string{"world", "united/web"})
	g.Expect(root.ExecuteContext(t.Context())).To(Succeed())
	saved := &look.Saved{}
	g.Expect(yaml.Unmarshal(out.Bytes(), saved)).To(Succeed())
	g.Expect(saved.Objects).To(HaveLen(1))
	g.Expect(saved.Objects[0].GetAnnotations()).To(Equal(parent.Annotations))
	g.Expect(saved.Objects[0].GetKind()).To(Equal(v1alpha1.Kind))
	g.Expect(out.String()).NotTo(ContainSubstring("\x1b"))
}
