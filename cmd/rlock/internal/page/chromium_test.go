package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// soon is how long a test waits for what should take less than a second: the machine may have other things to do.
const soon = 15 * time.Second

// chromium is the browser of all tests, which the first one of them starts. Each tab is a context.
var chromium struct {
	once sync.Once
	ctx  context.Context // nil means that there is none
	err  error
	end  func()
}

// endChromium ends the browser, if it was started.
func endChromium() {
	if chromium.end != nil {
		chromium.end()
	}
}

// browser returns the browser. Without one, it skips the test, or fails it if RLOCK_REQUIRE_CHROMIUM is 1.
func browser(tb testing.TB) context.Context {
	tb.Helper()
	chromium.once.Do(startChromium)
	require.NoError(tb, chromium.err)
	if chromium.ctx == nil {
		require.NotEqual(tb, "1", os.Getenv("RLOCK_REQUIRE_CHROMIUM"), "there is no chromium")
		tb.Skip("there is no chromium")
	}
	return chromium.ctx
}

func startChromium() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return
	}
	profile, err := os.MkdirTemp("", "rlock-page")
	if err != nil {
		chromium.err = err
		return
	}
	// Not chromedp's own defaults: they are for more than one platform, and change.
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.WindowSize(1360, 800),
		chromedp.WSURLReadTimeout(time.Minute), // its first start is slow
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "no-default-browser-check", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage", "disable-extensions", "mute-audio", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	// Chromium sends events that this chromedp does not know yet.
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	chromium.ctx, chromium.err = ctx, chromedp.Run(ctx)
	chromium.end = func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		end()
		_ = os.RemoveAll(profile)
	}
}

// tab is one page that is open.
type tab struct {
	testing.TB
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// open opens a page, which is closed with the test. Errors in the page fail the test, except those of the network.
func open(tb testing.TB, url string, before ...chromedp.Action) *tab {
	tb.Helper()
	ctx, cancel := chromedp.NewContext(browser(tb))
	p := &tab{TB: tb, ctx: ctx}
	chromedp.ListenTarget(ctx, func(e any) {
		text := ""
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			text = e.ExceptionDetails.Error()
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
				text = e.Entry.Text
			}
		}
		if text != "" {
			p.mu.Lock()
			p.errors = append(p.errors, text)
			p.mu.Unlock()
		}
	})
	tb.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.Empty(tb, p.errors, "errors in the page")
	})
	require.NoError(tb, chromedp.Run(ctx)) // a tab ends with the context that it was opened with
	p.run(append([]chromedp.Action{log.Enable()}, append(before, chromedp.Navigate(url))...)...)
	return p
}

func (p *tab) run(actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	require.NoError(p, chromedp.Run(ctx, actions...))
}

// get evaluates an expression.
func get[T any](p *tab, js string, args ...any) T {
	p.Helper()
	var v T
	p.run(chromedp.Evaluate(fmt.Sprintf(js, args...), &v))
	return v
}

// await waits until an expression is true, and returns how long that took.
func (p *tab) await(what, js string, args ...any) time.Duration {
	p.Helper()
	start := time.Now()
	redistest.EventuallyWithin(p, soon, what, func() bool { return get[bool](p, js, args...) })
	return time.Since(start)
}

// press presses keys, one after the other. What a key writes comes with its event: a page that handles it writes nothing.
func (p *tab) press(keys string) {
	p.Helper()
	for _, key := range keys {
		if key < ' ' || key > '~' { // a key without a character
			p.run(chromedp.KeyEvent(string(key)))
			continue
		}
		text := string(key)
		p.run(input.DispatchKeyEvent(input.KeyDown).WithKey(text).WithText(text), input.DispatchKeyEvent(input.KeyUp).WithKey(text))
	}
}

// click clicks on what a selector finds.
func (p *tab) click(selector string) {
	p.Helper()
	p.run(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// row waits for the row of a lock.
func (p *tab) row(name string) time.Duration {
	p.Helper()
	return p.await("the row "+name, rowOf+" !== undefined", name)
}

// rowOf finds the row of a lock, and cell one of its cells.
const (
	rowOf = `[...document.querySelectorAll("#rows tr")].find((tr) => tr.querySelector("a").textContent === %q)`
	cell  = rowOf + `?.cells[%d].textContent`
)

// live waits until the page shows what is in Redis.
func (p *tab) live() {
	p.Helper()
	p.await("live", `document.documentElement.dataset.state === "live"`)
}

func scheme(dark bool) chromedp.Action {
	value := "light"
	if dark {
		value = "dark"
	}
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}})
}

// shoot saves a picture of the page if RLOCK_SCREENSHOT is a directory.
func (p *tab) shoot(name string) {
	p.Helper()
	dir := os.Getenv("RLOCK_SCREENSHOT")
	if dir == "" {
		return
	}
	var png []byte
	p.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	require.NoError(p, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// keys that tests press.
const (
	escape    = kb.Escape
	enter     = kb.Enter
	arrowDown = kb.ArrowDown
)

// quoted is a text in a page's error messages and titles.
func quoted(text string) string { return "“" + strings.TrimSpace(text) + "”" }

// js is a text as a literal of the script.
func js(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}

// goTo follows a link within the page.
func goTo(hash string) chromedp.Action { return evaluate("location.hash = " + js(hash)) }

func evaluate(code string) chromedp.Action { return chromedp.Evaluate(code+"; undefined", nil) }
