// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// TestAlertsFire has a real Prometheus scrape a real manager, as the reader that the chart names, while a rollout breaks and
// the manager dies. Every alert waits a second instead of minutes, or days: that they wait is for promtool to test, and so are the
// alerts that need a fault in United, in the API server or in a cache, except for UnitedErrors and UnitedProtectionLost.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	const namespace = "alerts"
	e.Namespace(namespace, nil)
	e.Expect(e.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prometheus"}})).To(Succeed())
	e.Helm("install", "alerts", e.Chart("united"), "--namespace="+namespace, "--set="+RestIsInstalled+",rbac.aggregate=false,replicas=1",
		"--set=fullnameOverride=alerts,watchNamespaces={"+namespace+"},metrics.readers[0].name=prometheus,metrics.readers[0].namespace="+namespace,
		`--set-json=checks.objects=[{"apiGroup":"apps.united.dev","resources":["uniteddeployments"]}]`)
	manager, deployed := e.Start(namespace, "alerts-manager", "alerts")
	p := startPrometheus(e, namespace, deployed.Metrics, e.Token(namespace, "prometheus"))

	e.Step("at rest none fires", func() {
		e.Expect(e.Create(e.Ctx, NewParent(namespace, WebName, "v1", 4))).To(Succeed())
		e.Settle(namespace, WebName, 4)
		e.Eventually(func() []string { return p.query(`united_ready{reason="RolloutComplete"} == 1`) }).Should(HaveLen(1))
		e.Eventually(p.firing).Should(BeEmpty())
	})
	e.Step("every panel of the dashboard shows something", func() {
		e.Expect(p.query(`0 * united_ready / 0`)).To(BeEmpty(), "the control: what is not a number is nothing to show")
		// Reads wait for the caches only after writes. Those of the start may be over before the first scrape.
		for _, replicas := range []int32{5, 4} {
			e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"replicas":%d}}`, replicas)).To(Succeed())
			e.Settle(namespace, WebName, replicas)
		}
		for target, query := range panels(e) {
			if strings.Contains(query, "united_check_met") {
				continue // below, with a rollout that has checks
			}
			e.Eventually(func() []string { return p.query(query) }).ShouldNot(BeEmpty(), target)
		}
	})
	e.Step("every metric of the alerts has series", func() {
		for _, metric := range p.metrics {
			if metric != "united_unreadable" { // absent if all can be read
				e.Eventually(func() []string { return p.query(metric) }).ShouldNot(BeEmpty(), metric)
			}
		}
	})
	web := namespace + "/" + WebName
	e.Step("a zone is left released", func() {
		e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}}`)).To(Succeed())
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedZonesLeftReleased", HavePrefix(web+": zone-a was released by hand")))
		e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`)).To(Succeed())
		e.Eventually(p.firing).ShouldNot(HaveKey("UnitedZonesLeftReleased"))
	})
	e.Step("a zone is down", func() {
		lost := []string{WebName + "-zone-b-0", WebName + "-zone-b-1"}
		for _, pod := range lost {
			crash(e, namespace, pod)
		}
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedSubsetDown", "no replica of "+web+" in zone-b is available"))
		kubectl(e, append([]string{"-n", namespace, "delete", "pod"}, lost...)...)
		e.Settle(namespace, WebName, 4)
		e.Eventually(p.firing).ShouldNot(Or(HaveKey("UnitedSubsetDown"), HaveKey("UnitedStalled"), HaveKey("UnitedReplicasUnavailable")))
	})
	e.Step("a child workload forgets what is protected, and the manager may not restore it", func() {
		e.Expect(SetImage(e.Ctx, namespace, WebName, "v1-next")).To(Succeed())
		e.Settle(namespace, WebName, 4)
		e.Expect(p.firing()).NotTo(HaveKey("UnitedProtectionLost"))
		restore := revoke(e, namespace, "alerts-manager", "apps", "statefulsets/status", "patch")
		set := &appsv1.StatefulSet{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: namespace, Name: WebName + "-zone-a"}, set)).To(Succeed())
		e.Expect(set.Status.CurrentRevision).NotTo(Equal(set.Status.UpdateRevision))
		e.Expect(e.Status().Patch(e.Ctx, set, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, set.Status.UpdateRevision)))).To(Succeed())
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedProtectionLost", HavePrefix("zone-a of "+web+" has forgotten")))
		restore()
		e.Settle(namespace, WebName, 4)
		e.Eventually(p.firing).ShouldNot(Or(HaveKey("UnitedProtectionLost"), HaveKey("UnitedStalled")))
	})
	e.Step("a broken rollout", func() {
		e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{}}}}`)).To(Succeed())
		e.Expect(SetImage(e.Ctx, namespace, WebName, "broken-v2")).To(Succeed())
		e.Eventually(p.firing).Should(And(HaveKeyWithValue("UnitedStalled", HavePrefix(web+" cannot continue without help")),
			HaveKeyWithValue("UnitedReplicasUnavailable", ContainSubstring(web))))
	})
	e.Step("ends when it is corrected", func() {
		e.Expect(SetImage(e.Ctx, namespace, WebName, "v3")).To(Succeed())
		e.Settle(namespace, WebName, 4)
		e.Eventually(p.firing).ShouldNot(Or(HaveKey("UnitedStalled"), HaveKey("UnitedReplicasUnavailable")))
	})
	e.Step("a replica is never ready", func() {
		// On a busy machine the rollouts before this one may have lasted longer than the alert's time here.
		e.Eventually(p.firing).ShouldNot(HaveKey("UnitedRolloutWithoutProgress"))
		e.Expect(SetImage(e.Ctx, namespace, WebName, "quiet-v5")).To(Succeed())
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedRolloutWithoutProgress", HavePrefix(web+" (RollingOut) has made no progress")))
	})
	e.Step("a step waits for approval", func() {
		e.Expect(p.firing()).NotTo(HaveKey("UnitedApprovalForgotten"))
		e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"updateStrategy":{"rollingUpdate":{"steps":[{"subsets":["*"],"partition":"50%%","pause":{}}],
			"checks":[{"name":"itself","objectCondition":{"apiVersion":"apps.united.dev/v1alpha1","kind":"UnitedDeployment","name":%q,"type":"Initialized"}}]}}}}`, WebName)).To(Succeed())
		e.Expect(SetImage(e.Ctx, namespace, WebName, "v6")).To(Succeed())
		e.Eventually(p.firing).Should(And(HaveKeyWithValue("UnitedApprovalForgotten", HavePrefix(web+" has been waiting for approval")),
			HaveKeyWithValue("UnitedReleaseForgotten", HavePrefix(web+" has been partly released"))))
		e.Eventually(func() []string { return p.query(`united_check_met`) }).Should(HaveLen(1), "the panel of the checks")
		e.Expect(Patch(e.Ctx, namespace, WebName, `{"spec":{"updateStrategy":{"rollingUpdate":{"steps":null}}}}`)).To(Succeed())
		e.Settle(namespace, WebName, 4)
		e.Eventually(p.firing).ShouldNot(Or(HaveKey("UnitedApprovalForgotten"), HaveKey("UnitedReleaseForgotten"), HaveKey("UnitedRolloutWithoutProgress")))
	})
	e.Step("a rollout is blocked by a replica that is not its own", func() {
		crash(e, namespace, WebName+"-zone-b-0")
		e.Expect(SetImage(e.Ctx, namespace, WebName, "v4")).To(Succeed())
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedRolloutBlocked", HavePrefix("the rollout of "+web+" is blocked")))
	})
	e.Step("a UnitedDeployment fails, because the manager has lost its permissions", func() {
		e.Expect(p.firing()).NotTo(HaveKey("UnitedErrors"))
		binding := &rbacv1.RoleBinding{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: namespace, Name: "alerts-manager"}, binding)).To(Succeed())
		e.Expect(e.Delete(e.Ctx, binding)).To(Succeed())
		e.Expect(SetImage(e.Ctx, namespace, WebName, "v7")).To(Succeed())
		e.Eventually(p.firing).Should(HaveKeyWithValue("UnitedErrors", ContainSubstring("fails to reconcile")))
		e.Expect(e.Create(e.Ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binding.Name},
			RoleRef: binding.RoleRef, Subjects: binding.Subjects})).To(Succeed(), "without it, the next manager does not ask for the Lease")
	})
	e.Step("the manager dies", func() {
		e.Expect(p.firing()).NotTo(HaveKey("UnitedDown"))
		e.Expect(manager.Kill()).To(Succeed())
		e.Eventually(p.firing).Should(HaveKey("UnitedDown"))
	})
	e.Step("a manager runs, and another identity holds its Lease", func() {
		occupyLease(e, namespace)
		running, err := deployed.Launch(e.Ctx, Shared.Cluster, "alerts-standby")
		e.Expect(err).NotTo(HaveOccurred())
		e.CleanUp(running)
		e.Eventually(func() []string { return p.query(`sum(leader_election_master_status{name="united-manager"}) == 0`) }).Should(HaveLen(1), "scraped")
		e.Expect(p.firing()).To(HaveKey("UnitedDown"))
		e.Expect(e.Delete(e.Ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: install.Lease}})).To(Succeed())
		e.Eventually(p.firing).ShouldNot(HaveKey("UnitedDown"))
	})
}

// revoke takes a permission from a role, and waits until its first subject does not have it any more. The function that
// it returns gives it back.
func revoke(e *Env, namespace, name, group, resource, verb string) (restore func()) {
	e.T.Helper()
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	for _, object := range []client.Object{role, binding} {
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)).To(Succeed())
	}
	rules := role.Rules
	role.Rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource)
	})
	e.Expect(e.Update(e.Ctx, role)).To(Succeed())
	resource, subresource, _ := strings.Cut(resource, "/")
	e.Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + binding.Subjects[0].Namespace + ":" + binding.Subjects[0].Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: group, Resource: resource, Subresource: subresource, Verb: verb,
			},
		}}
		g.Expect(e.Create(e.Ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeFalse())
	}).Should(Succeed())
	return func() {
		role.Rules = rules
		e.Expect(e.Update(e.Ctx, role)).To(Succeed())
	}
}

// occupyLease makes another identity the holder of the Lease of a manager, for an hour.
func occupyLease(e *Env, namespace string) {
	e.T.Helper()
	lease := &coordinationv1.Lease{}
	e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: namespace, Name: install.Lease}, lease)).To(Succeed())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("somebody-else"), ptr.To(int32(3600))
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	e.Expect(e.Update(e.Ctx, lease)).To(Succeed())
}

// crash makes the container of a running pod crash for ever.
func crash(e *Env, namespace, name string) {
	e.T.Helper()
	kubectl(e, "-n", namespace, "patch", "pod", name, "--subresource=status", "--type=strategic", "-p", `{"status":{
		"conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"False"}],
		"containerStatuses":[{"name":"web","image":"web","imageID":"","ready":false,"restartCount":3,"state":{"running":null,"waiting":{"reason":"CrashLoopBackOff"}},
			"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}}]}}`)
}

// panels returns the queries of all targets of the dashboard's panels, with all of its variables.
func panels(e *Env) map[string]string {
	e.T.Helper()
	content, err := os.ReadFile(filepath.Join(e.Chart("united"), "dashboards", "united.json"))
	e.Expect(err).NotTo(HaveOccurred())
	dashboard := struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}{}
	e.Expect(json.Unmarshal(content, &dashboard)).To(Succeed())
	queries := map[string]string{}
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			queries[fmt.Sprintf("%s, target %d", panel.Title, i)] = strings.NewReplacer("$namespace", ".*", "$name", ".*").Replace(target.Expr)
		}
	}
	e.Expect(len(queries)).To(BeNumerically(">", 10))
	return queries
}

// prometheus is a running Prometheus.
type prometheus struct {
	*Env
	address string
	metrics []string // that the alerts use
}

// hasty returns the alerts of the chart as its PrometheusRule has them for a release in a namespace, with other times.
func hasty(e *Env, namespace string) []byte {
	e.T.Helper()
	rule := e.Decode([]byte(e.Helm("template", "alerts", e.Chart("united"), "--namespace="+namespace,
		"--show-only=templates/prometheusrule.yaml", "--set=metrics.prometheusRule.enabled=true")))
	e.Expect(rule).To(HaveLen(1))
	var rules []byte
	for _, object := range rule {
		var err error
		rules, err = yaml.Marshal(object.Object["spec"])
		e.Expect(err).NotTo(HaveOccurred())
	}
	for pattern, instead := range map[string]string{`(?m)^( +)for: \w+$`: "${1}for: 1s", `> (1800|2 \* 86400)\b`: "> 1", `< 900\b`: "< 1"} {
		e.Expect(rules).To(MatchRegexp(pattern))
		rules = regexp.MustCompile(pattern).ReplaceAll(rules, []byte(instead))
	}
	return rules
}

// startPrometheus starts a Prometheus with the alerts of the chart, which scrapes a manager every second and adds its namespace.
func startPrometheus(e *Env, namespace, target, token string) *prometheus {
	e.T.Helper()
	port, err := Shared.Cluster.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	p := &prometheus{Env: e, address: fmt.Sprintf("127.0.0.1:%d", port)}
	dir := e.Root.TempDir()
	rules := hasty(e, namespace)
	p.metrics = regexp.MustCompile(`\b(united|leader_election|process|workqueue|controller_runtime)_\w+\b`).FindAllString(string(rules), -1)
	e.Expect(len(p.metrics)).To(BeNumerically(">", 20))
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []any{"alerts.yaml"},
		"scrape_configs": []any{map[string]any{
			"job_name": "united", "scheme": "https", "honor_labels": true,
			"authorization":  map[string]any{"credentials": token},
			"tls_config":     map[string]any{"insecure_skip_verify": true},
			"static_configs": []any{map[string]any{"targets": []any{target}, "labels": map[string]any{"namespace": namespace}}},
		}},
	})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join(dir, "alerts.yaml"), rules, 0o600)).To(Succeed())
	e.Expect(os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600)).To(Succeed())
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	process, err := Shared.Cluster.StartProcess("prometheus", filepath.Join(root, "bin", "prometheus"), "--log.level=warn",
		"--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	e.Expect(err).NotTo(HaveOccurred())
	e.Root.Cleanup(func() { _ = process.Kill() })
	e.Eventually(func() error { return p.get(e.Ctx, "/api/v1/status/runtimeinfo", nil) }).Should(Succeed(), "log: %s", process.LogPath())
	return p
}

// get reads data from the API.
func (p *prometheus) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// query returns the series that a query has now, except those whose value is not a number.
func (p *prometheus) query(expr string) (series []string) {
	p.T.Helper()
	data := struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any // time, and the value as text
		}
	}{}
	p.Expect(p.get(p.Ctx, "/api/v1/query?query="+url.QueryEscape(expr), &data)).To(Succeed(), expr)
	for _, r := range data.Result {
		if r.Value[1] != "NaN" {
			series = append(series, fmt.Sprint(r.Metric))
		}
	}
	return series
}

// firing returns the alerts that fire, with their summaries.
func (p *prometheus) firing() map[string]string {
	p.T.Helper()
	data := struct {
		Alerts []struct {
			State               string
			Labels, Annotations map[string]string
		}
	}{}
	p.Expect(p.get(p.Ctx, "/api/v1/alerts", &data)).To(Succeed())
	firing := map[string]string{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]] = a.Annotations["summary"]
		}
	}
	return firing
}
