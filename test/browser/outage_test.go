// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestOutage checks that the page says when the API server does not answer, and is live again after it came back.
func TestOutage(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	server, err := url.Parse(e.Cluster.Config().Host)
	e.Expect(err).NotTo(HaveOccurred())
	way := &way{to: server.Host}
	port, err := e.Cluster.FreePort() // no connection takes it while it is closed
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(way.open(fmt.Sprint("127.0.0.1:", port))).To(Succeed())
	t.Cleanup(way.close)
	p := open(e, dashboard(e, "--server=https://"+way.at)+"o/"+e.Namespace+"/web")
	p.shows(".headline", ContainSubstring("RolloutComplete"))
	way.close()
	p.shows("#live > .banner", ContainSubstring("The API server cannot be asked since "))
	p.Expect(js[int](p, `document.querySelectorAll(".cell").length`)).To(Equal(2), "what was seen last stays")
	p.accessible()
	p.click("#do-pause")
	p.shows("#said [role=alert]", ContainSubstring("connection refused"))
	w.SetImage("v2") // meanwhile
	e.Expect(way.open(way.at)).To(Succeed())
	p.shows("#live", Not(ContainSubstring("The API server cannot be asked")))
	p.shows(".headline", ContainSubstring("RolloutHeld"))
	p.shows(".facts", ContainSubstring("web:v2"))
	e.Expect(e.Cluster.RestartAPIServer(e.Ctx)).To(Succeed())
	e.ReviveManager()
	w.SetImage("v3") // also after a short outage, of which the page may have noticed nothing
	p.shows(".facts", ContainSubstring("web:v3"))
}

// way is the way to a server, which can be closed.
type way struct {
	to, at string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

// open opens the way at an address.
func (w *way) open(at string) error {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener, w.at = listener, listener.Addr().String()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", w.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, from, to)
			w.mu.Unlock()
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return nil
}

// close closes the way, and what goes on on it.
func (w *way) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.listener.Close()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// each is how many replicas each of the many subsets has: more than the page shows one by one. That 10,000 pods come up takes
// a small machine five to ten minutes.
var each = flag.Int("each", 25, "how many replicas each of the 100 subsets of TestMany has; make test-nightly: 100")

// TestMany checks that 100 subsets with many replicas can be used, and stay live.
func TestMany(t *testing.T) {
	e := NewPlaneOf(t).NewEnv(t)
	edits := []Edit{Replicas(int32(100 * *each)), Policy(appsv1.ParallelPodManagement), Hold()}
	for i := range 100 {
		edits = append(edits, fixtures.OnAnyNode(fmt.Sprintf("zone-%02d", i), ""))
	}
	w := e.Create(NewDraft("web", edits...))
	p := open(e, dashboard(e)+"o/"+e.Namespace+"/web")
	p.shows(".headline", Not(BeEmpty()))
	p.Eventually(func() string { return p.text(".headline") }, 10*time.Minute, time.Second).Should(ContainSubstring(fmt.Sprintf("%[1]d of %[1]d replicas", 100**each)))
	p.Expect(js[int](p, `document.querySelectorAll(".zone").length`)).To(Equal(100))
	p.Expect(js[int](p, `document.querySelectorAll(".cell").length`)).To(BeNumerically("<", 1000), "replicas that are alike are one cell")
	w.SetImage("v2")
	p.shows(".headline", ContainSubstring("RolloutHeld"))
	p.types("#partition-zone-42", kb.End+kb.Backspace+kb.Backspace+kb.Backspace+strconv.Itoa(*each-3))
	p.click("#do-partition-zone-42")
	p.shows("#sheet .plan", ContainSubstring("restart 3"))
	p.click("#apply")
	p.shows("#zone-zone-42 .count", ContainSubstring(fmt.Sprintf("3 updated, %d protected", *each-3)))
	p.accessible()
	p.photo("many")
}
