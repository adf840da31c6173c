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
)

// Metrics exports the status of every UnitedDeployment to Prometheus.
type Metrics struct {
	replicas     *prometheus.GaugeVec
	partition    *prometheus.GaugeVec
	lastProgress *prometheus.GaugeVec
	stalled      *prometheus.GaugeVec
	ready        *prometheus.GaugeVec
	readySince   *prometheus.GaugeVec
	initialized  *prometheus.GaugeVec
	restoring    *prometheus.GaugeVec
	released     *prometheus.GaugeVec
	unreadable   *prometheus.GaugeVec
	check        *prometheus.GaugeVec

	mu sync.Mutex
	// reasons are those of the series of ready, by UnitedDeployment. When a reason changes, its series
	// must go, and finding it by the other labels alone would go through all series.
	reasons map[types.NamespacedName]string
}

// NewMetrics registers the metrics. It panics if they are already registered there, as MustRegister does.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "united", Name: name, Help: help},
			append([]string{"namespace", "name"}, labels...))
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
		reasons:      map[types.NamespacedName]string{},
		unreadable:   gauge("unreadable", "1 while the object cannot be decoded; United leaves it unchanged."),
	}
	for _, vec := range m.vectors() {
		registry.MustRegister(vec)
	}
	return m
}

func (m *Metrics) vectors() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.replicas, m.partition, m.lastProgress, m.stalled, m.ready, m.readySince, m.initialized, m.restoring, m.released, m.unreadable, m.check}
}

// Observe updates the metrics from a status that was written.
func (m *Metrics) Observe(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) {
	namespace, name := parent.Namespace, parent.Name
	kept := map[string]bool{}
	for _, s := range status.Subsets {
		kept[s.Name] = true
		for state, value := range map[string]int32{
			"desired": s.DesiredReplicas, "existing": s.Replicas, "ready": s.ReadyReplicas,
			"available": s.AvailableReplicas, "updated": s.UpdatedReplicas, "updated_ready": s.UpdatedReadyReplicas,
		} {
			m.replicas.WithLabelValues(namespace, name, s.Name, state).Set(float64(value))
		}
		m.partition.WithLabelValues(namespace, name, s.Name).Set(float64(s.Partition))
		m.restoring.WithLabelValues(namespace, name, s.Name).Set(oneIf(s.Phase == v1alpha1.PhaseRestoring))
		m.released.WithLabelValues(namespace, name, s.Name).Set(oneIf(releasedByName(parent, &s)))
	}
	for _, s := range parent.Status.Subsets {
		if !kept[s.Name] {
			gone := prometheus.Labels{"namespace": namespace, "name": name, "subset": s.Name}
			m.replicas.DeletePartialMatch(gone)
			m.partition.DeletePartialMatch(gone)
			m.restoring.DeletePartialMatch(gone)
			m.released.DeletePartialMatch(gone)
		}
	}
	m.observeChecks(parent, status)
	if status.LastProgressTime != nil {
		m.lastProgress.WithLabelValues(namespace, name).Set(float64(status.LastProgressTime.Unix()))
	}
	m.stalled.WithLabelValues(namespace, name).Set(oneIf(meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)))
	m.initialized.WithLabelValues(namespace, name).Set(oneIf(meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized)))
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		m.setReady(types.NamespacedName{Namespace: namespace, Name: name}, ready)
		m.readySince.WithLabelValues(namespace, name).Set(float64(ready.LastTransitionTime.Unix()))
	}
}

func (m *Metrics) observeChecks(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) {
	if before := parent.Status.Rollout; before != nil {
		for i := range before.Checks {
			m.check.DeleteLabelValues(parent.Namespace, parent.Name, before.Checks[i].Name)
		}
	}
	if status.Rollout != nil {
		for i := range status.Rollout.Checks {
			c := &status.Rollout.Checks[i]
			m.check.WithLabelValues(parent.Namespace, parent.Name, c.Name).Set(oneIf(c.State == v1alpha1.CheckIsMet))
		}
	}
}

// releasedByName reports whether the user has named a subset to release all of it. A subset that a RollingUpdate has
// released, or that nothing ever holds, because the default is 0, is not left over from a release.
func releasedByName(parent *v1alpha1.UnitedDeployment, s *v1alpha1.SubsetStatus) bool {
	strategy := parent.Spec.UpdateStrategy
	if strategy.Type == v1alpha1.RollingUpdateStrategy || strategy.ManualUpdate == nil || s.Partition > 0 {
		return false
	}
	_, named := strategy.ManualUpdate.Partitions[s.Name]
	return named
}

// setReady keeps one series for each UnitedDeployment: that of its current reason.
func (m *Metrics) setReady(key types.NamespacedName, ready *metav1.Condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, found := m.reasons[key]; found && old != ready.Reason {
		m.ready.DeleteLabelValues(key.Namespace, key.Name, old)
	}
	m.reasons[key] = ready.Reason
	m.ready.WithLabelValues(key.Namespace, key.Name, ready.Reason).Set(oneIf(ready.Status == metav1.ConditionTrue))
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Unreadable sets the metric for a UnitedDeployment that cannot be decoded.
func (m *Metrics) Unreadable(parent *v1alpha1.UnitedDeployment) {
	m.unreadable.WithLabelValues(parent.Namespace, parent.Name).Set(1)
}

// Readable removes it.
func (m *Metrics) Readable(key types.NamespacedName) {
	m.unreadable.DeleteLabelValues(key.Namespace, key.Name)
}

// Forget removes the metrics of a UnitedDeployment that is gone.
func (m *Metrics) Forget(key types.NamespacedName) {
	gone := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
	for _, vec := range m.vectors() {
		vec.DeletePartialMatch(gone)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reasons, key)
}
