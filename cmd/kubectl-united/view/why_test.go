// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/test/simulation"
)

// scene is a simulated UnitedDeployment with 4 replicas of v1 in the subsets a and b, and what is seen beside it.
type scene struct {
	*simulation.World
	seen view.Evidence
	// blind: the user may not see replicas. gone: the manager renews its Lease no longer.
	blind, gone bool
	// otherwise changes what is observed of the child of a, for what StatefulSets do not have.
	otherwise func(*adapters.Observed)
}

func newScene(t *testing.T) *scene {
	s := &scene{World: simulation.New(t, "Parallel", "a", "b")}
	s.seen.Lease = &view.Lease{Namespace: "united-system", Name: "united-manager", Holder: "manager-1", Duration: 15 * time.Second}
	return s.settled()
}

func (s *scene) settled() *scene { s.Settle(); return s }

func (s *scene) edit(change func(*v1alpha1.UnitedDeploymentSpec)) *scene {
	s.Edit("edit", change)
	return s
}

func (s *scene) image(image string) *scene {
	return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = simulation.TemplateOf(image, "Parallel") })
}

func (s *scene) partition(subset, to string) *scene {
	return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { simulation.SetPartition(spec, subset, intstr.Parse(to)) })
}

func (s *scene) paused() *scene {
	return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = true })
}

func (s *scene) bound(to string) *scene {
	return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.UpdateStrategy.ManualUpdate.Revision = to })
}

func (s *scene) rolling(change func(*v1alpha1.RollingUpdate)) *scene {
	return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) {
		r := &v1alpha1.RollingUpdate{}
		change(r)
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: r}
	}).settled()
}

// passes runs passes of the manager without the controllers of the children.
func (s *scene) passes(n int) *scene {
	for range n {
		s.API.Refresh()
		s.Reconcile()
	}
	return s
}

// moves lets the controllers of the children look.
func (s *scene) moves() *scene {
	s.Sync("web-a")
	s.Sync("web-b")
	return s
}

// pod changes the status of a pod.
func (s *scene) pod(name string, change func(*corev1.Pod)) *scene {
	pod := s.API.Live.Pods[name].DeepCopy()
	change(pod)
	s.API.PutPod(pod)
	return s
}

func (s *scene) unready(name string) *scene {
	s.Sets.SetReady(s.API.Live.Pods[name], false)
	return s
}

func (s *scene) why() *view.Why {
	s.T.Helper()
	parent := s.Parent().DeepCopy()
	now := s.Clock.Now()
	if l := s.seen.Lease; l != nil {
		if l.Renewed = now; s.gone {
			l.Renewed = now.Add(-time.Minute)
		}
	}
	if s.blind {
		return view.WhyOf(parent, nil, &s.seen, now)
	}
	in, err := look.New(s.API.Reader()).World(s.T.Context(), parent, now)
	if err != nil {
		s.Fail("%v", err)
	}
	if s.otherwise != nil {
		s.otherwise(in.Children["a"].Observed)
	}
	return view.WhyOf(parent, in, &s.seen, now)
}

var (
	clockTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]*Z`)
	aHash     = regexp.MustCompile(`\bweb-[0-9a-hjkmnp-tv-z]{10}\b|\b(web-)?[0-9a-hjkmnp-tv-z]{26}\b`)
)

// told returns the answer and the findings, one a line, with their commands. Times and hashes are omitted.
func told(why *view.Why) string {
	lines := []string{why.Answer}
	for _, f := range why.Findings {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", f.Kind, f.Subject, f.Finding, f.Detail))
		if f.Command != "" {
			lines = append(lines, "$ "+f.Command)
		}
	}
	for _, unseen := range why.Unseen {
		lines = append(lines, "not seen: "+unseen)
	}
	return aHash.ReplaceAllString(clockTime.ReplaceAllString(strings.Join(lines, "\n"), "then"), "hash")
}

func TestWhy(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		want string
	}{
		{"nothing to do", func(s *scene) *scene { return s }, `
web has nothing to do: 4 of 4 replicas run v1 (hash).
nothing web RolloutComplete: 4 of 4 replicas run v1 (hash)`},
		{"held", func(s *scene) *scene { return s.image("v2").settled() }, `
web stands still as you asked: a, b are held: 4 of 4 replicas (defaultPartition 100%).
told a, b RolloutHeld: are held: 4 of 4 replicas (defaultPartition 100%)
$ kubectl united release web a -n shop`},
		{"held in one subset by its own partition", func(s *scene) *scene { return s.partition("a", "0").partition("b", "1").image("v2").settled() }, `
web stands still as you asked: b is held: 1 of 2 replicas (partition 1).
told b RolloutHeld: is held: 1 of 2 replicas (partition 1)
$ kubectl united release web b -n shop`},
		{"bound to another revision", func(s *scene) *scene { return s.bound("web-other").partition("a", "0").image("v2").settled() }, `
web stands still as you asked: a, b: partitions are for web-other, so hash is held (spec.updateStrategy.manualUpdate.revision).
told a, b BoundToRevision: partitions are for web-other, so hash is held (spec.updateStrategy.manualUpdate.revision)
$ kubectl united release web a -n shop`},
		{"paused", func(s *scene) *scene { return s.partition("a", "0").paused().image("v2").settled() }, `
web stands still as you asked: spec.paused is true, which freezes the rollout.
told b RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)
$ kubectl united release web b -n shop && kubectl united resume web -n shop
told web Paused: spec.paused is true, which freezes the rollout; scaling and repair go on
$ kubectl united resume web -n shop`},
		{"paused, and held besides", func(s *scene) *scene { return s.paused().image("v2").settled() }, `
web stands still as you asked: a, b are held: 4 of 4 replicas (defaultPartition 100%).
told a, b RolloutHeld: are held: 4 of 4 replicas (defaultPartition 100%)
$ kubectl united release web a -n shop && kubectl united resume web -n shop
told web Paused: spec.paused is true, which freezes the rollout; scaling and repair go on; ending the pause alone would release nothing now`},
		{"no manager holds the Lease", func(s *scene) *scene {
			s.seen.Lease.Holder = ""
			return s.image("v2").settled()
		}, `
web does not move, because something is wrong: Lease united-system/united-manager: no manager leads; besides, you hold a part of it.
fault Lease united-system/united-manager NoManager: no manager leads
told a, b RolloutHeld: are held: 4 of 4 replicas (defaultPartition 100%)`},
		{"the manager is gone", func(s *scene) *scene {
			s.gone = true
			return s.image("v2")
		}, `
web does not move, because something is wrong: Lease united-system/united-manager: no manager leads since then, when manager-1 renewed it last; besides, you hold a part of it.
fault Lease united-system/united-manager NoManager: no manager leads since then, when manager-1 renewed it last; see its Deployment and its log
fault web NotObserved: no manager has observed generation 2; the last one is 1
told a, b RolloutHeld: are held: 4 of 4 replicas (defaultPartition 100%)`},
		{"the manager does not observe", func(s *scene) *scene { return s.image("v2") }, `
web does not move, because something is wrong: no manager has observed generation 2; besides, you hold a part of it.
fault web NotObserved: no manager has observed generation 2; the last one is 1; manager-1 leads: if it stays so for more than a moment, see its log, and whether its --watch-namespaces has shop
told a, b RolloutHeld: are held: 4 of 4 replicas (defaultPartition 100%)`},
		{"the API server refuses a child", func(s *scene) *scene {
			s.API.Refuse = map[string]error{"a": apierrors.NewBadRequest("unknown field (spec; x)")}
			return s.image("v2").partition("b", "1").passes(3)
		}, `
web does not move, because something is wrong: a: unknown field (spec; x); besides, you hold a part of it.
fault a ApplyRefused: unknown field (spec; x)
passing b Updating: waiting for the controller of web-b to observe its latest spec
told a RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)
told b RolloutHeld: is held: 1 of 2 replicas (partition 1)`},
		{"a released replica crashes", func(s *scene) *scene {
			s.image("v2").partition("a", "1").settled()
			s.seen.Logs = map[view.Container]string{{Pod: "web-a-1", Name: "web", Previous: true}: "panic: no database"}
			return s.unready("web-a-1").pod("web-a-1", func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "web", RestartCount: 3,
					State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}},
				}}
			})
		}, `
web does not move, because something is wrong: web-a-1: CrashLoopBackOff since then; besides, you hold a part of it.
fault web-a-1 ReplicaFailed: CrashLoopBackOff since then; container web waits (CrashLoopBackOff): back-off 40s, ended with exit code 2, 3 restarts; its last line: panic: no database
$ kubectl united undo web -n shop
told a RolloutHeld: is held: 1 of 2 replicas (partition 1)
told b RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)`},
		{"a node is not ready", func(s *scene) *scene {
			s.seen.Nodes = map[string]*corev1.Node{"node-1": {Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}}}}
			return s.unready("web-a-1").pod("web-a-1", func(p *corev1.Pod) { p.Spec.NodeName = "node-1" })
		}, `
web does not move, because something is wrong: node node-1: it is not ready since then: Kubelet stopped posting node status.
passing web-a-1 NotReady: not ready since then; it counts as failed from then on
fault node node-1 NodeNotReady: it is not ready since then: Kubelet stopped posting node status.`},
		{"no node has room for replicas of two subsets", func(s *scene) *scene {
			for _, name := range []string{"web-a-0", "web-a-1", "web-b-1"} {
				s.pod(name, func(p *corev1.Pod) {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
						Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient cpu."}}
				})
			}
			return s
		}, `
web does not move, because something is wrong: web-a-0 and 1 more of a, web-b-1: unschedulable since then: 0/3 nodes are available: 3 Insufficient cpu.
fault web-a-0 and 1 more of a, web-b-1 Unschedulable: unschedulable since then: 0/3 nodes are available: 3 Insufficient cpu`},
		{"a replica cannot be created", func(s *scene) *scene {
			delete(s.API.Live.Pods, "web-a-1")
			s.seen.Warnings = map[string]string{"web-a": "exceeded quota"}
			return s
		}, `
web does not move, because something is wrong: web-a-1: it does not exist; web-a says: exceeded quota.
fault web-a-1 Missing: it does not exist; web-a says: exceeded quota`},
		{"its kind has a condition for that", func(s *scene) *scene {
			delete(s.API.Live.Pods, "web-a-1")
			s.otherwise = func(o *adapters.Observed) { o.Refused = "exceeded quota" }
			return s
		}, `
web does not move, because something is wrong: web-a-1: it does not exist; web-a says: exceeded quota.
fault web-a-1 Missing: it does not exist; web-a says: exceeded quota`},
		{"another replica cannot be created, and none is missing", func(s *scene) *scene {
			s.otherwise = func(o *adapters.Observed) { o.Refused = "exceeded quota" }
			return s.partition("a", "0").image("v2").passes(2)
		}, `
web does not move, because something is wrong: a: its controller cannot create replicas; web-a says: exceeded quota; besides, you hold a part of it.
fault a CannotCreate: its controller cannot create replicas; web-a says: exceeded quota
passing b Updating: waiting for the controller of web-b to observe its latest spec
told b RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)`},
		{"what makes its replicas cannot be created", func(s *scene) *scene {
			s.seen.Warnings = map[string]string{"web-a": "Failed to create leader statefulset web-a"}
			return s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Replicas = ptr.To(int32(6)) }).passes(2)
		}, `
web does not move, because something is wrong: a: its controller cannot create replicas; web-a says: Failed to create leader statefulset web-a.
fault a CannotCreate: its controller cannot create replicas; web-a says: Failed to create leader statefulset web-a
passing b Scaling: scaling up: 2 of 3 replicas exist`},
		{"that of the new template cannot be created", func(s *scene) *scene {
			s.otherwise = func(o *adapters.Observed) { o.Unmade = true }
			return s.partition("a", "0").image("v2").passes(2)
		}, `
web does not move, because something is wrong: a: its controller cannot create what the template asks for; besides, you hold a part of it.
fault a CannotCreate: its controller cannot create what the template asks for; to see why, run: kubectl describe statefulset -n shop web-a
passing b Updating: waiting for the controller of web-b to observe its latest spec
told b RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)`},
		{"the workers of a group cannot be created", func(s *scene) *scene {
			s.seen.Warnings = map[string]string{"web-a": "Failed to create worker statefulset"}
			s.otherwise = func(o *adapters.Observed) { o.Pods[1].Ready, o.Pods[1].Lacks = false, "has no workers yet" }
			return s
		}, `
web does not move, because something is wrong: web-a-1: has no workers yet; web-a says: Failed to create worker statefulset.
fault web-a-1 NotReady: has no workers yet; web-a says: Failed to create worker statefulset`},
		{"the ledger is used up by a protected replica", func(s *scene) *scene {
			s.rolling(func(*v1alpha1.RollingUpdate) {})
			return s.image("v2").passes(2).moves().unready("web-a-0").passes(1)
		}, `
web does not move, because something is wrong: blocked by web-a-0 (not ready since then): 1 of maxUnavailable 1 in use, so no healthy replica will be disrupted.
passing web-a-0 NotReady: not ready since then; it counts as failed from then on
passing a, b MaxUnavailable: 1 replica is unavailable, and maxUnavailable is 1, in use by web-a-0 (not ready since then)
fault web Blocked: blocked by web-a-0 (not ready since then): 1 of maxUnavailable 1 in use, so no healthy replica will be disrupted; repair it, raise maxUnavailable, or force the rollout: kubectl annotate --overwrite united -n shop web united.dev/force-update=hash/$(date +%s)`},
		{"the ledger is used up by a protected replica that is on its way back", func(s *scene) *scene {
			s.rolling(func(*v1alpha1.RollingUpdate) {})
			s.image("v2").passes(2).moves()
			delete(s.API.Live.Pods, "web-a-0")
			return s.passes(1)
		}, `
web is on its way: a, b: 1 replica is unavailable, and maxUnavailable is 1, in use by web-a-0 (missing).
passing web-a-0 Missing: it does not exist
passing a, b MaxUnavailable: 1 replica is unavailable, and maxUnavailable is 1, in use by web-a-0 (missing)
passing web Blocked: blocked by web-a-0 (missing): 1 of maxUnavailable 1 in use, so no healthy replica will be disrupted; wait until it is back, raise maxUnavailable, or force the rollout: kubectl annotate --overwrite united -n shop web united.dev/force-update=hash/$(date +%s)`},
		{"the ledger is used up by a broken replica", func(s *scene) *scene {
			s.rolling(func(*v1alpha1.RollingUpdate) {})
			return s.image("v2").passes(2).moves().unready("web-a-0").pod("web-a-0", func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
			}).passes(1)
		}, `
web does not move, because something is wrong: web-a-0: CrashLoopBackOff since then.
fault web-a-0 ReplicaFailed: CrashLoopBackOff since then; container web waits (CrashLoopBackOff); it is protected from the new revision
passing a, b MaxUnavailable: 1 replica is unavailable, and maxUnavailable is 1, in use by web-a-0 (CrashLoopBackOff since then)
fault web Blocked: blocked by web-a-0 (CrashLoopBackOff since then): 1 of maxUnavailable 1 in use, so no healthy replica will be disrupted; repair it, raise maxUnavailable, or force the rollout: kubectl annotate --overwrite united -n shop web united.dev/force-update=hash/$(date +%s)`},
		{"rejected", func(s *scene) *scene {
			s.Oracle.LeaveToTest() // it does not know what a rejection is
			s.rolling(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.RollbackOnFailure })
			s.image("broken1").settled()
			s.Clock.SetTime(s.Clock.Now().Add(11 * time.Minute))
			return s.settled()
		}, `
web does not move, because something is wrong: broken1 (hash) is rejected: web-a-1 (not ready since then) failed.
fault web RevisionRejected: broken1 (hash) is rejected: web-a-1 (not ready since then) failed; 4 of 4 replicas run v1 (hash); set the template back, or apply another one; kubectl united retry web -n shop rolls it out once more
$ kubectl united undo web -n shop`},
		{"skew", func(s *scene) *scene {
			s.rolling(func(r *v1alpha1.RollingUpdate) {
				r.MaxSkew, r.MaxUnavailable = "10%", ptr.To(intstr.FromInt32(3))
			})
			return s.image("broken2").settled()
		}, `
web is on its way: a, b: waiting for other subsets, to stay within maxSkew 10%.
passing web-a-1 NotReady: not ready since then; it counts as failed from then on
passing a, b MaxSkew: waiting for other subsets, to stay within maxSkew 10%`},
		{"order", func(s *scene) *scene {
			s.rolling(func(r *v1alpha1.RollingUpdate) {
				r.Order, r.MaxUnavailable = v1alpha1.SequentialOrder, ptr.To(intstr.FromInt32(2))
			})
			return s.image("broken2").settled()
		}, `
web is on its way: b: waiting for its turn: a is not done yet.
passing web-a-0 and 1 more of a NotReady: not ready since then; it counts as failed from then on
passing b Order: waiting for its turn: a is not done yet`},
		{"approval", func(s *scene) *scene {
			s.rolling(func(r *v1alpha1.RollingUpdate) {
				r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}}}
			})
			return s.image("v2").settled()
		}, `
web stands still as you asked: step 1 of 1 reached, and waits for approval.
told web AwaitingApproval: step 1 of 1 reached, and waits for approval; the key is hash
$ kubectl united approve web -n shop
told a, b LaterStep: step 1 of 1 runs, which releases a down to the partition 50%; what it protects is released after it, the last one (spec.updateStrategy.rollingUpdate.steps[0])`},
		{"approval, and paused", func(s *scene) *scene {
			s.rolling(func(r *v1alpha1.RollingUpdate) {
				r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}}}
			})
			return s.image("v2").settled().paused().settled()
		}, `
web stands still as you asked: spec.paused is true, which freezes the rollout.
told a, b LaterStep: step 1 of 1 runs, which releases a down to the partition 50%; what it protects is released after it, the last one (spec.updateStrategy.rollingUpdate.steps[0])
told web Paused: spec.paused is true, which freezes the rollout; scaling and repair go on; ending the pause alone would release nothing now: step 1 of 1 reached; to continue, run: kubectl united resume web -n shop, and then: kubectl united approve web -n shop`},
		{"held by the floor", func(s *scene) *scene {
			s.rolling(func(r *v1alpha1.RollingUpdate) { r.Partition = ptr.To(intstr.FromString("100%")) })
			return s.image("v2").settled()
		}, `
web stands still as you asked: a, b are held: 4 of 4 replicas (rollingUpdate.partition 100%).
told a, b RolloutHeld: are held: 4 of 4 replicas (rollingUpdate.partition 100%)
$ kubectl patch united web -n shop --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'`},
		{"no rights to replicas", func(s *scene) *scene {
			s.blind, s.seen.Lease, s.seen.Unseen = true, nil, []string{"replicas: you may not list pods"}
			return s.image("v2").partition("a", "0").settled()
		}, `
web stands still as you asked: b is held: 2 of 2 replicas (defaultPartition 100%).
told b RolloutHeld: is held: 2 of 2 replicas (defaultPartition 100%)
not seen: replicas: you may not list pods`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.TrimSpace(tc.want), told(tc.play(newScene(t)).why())); diff != "" {
				t.Errorf("want -, have +\n%s", diff)
			}
		})
	}
}

// Every command does what it promises: when it has run, what it ends is not found any more.
func TestCommandsEnd(t *testing.T) {
	steps := func(s *scene) *scene {
		return s.rolling(func(r *v1alpha1.RollingUpdate) {
			r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}}}
		})
	}
	for name, play := range map[string]func(*scene) *scene{
		"held":                 func(s *scene) *scene { return s.image("v2").settled() },
		"held by a share":      func(s *scene) *scene { return s.partition("a", "50%").partition("b", "0").image("v2").settled() },
		"bound":                func(s *scene) *scene { return s.bound("web-other").image("v2").settled() },
		"bound, paused":        func(s *scene) *scene { return s.bound("web-other").paused().image("v2").settled() },
		"paused":               func(s *scene) *scene { return s.partition("", "0").paused().image("v2").settled() },
		"paused, one released": func(s *scene) *scene { return s.partition("a", "0").paused().image("v2").settled() },
		"paused, held":         func(s *scene) *scene { return s.paused().image("v2").settled() },
		"approval":             func(s *scene) *scene { return steps(s).image("v2").settled() },
		"rolling, paused":      func(s *scene) *scene { return steps(s).paused().image("v2").settled() },
		"held by the floor": func(s *scene) *scene {
			return s.rolling(func(r *v1alpha1.RollingUpdate) { r.Partition = ptr.To(intstr.FromString("100%")) }).image("v2").settled()
		},
	} {
		t.Run(name, func(t *testing.T) {
			commands := 0
			for i := range play(newScene(t)).why().Findings {
				s := play(newScene(t)) // each from the same state
				f := s.why().Findings[i]
				if f.Command == "" {
					continue
				}
				commands++
				updated := s.Parent().Status.UpdatedReplicas
				s.run(f.Command).settled()
				if after := s.Parent().Status.UpdatedReplicas; after <= updated {
					t.Errorf("%s\nreleases nothing:\n%s", f.Command, told(s.why()))
				}
				if again := told(s.why()); strings.Contains(again, " "+f.Subject+" "+f.Finding+":") {
					t.Errorf("%s\nends nothing:\n%s", f.Command, again)
				}
			}
			if commands == 0 {
				t.Error("there is no command")
			}
		})
	}
}

// run does what commands of the plugin, or a merge patch of kubectl, do to the parent.
func (s *scene) run(commands string) *scene {
	s.T.Helper()
	for command := range strings.SplitSeq(commands, " && ") {
		before, err := json.Marshal(s.Parent())
		if _, patch, found := strings.Cut(command, " -p "); found {
			before, err = jsonpatch.MergePatch(before, []byte(strings.Trim(patch, "'")))
		} else if err == nil {
			before, err = s.plugin(before, strings.Fields(command)[2:])
		}
		after := &v1alpha1.UnitedDeployment{}
		if err = errors.Join(err, json.Unmarshal(before, after)); err != nil {
			s.Fail("%s: %v", command, err)
		}
		if approval := after.Annotations[v1alpha1.AnnotationApproved]; approval != "" {
			s.Annotate(v1alpha1.AnnotationApproved, approval)
		}
		s.edit(func(spec *v1alpha1.UnitedDeploymentSpec) { *spec = after.Spec })
	}
	return s
}

// plugin does what a command of the plugin does, with its arguments.
func (s *scene) plugin(before []byte, args []string) ([]byte, error) {
	parent, d := s.Parent(), (*drive.Deed)(nil)
	var err error
	switch args[0] {
	case "approve":
		d, err = drive.Approve(parent)
	case "resume":
		d, err = drive.Pause(parent, false)
	case "release":
		d, err = drive.Partitions(parent, args[2:3], func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error) {
			return change.Release(parent, subset, value, false)
		})
	case "undo":
		revisions, listed := look.New(s.API.Reader()).Revisions(s.T.Context(), parent)
		if err = listed; err == nil {
			d, err = drive.GoBack(parent, nil, revisions, "")
		}
	}
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(d.Operations)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(before)
}
