package page

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// phone has a page believe that it is on a phone.
func phone() chromedp.Action { return emulation.SetDeviceMetricsOverride(390, 844, 2, true) }

// TestOnAPhone shows of each row what one wants to know, without scrolling to the side, and all rows.
func TestOnAPhone(t *testing.T) {
	f := newFake()
	for i := range 300 {
		row := held("orders:of-a-tenant-with-a-long-name:"+strings.Repeat("x", i), "one:1")
		row.Waiters = i
		row.Identity = &rlock.Identity{Service: "billing", Host: "billing-5d6b-9qk2r.cluster.internal", PID: 42}
		f.set(row)
	}
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL, phone())
	p.await("rows", `document.querySelectorAll("#rows tr").length > 5`)
	const inside = `(() => {
		const box = document.querySelector("#scroll").getBoundingClientRect();
		return [...document.querySelectorAll("#rows tr")].every((tr) => [0, 2, 4, 5].every((i) => {
			const r = tr.cells[i].getBoundingClientRect(), row = tr.getBoundingClientRect();
			return r.width > 20 && r.height > 8 && r.left >= box.left && r.right <= box.right + 0.5 && r.top >= row.top - 0.5 && r.bottom <= row.bottom + 0.5 && tr.cells[i].textContent.trim() !== "";
		}));
	})()`
	assert.True(t, get[bool](p, inside), "name, holder, lease and waiting are in sight")
	assert.LessOrEqual(t, get[float64](p, `document.querySelector("#scroll").scrollWidth - document.querySelector("#scroll").clientWidth`), 0.0)
	assert.LessOrEqual(t, get[float64](p, `document.documentElement.scrollWidth - innerWidth`), 0.0, "nothing sticks out")
	assert.Equal(t, "299", get[string](p, `document.querySelector("#rows tr").cells[5].textContent`), "the one with the most waiters is first")
	p.run(evaluate(`document.querySelector("#scroll").scrollTop = 1e9`))
	p.await("the last row", `(() => {
		const tr = [...document.querySelectorAll("#rows tr")].at(-1), box = document.querySelector("#scroll").getBoundingClientRect();
		return tr.cells[5].textContent === "0" && Math.abs(tr.getBoundingClientRect().bottom - box.bottom) < 40;
	})()`)
	p.run(chromedp.Evaluate(`document.querySelector("#sort").value = "name"; document.querySelector("#sort").dispatchEvent(new Event("change")); undefined`, nil))
	p.await("sorted by name", `sorted[0].waiters === 0`)
	p.run(evaluate(`document.querySelector("#scroll").scrollTop = 0`))
	p.await("the first row", `document.querySelector("#rows tr").row === sorted[0] && asked === false`)
	p.click("#rows a")
	p.await("its page", `!document.querySelector("#one").hidden && document.querySelectorAll("#holders li").length === 1`)
	assert.LessOrEqual(t, get[float64](p, `document.querySelector("#one").scrollWidth - innerWidth`), 0.0, "nothing sticks out")
	p.run(emulation.SetDeviceMetricsOverride(1280, 720, 1, false))
	p.press(escape)
	p.await("a table again", `document.querySelector("#rows tr").getBoundingClientRect().height < 40`)
}

// TestWhatMattersComesFirst sorts the rows anew while they are shown, and leaves the focus where it is.
func TestWhatMattersComesFirst(t *testing.T) {
	rows := func(first ...string) string {
		return `[...document.querySelectorAll("#rows a")].map((a) => a.textContent).join() === "` + strings.Join(first, ",") + `"`
	}
	waited, long, short := held("c-waited", "one:1"), held("b-long", "one:1"), held("d-short", "one:1")
	waited.Waiters, long.Lease, short.Lease = 1, time.Hour, 20*time.Second
	more := held("e-waited-more", "one:1")
	more.Waiters = 7
	f := newFake(held("a", "one:1"), waited, long, short, more)
	f.set(catalog.Row{Name: "a", Kind: catalog.Lock, Holder: "one:1", Client: "one", Holders: 1, Lease: time.Hour})
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL)
	p.await("those with waiters first", "%s", rows("e-waited-more", "c-waited", "a", "b-long", "d-short"))
	p.press(arrowDown)
	p.press(arrowDown + arrowDown)
	p.await("a row has the focus", `document.activeElement.textContent === "a"`)
	p.await("then what is about to expire", "%s", rows("e-waited-more", "c-waited", "d-short", "a", "b-long"))
	assert.Equal(t, "a", get[string](p, `document.activeElement.textContent`), "the focus stays where it is")
	long.Waiters = 100
	f.set(long)
	p.await("who comes to be waited for moves up", "%s", rows("b-long", "e-waited-more", "c-waited", "d-short", "a"))
	assert.Equal(t, "a", get[string](p, `document.activeElement.textContent`), "the focus stays where it is")
	assert.Equal(t, "attention", get[string](p, `document.querySelector("#sort").value`))
	p.click("#heads .c-name button")
	p.await("sorted by name", "%s", rows("a", "b-long", "c-waited", "d-short", "e-waited-more"))
	assert.Equal(t, "name", get[string](p, `document.querySelector("#sort").value`))
}

// ticks waits until the clocks of a page would have gone on for more than a second.
func (p *tab) ticks() {
	p.Helper()
	p.run(evaluate(`{ window.ticks = 0; const timer = setInterval(() => { if (++ticks === 8) clearInterval(timer); }, 250); }`))
	p.await("time passes", `ticks === 8`)
}

// TestTimesStopWhileNothingIsRead shows what was known last, says so, and frees nothing.
func TestTimesStopWhileNothingIsRead(t *testing.T) {
	const times = `[...document.querySelectorAll("#rows .time, #rows .lease span, #holders .sub, #holders .lease span, #waiters .sub, #log td")].map((n) => n.textContent).join("|")`
	for name, of := range map[string]struct {
		open     func(p *tab)
		disabled string // what frees
		marked   string // what says that the times are old
	}{
		"": {func(*tab) {}, "", "#count"},
		"orders": {func(p *tab) {
			p.click("#free")
			assert.False(t, get[bool](p, `document.querySelector("#do-free").disabled`))
		}, "#free, #do-free", "#stale"},
		"slots": {func(p *tab) { p.await("the permit", `document.querySelector("#holders button")?.disabled === false`) }, "#holders button", "#stale"},
	} {
		t.Run(name, func(t *testing.T) {
			row := held("orders", "one:1")
			row.Waiters = 1
			f := newFake(row, catalog.Row{Name: "slots", Kind: catalog.Semaphore, Holder: "permit-1", Holders: 1, Lease: time.Minute, Free: 3})
			s, ts := serve(t, f, Options{AllowFree: true, Token: "secret"})
			p := open(t, ts.URL+"/"+secret)
			p.row("orders")
			if name != "" {
				p.run(goTo("#/lock/" + idOf(name)))
			}
			p.await("times", times+` !== ""`)
			of.open(p)
			disabled := func() bool {
				return of.disabled == "" || get[bool](p, `[...document.querySelectorAll("%s")].every((b) => b.disabled && !b.hidden)`, of.disabled)
			}
			stand := func(state string) {
				p.await(state, `document.documentElement.dataset.state === %q && asked === false`, state)
				before := get[string](p, times)
				p.ticks()
				assert.Equal(t, before, get[string](p, times), "times do not count")
				assert.Regexp(t, `(as of|since) \d`, get[string](p, `document.querySelector("%s").textContent.toLowerCase()`, of.marked))
				assert.True(t, disabled())
			}
			f.fail(errAway)
			stand("stale")
			before := get[string](p, times)
			f.fail(nil)
			p.live()
			assert.True(t, of.disabled == "" || !disabled())
			p.await("times count again", "%s", times+` !== `+js(before))
			s.Close()
			stand("away")
		})
	}
}

// TestALinkToALock is one that a person can write.
func TestALinkToALock(t *testing.T) {
	names := []string{"orders:42", "a/b?c#d%e&f", "größe", "{tag}:x", "~odd", "two words", `"<>'`, "\xff\x00", "%41", "~" + strings.Repeat("x", 27)}
	f := newFake()
	for _, name := range names {
		f.set(held(name, "one:1"))
	}
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL+"/#/lock/orders:42")
	p.await("the lock", `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === "orders:42"`)
	for hash, name := range map[string]string{
		"orders%3a42": "orders:42", "größe": "größe", "gr%c3%b6%C3%9Fe": "größe", "{tag}:x": "{tag}:x", "two words": "two words", "~odd": "~odd", "%2541": "%41",
		"orders:%34%32": "orders:42",
	} {
		p.run(goTo("#/lock/" + hash))
		p.await(hash, `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === %s`, js(name))
	}
	for _, name := range names {
		p.run(goTo("#/"))
		p.row(printable(name))
		p.run(evaluate(rowCall(name, `.querySelector("a").click()`)))
		p.await(name, `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === %s`, js(printable(name)))
		p.run(chromedp.Reload()) // as who follows a link to it
		p.await(name, `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === %s`, js(printable(name)))
	}
}

func rowCall(name, call string) string {
	return `[...document.querySelectorAll("#rows tr")].find((tr) => tr.querySelector("a").textContent === ` + js(printable(name)) + `)` + call
}

// TestKeyboardAlone finds a lock, looks at it, frees it and goes back, sorts and filters, without a pointer.
func TestKeyboardAlone(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	one := f.client("billing", "node-1", 42)
	f.take(one.NewLock("orders:1"))
	f.take(one.NewLock("orders:2"))
	p := open(t, f.url+secret)
	p.row("orders:2")
	tabTo := func(what string) {
		t.Helper()
		for range 30 {
			p.press(kb.Tab)
			if get[bool](p, "%s", what) {
				assert.True(t, get[bool](p, `document.activeElement.matches(":focus-visible")`), what)
				return
			}
		}
		require.Fail(t, "Tab does not lead there", what)
	}
	tabTo(`document.activeElement.id === "q"`)
	tabTo(`document.activeElement.id === "sort"`)
	p.press("n") // a letter chooses
	p.await("sorted by name", `document.querySelector("#sort").value === "name" && document.querySelector(".c-name").getAttribute("aria-sort") === "ascending"`)
	tabTo(`document.activeElement.closest("th.c-name") !== null`)
	p.press(enter)
	p.await("the other way round", `document.querySelector("#rows a").textContent === "orders:2"`)
	tabTo(`document.activeElement.textContent === "orders:1"`)
	p.press(enter)
	p.await("its page", `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === "orders:1"`)
	assert.Equal(t, "name", get[string](p, `document.activeElement.id`))
	tabTo(`document.activeElement.id === "free"`)
	p.press(enter)
	p.await("the question", `document.querySelector("#confirm").open && document.activeElement.id === "cancel"`)
	p.press(kb.Tab)
	assert.Equal(t, "do-free", get[string](p, `document.activeElement.id`))
	p.press(enter)
	p.await("freed", `document.querySelector("#result").textContent.includes("was freed")`)
	p.press(escape)
	p.await("back", `!document.querySelector("#list").hidden`)
	p.await("it is gone", rowOf+` === undefined`, "orders:1")
}
