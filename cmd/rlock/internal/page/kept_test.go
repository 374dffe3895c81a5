package page

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestWhoIsShown tells a kept lock from one that is held, and the permits of one client from each other.
func TestWhoIsShown(t *testing.T) {
	t.Parallel()
	now, shop := time.Now(), &rlock.Identity{Service: "shop", Host: "a", PID: 7}
	row := catalog.Row{Name: "sync", Kind: catalog.Lock, Holder: "c:1", Client: "c", Holders: 1, Kept: true, Identity: shop, Lease: time.Hour}
	one := newSighting(&row, now)
	require.Equal(t, "kept by shop@a (pid 7)", one.view.Who)
	state := newState()
	tr := state.histories.of("id", "sync")
	v := state.details(&catalog.Details{Row: row, HolderList: []rlock.HolderInfo{{Holder: "c:1", Client: "c", Kept: true, Lease: time.Hour, Identity: shop}}}, tr, now, true)
	require.Equal(t, "kept by shop@a (pid 7)", v.Holders[0].Who)
	require.True(t, v.Kept)

	const first, second = "71b96ce82746f4b3000000000057" + "0000", "71b96ce82746f4b3000000000057" + "0001"
	d := &catalog.Details{Row: catalog.Row{Name: "permits", Kind: catalog.Semaphore, Holders: 2}, HolderList: []rlock.HolderInfo{
		{Holder: first, Lease: time.Minute, Identity: shop}, {Holder: second, Lease: time.Minute, Identity: shop},
	}}
	v = state.details(d, state.histories.of("id2", "permits"), now, true)
	require.Equal(t, "shop@a (pid 7) · permit 71b96ce8…570000", v.Holders[0].Who)
	require.Equal(t, "shop@a (pid 7) · permit 71b96ce8…570001", v.Holders[1].Who)
	require.True(t, v.Holders[0].Named)
	row = catalog.Row{Name: "permits", Kind: catalog.Semaphore, Holder: first, Holders: 2}
	one = newSighting(&row, now)
	require.Equal(t, "permit 71b96ce8…570000", one.view.Who)
}

// TestWaitersAreCalledWhatTheyAre labels calls and processes, in the table and on the page of a lock.
func TestWaitersAreCalledWhatTheyAre(t *testing.T) {
	fair, plain, many := held("fair", "one:1"), held("plain", "one:1"), held("many", "one:1")
	fair.Kind, fair.Waiters, fair.Processes = catalog.Fair, 12, 2
	many.Kind, many.Waiters = catalog.FencedFair, 300
	plain.Waiters = 3
	_, ts := serve(t, newFake(fair, plain, many), Options{})
	p := open(t, ts.URL)
	for name, want := range map[string][3]string{
		"fair": {"12 calls", "12 calls of 2 processes", "Queue12 calls of 2 processes"}, "plain": {"3", "3 processes", "Waiting3 processes"},
		"many": {"300 calls", "300 calls", "Queue300 calls"},
	} {
		p.run(goTo("#/"))
		p.row(name)
		require.Equal(t, want[0], get[string](p, cell, name, 5))
		require.Equal(t, want[1], get[string](p, rowOf+`.cells[5].title`, name))
		require.LessOrEqual(t, get[float64](p, rowOf+`.cells[5].scrollWidth - `+rowOf+`.cells[5].clientWidth`, name, name), 0.0, "it is not cut")
		p.run(goTo("#/lock/" + idOf(name)))
		p.await("its waiters", `document.querySelector("#h-waiters").textContent === %q`, want[2])
	}
}

// TestALongHolderLeavesRoom for how many others hold the lock, and how many permits are free.
func TestALongHolderLeavesRoom(t *testing.T) {
	row := catalog.Row{
		Name: "slots", Kind: catalog.Semaphore, Holder: "71b96ce82746f4b30000000000570000", Holders: 2, Free: 3, Lease: time.Minute,
		Identity: &rlock.Identity{Service: "a-service-with-a-long-name", Host: "and-a-host-with-a-long-name-5d6b-9qk2r", PID: 7},
	}
	_, ts := serve(t, newFake(row), Options{})
	for _, size := range []chromedp.Action{emulation.SetDeviceMetricsOverride(1280, 720, 1, false), phone()} {
		p := open(t, ts.URL, size)
		p.row("slots")
		require.True(t, get[bool](p, `(() => {
			const badge = document.querySelector("#rows .more").getBoundingClientRect(), cell = document.querySelector("#rows .c-who").getBoundingClientRect();
			return badge.width > 20 && badge.right <= cell.right;
		})()`), "the badge is in its cell")
	}
}

// TestWhatIsNotKnownIsNotCalledFree says of a latch with a caller waiting, and of a plain semaphore with a permit out, what they are.
func TestWhatIsNotKnownIsNotCalledFree(t *testing.T) {
	f := newFixture(t, Options{})
	latch := f.locks.NewCountDownLatch("latch")
	_, err := latch.TrySetCount(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, f.locks.NewPlainSemaphore("signals", rlock.Total(3)).Acquire(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- latch.Await(ctx) }()
	t.Cleanup(func() { cancel(); <-waited })
	for name, waits := range map[string]string{"latch": "Waiting1 process", "signals": "Waiting0"} {
		p := open(t, f.url+"#/lock/"+name)
		p.await("what it is", `document.querySelector("#facts").textContent === "a counter with the value 2: a latch, or a plain semaphore"`)
		p.await("who waits", `document.querySelector("#h-waiters").textContent === %q`, waits)
		require.Equal(t, "Redis does not know who has its permits.", get[string](p, `document.querySelector("#no-holders").textContent`))
		require.NotContains(t, get[string](p, `document.querySelector("#one").innerText`), "Nobody holds")
		p.shoot("counter-" + name)
	}
}

// TestOneTruthOfAKeptLock is until when it is kept, and by whom: nobody holds it.
func TestOneTruthOfAKeptLock(t *testing.T) {
	f := newFixture(t, Options{})
	job := f.take(f.client("cron", "node-1", 7).NewLock("job"), rlock.AtLeast(time.Hour))
	require.NoError(t, job.Unlock(t.Context()))
	p := open(t, f.url)
	p.row("job")
	require.Equal(t, "kept by cron@node-1 (pid 7)", get[string](p, cell, "job", 2))
	require.Empty(t, get[string](p, cell, "job", 3), "nobody has held it since")
	require.Equal(t, "0", get[string](p, cell, "job", 6))
	p.click("#rows a")
	p.await("its card", `document.querySelector("#h-holders").textContent === "Nobody holds it: it is kept"`)
	require.Regexp(t, `^kept until \d\d:\d\d:\d\d`, get[string](p, `document.querySelector("#holders .sub").innerText`))
	p.shoot("kept")
}

// TestABarIsForAFixedLease, which runs down. That of a renewed one says nothing, unless the next renewal is overdue.
func TestABarIsForAFixedLease(t *testing.T) {
	renewed, fixed := held("renewed", "one:1"), held("fixed", "one:2")
	renewed.Lease = 20 * time.Second
	f := newFake(renewed, fixed)
	_, ts := serve(t, f, Options{})
	p := open(t, ts.URL)
	p.row("renewed")
	renewed.Lease = 30 * time.Second
	f.set(renewed)
	const lease = rowOf + `.querySelector(".lease")`
	p.await("it says so", lease+`.textContent === "renewed" && getComputedStyle(`+lease+`.querySelector(".rail")).visibility === "hidden"`, "renewed", "renewed")
	require.Regexp(t, `^\d+ s$`, get[string](p, lease+".textContent", "fixed"))
	require.Regexp(t, `^\d+ locks · 0 contended$`, get[string](p, `document.querySelector("#count").textContent`))
	f.mu.Lock()
	f.ends["renewed"] = f.ends["renewed"].Add(-20 * time.Second)
	f.mu.Unlock()
	p.await("the next renewal is overdue", lease+`.textContent !== "renewed"`, "renewed")
}

// TestFiltersOnThePage shows what is contended, of a kind, and of a holder, and has them in the address.
func TestFiltersOnThePage(t *testing.T) {
	contended, fair := held("contended", "one:1"), held("fair", "two:1")
	contended.Waiters, fair.Kind, fair.Waiters = 1, catalog.Fair, 12
	_, ts := serve(t, newFake(contended, fair, held("quiet", "three:1")), Options{})
	p := open(t, ts.URL)
	p.row("quiet")
	const names = `[...document.querySelectorAll("#rows a")].map((a) => a.textContent).sort().join() === %q`
	choose := func(id, value string) {
		p.run(evaluate(`document.querySelector("#` + id + `").value = ` + js(value) + `; document.querySelector("#` + id + `").dispatchEvent(new Event("change"))`))
	}
	choose("waiting", "1")
	p.await("contended", names, "contended,fair")
	choose("kind", "fair")
	p.await("fair", names, "fair")
	p.await("the address", `location.hash === "#/?kind=fair&waiting=1"`)
	linked := open(t, ts.URL+"/#/?q=holder:three")
	linked.await("of the holder", names, "quiet")
	linked = open(t, ts.URL+"/#/?waiting=10")
	linked.await("ten or more", names, "fair")
	for query, want := range map[string]string{"kind=fair": "fair", "waiting=1&kind=lock": "contended"} { // as with very many locks
		d := next[rowsEvent](connect(t, ts.URL+"/events?"+query), "rows")
		require.Len(t, d.Rows, 1)
		require.Equal(t, want, d.Rows[0].Name)
	}
}

// TestAPageThatLoadsIsNotStale although nobody has looked for long, and shows nothing of what was seen then.
func TestAPageThatLoadsIsNotStale(t *testing.T) {
	f := newFake(held("old", "one:1"))
	s, ts := serve(t, f, Options{})
	p := open(t, ts.URL)
	p.row("old")
	p.run(evaluate(`disconnect()`))
	redistest.Eventually(t, "nobody looks", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.open == 0 })
	s.all.poller.wait()
	st := s.all.state
	st.mu.Lock()
	st.table.read = st.table.read.Add(-time.Hour)
	st.mu.Unlock()
	f.remove("old")
	f.set(held("new", "one:2"))
	f.mu.Lock()
	f.hang = make(chan struct{})
	f.mu.Unlock()
	p = open(t, ts.URL)
	p.await("it loads", `document.documentElement.dataset.state === "loading"`)
	require.Equal(t, "loading", get[string](p, `document.querySelector("#live-text").textContent`))
	require.True(t, get[bool](p, `document.querySelector("#stale").hidden`))
	require.Zero(t, get[int](p, `document.querySelectorAll("#rows tr").length`))
	p.run(goTo("#/lock/old"))
	p.live() // which needs no look at all of them
	require.True(t, get[bool](p, `document.querySelector("#stale").hidden`))
	f.mu.Lock()
	close(f.hang)
	f.hang = nil
	f.mu.Unlock()
	p.run(goTo("#/"))
	p.row("new")
	p.live()
}

// TestTimeWithoutALookIsHatched, and each holder of several has a bar of its own.
func TestTimeWithoutALookIsHatched(t *testing.T) {
	s, ts := serve(t, newFake(), Options{})
	now := time.Now()
	look := func(at time.Time, holders ...string) {
		row := catalog.Row{Name: "slots", Kind: catalog.Semaphore, Holder: holders[0], Holders: len(holders), Lease: time.Hour}
		s.all.state.apply([]sighting{newSighting(&row, at)}, look{total: 1, begun: at, ended: at})
		d := &catalog.Details{Row: row}
		for _, h := range holders {
			d.HolderList = append(d.HolderList, rlock.HolderInfo{Holder: h, Lease: time.Hour})
		}
		s.all.state.applyDetails("slots", d, at)
	}
	leave := s.all.state.watch("slots")
	for i := range 120 {
		look(now.Add(-15*time.Minute+time.Duration(i)*time.Second), "p1", "p2", "p3")
	}
	look(now.Add(-15*time.Minute+121*time.Second), "p1", "p2")
	s.all.state.apply(nil, look2(now.Add(-15*time.Minute+122*time.Second)))
	s.all.state.applyDetails("slots", nil, now.Add(-15*time.Minute+122*time.Second))
	for _, c := range []struct {
		width, height int64
		dark          bool
	}{{1440, 900, false}, {1024, 768, true}, {390, 844, false}} {
		p := open(t, ts.URL+"/#/lock/slots", emulation.SetDeviceMetricsOverride(c.width, c.height, 1, c.width < 500), scheme(c.dark))
		p.await("three holds", `document.querySelectorAll("#timeline g").length === 3 && document.querySelectorAll("#log tr").length === 3`)
		require.Equal(t, 3, get[int](p, `new Set([...document.querySelectorAll("#timeline g rect")].map((r) => r.getAttribute("y"))).size`), "above each other")
		require.Contains(t, get[string](p, `document.querySelector("#timeline .unseen title").textContent`), "not observed")
		seen := get[float64](p, `Math.max(...[...document.querySelectorAll("#timeline .seen")].map((r) => r.width.baseVal.value)) / document.querySelector("#timeline .rail").width.baseVal.value`)
		require.InDelta(t, 0.135, seen, 0.02, "two of fifteen minutes")
		require.Contains(t, get[string](p, `document.querySelector("#log").textContent`), "at least 2 m")
		require.LessOrEqual(t, get[float64](p, `document.querySelector("#one").scrollWidth - innerWidth`), 0.0, "nothing sticks out")
		p.shoot(fmt.Sprintf("history-%d-%v", c.width, c.dark))
	}
	leave()
}

func look2(at time.Time) look { return look{begun: at, ended: at} }

// TestTheDurationIsWhole, at any width, and comes before the moment, which is in the tooltip.
func TestTheDurationIsWhole(t *testing.T) {
	f := variety()
	s, ts := serve(t, f, Options{Where: "redis.example:6379"})
	now := time.Now()
	row := held("invoices", "one:1")
	for i := range 300 { // as if somebody had looked for so long
		at := now.Add(-13*time.Minute - 46*time.Second + time.Duration(i)*2900*time.Millisecond)
		if i > 0 && at.Before(now) {
			s.all.state.apply([]sighting{newSighting(&row, at)}, look{total: 1, begun: at, ended: at})
		} else if i == 0 {
			s.all.state.apply(nil, look2(at))
		}
	}
	for _, width := range []int64{1440, 1024} {
		for _, dark := range []bool{false, true} {
			p := open(t, ts.URL, emulation.SetDeviceMetricsOverride(width, 900, 1, false), scheme(dark))
			p.row("invoices")
			require.Regexp(t, `^13 m \d+ s$`, get[string](p, cell, "invoices", 3))
			require.Regexp(t, `^since \d\d:\d\d:\d\d$`, get[string](p, rowOf+`.querySelector(".time").title`, "invoices"))
			require.LessOrEqual(t, get[float64](p, rowOf+`.cells[3].scrollWidth - `+rowOf+`.cells[3].clientWidth`, "invoices", "invoices"), 0.0, "it is not cut")
			p.shoot(fmt.Sprintf("table-%d-%v", width, dark))
		}
	}
}

// TestAReplicaOnThePage is told of, and shows nothing once it has lost its master.
func TestAReplicaOnThePage(t *testing.T) {
	var lost atomic.Bool
	const note = "redis:6379 is a replica: what is shown may be behind its master"
	_, ts := serve(t, newFake(held("orders", "one:1")), Options{Check: func(context.Context) (string, error) {
		if lost.Load() {
			return "", errors.New("redis:6379 is a replica that has lost its master")
		}
		return note, nil
	}})
	for _, hash := range []string{"#/", "#/lock/orders"} {
		lost.Store(false)
		p := open(t, ts.URL+"/"+hash)
		p.live()
		p.await("the note", `document.querySelector("#note").textContent === %q && !document.querySelector("#note").hidden`, note)
		p.shoot("replica")
		lost.Store(true)
		p.await("it is stale", `document.documentElement.dataset.state === "stale" && document.querySelector("#stale").textContent.includes("has lost its master")`)
	}
}
