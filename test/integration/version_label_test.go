// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const noVersion = "[united.dev/version]: must not be set; set spec.versionLabel to TemplateHash, and the controller sets it on every pod"

func TestRefusedVersionLabels(t *testing.T) {
	groups := func(leader, worker string) edit {
		return all(drop("spec", "updateStrategy"), put(`{leaderWorkerSetTemplate: {spec: {leaderWorkerTemplate: {
			leaderTemplate: {metadata: {labels: {app: web`+leader+`}}, spec: {}}, workerTemplate: {metadata: {labels: {app: web`+worker+`}}, spec: {}}}}}}`,
			"spec", "template"), drop(inPatch()...))
	}
	const label = `, united.dev/version: "1"`
	const inGroups = "spec.template.leaderWorkerSetTemplate.spec.leaderWorkerTemplate."
	patched := func(of string) edit {
		return all(groups("", ""), put(`{spec: {leaderWorkerTemplate: {`+of+`: {metadata: {labels: {united.dev/version: "1"}}}}}}`, inPatch()...))
	}
	for _, r := range []refusal{
		{"another value", set("Image", "spec", "versionLabel"), []string{`spec.versionLabel: Unsupported value: "Image"`, `"None", "TemplateHash"`}},
		{"in matchLabels", put(`{matchLabels: {app: web, united.dev/version: "1"}}`, "spec", "selector"),
			[]string{"spec.selector.matchLabels: ", "must not have united.dev/version"}},
		{"in matchExpressions", put(`{matchExpressions: [{key: app, operator: Exists}, {key: united.dev/version, operator: DoesNotExist}]}`, "spec", "selector"),
			[]string{"spec.selector.matchExpressions: ", "must not have united.dev/version"}},
		{"in the template", set("1", templateLabels("united.dev/version")...), []string{podLabelsPath + noVersion}},
		{"null in the template", set(nil, templateLabels("united.dev/version")...), []string{podLabelsPath + noVersion}},
		{"in a patch", set("1", inPatch("spec", "template", "metadata", "labels", "united.dev/version")...),
			[]string{patchPath + ".spec.template.metadata.labels" + noVersion}},
		{"removed by a patch", set(nil, inPatch("spec", "template", "metadata", "labels", "united.dev/version")...),
			[]string{patchPath + ".spec.template.metadata.labels" + noVersion}},
		{"on leaders", groups(label, ""), []string{inGroups + "leaderTemplate.metadata.labels" + noVersion}},
		{"on workers", groups("", label), []string{inGroups + "workerTemplate.metadata.labels" + noVersion}},
		{"on leaders in a patch", patched("leaderTemplate"), []string{patchPath + ".spec.leaderWorkerTemplate.leaderTemplate.metadata.labels" + noVersion}},
		{"on workers in a patch", patched("workerTemplate"), []string{patchPath + ".spec.leaderWorkerTemplate.workerTemplate.metadata.labels" + noVersion}},
	} {
		t.Run(r.title, func(t *testing.T) { expectRefused(t, "", r) })
	}
	for title, e := range map[string]edit{
		"on the child": set("1", inTemplate("metadata", "labels", "united.dev/version")...),
		"groups":       groups("", ""),
		"turned on":    set("TemplateHash", "spec", "versionLabel"),
		"turned off":   set("None", "spec", "versionLabel"),
	} {
		t.Run("a control: "+title, func(t *testing.T) {
			_, err := deployments().Create(t.Context(), with(t, "accepted", e), metav1.CreateOptions{DryRun: dryRun, FieldValidation: "Strict"})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}
