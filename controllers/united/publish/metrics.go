// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// Metrics exports the status of every UnitedDeployment to Prometheus. It keeps the values, and makes the series only when somebody
// reads them: a series takes a kilobyte, and a UnitedDeployment has dozens.
type Metrics struct {
	replicas, partition, restoring, released              *prometheus.Desc
	lastProgress, stalled, ready, readySince, initialized *prometheus.Desc
	check, unreadable                                     *prometheus.Desc

	mu sync.Mutex
	// values are those of the last status, and cannotBeRead has the UnitedDeployments that cannot be decoded.
	values       map[types.NamespacedName]*values
	cannotBeRead map[types.NamespacedName]bool
}

// values are what is exported of one UnitedDeployment. Times are in seconds; 0 if there is none.
type values struct {
	subsets                  []subsetValues
	checks                   []checkValue
	lastProgress, readySince int64
	// reason is that of the condition Ready; "" if there is none.
	reason                      string
	ready, stalled, initialized bool
}

type subsetValues struct {
	name                string
	replicas            [len(states)]int32
	partition           int32
	restoring, released bool
}

type checkValue struct {
	name string
	met  bool
}

// states are the values of the label state, in the order of subsetValues.replicas.
var states = [...]string{"desired", "existing", "ready", "available", "updated", "updated_ready"}

// NewMetrics registers the metrics. It panics if they are already registered there, as MustRegister does.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("united_"+name, help, append([]string{"namespace", "name"}, labels...), nil)
	}
	m := &Metrics{
		replicas:     gauge("subset_replicas", "Replicas of a subset by state: desired, existing, ready, available, updated, updated_ready.", "subset", "state"),
		partition:    gauge("subset_partition", "Partition in effect: replicas below it are protected.", "subset"),
		lastProgress: gauge("last_progress_timestamp_seconds", "When a replica last got closer to what the spec asks for, or the spec changed."),
		stalled:      gauge("stalled", "1 when the condition Stalled is True."),
		ready:        gauge("ready", "1 when the condition Ready is True, else 0; the label reason is its reason.", "reason"),
		readySince:   gauge("ready_transition_timestamp_seconds", "When the condition Ready last changed between True and False."),
		initialized:  gauge("initialized", "1 when the condition Initialized is True: a replica has been ready at least once."),
		restoring:    gauge("subset_restoring", "1 while the child workload of a subset has forgotten what its protected replicas run, and United restores it.", "subset"),
		released:     gauge("subset_released", "1 while an entry of its own in manualUpdate.partitions releases all replicas of a subset.", "subset"),
		check:        gauge("check_met", "1 when the last result of a check of the rollout is that it is met, else 0.", "check"),
		unreadable:   gauge("unreadable", "1 while the object cannot be decoded; United leaves it unchanged."),
		values:       map[types.NamespacedName]*values{},
		cannotBeRead: map[types.NamespacedName]bool{},
	}
	registry.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.replicas, m.partition, m.lastProgress, m.stalled, m.ready, m.readySince, m.initialized, m.restoring, m.released, m.unreadable, m.check} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, v := range m.values {
		send := func(desc *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{key.Namespace, key.Name}, labels...)...)
		}
		v.collect(m, send)
	}
	for key := range m.cannotBeRead {
		ch <- prometheus.MustNewConstMetric(m.unreadable, prometheus.GaugeValue, 1, key.Namespace, key.Name)
	}
}

func (v *values) collect(m *Metrics, send func(desc *prometheus.Desc, value float64, labels ...string)) {
	for i := range v.subsets {
		s := &v.subsets[i]
		for j, n := range s.replicas {
			send(m.replicas, float64(n), s.name, states[j])
		}
		send(m.partition, float64(s.partition), s.name)
		send(m.restoring, oneIf(s.restoring), s.name)
		send(m.released, oneIf(s.released), s.name)
	}
	for _, c := range v.checks {
		send(m.check, oneIf(c.met), c.name)
	}
	if v.lastProgress != 0 {
		send(m.lastProgress, float64(v.lastProgress))
	}
	send(m.stalled, oneIf(v.stalled))
	send(m.initialized, oneIf(v.initialized))
	if v.reason != "" {
		send(m.ready, oneIf(v.ready), v.reason)
		send(m.readySince, float64(v.readySince))
	}
}

// Observe updates the metrics from a status that was written.
func (m *Metrics) Observe(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) {
	v := &values{
		stalled:     meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled),
		initialized: meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized),
		subsets:     make([]subsetValues, len(status.Subsets)),
	}
	for i := range status.Subsets {
		s := &status.Subsets[i]
		v.subsets[i] = subsetValues{
			name:      s.Name,
			replicas:  [...]int32{s.DesiredReplicas, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas},
			partition: s.Partition, restoring: s.Phase == v1alpha1.PhaseRestoring, released: releasedByName(parent, s),
		}
	}
	if status.Rollout != nil {
		for i := range status.Rollout.Checks {
			c := &status.Rollout.Checks[i]
			v.checks = append(v.checks, checkValue{c.Name, c.State == v1alpha1.CheckIsMet})
		}
	}
	if status.LastProgressTime != nil {
		v.lastProgress = status.LastProgressTime.Unix()
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		v.ready, v.reason, v.readySince = ready.Status == metav1.ConditionTrue, ready.Reason, ready.LastTransitionTime.Unix()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}] = v
}

// releasedByName reports whether the user has named a subset to release all of it. A subset that a RollingUpdate has
// released, or that nothing ever holds, because the default is 0, is not left over from a release.
func releasedByName(parent *v1alpha1.UnitedDeployment, s *v1alpha1.SubsetStatus) bool {
	return s.Partition == 0 && coordination.Applies(&parent.Spec.UpdateStrategy, s.Name, "").Named
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Unreadable sets the metric for a UnitedDeployment that cannot be decoded.
func (m *Metrics) Unreadable(parent *v1alpha1.UnitedDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cannotBeRead[types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}] = true
}

// Readable removes it.
func (m *Metrics) Readable(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.cannotBeRead, key)
}

// Forget removes the metrics of a UnitedDeployment that is gone.
func (m *Metrics) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	delete(m.cannotBeRead, key)
}
