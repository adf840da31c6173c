// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

// applied is what the controller applies, with everything that managedFields represent differently: identity, maps,
// sets, lists by key with a defaulted part, atomic lists and maps, empty ones, and values that the server rewrites.
const applied = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: web-zone-a
  namespace: default
  uid: s-1
  resourceVersion: "7"
  labels: {united.dev/name: web, united.dev/subset: zone-a}
  annotations: {united.dev/revision: web-1, united.dev/fingerprint: abc}
  finalizers: [example.com/wait]
  ownerReferences: [{apiVersion: apps.united.dev/v1alpha1, kind: UnitedDeployment, name: web, uid: u-1, controller: true}]
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}
  template:
    metadata: {labels: {app: web}, annotations: {}}
    spec:
      affinity: {}
      nodeSelector: {}
      readinessGates: []
      tolerations: [{key: a, operator: Exists}]
      imagePullSecrets: [{name: secret}]
      hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}]
      containers:
      - name: web
        image: nginx:1
        command: [run, now]
        args: []
        ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP, name: dns}, {containerPort: 53, hostPort: 53}]
        env: [{name: A, value: "1"}]
        resources: {requests: {memory: 1024Mi}, limits: {}}
      volumes: [{name: tmp, emptyDir: {}}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]
`

// owned is the resulting entry of kube-apiserver 1.36.3 in managedFields, in YAML.
const owned = `
f:metadata:
  f:annotations: {f:united.dev/fingerprint: {}, f:united.dev/revision: {}}
  f:finalizers: {'v:"example.com/wait"': {}}
  f:labels: {f:united.dev/name: {}, f:united.dev/subset: {}}
  f:ownerReferences: {'k:{"uid":"u-1"}': {}}
f:spec:
  f:replicas: {}
  f:selector: {}
  f:template:
    f:metadata: {f:annotations: {}, f:labels: {f:app: {}}}
    f:spec:
      f:affinity: {}
      f:containers:
        k:{"name":"web"}:
          .: {}
          f:args: {}
          f:command: {}
          f:env: {'k:{"name":"A"}': {.: {}, f:name: {}, f:value: {}}}
          f:image: {}
          f:name: {}
          f:ports:
            k:{"containerPort":53,"protocol":"TCP"}: {.: {}, f:containerPort: {}, f:hostPort: {}}
            k:{"containerPort":53,"protocol":"UDP"}: {.: {}, f:containerPort: {}, f:name: {}, f:protocol: {}}
            k:{"containerPort":80,"protocol":"TCP"}: {.: {}, f:containerPort: {}}
          f:resources: {f:limits: {}, f:requests: {f:memory: {}}}
      f:hostAliases: {'k:{"ip":"10.0.0.1"}': {.: {}, f:hostnames: {}, f:ip: {}}}
      f:imagePullSecrets: {'k:{"name":"secret"}': {}}
      f:nodeSelector: {}
      f:readinessGates: {}
      f:tolerations: {}
      f:volumes: {'k:{"name":"tmp"}': {.: {}, f:emptyDir: {}, f:name: {}}}
  f:updateStrategy: {f:rollingUpdate: {f:partition: {}}, f:type: {}}
  f:volumeClaimTemplates: {}
`

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func entry(t testing.TB, manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(fields))
	if err != nil {
		t.Fatal(err)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}
}

func ours(t testing.TB, fields string) metav1.ManagedFieldsEntry {
	return entry(t, "united", metav1.ManagedFieldsOperationApply, fields)
}

// without returns owned without a text, as if another manager had taken that.
func without(t testing.TB, text string) string {
	t.Helper()
	if strings.Count(owned, text) != 1 {
		t.Fatalf("%q is in there %d times", text, strings.Count(owned, text))
	}
	return strings.Replace(owned, text, "", 1)
}

func TestLost(t *testing.T) {
	for _, tc := range []struct {
		name  string
		owned string
		want  string
	}{
		{"nothing", owned, ""},
		{"a number", without(t, "  f:replicas: {}\n"), "spec.replicas"},
		{"a field in a map in a map", without(t, "f:rollingUpdate: {f:partition: {}}, "), "spec.updateStrategy.rollingUpdate"},
		{"a map", without(t, "  f:updateStrategy: {f:rollingUpdate: {f:partition: {}}, f:type: {}}\n"), "spec.updateStrategy"},
		{"a map that is atomic", without(t, "  f:selector: {}\n"), "spec.selector"},
		{"an empty map", without(t, "      f:affinity: {}\n"), "spec.template.spec.affinity"},
		{"an empty map in a map", without(t, "f:limits: {}, "), "spec.template.spec.containers[0].resources.limits"},
		// It cannot be distinguished from one whose items have a key (see below).
		{"an empty list that is atomic is taken unseen", without(t, "          f:args: {}\n"), ""},
		{"a list that is atomic", without(t, "      f:tolerations: {}\n"), "spec.template.spec.tolerations"},
		{"an atomic list in an item", without(t, "f:hostnames: {}, "), "spec.template.spec.hostAliases[0].hostnames"},
		{"a label", without(t, "f:united.dev/name: {}, "), "metadata.labels.united.dev/name"},
		{"an annotation", without(t, ", f:united.dev/revision: {}"), "metadata.annotations.united.dev/revision"},
		{"the owner", without(t, "  f:ownerReferences: {'k:{\"uid\":\"u-1\"}': {}}\n"), "metadata.ownerReferences"},
		{"another owner", strings.Replace(owned, "u-1", "u-2", 1), "metadata.ownerReferences[0]"},
		{"a member of a set", strings.Replace(owned, "example.com/wait", "example.com/other", 1), "metadata.finalizers[0]"},
		{"a field of a list item", without(t, "          f:image: {}\n"), "spec.template.spec.containers[0].image"},
		{"a quantity", without(t, ", f:requests: {f:memory: {}}"), "spec.template.spec.containers[0].resources.requests"},
		{"a list item", strings.Replace(owned, `k:{"name":"A"}`, `k:{"name":"B"}`, 1), "spec.template.spec.containers[0].env[0]"},
		{"an item whose key has a default", without(t, `            k:{"containerPort":80,"protocol":"TCP"}: {.: {}, f:containerPort: {}}`+"\n"), "spec.template.spec.containers[0].ports[0]"},
		{"an item with the whole key", without(t, `            k:{"containerPort":53,"protocol":"TCP"}: {.: {}, f:containerPort: {}, f:hostPort: {}}
            k:{"containerPort":53,"protocol":"UDP"}: {.: {}, f:containerPort: {}, f:name: {}, f:protocol: {}}`+"\n"), "spec.template.spec.containers[0].ports[1]"},
		{"an empty map in an item", without(t, "f:emptyDir: {}, "), "spec.template.spec.volumes[0].emptyDir"},
		{"everything", "{}", "."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, err := ownership.Lost(object(t, applied), []metav1.ManagedFieldsEntry{ours(t, tc.owned)})
			if err != nil {
				t.Fatal(err)
			}
			if at.Text != tc.want && (tc.want != "." || at.Text == "") {
				t.Errorf("want %q, have %q", tc.want, at.Text)
			}
		})
	}
}

// The server does not list an empty list whose items have a merge key, such as "imagePullSecrets: []" in many charts,
// so it can neither be owned nor lost. (Measured on 1.36.3: env, ports, volumeMounts, volumeDevices, initContainers,
// imagePullSecrets. Empty maps and empty atomic lists are listed.)
func TestAnEmptyListOfItemsIsNotLost(t *testing.T) {
	text := strings.Replace(applied, "imagePullSecrets: [{name: secret}]", "imagePullSecrets: []", 1)
	text = strings.Replace(text, `env: [{name: A, value: "1"}]`, "env: []", 1)
	rest := strings.Replace(without(t, "      f:imagePullSecrets: {'k:{\"name\":\"secret\"}': {}}\n"),
		"          f:env: {'k:{\"name\":\"A\"}': {.: {}, f:name: {}, f:value: {}}}\n", "", 1)
	at, err := ownership.Lost(object(t, text), []metav1.ManagedFieldsEntry{ours(t, rest)})
	if at.Text != "" || err != nil {
		t.Errorf("%q counts as lost, so the child is written on every pass (%v)", at.Text, err)
	}
}

func TestLostInWhichEntry(t *testing.T) {
	status := func(e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
		e.Subresource = "status"
		return e
	}
	patch := entry(t, "kubectl-patch", metav1.ManagedFieldsOperationUpdate, "{f:spec: {f:replicas: {}}}")
	taken := without(t, "  f:replicas: {}\n")
	for _, tc := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		{"none", nil, "everything"},
		{"only others'", []metav1.ManagedFieldsEntry{patch}, "everything"},
		{"ours among others'", []metav1.ManagedFieldsEntry{patch, ours(t, owned), patch}, ""},
		{"another took a field", []metav1.ManagedFieldsEntry{patch, ours(t, taken)}, "spec.replicas"},
		{"another owns all of it too", []metav1.ManagedFieldsEntry{entry(t, "argocd", metav1.ManagedFieldsOperationApply, owned), ours(t, taken)}, "spec.replicas"},
		{"ours, but by update", []metav1.ManagedFieldsEntry{entry(t, "united", metav1.ManagedFieldsOperationUpdate, owned)}, "everything"},
		{"ours, but of a subresource", []metav1.ManagedFieldsEntry{status(ours(t, owned))}, "everything"},
		{"ours, after that of a subresource", []metav1.ManagedFieldsEntry{status(ours(t, "{f:status: {}}")), ours(t, owned)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, err := ownership.Lost(object(t, applied), tc.entries)
			if at.Text != tc.want || err != nil {
				t.Errorf("want %q, have %q, %v", tc.want, at.Text, err)
			}
		})
	}
}

func TestLostWhatCannotBeRead(t *testing.T) {
	broken := ours(t, owned)
	broken.FieldsV1 = metav1.NewFieldsV1(`{"f:spec":`)
	if at, err := ownership.Lost(object(t, applied), []metav1.ManagedFieldsEntry{broken}); err == nil || !strings.Contains(err.Error(), "web-zone-a") {
		t.Error(at.Text, err)
	}
	none := ours(t, owned)
	none.FieldsV1 = nil
	defer func() {
		if r := recover(); r != nil {
			t.Error("an entry without fields:", r)
		}
	}()
	if at, err := ownership.Lost(object(t, applied), []metav1.ManagedFieldsEntry{none}); at.Text == "" && err == nil {
		t.Error("an entry without fields owns everything")
	}
}

// The arguments are not changed: one belongs to the cache, and the other is applied.
func TestLostChangesNothing(t *testing.T) {
	u, want := object(t, applied), object(t, applied)
	if _, err := ownership.Lost(u, []metav1.ManagedFieldsEntry{ours(t, owned)}); err != nil {
		t.Fatal(err)
	}
	if a, b := text(t, u), text(t, want); a != b {
		t.Error(a)
	}
}

func text(t testing.TB, u *unstructured.Unstructured) string {
	t.Helper()
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func FuzzLost(f *testing.F) {
	f.Add(owned)
	f.Add(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{}":{},"i:0":{},"v:null":{}}}}}}`)
	f.Add(`{"f:spec":{".":{}},".":{}}`)
	u := object(f, applied)
	f.Fuzz(func(_ *testing.T, fields string) {
		raw, err := yaml.YAMLToJSON([]byte(fields))
		if err != nil {
			return
		}
		// It may find something, find nothing, or return an error.
		_, _ = ownership.Lost(u, []metav1.ManagedFieldsEntry{{Manager: "united", Operation: "Apply", FieldsV1: metav1.NewFieldsV1(string(raw))}})
	})
}

// TestTaken: an annotation that is gone, or that another manager has set, is no longer ours.
func TestTaken(t *testing.T) {
	b := newBench(t)
	whole := b.asStored(childSpec(), nil)
	if taken, err := ownership.TakenAnnotations(whole); err != nil || len(taken) > 0 {
		t.Fatal("nobody has touched it", taken, err)
	}
	for _, key := range append(adapters.RecordKeys(), v1alpha1.AnnotationRecordChecksum) {
		changed := b.asStored(childSpec(), func(owned *fieldpath.Set) {
			*owned = *owned.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", key)))
		})
		removed := whole.DeepCopy()
		annotations := removed.GetAnnotations()
		delete(annotations, key)
		removed.SetAnnotations(annotations)
		if taken, err := ownership.TakenAnnotations(changed); err != nil || !slices.Equal(taken, []string{key}) {
			t.Error(key, "was changed:", taken, err)
		}
		if taken, err := ownership.TakenAnnotations(removed); err != nil || !slices.Equal(taken, []string{key}) {
			t.Error(key, "was removed:", taken, err)
		}
	}
	whole.SetManagedFields(nil)
	if taken, err := ownership.TakenAnnotations(whole); err != nil || !slices.Equal(taken, append(adapters.RecordKeys(), v1alpha1.AnnotationRecordChecksum)) {
		t.Error("managedFields were cleared:", taken, err)
	}
	annotations := whole.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationRecordChecksum)
	whole.SetAnnotations(annotations)
	if taken, err := ownership.TakenAnnotations(whole); err != nil || !slices.Equal(taken, adapters.RecordKeys()) {
		t.Error("an earlier version wrote no checksum:", taken, err)
	}
}

// Whoever owns a nested field has changed the outer one: for a node affinity, managedFields list only its terms.
func TestOwnerOfWhatIsInside(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{
		Manager: "fighter", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{"f:template":{"f:spec":{"f:affinity":{"f:nodeAffinity":{"f:requiredDuringSchedulingIgnoredDuringExecution":{}}}}}}}`),
	}}
	for _, tc := range []struct {
		at   []any
		want string
	}{
		{[]any{"spec", "template", "spec", "affinity"}, "fighter"},
		{[]any{"spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"}, "fighter"},
		{[]any{"spec", "template", "spec", "affinity", "podAffinity"}, ""},
		{[]any{"spec", "replicas"}, ""},
	} {
		by, err := ownership.OwnerOf(fieldpath.MakePathOrDie(tc.at...), managed, "")
		if err != nil || by != tc.want {
			t.Errorf("%v: %q, %v; want %q", tc.at, by, err, tc.want)
		}
	}
}
