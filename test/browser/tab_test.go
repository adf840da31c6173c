// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

//go:embed testdata/axe.min.js
var axe string

// dashboard runs kubectl united dashboard until the test ends, and returns its address.
func dashboard(e *Env, args ...string) string {
	e.T.Helper()
	bin, err := cluster.BinDir()
	e.Expect(err).NotTo(HaveOccurred())
	args = append([]string{"dashboard", "--kubeconfig=" + e.Cluster.Kubeconfig(), "-n", e.Namespace, "--cache-dir=" + filepath.Join(e.T.TempDir(), "cache")}, args...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.Ctx)) // it ends after the tabs
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl-united"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(cmd.Start()).To(Succeed())
	e.T.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, found := strings.Cut(lines.Text(), " is at "); found {
			return url
		}
	}
	e.T.Fatal("the dashboard has not printed its address")
	return ""
}

// tab is a page in Chromium. The test fails if anything is an error on its console.
type tab struct {
	*Env
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// open opens a page in a Chromium of its own.
func open(e *Env, url string) *tab {
	e.T.Helper()
	ctx, cancel := chromedp.NewContext(context.WithoutCancel(e.Ctx), chromedp.WithAllocatorOptions(
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(e.T.TempDir()), chromedp.WSURLReadTimeout(WaitTimeout),
	))
	t := &tab{Env: e, ctx: ctx}
	console := chromedp.Console(ctx)
	go func() {
		for message, err := range console {
			if err == nil && (message.Type == chromedp.ConsoleError || message.IsException()) {
				t.mu.Lock()
				t.errors = append(t.errors, message.String()+" "+message.URL)
				t.mu.Unlock()
			}
		}
	}()
	e.T.Cleanup(func() {
		cancel()
		e.Expect(t.console()).To(BeEmpty(), "errors on the console")
	})
	t.size(1280, "light")
	t.do(chromedp.Navigate(url))
	return t
}

func (t *tab) console() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.errors...)
}

// size sets the width and the color scheme.
func (t *tab) size(width int64, scheme string) {
	t.T.Helper()
	t.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.T.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, WaitTimeout)
	defer cancel()
	t.Expect(chromedp.Do(ctx, steps...)).To(Succeed())
}

// js evaluates an expression.
func js[T any](t *tab, format string, args ...any) T {
	t.T.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, WaitTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	t.Expect(err).NotTo(HaveOccurred(), format, args)
	return value
}

// text returns the text of an element as it is read out; "" if it is not there.
func (t *tab) text(selector string) string {
	t.T.Helper()
	return js[string](t, `(document.querySelector(%q)?.textContent ?? "").replace(/\s+/g, " ").trim()`, selector)
}

// shows waits until an element has a text.
func (t *tab) shows(selector string, matches types.GomegaMatcher) {
	t.T.Helper()
	t.Eventually(func() string { return t.text(selector) }, WaitTimeout, Interval).Should(matches, selector)
}

// click waits until there is an element that can be clicked, and clicks it.
func (t *tab) click(selector string) {
	t.T.Helper()
	t.do(chromedp.Click(chromedp.CSS(selector)))
}

// types writes on the keyboard, where the focus is.
func (t *tab) types(selector, keys string) {
	t.T.Helper()
	t.do(chromedp.SendKeys(chromedp.CSS(selector), keys))
}

// accessible runs axe-core.
func (t *tab) accessible() {
	t.T.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			t.size(width, scheme)
			t.Eventually(func() bool { return js[bool](t, `document.getAnimations().length === 0`) }, WaitTimeout, Interval).Should(BeTrue())
			found := t.axe()
			t.Expect(found).To(BeEmpty(), "%s, %d", scheme, width)
			t.Expect(js[int](t, `document.documentElement.scrollWidth - innerWidth`)).To(BeNumerically("<=", 0), "the page scrolls sideways at %d", width)
		}
	}
	t.size(1280, "light")
}

// axe returns what axe-core finds that is serious.
func (t *tab) axe() []string {
	t.T.Helper()
	_ = js[bool](t, "%s; true", axe)
	raw := js[string](t, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.any.map((a) => a.message).join("; ")).join(" | "))))`)
	var found []string
	t.Expect(json.Unmarshal([]byte(raw), &found)).To(Succeed())
	return found
}

// photo writes a screenshot of the whole page into the directory UNITED_SCREENSHOTS, if that is set.
func (t *tab) photo(name string) {
	t.T.Helper()
	dir := os.Getenv("UNITED_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			t.size(width, scheme)
			t.Eventually(func() bool { return js[bool](t, `document.getAnimations().length === 0`) }, WaitTimeout, Interval).Should(BeTrue())
			ctx, cancel := context.WithTimeout(t.ctx, time.Minute)
			png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			cancel()
			t.Expect(err).NotTo(HaveOccurred())
			t.Expect(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o600)).To(Succeed())
		}
	}
	t.size(1280, "light")
}
