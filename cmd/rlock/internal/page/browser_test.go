package page

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// fixture is a Redis, and a page of it.
type fixture struct {
	testing.TB
	server *redistest.Server
	rdb    *redis.Client
	locks  *rlock.Client
	source Source
	page   *Server
	url    string
}

const secret = "#token=secret"

func newFixture(tb testing.TB, opts Options) *fixture {
	tb.Helper()
	f := &fixture{TB: tb, server: redistest.Start(tb)}
	f.rdb = redistest.Open(tb, &redis.Options{Addr: f.server.Addr, MaxRetries: -1, DialTimeout: time.Second})
	f.locks = f.client("", "", 0)
	f.source = catalog.New(f.rdb, f.locks, "")
	if opts.Where == "" {
		opts.Where = f.server.Addr
	}
	var ts *httptest.Server
	f.page, ts = serve(tb, f.source, opts)
	f.url = ts.URL + "/"
	return f
}

// client returns a client with an identity, or without one if the service is empty.
func (f *fixture) client(service, host string, pid int) *rlock.Client {
	f.Helper()
	opts := []rlock.Option{rlock.WithLogger(slog.New(slog.DiscardHandler))} // locks get lost here on purpose
	if service != "" {
		opts = append(opts, rlock.WithIdentity(rlock.Identity{
			Service: service, Host: host, PID: pid, Version: "v1.8.2", Started: time.Now().Add(-3 * time.Hour),
		}))
	}
	locks, err := rlock.New(f.rdb, opts...)
	require.NoError(f, err)
	f.Cleanup(func() { locks.Close() })
	return locks
}

// take takes a lock, which is given back at the end of the test if it is still held.
func (f *fixture) take(of handles.Any, opts ...rlock.AcquireOption) *rlock.Hold {
	f.Helper()
	hold, err := of.Acquire(f.Context(), opts...)
	require.NoError(f, err)
	f.Cleanup(func() { hold.Unlock(context.WithoutCancel(f.Context())) })
	return hold
}

// wait waits for a lock in the background, until the test ends.
func (f *fixture) wait(of handles.Any) {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if hold, err := of.Acquire(ctx); err == nil {
			hold.Unlock(context.WithoutCancel(ctx))
		}
	}()
	f.Cleanup(func() { cancel(); <-ended })
}

func TestALockAppears(t *testing.T) {
	f := newFixture(t, Options{})
	p := open(t, f.url)
	p.live()
	p.await("no lock", `!document.querySelector("#empty").hidden`)
	jobs := f.client("billing", "node-1", 42)
	var longest time.Duration
	for i := range 5 {
		name := fmt.Sprint("orders:", i)
		f.take(jobs.NewLock(name), rlock.Lease(20*time.Second))
		longest = max(longest, p.row(name))
	}
	t.Logf("a lock appeared within %v, at most", longest)
	assert.Equal(t, "billing@node-1 (pid 42)", get[string](p, cell, "orders:0", 2))
	assert.Equal(t, "lock", get[string](p, cell, "orders:0", 1))
	assert.Regexp(t, `^\d+ s$`, get[string](p, cell, "orders:0", 3), "it was taken while somebody looked")

	const part = `new DOMMatrix(getComputedStyle(` + rowOf + `.querySelector(".lease i")).transform).a`
	first := get[float64](p, part, "orders:0")
	p.await("the lease runs down", part+` < %f`, "orders:0", first-0.05)
	hold := f.take(jobs.NewLock("orders:renewed"), rlock.Lease(10*time.Second))
	p.row("orders:renewed")
	p.await("the lease runs down", part+` < 0.9`, "orders:renewed")
	require.NoError(t, hold.Extend(t.Context(), 30*time.Second))
	p.await("it says so", rowOf+`.querySelector(".lease").textContent === "renewed"`, "orders:renewed")

	f.wait(f.client("waiting", "node-2", 7).NewLock("orders:renewed"))
	p.await("a waiter", cell+` === "1"`, "orders:renewed", 5)
	require.NoError(t, hold.Unlock(t.Context()))
	p.await("the next holder", cell+` === "waiting@node-2 (pid 7)" || `+rowOf+` === undefined`, "orders:renewed", 2, "orders:renewed")
}

func TestOneLockInABrowser(t *testing.T) {
	f := newFixture(t, Options{})
	one := f.client("billing", "node-1", 42)
	f.take(one.NewFairLock("orders"))
	for i := range 3 {
		f.wait(f.client(fmt.Sprint("waiter-", i), "node-2", 7).NewFairLock("orders"))
		redistest.Eventually(t, "a waiter", func() bool {
			info, err := one.NewFairLock("orders").Inspect(t.Context())
			return err == nil && info.WaiterCount == i+1
		})
	}
	p := open(t, f.url)
	p.row("orders")
	p.click("#rows a")
	p.await("the holder", `document.querySelector("#holders .who")?.textContent === "billing@node-1 (pid 42)"`)
	assert.Equal(t, "#/lock/"+idOf("orders"), get[string](p, `location.hash`))
	p.await("the queue", `[...document.querySelectorAll("#waiters .who")].map((w) => w.textContent).join() === "waiter-0@node-2 (pid 7),waiter-1@node-2 (pid 7),waiter-2@node-2 (pid 7)"`)
	assert.Equal(t, "fair", get[string](p, `document.querySelector("#facts .kind").textContent`))
	p.await("the timeline", `document.querySelectorAll("#timeline g").length === 1`)
	assert.Contains(t, get[string](p, `document.querySelector("#log tr").textContent`), "now")

	linked := open(t, f.url+"#/lock/"+idOf("not there"))
	linked.await("free", `document.querySelector("#facts").textContent.startsWith("free")`)
	assert.Equal(t, "not there", get[string](linked, `document.querySelector("#name").textContent`))
	f.take(one.NewLock("not there"))
	linked.await("held", `document.querySelectorAll("#holders li").length === 1`)
}

func TestReadersAndPermitsInABrowser(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	var readers []*rlock.Hold
	for i := range 3 {
		readers = append(readers, f.take(f.client("reader", fmt.Sprint("node-", i), 1).NewRWLock("prices").Reader()))
	}
	slots := f.client("mailer", "node-1", 42).NewSemaphore("slots")
	_, err := slots.TrySetPermits(t.Context(), 4)
	require.NoError(t, err)
	f.take(slots)
	f.take(slots)
	p := open(t, f.url+secret)
	p.row("slots")
	p.row("prices")
	assert.Equal(t, "semaphore", get[string](p, cell, "slots", 1))
	assert.Contains(t, get[string](p, cell, "slots", 2), "2 free")
	assert.Equal(t, "read", get[string](p, cell, "prices", 1))
	assert.Contains(t, get[string](p, cell, "prices", 2), "+2")
	assert.Equal(t, "3", get[string](p, cell, "prices", 6))

	p.run(goTo("#/lock/" + idOf("slots")))
	p.await("two permits", `document.querySelectorAll("#holders li").length === 2 && document.querySelector("#free").hidden`)
	p.click("#holders button")
	p.click("#do-free")
	p.await("one permit", `document.querySelectorAll("#holders li").length === 1 && document.querySelector("#result").textContent.includes("was taken back")`)
	all, err := slots.Permits(t.Context())
	require.NoError(t, err)
	free, err := slots.AvailablePermits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, all-free)

	p.run(goTo("#/lock/" + idOf("prices")))
	p.await("three readers", `document.querySelectorAll("#holders li").length === 3`)
	p.click("#free")
	assert.Equal(t, 3, get[int](p, `document.querySelectorAll("#victims li").length`))
	require.NoError(t, readers[0].Unlock(t.Context())) // who leaves stands in nobody's way
	p.click("#do-free")
	p.await("freed", `document.querySelector("#result").textContent.includes("was freed") && document.querySelectorAll("#holders li").length === 0`)
}

func TestFreeingInABrowser(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	one, two := f.client("billing", "node-1", 42), f.client("shipping", "node-2", 7)
	f.take(one.NewLock("orders"))
	p := open(t, f.url+secret)
	p.row("orders")
	assert.Equal(t, "#/", get[string](p, `location.hash`), "the token is not in the address any more")
	p.click("#rows a")
	p.click("#free")
	assert.Contains(t, get[string](p, `document.querySelector("#confirm").textContent`), "billing@node-1 (pid 42)")
	p.press(enter)
	p.await("canceled", `!document.querySelector("#confirm").open`) // Enter does what is focused: nothing
	p.click("#free")
	p.click("#do-free")
	p.await("freed", `document.querySelector("#result").textContent === %q`, quoted("orders")+" was freed.")
	locked, err := one.NewLock("orders").IsLocked(t.Context())
	require.NoError(t, err)
	assert.False(t, locked)
	p.await("no holder", `document.querySelectorAll("#holders li").length === 0 && document.querySelector("#free").hidden`)

	hold := f.take(one.NewLock("orders"))
	p.click("#free")
	require.NoError(t, hold.Unlock(t.Context()))
	f.take(two.NewLock("orders"))
	p.click("#do-free")
	p.await("refused", `document.querySelector("#result").textContent.includes("its holder has changed")`)
	locked, err = two.NewLock("orders").IsLocked(t.Context())
	require.NoError(t, err)
	assert.True(t, locked)
	p.await("the new holder", `document.querySelector("#holders .who")?.textContent === "shipping@node-2 (pid 7)"`)

	p.run(goTo("#token=guessed"))
	p.await("the token is gone from the address", `location.hash === "#/" && token === "guessed"`)
	wrong := open(t, f.url+"#token=guessed")
	wrong.row("orders")
	wrong.click("#rows a")
	wrong.click("#free")
	wrong.click("#do-free")
	wrong.await("refused", `document.querySelector("#result").textContent.includes("the token is wrong")`)
}

func TestReadOnlyInABrowser(t *testing.T) {
	for _, opts := range []Options{{}, {AllowFree: true, Token: "secret"}} {
		f := newFixture(t, opts)
		f.take(f.client("billing", "node-1", 42).NewLock("orders"))
		url := f.url // without the token, even where freeing is allowed
		if !opts.AllowFree {
			url += secret
		}
		p := open(t, url)
		p.row("orders")
		p.click("#rows a")
		p.await("the holder", `document.querySelectorAll("#holders li").length === 1`)
		assert.True(t, get[bool](p, `document.querySelector("#free").hidden`))
	}
}

func TestRedisAway(t *testing.T) {
	f := newFixture(t, Options{})
	require.NoError(t, f.rdb.HSet(t.Context(), "orders", "0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:1", 1).Err())
	require.NoError(t, f.rdb.PExpire(t.Context(), "orders", time.Hour).Err())
	p := open(t, f.url)
	p.row("orders")
	f.server.Kill()
	took := p.await("stale", `document.documentElement.dataset.state === "stale"`)
	t.Logf("a Redis that is away was seen after %v", took)
	assert.Contains(t, get[string](p, `document.querySelector("#stale").textContent`), "Stale since ")
	p.row("orders")
	f.server.Run()
	p.live()
	p.await("the lock is gone", rowOf+" === undefined", "orders")
	f.server.Pause()
	took = p.await("stale", `document.documentElement.dataset.state === "stale"`)
	t.Logf("a Redis that hangs was seen after %v", took)
	f.server.Resume()
	p.live()
}

func TestServerAway(t *testing.T) {
	source := newFake(held("orders", "one:1"))
	start := func(addr string) (addrOf string, stop func()) {
		s := New(source, Options{})
		listener, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		ts := httptest.NewUnstartedServer(s)
		ts.Listener.Close()
		ts.Listener = listener
		ts.Start()
		stop = sync.OnceFunc(func() { s.Close(); ts.CloseClientConnections(); ts.Close() })
		t.Cleanup(stop) // without a browser, the test ends at once
		return listener.Addr().String(), stop
	}
	addr, stop := start("127.0.0.1:0")
	p := open(t, "http://"+addr+"/")
	p.row("orders")
	stop()
	p.await("away", `document.documentElement.dataset.state === "away" && document.querySelector("#stale").textContent.includes("Is rlock ui still running?")`)
	source.set(held("invoices", "two:1"))
	start(addr)
	p.live()
	p.row("invoices")
	// A server that is there and says nothing any more, as after a sleep of the machine.
	p.run(evaluate(`window.was = events; heard -= 2 * SILENCE`))
	p.await("another connection", `events !== was`)
	p.live()
}

func TestDarkAndLight(t *testing.T) {
	_, ts := serve(t, newFake(), Options{})
	background := func(dark bool) (brightness float64) {
		p := open(t, ts.URL, scheme(dark))
		p.live()
		return get[float64](p, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b) / 765`)
	}
	assert.Greater(t, background(false), 0.9)
	assert.Less(t, background(true), 0.15)
}
