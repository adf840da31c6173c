// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestDeploymentChecked: a Deployment that is being replaced goes on by itself, so a check that is not met stops it where it is.
func TestDeploymentChecked(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(`{maxUnavailable: 1, checks: [`+cluster.Check("mysql")+`]}`))
	w.ComesTo("3 v1", "3 v1", "")
	ledger := w.Ledger(6)
	w.SetImages("slow2")
	begins(w, "zone-a", "slow2")
	cluster.Set(metav1.ConditionFalse, "Failover")
	w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql")
	awaitPaused(w, "zone-a", true)
	still := e.History.Forbid(AnyNewPod)
	w.Eventually(func() int32 { return w.Parent().Status.ReadyReplicas }).Should(BeEquivalentTo(6), "what has begun ends")
	still.Holds()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w.ComesTo("3 slow2", "3 slow2", "")
	ledger.Within(1)
	still.Fires()
}
