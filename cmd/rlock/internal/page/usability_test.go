package page

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/cmd/rlock/internal/demo"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestHTMLInNames(t *testing.T) {
	const evil = `<img src=x onerror="window.broken=1"><b>bold</b>`
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	names := []string{evil, "\xff\xfe\x00", "turned\u202earound", strings.Repeat("long", 16<<10), `"><script>window.broken=1</script>`}
	for _, name := range names {
		f.take(f.client(evil, evil, 1).NewLock(name))
	}
	p := open(t, f.url+secret)
	p.row(evil)
	p.row(`\xff\xfe\x00`)
	p.row(`turned\u202earound`)
	p.row(strings.Repeat("long", 50) + "…")
	assert.Equal(t, printable(evil+"@"+evil+" (pid 1)"), get[string](p, cell, evil, 2))
	assert.Zero(t, get[int](p, `document.querySelectorAll("main img, main b b, main script").length`))
	assert.LessOrEqual(t, get[float64](p, `document.documentElement.scrollWidth - innerWidth`), 0.0, "nothing sticks out")
	for _, name := range names {
		p.run(goTo("#/lock/" + idOf(name)))
		p.await("the holder", `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#name").textContent === %s`, js(printable(name)))
		assert.LessOrEqual(t, get[float64](p, `document.querySelector("#one").scrollWidth - innerWidth`), 0.0, "nothing sticks out")
	}
	p.run(goTo("#/lock/" + idOf(names[3])))
	p.await("the holder", `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#facts").textContent.includes("65,536 bytes")`)
	p.click("#free")
	p.click("#do-free")
	p.await("freed", `document.querySelector("#result").textContent.includes("was freed")`)
	assert.True(t, get[bool](p, `window.broken === undefined`))
}

func TestKeyboard(t *testing.T) {
	f := newFixture(t, Options{})
	for i := range 5 {
		f.take(f.client("billing", fmt.Sprint("node-", i), 42).NewLock(fmt.Sprint("orders:", i)))
	}
	f.take(f.client("shipping", "node-9", 42).NewLock("parcels"))
	p := open(t, f.url)
	p.row("parcels")
	const rows = `[...document.querySelectorAll("#rows a")].map((a) => a.textContent).join() === %q`
	p.press("/")
	p.await("the search", `document.activeElement.id === "q"`)
	assert.Empty(t, get[string](p, `document.querySelector("#q").value`))
	p.press("shipp")
	p.await("found by holder", rows, "parcels")
	p.press(escape)
	p.await("all of them", `document.querySelectorAll("#rows tr").length === 6`)
	p.press("ORDERS:3")
	p.await("found by name", rows, "orders:3")
	p.press(escape)
	p.press(arrowDown)
	p.await("the first row", `document.activeElement.textContent === "orders:0"`)
	p.press(arrowDown)
	p.await("the second row", `document.activeElement.textContent === "orders:1"`)
	assert.NotEqual(t, "none", get[string](p, `getComputedStyle(document.activeElement, "::after").outlineStyle`), "the focus can be seen")
	p.press(enter)
	p.await("its page", `document.querySelector("#name").textContent === "orders:1" && !document.querySelector("#one").hidden`)
	p.press("/")
	p.await("back in the search", `!document.querySelector("#list").hidden && document.activeElement.id === "q"`)
	p.press(escape + arrowDown + arrowDown)
	p.await("the second row", `document.activeElement.textContent === "orders:1"`)
	p.press(enter)
	p.await("its page", `document.querySelector("#name").textContent === "orders:1" && !document.querySelector("#one").hidden`)
	p.press(escape)
	p.await("back", `!document.querySelector("#list").hidden && document.activeElement.textContent === "orders:1"`)
	p.click("#heads .c-name button")
	p.await("sorted", rows, "orders:0,orders:1,orders:2,orders:3,orders:4,parcels")
	p.click("#heads .c-name button")
	p.await("sorted", rows, "parcels,orders:4,orders:3,orders:2,orders:1,orders:0")
	assert.Equal(t, "descending", get[string](p, `document.querySelector(".c-name").getAttribute("aria-sort")`))
	p.click("#heads .c-who button")
	p.await("sorted", rows, "orders:0,orders:1,orders:2,orders:3,orders:4,parcels")
}

// TestTheNoteSaysWhatIsMissing: the memory of the page may be full of locks that somebody waits for.
func TestTheNoteSaysWhatIsMissing(t *testing.T) {
	f := newFake()
	waited := func(i int) catalog.Row {
		row := held(fmt.Sprint(i, strings.Repeat("y", maxBytes/12)), "one:1")
		row.Waiters = 1
		return row
	}
	for i := range 14 {
		f.set(waited(i))
	}
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL)
	p.await("not all of them are there", `!document.querySelector("#cut").hidden && document.querySelector("#cut").textContent.includes("somebody waits for, not all are there")`)
	for i := range 6 {
		f.remove(waited(i).Name)
	}
	f.set(manyHeld()...)
	p.await("all of them are there", `!document.querySelector("#cut").hidden && document.querySelector("#cut").textContent.includes("somebody waits for are all there")`)
}

// manyHeld returns more locks than are shown.
func manyHeld() []catalog.Row {
	rows := make([]catalog.Row, maxRows+1)
	for i := range rows {
		rows[i] = held(fmt.Sprintf("row-%05d", i), "one:1")
	}
	return rows
}

// TestTheFocusIsNotLost when its row leaves what is rendered, or goes, and when the page has heard nothing yet of a lock that is left.
func TestTheFocusIsNotLost(t *testing.T) {
	f := newFake()
	for i := range 300 {
		f.set(held(fmt.Sprintf("row-%03d", i), "one:1"))
	}
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL)
	p.await("all rows", `all.size === 300 && document.querySelector("#rows a") !== null`)
	focused := func(what, name string) {
		t.Helper()
		p.await(what, `document.activeElement.textContent === %q`, name)
	}
	p.run(evaluate(`document.querySelector("#rows a").focus()`))
	p.press(arrowDown)
	focused("the second row", "row-001")
	row := held("row-001", "one:1")
	row.Name, row.Waiters = "row-200", 1
	f.set(row)
	p.await("another one is first now", `document.querySelector("#rows a").textContent === "row-200"`)
	focused("it is the same row", "row-001")
	p.run(evaluate(`document.querySelector("#scroll").scrollTop = 5000`))
	p.await("the row is not rendered", `document.activeElement === document.body`)
	p.press(arrowDown)
	focused("the row after it", "row-002")
	f.remove("row-002")
	p.await("it is gone", `all.size === 299 && document.activeElement === document.body`)
	p.press(arrowDown)
	focused("the row after it", "row-003")
	f.remove("row-003")
	p.await("it is gone", `all.size === 298 && document.activeElement === document.body`)
	p.press(kb.ArrowUp)
	focused("the row before it", "row-001")

	p.run(evaluate(`window.connected = connect; connect = () => {}`)) // the server says nothing of the lock
	p.press(enter)
	p.await("its page", `!document.querySelector("#one").hidden && lock === null`)
	p.press(escape)
	focused("back", "row-001")
	p.run(evaluate(`connect = connected`))
}

// TestALockThatIsOpenedAtOnceIsShown although the filter that was typed before is only then put into the address.
func TestALockThatIsOpenedAtOnceIsShown(t *testing.T) {
	_, ts := serve(t, newFake(held("orders", "one:1")), Options{})
	p := open(t, ts.URL)
	p.row("orders")
	p.run(evaluate(`{
		const later = window.setTimeout;
		let due;
		window.setTimeout = (f) => { due = f; };
		filter();
		window.setTimeout = later;
		location.hash = "#/lock/orders"; // the page hears of it after what is running
		due();
	}`))
	p.await("its page", `!document.querySelector("#one").hidden && document.querySelector("#name").textContent === "orders"`)
}

func TestManyRows(t *testing.T) {
	f := newFixture(t, Options{})
	_, err := f.rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for i := range maxRows + 200 {
			name := fmt.Sprintf("orders:%05d", i)
			pipe.HSet(t.Context(), name, fmt.Sprintf("0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:%d", i), 1)
			pipe.PExpire(t.Context(), name, time.Hour)
		}
		return nil
	})
	require.NoError(t, err)
	start := time.Now()
	p := open(t, f.url)
	p.patiently("5,000 rows", `document.querySelector("#count").textContent.startsWith("5,000 of 5,200 locks")`)
	t.Logf("5,000 rows were there after %v", time.Since(start))
	p.await("the note", `!document.querySelector("#cut").hidden`)
	assert.Less(t, get[int](p, `document.querySelectorAll("#rows tr").length`), 100, "only those that can be seen")
	name := get[string](p, `sorted[4000].name`)
	took := get[float64](p, `(() => {
		const start = performance.now();
		q.value = %q;
		q.dispatchEvent(new Event("input"));
		document.body.offsetHeight; // lays it out
		return performance.now() - start;
	})()`, name)
	t.Logf("a search in 5,000 rows took %.1f ms", took)
	p.await("the count", `document.querySelector("#count").textContent === "1 of 5,200 locks · 0 contended"`)
	p.row(name)
	p.press("/" + escape)
	p.await("all of them", `all.size === 5000 && order.length === 5000`)
	sorting := get[float64](p, `(() => { const start = performance.now(); unsorted = true; renderTable(); return performance.now() - start; })()`)
	t.Logf("sorting and rendering 5,000 rows took %.1f ms", sorting)
	p.run(evaluate(`document.querySelector("#scroll").scrollTop = 1e9`))
	p.await("the last row", `[...document.querySelectorAll("#rows a")].some((a) => a.textContent === sorted[4999].name)`)

	// A difference of one row leaves the other rows alone.
	require.NoError(t, f.rdb.HSet(t.Context(), get[string](p, `sorted[4990].name`), "other:1", 1).Err())
	p.run(evaluate(`window.touched = new Set(); new MutationObserver((all) => { for (const m of all) if (m.type === "childList" && m.target.closest?.("#rows tr") && !m.target.closest(".lease, .time")) touched.add(m.target.closest("tr")); }).observe(document.querySelector("#rows"), { childList: true, subtree: true })`))
	p.await("two holders", `[...document.querySelectorAll("#rows tr")].some((tr) => tr.cells[6].textContent === "2")`)
	assert.LessOrEqual(t, get[int](p, `touched.size`), 1)
}

// TestPictures makes the pictures of the documents, of the ticket office of rlock demo, if RLOCK_SCREENSHOT names a directory for them.
func TestPictures(t *testing.T) {
	if os.Getenv("RLOCK_SCREENSHOT") == "" {
		t.Skip("RLOCK_SCREENSHOT names no directory")
	}
	addr, stop, err := demo.Redis()
	require.NoError(t, err)
	t.Cleanup(stop)
	rdb := redistest.Open(t, &redis.Options{Addr: addr})
	locks, err := rlock.New(rdb)
	require.NoError(t, err)
	_, ts := serve(t, catalog.New(rdb, locks, ""), Options{Title: "rlock demo", Where: "127.0.0.1:6379", AllowFree: true, Token: "secret"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- demo.Office(ctx, rdb, t.Logf) }()
	t.Cleanup(func() { cancel(); <-ended; _ = locks.Close() })
	p := open(t, ts.URL+"/"+secret, emulation.SetDeviceMetricsOverride(1280, 720, 2, false), scheme(false))
	p.run(goTo("#/lock/tickets:evening"))
	p.patiently("a history", `document.querySelectorAll("#log tr").length >= 8 && document.querySelectorAll("#timeline .label").length >= 7`)
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "light", true: "dark"}[dark]
		p.run(scheme(dark), goTo("#/lock/tickets:evening"))
		p.await("the lock", `document.querySelectorAll("#holders li").length === 1 && document.querySelectorAll("#waiters li").length >= 2 && now() - lock.history.at(-1).start > 1000`)
		p.shoot("ui-lock-" + name)
		p.run(goTo("#/"))
		p.await("all locks", `all.size >= 9 && !document.querySelector("#list").hidden && asked === false`)
		p.run(evaluate(`document.activeElement.blur()`), chromedp.MouseEvent(input.MouseMoved, 1, 1))
		p.await("nothing is fresh", `document.querySelector("#rows .fresh") === null`)
		p.shoot("ui-table-" + name)
	}
}
