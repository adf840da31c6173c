// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestUnreadable checks that an object which a tenant can store but Go cannot decode affects only that
// object. The control is another parent, which reacts while the object exists, also after a start of
// the manager. The test restarts the manager, and temporarily
// removes the checks that refuse such objects.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	control := p.SoundEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e, junk := p.NewEnv(t), p.NewEnv(t)
	aged := e.Create(NewDraft("aged", Replicas(2), Zones("", ""), Hold()))
	deep := e.Create(NewDraft("deep", Replicas(2), Zones("", ""), Hold()))
	aged.Settle()
	deep.Settle()
	refuses(e, aged)

	none := e.History.Forbid(AnyNewPod)
	withoutChecks(e, func() {
		e.Eventually(func() error { return statusTime(aged, "2026-01-01t00:00:00z") }).Should(Succeed(), "as an older CRD let it in")
		storeDeep(junk, "nested", 9996)
		deepen(deep, 9999)
	})
	storeOwner(junk, "owned")
	storeRevision(junk, "revision")
	e.Expect(decodable(e, "/apis/"+v1alpha1.GroupVersion.String()+"/uniteddeployments")).NotTo(Succeed(), "the positive control")
	e.Expect(decodable(e, "/apis/apps/v1/statefulsets")).NotTo(Succeed(), "the positive control")

	e.Step("others react", func() { control.Reacts() })
	e.Step("others react after a restart", func() {
		d := e.RestartManager(func() {}, "--metrics-secure=false")
		control.Reacts()
		e.Eventually(func(g Gomega) {
			g.Expect(scrape(g, d)).To(And(
				ContainSubstring(fmt.Sprintf("united_unreadable{name=%q,namespace=%q} 1", "aged", e.Namespace)),
				ContainSubstring(fmt.Sprintf("united_unreadable{name=%q,namespace=%q} 1", "deep", e.Namespace)),
				Not(ContainSubstring(fmt.Sprintf("united_unreadable{name=%q,namespace=%q}", "control", control.Namespace))),
			))
		}).Should(Succeed())
	})
	e.Step("it is said which", func() {
		deep.StallsWhole(v1alpha1.ReasonUnreadable, "nested deeper")
		for _, w := range []*Workload{aged, deep} {
			tellsUnreadable(w)
		}
	})
	e.Step("one that is only deep is judged by the API server", func() {
		junk.Workload("nested").Stalls("zone-b", v1alpha1.ReasonApplyRefused)
	})
	e.Step("nothing of them is touched", func() {
		e.Kubectl("patch", "united", "aged", "--type=json", "-p", fmt.Sprintf( // a JSON patch does not decode times
			`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/updateStrategy/manualUpdate/partitions","value":{"zone-a":0,"zone-b":0}}]`,
			ImagePath, Image("v2")))
		deep.Scale(5)
		e.Expect(e.Delete(e.Ctx, aged.Child("zone-a"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		e.Eventually(func() error { return e.Get(e.Ctx, aged.Key("aged-zone-a"), &appsv1.StatefulSet{}) }).Should(
			MatchError(ContainSubstring("not found")), "the garbage collector orphans the pods first")
		control.Reacts()
		none.Holds()
		e.Expect(deep.Pods()).To(HaveLen(2))
		children := &appsv1.StatefulSetList{}
		e.Expect(e.List(e.Ctx, children, client.InNamespace(e.Namespace))).To(Succeed())
		e.Expect(children.Items).To(HaveLen(3), "two of deep, and what is left of aged")
	})
	e.Step("repaired it is taken up again", func() {
		e.Expect(statusTime(aged, "2026-01-01T00:00:00Z")).To(Succeed())
		deep.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0/patch"}]`)
		aged.Disturbed()
		aged.Settle()
		deep.Settle()
		e.Expect(aged.Images()).To(Equal(Images{"zone-a": "v2", "zone-b": "v2"}))
		e.Expect(deep.Pods()).To(HaveLen(5))
	})
	e.Step("deleted it is forgotten", func() {
		withoutChecks(e, func() { deepen(deep, 9999) })
		deep.StallsWhole(v1alpha1.ReasonUnreadable)
		e.Kubectl("delete", "united", "deep")
		junk.Kubectl("delete", "united", "nested")
		e.Eventually(deep.Pods).Should(BeEmpty())
		e.Expect(decodable(e, "/apis/"+v1alpha1.GroupVersion.String()+"/uniteddeployments")).To(Succeed())
		junk.Kubectl("delete", "statefulset", "owned")
		junk.Kubectl("delete", "controllerrevision", "revision")
		e.RestartManager(func() {})
		control.Reacts()
	})
}

// statusTime sets a time in the status.
func statusTime(w *Workload, value string) error {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	return request(w.Env, http.MethodPatch, path(w.Env, parent)+"/status", fmt.Sprintf(`{"status":{"lastProgressTime":%q}}`, value))
}

func path(e *Env, parent *v1alpha1.UnitedDeployment) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/uniteddeployments/%s", v1alpha1.GroupVersion, e.Namespace, parent.Name)
}

// tellsUnreadable checks that there is exactly one event, and that the log contains the name.
func tellsUnreadable(w *Workload) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
		said := 0
		for _, event := range list.Items {
			if event.Regarding.Kind == v1alpha1.Kind && event.Regarding.Name == w.Name && event.Reason == v1alpha1.ReasonUnreadable {
				said++
				g.Expect(event.Note).To(ContainSubstring("United cannot read the object, and changes nothing until it can"))
			}
		}
		g.Expect(said).To(BeNumerically(">=", 1))
	}).Should(Succeed())
	log, err := os.ReadFile(w.Manager.LogPath())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(log)).To(MatchRegexp(`cannot decode UnitedDeployment.*"name": ?"%s"`, w.Name))
}

// refuses checks that the CRD refuses every time that Go refuses.
func refuses(e *Env, w *Workload) {
	e.T.Helper()
	for _, value := range []string{"2026-01-01t00:00:00z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00x5Z"} {
		e.Expect(statusTime(w, value)).To(MatchError(ContainSubstring("lastProgressTime")), value)
	}
}

// withoutChecks calls do while the CRD has only a format for times and the admission policy is not
// bound, as in older installations.
func withoutChecks(e *Env, do func()) {
	e.T.Helper()
	const binding = "validatingadmissionpolicybinding/united-templates"
	dir := e.T.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		e.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		return file
	}
	now := func(name string) string {
		object := FromJSON[map[string]any](e, e.Kubectl("get", name, "-o", "json"))
		delete(object["metadata"].(map[string]any), "resourceVersion")
		delete(object["metadata"].(map[string]any), "uid")
		return AsJSON(object)
	}
	crd := now("crd/uniteddeployments.apps.united.dev")
	lax := regexp.MustCompile(`"pattern":"[^"]*Z\$"`).ReplaceAllString(crd, `"format":"date-time"`)
	e.Expect(lax).NotTo(Equal(crd))
	strict, bound := write("crd.json", crd), write("binding.json", now(binding))
	e.Kubectl("replace", "-f", write("lax.json", lax))
	e.Kubectl("delete", binding)
	defer func() {
		e.Kubectl("create", "-f", bound)
		e.Kubectl("replace", "-f", strict)
		e.Expect(install.WaitPolicy(e.Ctx, e.Cluster)).To(Succeed())
	}()
	do()
}

// nested returns JSON of n nested objects.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat("}", n-1)
}

// deepen gives the first subset a patch that makes the whole object as deep as the given number of
// levels. The API server would add managedFields that are even deeper, and then could not read the
// object itself: so the request removes them.
func deepen(w *Workload, levels int) {
	w.T.Helper()
	w.Eventually(func() error {
		var object map[string]any
		parent := w.Parent()
		raw, err := w.Cluster.Kubectl(w.Ctx, "get", "--raw", path(w.Env, parent))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(json.Unmarshal([]byte(raw), &object)).To(Succeed())
		object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{}}
		first := object["spec"].(map[string]any)["topology"].(map[string]any)["subsets"].([]any)[0].(map[string]any)
		const above = 6 // the object, spec, topology, subsets, the first of them, its patch
		first["patch"] = map[string]any{"spec": rawJSON(nested(levels - above))}
		return request(w.Env, http.MethodPut, path(w.Env, parent), AsJSON(object))
	}).Should(Succeed())
}

// storeDeep creates a UnitedDeployment whose managedFields are too deep for a list.
func storeDeep(e *Env, name string, levels int) {
	e.T.Helper()
	d := NewDraft(name, Replicas(2), Zones("", ""), Hold())
	const above = 8 // as above, the patch is the sixth level
	d.Spec.Topology.Subsets[1].Patch = FromJSON[*v1alpha1.Subset](e, `{"name":"x","patch":{"spec":{"template":{"spec":`+nested(levels-above)+`}}}}`).Patch
	e.Create(d)
}

// storeOwner creates a StatefulSet with a label of United, and with managedFields that no JSON list can
// hold.
func storeOwner(e *Env, name string) {
	e.T.Helper()
	set := ForeignSet(e.Namespace, name)
	set.SetLabels(map[string]string{v1alpha1.LabelName: name})
	metadata := set.Object["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{
		"manager": "anybody", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
		"fieldsType": "FieldsV1", "fieldsV1": rawJSON(strings.ReplaceAll(nested(9995), `"a"`, `"f:a"`)),
	}}
	e.Expect(request(e, http.MethodPost, "/apis/apps/v1/namespaces/"+e.Namespace+"/statefulsets", AsJSON(set.Object))).To(Succeed())
}

// storeRevision creates a ControllerRevision with a label of United and the maximum depth of an object.
func storeRevision(e *Env, name string) {
	e.T.Helper()
	e.Expect(request(e, http.MethodPost, "/apis/apps/v1/namespaces/"+e.Namespace+"/controllerrevisions", fmt.Sprintf(
		`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":%q,"labels":{%q:"aged"}},"revision":1,"data":%s}`,
		name, v1alpha1.LabelName, nested(9995)))).To(Succeed())
}

// request sends JSON unchanged: a typed client could not encode or decode it.
func request(e *Env, method, path, body string) error {
	request := restClient(e).Verb(method).AbsPath(path).Body([]byte(body)).SetHeader("Content-Type", "application/json")
	if method == http.MethodPatch {
		request = request.SetHeader("Content-Type", string(types.MergePatchType))
	}
	return request.Do(e.Ctx).Error()
}

func restClient(e *Env) rest.Interface {
	clients, err := kubernetes.NewForConfig(e.Cluster.Config())
	e.Expect(err).NotTo(HaveOccurred())
	return clients.RESTClient()
}

// decodable returns an error if Go cannot read a list.
func decodable(e *Env, path string) error {
	raw, err := restClient(e).Get().AbsPath(path).DoRaw(e.Ctx)
	e.Expect(err).NotTo(HaveOccurred())
	return json.Unmarshal(raw, new(any))
}

func scrape(g Gomega, d *install.Deployed) string {
	resp, err := http.Get("http://" + d.Metrics + "/metrics")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(text)
}
