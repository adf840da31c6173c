// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
)

const web = "../../../config/samples/web.yaml"

// runPlan runs the plugin without a cluster.
func runPlan(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
	code = Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(in), Out: stdout, ErrOut: stderr})
	return code, stdout.String(), stderr.String()
}

func TestPlanOffline(t *testing.T) {
	code, out, errs := runPlan(t, "", "plan", "-f", web, "--offline", "-o", "json")
	plan := &foresee.Plan{}
	if err := json.Unmarshal([]byte(out), plan); err != nil || code != 0 {
		t.Fatal(code, err, errs)
	}
	if !plan.New || len(plan.Waves) != 1 || len(plan.Subsets) != 3 || plan.Subsets[1].Created.Count != 3 || plan.End.State != foresee.Complete {
		t.Errorf("%s", out)
	}
}

func TestPlanRefused(t *testing.T) {
	raw, err := os.ReadFile(web)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"topology:", "toplogy:", "spec.toplogy: a UnitedDeployment has no such field"},
		{"image:", "imgae:", "spec.containers[0].imgae: a StatefulSet has no such field"},
		{"replicas: 6", `replicas: "6"`, "spec.replicas: is a string, and must be of type integer"},
		{"replicas: 50%", "minReplicas: 50%", "cannot be combined with minReplicas"},
		{"- name: zone-b", "- name: zone-a", "spec.topology.subsets[zone-a]: is there twice"},
		{"defaultPartition: 100%", "defaultPartition: 101%", "101%"},
		{"podManagementPolicy: Parallel", "replicas: 3", "replicas"},
	} {
		code, out, errs := runPlan(t, strings.Replace(string(raw), c.from, c.to, 1), "plan", "-f", "-", "--offline")
		if code != 1 || !strings.Contains(out, "Refused") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d\n%s%s", c.to, code, out, errs)
		}
	}
}

// What is legal is said as the API server does, and a file of OpenKruise is no file without any.
func TestPlanWarns(t *testing.T) {
	raw, err := os.ReadFile(web)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		code     int
		want     string
	}{
		{"- name: zone-a", "- name: az-x\n      replicas: 0\n    - name: zone-a", 0, "Warning: spec.topology.subsets[az-x]: is named like a zone, but has no nodeSelector"},
		{"apps.united.dev/v1alpha1", "apps.kruise.io/v1alpha1", 1, "but one of OpenKruise: write apiVersion apps.united.dev/v1alpha1"},
	} {
		code, out, errs := runPlan(t, strings.Replace(string(raw), c.from, c.to, 1), "plan", "-f", "-", "--offline")
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d\n%s%s", c.to, code, out, errs)
		}
	}
}

func TestPlanNeedsOneThing(t *testing.T) {
	for _, args := range [][]string{{"plan"}, {"plan", "web", "-f", web}, {"plan", "web", "--offline"}, {"plan", "-f", web, "--offline", "--replicas", "0"}} {
		if code, out, errs := runPlan(t, "", args...); code != 1 || out != "" || !strings.HasPrefix(errs, "error: ") {
			t.Errorf("%v: %d %s%s", args, code, out, errs)
		}
	}
}

// What others write as an argument is understood, or answered with what to write.
func TestOtherArguments(t *testing.T) {
	for args, want := range map[string]string{
		"plan release web zone-a zone-b": "error: the changes of a plan are flags: kubectl united plan web --set-partition zone-a=0,zone-b=0\n",
		"plan release web zone-a=1":      "to let the API server check this one: kubectl united release web zone-a=1 --dry-run\n",
		"plan undo web":                  "to let the API server check this one: kubectl united undo web --dry-run\n",
		"plan web wep":                   "accepts at most 1 arg(s), received 2\n",
		"set web image=foo":              "error: set has no command web; write: kubectl united set image web CONTAINER=IMAGE, or kubectl united set env web KEY=VALUE\n",
		"set imgae web web=foo -n shop":  "error: set has no command imgae; write: kubectl united set image web CONTAINER=IMAGE, or kubectl united set env web KEY=VALUE\n",
		"why":                            "error: write: kubectl united why NAME\n",
		"undo web zone-a":                "error: write: kubectl united undo NAME, and not: undo web zone-a\n",
		"approve":                        "error: write: kubectl united approve NAME\n",
		"release":                        "error: write: kubectl united release NAME SUBSET[=30%|=N]...\n",
		"set image web":                  "error: write: kubectl united set image NAME CONTAINER=IMAGE..., and not: set image web\n",
		"get pods web":                   "accepts at most 1 arg(s), received 2\n",
	} {
		if code, out, errs := runPlan(t, "", strings.Fields(args)...); code != 1 || out != "" || !strings.HasSuffix(errs, want) {
			t.Errorf("%s: %d %s%s", args, code, out, errs)
		}
	}
	if code, out, errs := runPlan(t, "", "set"); code != 0 || !strings.Contains(out, "Usage:") || errs != "" {
		t.Errorf("set: %d %s%s", code, out, errs)
	}
	for _, kind := range []string{"rollout", "united", "uniteddeployments"} {
		o, out := cluster(t)
		if err := run(o.status(), kind, "web"); err != nil || !strings.HasPrefix(out.String(), "web ") {
			t.Errorf("%s: %v %s", kind, err, out)
		}
	}
	o, _ := cluster(t)
	if err := run(o.release(), "web", "zone-x"); err == nil || err.Error() != "web has no subset zone-x; did you mean zone-a? There is zone-a, zone-b" {
		t.Error(err)
	}
}

func TestEdits(t *testing.T) {
	raw, err := os.ReadFile(web)
	if err != nil {
		t.Fatal(err)
	}
	read := func() *v1alpha1.UnitedDeployment {
		parent := &v1alpha1.UnitedDeployment{}
		if err := yaml.UnmarshalStrict(raw, parent); err != nil {
			t.Fatal(err)
		}
		return parent
	}
	parent, none := read(), func(string) bool { return false }
	e := edits{partitions: []string{"zone-a=0", "zone-b=50%"}, images: []string{"web=app:v2"}, given: none}
	if err := e.apply(parent); err != nil {
		t.Fatal(err)
	}
	m := parent.Spec.UpdateStrategy.ManualUpdate
	if b := m.Partitions["zone-b"]; b.String() != "50%" || m.DefaultPartition.String() != "100%" || len(m.Partitions) != 2 {
		t.Errorf("%+v", m)
	}
	if text := string(parent.Spec.Template.StatefulSetTemplate.Raw); !strings.Contains(text, `"image":"app:v2"`) || *parent.Spec.Replicas != 6 {
		t.Error(text)
	}
	for _, c := range []struct {
		edits
		want string
	}{
		{edits{partitions: []string{"zona-a=0"}}, "did you mean zone-a?"},
		{edits{partitions: []string{"zone-a"}}, "write the partition, such as zone-a=0"},
		{edits{partitions: []string{"zone-a=101%"}}, "a percentage from 0% to 100%"},
		{edits{partitions: []string{"zone-a=1", "zone-a=0"}}, "zone-a is there twice"},
		{edits{images: []string{"wep=x"}}, "no container wep; it has web"},
		{edits{images: []string{"web"}}, "CONTAINER=IMAGE"},
	} {
		c.given = none
		if err := c.apply(read()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.edits, err)
		}
	}
}
