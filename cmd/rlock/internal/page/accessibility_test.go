package page

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// axe returns what axe-core has against the page as it is, if it is serious or critical.
func (p *tab) axe() (serious []string) {
	p.Helper()
	source, err := os.ReadFile("testdata/axe/axe.min.js")
	require.NoError(p, err)
	var report string
	p.run(chromedp.Evaluate(string(source)+"; undefined", nil), chromedp.Evaluate(
		`axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify({ passes: r.passes.length, violations: r.violations }))`, &report,
		func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	var found struct {
		Passes     int
		Violations []violation
	}
	require.NoError(p, json.Unmarshal([]byte(report), &found))
	require.Greater(p, found.Passes, 10, "otherwise it has looked at nothing")
	for _, v := range found.Violations {
		if v.Impact != "serious" && v.Impact != "critical" {
			p.Logf("%s (%s): %s", v.ID, v.Impact, v.Help)
			continue
		}
		for _, n := range v.Nodes {
			serious = append(serious, fmt.Sprintf("%s (%s): %s\n%s\n%s", v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary))
		}
	}
	return serious
}

// variety has a lock of each look.
func variety() *fake {
	f := newFake()
	for i := range 40 {
		f.set(held(fmt.Sprint("orders:", i), "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:1"))
	}
	row := held("invoices", "one:1")
	row.Kind, row.Waiters = catalog.Fair, 30
	row.Identity = &rlock.Identity{Service: "billing", Host: "node-1", PID: 42}
	f.set(row)
	row = held("prices", "one:1")
	row.Kind, row.Mode, row.Holders = catalog.Read, "read", 3
	f.set(row)
	row = held("forever", "one:1")
	row.Lease = -1
	f.set(row)
	f.set(
		catalog.Row{Name: "slots", Kind: catalog.Semaphore, Holder: "permit-1", Holders: 1, Lease: time.Minute, Free: 3},
		catalog.Row{Name: "soon over", Kind: catalog.Lock, Holder: "two:1", Client: "two", Holders: 1, Lease: 0},
	)
	return f
}

// TestAccessibility has axe-core look at each view, in light and dark, on a desktop and on a phone.
func TestAccessibility(t *testing.T) {
	for _, dark := range []bool{false, true} {
		for _, small := range []bool{false, true} {
			t.Run(fmt.Sprintf("dark=%v,phone=%v", dark, small), func(t *testing.T) {
				f := variety()
				s, ts := serve(t, f, Options{AllowFree: true, Token: "secret", Where: "redis.example:6379"})
				var size chromedp.Action = emulation.SetDeviceMetricsOverride(1280, 720, 1, false)
				if small {
					size = phone()
				}
				p := open(t, ts.URL+"/"+secret, size,
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
						{Name: "prefers-color-scheme", Value: map[bool]string{false: "light", true: "dark"}[dark]},
						{Name: "prefers-reduced-motion", Value: "reduce"}, // a color on its way to another one is none of the page's
					}))
				check := func(view string) {
					t.Helper()
					p.shoot(fmt.Sprintf("dark=%v,phone=%v,%s", dark, small, view))
					for _, serious := range p.axe() {
						assert.Fail(t, view+": "+serious)
					}
				}
				p.await("a lease that is low", `all.size === 45 && document.querySelector("#rows .lease.low") !== null && document.querySelector("#rows .lease.forever") !== null`)
				check("the table")
				p.press(arrowDown)
				check("a row that has the focus")
				p.press("/nothing like that")
				p.await("nothing", `!document.querySelector("#empty").hidden`)
				check("no match")
				p.press(escape)
				for _, name := range []string{"invoices", "slots", "gone"} {
					p.run(goTo("#/lock/" + idOf(name)))
					p.await("its page", `lock !== null && lock.read === true && document.querySelector("#name").textContent === %q`, name)
					check(name)
				}
				p.run(goTo("#/lock/" + idOf("invoices")))
				p.click("#free")
				p.await("the question", `document.querySelector("#confirm").open`)
				check("the question")
				p.click("#do-free")
				p.await("freed", `!document.querySelector("#result").hidden && !document.querySelector("#confirm").open`)
				check("freed")
				f.fail(errAway)
				p.await("stale", `document.documentElement.dataset.state === "stale"`)
				check("a lock that is stale")
				p.run(goTo("#/"))
				p.await("stale", `document.documentElement.dataset.state === "stale" && document.querySelector("#count").textContent.includes("as of")`)
				check("a table that is stale")
				s.all.state.apply(nil, look{total: 7000, begun: time.Now(), ended: time.Now()})
				p.await("a note", `!document.querySelector("#cut").hidden`)
				check("more than are shown")
			})
		}
	}
}

// TestAxeHasItsLicense is for who changes its version.
func TestAxeHasItsLicense(t *testing.T) {
	for file, says := range map[string]string{"axe.min.js": "Mozilla Public", "LICENSE": "Mozilla Public License, version 2.0", "README.md": "axe-core 4.14.1"} {
		text, err := os.ReadFile("testdata/axe/" + file)
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(text), says), file)
	}
}
