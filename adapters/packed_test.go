// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func workload(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestPack: what is packed is unpacked as it was, all else stays, and packing again changes nothing.
func TestPack(t *testing.T) {
	for name, text := range map[string]string{
		"StatefulSet":     `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{name: main, ports: [{containerPort: 80}], livenessProbe: null}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}}`,
		"LeaderWorkerSet": `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: web}, spec: {leaderWorkerTemplate: {size: 4, leaderTemplate: {spec: {nodeName: a}}, workerTemplate: {spec: {x: 1.5, y: "<&>"}}}}}`,
		"odd":             `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {template: [], leaderWorkerTemplate: 7, volumeClaimTemplates: {}}}`,
		"no spec":         `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}}`,
		"large": `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {template: {spec: {tolerations: [` +
			strings.Repeat(`{key: a, operator: Exists}, `, 10_000) + `]}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			was, u := workload(t, text), workload(t, text)
			for range 2 {
				if err := Pack(u); err != nil {
					t.Fatal(err)
				}
			}
			if raw, err := json.Marshal(u.Object); err != nil || len(raw) > 15_000 {
				t.Error(len(raw), "bytes are left", err)
			}
			spec, err := UnpackedSpec(u.Object)
			want, _ := was.Object["spec"].(map[string]any)
			if err != nil || !reflect.DeepEqual(spec, want) {
				t.Errorf("%.300v, want %.300v, %v", spec, want, err)
			}
			for _, steps := range packedPaths() {
				want, _, _ := unstructured.NestedFieldNoCopy(was.Object, steps...)
				if got, err := Unpacked(u.Object, steps...); !reflect.DeepEqual(got, want) && err == nil {
					t.Errorf("%v: %v, want %v", steps, got, want)
				}
			}
		})
	}
	broken := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": "zzz"}}}
	if _, err := Unpacked(broken.Object, "spec", "template"); err == nil || !strings.HasPrefix(err.Error(), "spec.template: ") {
		t.Error(err)
	}
	if got, err := Unpacked(map[string]any{"spec": map[string]any{"serviceName": "{}"}}, "spec", "serviceName"); err != nil || got != "{}" {
		t.Error("a string elsewhere is a string:", got, err)
	}
}

// TestTemplateHash: a ReplicaSet has the hash of the Deployment that it was made from, in every form, and no other has.
func TestTemplateHash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		template := rapid.SampledFrom([]string{"", ", x: y", ", pod-template-hash: mine"})
		image := rapid.SampledFrom([]string{"v1", "v2", strings.Repeat("long", deflateFrom/4)})
		labels, tag := template.Draw(rt, "labels"), image.Draw(rt, "image")
		make := func(kind, labels, tag string, packed bool) *unstructured.Unstructured {
			u := workload(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: %s, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web%s}}, spec: {containers: [{name: main, image: %q}]}}}}`, kind, labels, tag))
			if packed {
				if err := Pack(u); err != nil {
					t.Fatal(err)
				}
			}
			return u
		}
		hash := func(u *unstructured.Unstructured) string {
			h, err := TemplateHash(u)
			if err != nil || h == "" {
				t.Fatal(h, err)
			}
			return h
		}
		of := func(labels string) string {
			if strings.Contains(labels, "pod-template-hash") {
				return ", pod-template-hash: theirs"
			}
			return labels + ", pod-template-hash: theirs"
		}
		deployment := hash(make("Deployment", labels, tag, rapid.Bool().Draw(rt, "packed")))
		if set := hash(make("ReplicaSet", of(labels), tag, rapid.Bool().Draw(rt, "set packed"))); set != deployment {
			rt.Error("it is not found")
		}
		otherLabels, otherTag := template.Draw(rt, "other labels"), image.Draw(rt, "other image")
		same := otherTag == tag && (otherLabels == ", x: y") == (labels == ", x: y")
		if set := hash(make("ReplicaSet", of(otherLabels), otherTag, rapid.Bool().Draw(rt, "other packed"))); (set == deployment) != same {
			rt.Error("another one is found")
		}
	})
	if h, err := TemplateHash(workload(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}`)); h != "" || err != nil {
		t.Error(h, err)
	}
}

// heapOf returns how many bytes the objects that a function makes take.
func heapOf(make func() []*unstructured.Unstructured) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	objects := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(objects)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

// TestPackedChildrenAreSmall: a child of 1.35 MB takes 20 MiB and more as objects, and packed no more than the API server stores;
// one of an ordinary size takes less than half.
func TestPackedChildrenAreSmall(t *testing.T) {
	var tolerations, env []string
	random := rand.New(rand.NewPCG(1, 2))
	for range 61_000 {
		tolerations = append(tolerations, fmt.Sprintf(`{"key":"k%013x"}`, random.Uint64()>>12))
	}
	for range 75_000 {
		env = append(env, fmt.Sprintf(`{"name":"E%d"}`, 10_000+random.IntN(90_000)))
	}
	const ordinary = `"metadata":{"labels":{"app":"web","united.dev/name":"web","united.dev/subset":"zone-a"}},"spec":{"containers":[{"name":"main","image":"shop/web:v1","imagePullPolicy":"IfNotPresent",` +
		`"env":[{"name":"A","value":"b"},{"name":"C","value":"d"}],"ports":[{"containerPort":8080,"name":"http","protocol":"TCP"}],"resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}},` +
		`"readinessProbe":{"httpGet":{"path":"/","port":8080,"scheme":"HTTP"},"periodSeconds":10},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],` +
		`"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}`
	for name, tc := range map[string]struct {
		template string
		times    int
		share    uint64 // of what they took before, as its reciprocal
	}{
		"tolerations": {`"spec":{"tolerations":[` + strings.Join(tolerations, ",") + `]}`, 1, 20},
		"variables":   {`"spec":{"containers":[{"name":"main","env":[` + strings.Join(env, ",") + `]}]}`, 1, 20},
		"ordinary":    {ordinary, 1000, 2},
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web"},"spec":{"replicas":3,"template":{` + tc.template + `}}}`)
			read := func(packed bool) func() []*unstructured.Unstructured {
				return func() (all []*unstructured.Unstructured) {
					for range tc.times {
						u := &unstructured.Unstructured{}
						if err := u.UnmarshalJSON(raw); err != nil {
							t.Fatal(err)
						}
						if packed {
							if err := Pack(u); err != nil {
								t.Fatal(err)
							}
						}
						all = append(all, u)
					}
					return all
				}
			}
			whole, packed := heapOf(read(false)), heapOf(read(true))
			t.Logf("%d bytes of JSON: %d KiB as objects, %d KiB packed", len(raw), whole/uint64(tc.times)/1024, packed/uint64(tc.times)/1024)
			if packed > whole/tc.share {
				t.Errorf("packed, they take %d bytes of %d", packed, whole)
			}
		})
	}
}
