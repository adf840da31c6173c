// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

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
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

// TestUnreadable checks that an object which a tenant can store but Go cannot decode affects only that
// object. The control is another parent, which reacts while the object exists, also after a start of
// the manager. The test restarts the manager, and temporarily
// removes the checks that refuse such objects.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	p := newPlaneOf(t)
	control := p.soundEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	e, junk := p.newEnv(t), p.newEnv(t)
	aged := e.Create(draft("aged", replicas(2), zones("", ""), hold()))
	deep := e.Create(draft("deep", replicas(2), zones("", ""), hold()))
	aged.Settle()
	deep.Settle()
	e.refuses(aged)

	none := e.History.Forbid(anyNewPod)
	e.withoutChecks(func() {
		e.Eventually(func() error { return aged.statusTime("2026-01-01t00:00:00z") }).Should(Succeed(), "as an older CRD let it in")
		junk.storeDeep("nested", 9996)
		deep.deepen(9999)
	})
	junk.storeOwner("owned")
	junk.storeRevision("revision")
	e.Expect(decodable(e, "/apis/"+v1alpha1.GroupVersion.String()+"/uniteddeployments")).NotTo(Succeed(), "the positive control")
	e.Expect(decodable(e, "/apis/apps/v1/statefulsets")).NotTo(Succeed(), "the positive control")

	e.Step("others react", func() { control.reacts() })
	e.Step("others react after a restart", func() {
		d := e.restartManager(func() {}, "--metrics-secure=false")
		control.reacts()
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
			w.tellsUnreadable()
		}
	})
	e.Step("one that is only deep is judged by the API server", func() {
		junk.Workload("nested").Stalls("zone-b", v1alpha1.ReasonApplyRefused)
	})
	e.Step("nothing of them is touched", func() {
		e.Kubectl("patch", "united", "aged", "--type=json", "-p", fmt.Sprintf( // a JSON patch does not decode times
			`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/updateStrategy/manualUpdate/partitions","value":{"zone-a":0,"zone-b":0}}]`,
			imagePath, image("v2")))
		deep.Scale(5)
		e.Expect(e.Delete(e.ctx, aged.Child("zone-a"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		e.Eventually(func() error { return e.Get(e.ctx, aged.key("aged-zone-a"), &appsv1.StatefulSet{}) }).Should(
			MatchError(ContainSubstring("not found")), "the garbage collector orphans the pods first")
		control.reacts()
		none.Holds()
		e.Expect(deep.Pods()).To(HaveLen(2))
		children := &appsv1.StatefulSetList{}
		e.Expect(e.List(e.ctx, children, client.InNamespace(e.Namespace))).To(Succeed())
		e.Expect(children.Items).To(HaveLen(3), "two of deep, and what is left of aged")
	})
	e.Step("repaired it is taken up again", func() {
		e.Expect(aged.statusTime("2026-01-01T00:00:00Z")).To(Succeed())
		deep.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0/patch"}]`)
		aged.Disturbed()
		aged.Settle()
		deep.Settle()
		e.Expect(aged.Images()).To(Equal(images{"zone-a": "v2", "zone-b": "v2"}))
		e.Expect(deep.Pods()).To(HaveLen(5))
	})
	e.Step("deleted it is forgotten", func() {
		e.withoutChecks(func() { deep.deepen(9999) })
		deep.StallsWhole(v1alpha1.ReasonUnreadable)
		e.Kubectl("delete", "united", "deep")
		junk.Kubectl("delete", "united", "nested")
		e.Eventually(deep.Pods).Should(BeEmpty())
		e.Expect(decodable(e, "/apis/"+v1alpha1.GroupVersion.String()+"/uniteddeployments")).To(Succeed())
		junk.Kubectl("delete", "statefulset", "owned")
		junk.Kubectl("delete", "controllerrevision", "revision")
		e.restartManager(func() {})
		control.reacts()
	})
}

// reacts changes the partition, and checks that the child changes.
func (w *Workload) reacts() {
	w.t.Helper()
	of := func() int32 { return *w.Child("zone-a").Spec.UpdateStrategy.RollingUpdate.Partition }
	want := int32(7)
	if of() == want {
		want = 8
	}
	began := time.Now()
	w.SetPartitions(parts{"zone-a": want})
	w.Eventually(of).WithPolling(20 * time.Millisecond).Should(Equal(want))
	w.t.Logf("the control reacts in %s", time.Since(began).Round(time.Millisecond))
}

// statusTime sets a time in the status.
func (w *Workload) statusTime(value string) error {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	return w.request(http.MethodPatch, w.path(parent)+"/status", fmt.Sprintf(`{"status":{"lastProgressTime":%q}}`, value))
}

func (e *env) path(parent *v1alpha1.UnitedDeployment) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/uniteddeployments/%s", v1alpha1.GroupVersion, e.Namespace, parent.Name)
}

// tellsUnreadable checks that there is exactly one event, and that the log contains the name.
func (w *Workload) tellsUnreadable() {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
		said := 0
		for _, event := range list.Items {
			if event.Regarding.Kind == v1alpha1.Kind && event.Regarding.Name == w.Name && event.Reason == v1alpha1.ReasonUnreadable {
				said++
				g.Expect(event.Note).To(ContainSubstring("United cannot read the object, and changes nothing until it can"))
			}
		}
		g.Expect(said).To(BeNumerically(">=", 1))
	}).Should(Succeed())
	log, err := os.ReadFile(w.manager.LogPath())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(log)).To(MatchRegexp(`cannot decode UnitedDeployment.*"name": ?"%s"`, w.Name))
}

// refuses checks that the CRD refuses every time that Go refuses.
func (e *env) refuses(w *Workload) {
	e.t.Helper()
	for _, value := range []string{"2026-01-01t00:00:00z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00x5Z"} {
		e.Expect(w.statusTime(value)).To(MatchError(ContainSubstring("lastProgressTime")), value)
	}
}

// withoutChecks calls do while the CRD has only a format for times and the admission policy is not
// bound, as in older installations.
func (e *env) withoutChecks(do func()) {
	e.t.Helper()
	const binding = "validatingadmissionpolicybinding/united-templates"
	dir := e.t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		e.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		return file
	}
	now := func(name string) string {
		object := fromJSON[map[string]any](e, e.Kubectl("get", name, "-o", "json"))
		delete(object["metadata"].(map[string]any), "resourceVersion")
		delete(object["metadata"].(map[string]any), "uid")
		return asJSON(object)
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
		e.Expect(install.WaitPolicy(e.ctx, e.cluster)).To(Succeed())
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
func (w *Workload) deepen(levels int) {
	w.t.Helper()
	w.Eventually(func() error {
		var object map[string]any
		parent := w.Parent()
		raw, err := w.cluster.Kubectl(w.ctx, "get", "--raw", w.path(parent))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(json.Unmarshal([]byte(raw), &object)).To(Succeed())
		object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{}}
		first := object["spec"].(map[string]any)["topology"].(map[string]any)["subsets"].([]any)[0].(map[string]any)
		const above = 6 // the object, spec, topology, subsets, the first of them, its patch
		first["patch"] = map[string]any{"spec": rawJSON(nested(levels - above))}
		return w.request(http.MethodPut, w.path(parent), asJSON(object))
	}).Should(Succeed())
}

// storeDeep creates a UnitedDeployment whose managedFields are too deep for a list.
func (e *env) storeDeep(name string, levels int) {
	e.t.Helper()
	d := draft(name, replicas(2), zones("", ""), hold())
	const above = 8 // as above, the patch is the sixth level
	d.Spec.Topology.Subsets[1].Patch = fromJSON[*v1alpha1.Subset](e, `{"name":"x","patch":{"spec":{"template":{"spec":`+nested(levels-above)+`}}}}`).Patch
	e.Create(d)
}

// storeOwner creates a StatefulSet with a label of United, and with managedFields that no JSON list can
// hold.
func (e *env) storeOwner(name string) {
	e.t.Helper()
	set := foreignSet(e.Namespace, name)
	set.SetLabels(map[string]string{v1alpha1.LabelName: name})
	metadata := set.Object["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{
		"manager": "anybody", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
		"fieldsType": "FieldsV1", "fieldsV1": rawJSON(strings.ReplaceAll(nested(9995), `"a"`, `"f:a"`)),
	}}
	e.Expect(e.request(http.MethodPost, "/apis/apps/v1/namespaces/"+e.Namespace+"/statefulsets", asJSON(set.Object))).To(Succeed())
}

// storeRevision creates a ControllerRevision with a label of United and the maximum depth of an object.
func (e *env) storeRevision(name string) {
	e.t.Helper()
	e.Expect(e.request(http.MethodPost, "/apis/apps/v1/namespaces/"+e.Namespace+"/controllerrevisions", fmt.Sprintf(
		`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":%q,"labels":{%q:"aged"}},"revision":1,"data":%s}`,
		name, v1alpha1.LabelName, nested(9995)))).To(Succeed())
}

// request sends JSON unchanged: a typed client could not encode or decode it.
func (e *env) request(method, path, body string) error {
	request := e.restClient().Verb(method).AbsPath(path).Body([]byte(body)).SetHeader("Content-Type", "application/json")
	if method == http.MethodPatch {
		request = request.SetHeader("Content-Type", string(types.MergePatchType))
	}
	return request.Do(e.ctx).Error()
}

func (e *env) restClient() rest.Interface {
	clients, err := kubernetes.NewForConfig(e.cluster.Config())
	e.Expect(err).NotTo(HaveOccurred())
	return clients.RESTClient()
}

// decodable returns an error if Go cannot read a list.
func decodable(e *env, path string) error {
	raw, err := e.restClient().Get().AbsPath(path).DoRaw(e.ctx)
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
