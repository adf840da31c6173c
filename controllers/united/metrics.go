// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Metrics exports the status of every UnitedDeployment to Prometheus.
type Metrics struct {
	replicas     *prometheus.GaugeVec
	partition    *prometheus.GaugeVec
	lastProgress *prometheus.GaugeVec
	stalled      *prometheus.GaugeVec
	unreadable   *prometheus.GaugeVec
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
		unreadable:   gauge("unreadable", "1 while the object cannot be decoded; United leaves it unchanged."),
	}
	registry.MustRegister(m.replicas, m.partition, m.lastProgress, m.stalled, m.unreadable)
	return m
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
	}
	for _, s := range parent.Status.Subsets {
		if !kept[s.Name] {
			gone := prometheus.Labels{"namespace": namespace, "name": name, "subset": s.Name}
			m.replicas.DeletePartialMatch(gone)
			m.partition.DeletePartialMatch(gone)
		}
	}
	if status.LastProgressTime != nil {
		m.lastProgress.WithLabelValues(namespace, name).Set(float64(status.LastProgressTime.Unix()))
	}
	stalled := 0.0
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled) {
		stalled = 1
	}
	m.stalled.WithLabelValues(namespace, name).Set(stalled)
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
	for _, vec := range []*prometheus.GaugeVec{m.replicas, m.partition, m.lastProgress, m.stalled, m.unreadable} {
		vec.DeletePartialMatch(gone)
	}
}
