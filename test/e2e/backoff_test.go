// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wakeBackedOff makes kube-controller-manager sync StatefulSets that it has left in its backoff. While its caches lag
// behind its own writes, each event of a StatefulSet or its pods is one more failed sync of that name, and doubles the
// wait: after 15 failures it is minutes. Two errors end such a sync. With 1.37, the caches "are not as new as" what was
// written. And when ControllerRevisions were just adopted, an update of one of them with its earlier resourceVersion
// fails, which is reported as "resource name may not be empty" (the retry uses the empty answer). Usually an event ends
// the wait. But after a StatefulSet was deleted and recreated, the last event can be one of a pod that still refers to
// the earlier UID, or of a ControllerRevision, for which nothing is synced. United can only wait for that, like for any
// other controller that is away. A StatefulSet is woken only if its last sync failed; if it then fails for a reason that
// lasts, it stays unobserved, and the test fails. The map has, for each generation of a StatefulSet, when it was first
// seen unobserved.
func (w *Workload) wakeBackedOff(g Gomega, unobserved map[string]time.Time) {
	list := &appsv1.StatefulSetList{}
	g.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	for i := range list.Items {
		set := &list.Items[i]
		if set.DeletionTimestamp != nil || set.Status.ObservedGeneration == set.Generation {
			continue
		}
		id := fmt.Sprintf("%s/%d", set.UID, set.Generation)
		since, seen := unobserved[id]
		if !seen {
			unobserved[id] = time.Now()
			continue
		}
		if time.Since(since) < 20*time.Second {
			continue
		}
		log, err := os.ReadFile(w.cluster.LogPath("kube-controller-manager"))
		g.Expect(err).NotTo(HaveOccurred())
		line := lastSyncError(log, set.Namespace+"/"+set.Name)
		if line == "" {
			continue
		}
		w.t.Logf("waking %s, which kube-controller-manager has in its backoff: %s", set.Name, line)
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.united.dev/woken":%q}}}`, time.Now().Format(time.RFC3339))
		g.Expect(w.Client.Patch(w.ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		unobserved[id] = time.Now()
	}
}

// lastSyncError returns the last line of kube-controller-manager's log that says that it failed to sync the
// StatefulSet with this key, or "".
func lastSyncError(log []byte, key string) string {
	last := ""
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("Error syncing StatefulSet")) && bytes.Contains(line, []byte(`key="`+key+`"`)) {
			last = strings.TrimSpace(string(line))
		}
	}
	return last
}

func TestLastSyncError(t *testing.T) {
	t.Parallel()
	const log = `E1124 16:49:04.442913 3911 stateful_set.go:509] "Error syncing StatefulSet, requeuing" err="read version: 404 is not as new as written version: 414 for group resource statefulsets.apps" logger="UnhandledError" key="ns/web-zone-a"
E1124 16:49:05.493816 3911 stateful_set.go:509] "Error syncing StatefulSet, requeuing" err="resource name may not be empty" logger="UnhandledError" key="ns/web-zone-b"
I1124 16:49:06.493816 3911 stateful_set.go:600] "StatefulSet has been deleted" key="ns/web-zone-a"
`
	g := NewWithT(t)
	g.Expect(lastSyncError([]byte(log), "ns/web-zone-a")).To(And(HavePrefix("E1124 16:49:04"), ContainSubstring("is not as new as written version")))
	g.Expect(lastSyncError([]byte(log), "ns/web-zone-b")).To(And(HavePrefix("E1124 16:49:05"), ContainSubstring("resource name may not be empty")))
	g.Expect(lastSyncError([]byte(log), "ns/web-zone")).To(BeEmpty())
}
