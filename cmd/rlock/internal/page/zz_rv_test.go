package page

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/chromedp/chromedp"
	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

const rvC = "71b96ce8-2746-4f0e-9d0e-000000000001"

func rvOpen(t *testing.T, url string) (*tab, func() []string) {
	ctx, cancel := chromedp.NewContext(browser(t))
	p := &tab{TB: t, ctx: ctx}
	errs := []string{}
	rvListen(ctx, p, &errs)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	require.NoError(t, chromedp.Run(ctx))
	c2, cc := context.WithTimeout(ctx, 15*time.Second)
	defer cc()
	if err := chromedp.Run(c2, chromedp.Navigate(url)); err != nil {
		t.Log("navigate:", err)
	}
	return p, func() []string { p.mu.Lock(); defer p.mu.Unlock(); return errs }
}

func TestRVStarted(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	ctx := t.Context()
	f.rdb.HSet(ctx, "lk", rvC+":1", 1); f.rdb.PExpire(ctx, "lk", time.Hour)
	f.rdb.HSet(ctx, "rlock_client:{"+rvC+"}", "service", "svc", "host", "h", "started", "9000000000000000000")
	p, errs := rvOpen(t, f.url+secret)
	time.Sleep(time.Second)
	p.run(goTo("#/lock/" + idOf("lk")))
	time.Sleep(2 * time.Second)
	t.Log("state", get[string](p, "document.documentElement.dataset.state"), "| holders:", get[string](p, `document.getElementById("holders").innerText`), "| free hidden:", get[bool](p, `document.getElementById("free").hidden`), "| history:", get[string](p, `document.getElementById("log").innerText`))
	t.Log(errs())
}

func TestRVPermitWaiter(t *testing.T) {
	f := newFixture(t, Options{})
	ctx := t.Context()
	sem := f.locks.NewSemaphore("sem", rlock.Total(1))
	_, err := sem.Acquire(ctx)
	_ = err
	f.rdb.ZAdd(ctx, "redisson_unlock_latch:{sem}:waiters", redis.Z{Score: -1e300, Member: rvC + ":1|x"})
	p, errs := rvOpen(t, f.url+"#/lock/"+idOf("sem"))
	time.Sleep(2 * time.Second)
	t.Log("state", get[string](p, "document.documentElement.dataset.state"), "| holders:", get[string](p, `document.getElementById("holders").innerText`), "| waiters:", get[string](p, `document.getElementById("waiters").innerText`))
	t.Log(errs())
}

func TestRVPoison(t *testing.T) {
	f := newFixture(t, Options{})
	ctx := t.Context()
	f.rdb.HSet(ctx, "good", rvC+":1", 1); f.rdb.PExpire(ctx, "good", time.Hour)
	f.rdb.HSet(ctx, "bad", rvC+":2", 1); f.rdb.PExpire(ctx, "bad", time.Hour)
	f.rdb.RPush(ctx, "redisson_lock_token:{bad}", 1)
	g := connect(t, f.url+"events?lock="+idOf("good"))
	b := connect(t, f.url+"events?lock="+idOf("bad"))
	_ = b
	time.Sleep(2 * time.Second)
	var last lockEvent
	for len(g.events) > 0 { e := <-g.events; if e.name == "lock" { t.Log(string(e.data)[max(0, len(e.data)-250):]) } }
	_ = last
}

func TestRVCut(t *testing.T) {
	f := newFixture(t, Options{})
	ctx := t.Context()
	pipe := f.rdb.Pipeline()
	for i := range 5600 { pipe.HSet(ctx, fmt.Sprintf("l:%d", i), fmt.Sprintf("%s:%d", rvC, i), 1); pipe.PExpire(ctx, fmt.Sprintf("l:%d", i), time.Hour) }
	_, err := pipe.Exec(ctx); require.NoError(t, err)
	r := connect(t, f.url+"events")
	first := next[rowsEvent](r, "rows")
	t.Log("rows", len(first.Rows), "cut", first.Cut)
	for range 2 { time.Sleep(1200 * time.Millisecond) }
	// one hundred more locks
	for i := range 100 { pipe.HSet(ctx, fmt.Sprintf("new:%d", i), fmt.Sprintf("%s:%d", rvC, i), 1); pipe.PExpire(ctx, fmt.Sprintf("new:%d", i), time.Hour) }
	_, err = pipe.Exec(ctx); require.NoError(t, err)
	e := until(r, "rows", func(e rowsEvent) bool { return len(e.Gone) > 0 })
	t.Log("gone", len(e.Gone))
	id := e.Gone[0]; name, _, _ := nameOf(id)
	t.Log(name, "TTL in redis", f.rdb.PTTL(ctx, name).Val())
	l := connect(t, f.url+"events?lock="+id)
	time.Sleep(2 * time.Second)
	for len(l.events) > 0 { e := <-l.events; if e.name == "lock" { t.Log(string(e.data)[:min(900, len(e.data))]) } }
	// now remove the new ones: they return
	for i := range 100 { pipe.Del(ctx, fmt.Sprintf("new:%d", i)) }
	_, err = pipe.Exec(ctx); require.NoError(t, err)
	for range 10 { 
		e := next[rowsEvent](r, "rows")
		for _, row := range e.Rows { if row.ID == id { t.Logf("back: since=%d before=%v now=%d", row.Since, row.Before, e.Now); return } }
	}
}

func TestRVSixTabs(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	ctx := t.Context()
	f.rdb.HSet(ctx, "lk", rvC+":1", 1); f.rdb.PExpire(ctx, "lk", time.Hour)
	var first *tab
	for i := range 6 {
		p, _ := rvOpen(t, f.url+secret)
		if i == 0 { first = p }
		p.live()
	}
	start := time.Now()
	_, _ = rvOpen(t, f.url)
	t.Log("7th tab:", time.Since(start))
	first.run(goTo("#/lock/" + idOf("lk")))
	time.Sleep(2 * time.Second)
	t.Log("first:", get[string](first, "document.documentElement.dataset.state"), get[string](first, `document.getElementById("holders").innerText`))
	first.run(evaluate(`document.getElementById("free").click(); document.getElementById("do-free").click()`))
	time.Sleep(4 * time.Second)
	t.Log("free result:", get[string](first, `document.getElementById("result").innerText`), "hidden", get[bool](first, `document.getElementById("result").hidden`), "exists", f.rdb.Exists(ctx, "lk").Val())
}

func TestRVIframes(t *testing.T) {
	f := newFixture(t, Options{})
	victim := strings.Replace(f.url, "127.0.0.1", "127.0.0.1", 1)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<script>for(let i=0;i<70;i++){const f=document.createElement("iframe");f.src="%sevents?x="+i;document.body?.append(f)||document.documentElement.append(f)}</script>`, victim)
	}))
	defer evil.Close()
	url := strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)
	_, errs := rvOpen(t, url)
	for range 8 { time.Sleep(500 * time.Millisecond); f.page.mu.Lock(); t.Log("open streams:", f.page.open); f.page.mu.Unlock() }
	_ = errs
}

func TestRVPlainHTTPName(t *testing.T) {
	f := newFixture(t, Options{AllowFree: true, Token: "secret"})
	ctx := t.Context()
	f.rdb.HSet(ctx, "lk", rvC+":1", 1); f.rdb.PExpire(ctx, "lk", time.Hour)
	dir := t.TempDir()
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath("/usr/bin/chromium"), chromedp.UserDataDir(dir), chromedp.Flag("host-resolver-rules", "MAP lan.example 127.0.0.1, MAP evil.example 127.0.0.1")}
	for _, fl := range []string{"headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-dev-shm-usage"} { opts = append(opts, chromedp.Flag(fl, true)) }
	al, end := chromedp.NewExecAllocator(context.Background(), opts...)
	defer end()
	c, cancel := chromedp.NewContext(al, chromedp.WithErrorf(func(string, ...any) {}))
	defer cancel()
	require.NoError(t, chromedp.Run(c))
	p := &tab{TB: t, ctx: c}
	_, port, _ := net.SplitHostPort(strings.Trim(strings.TrimPrefix(f.url, "http://"), "/"))
	p.run(chromedp.Navigate("http://lan.example:" + port + "/" + secret))
	p.live()
	p.run(goTo("#/lock/" + idOf("lk")))
	time.Sleep(1500 * time.Millisecond)
	p.run(evaluate(`document.getElementById("free").click(); document.getElementById("do-free").click()`))
	time.Sleep(1500 * time.Millisecond)
	t.Log("free over http://lan.example:", get[string](p, `document.getElementById("result").innerText`))
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<script>for(let i=0;i<6;i++) fetch("http://lan.example:%s/events?"+i,{mode:"no-cors"})</script>`, port)
	}))
	defer evil.Close()
	_, eport, _ := net.SplitHostPort(strings.TrimPrefix(evil.URL, "http://"))
	p.run(chromedp.Navigate("http://evil.example:" + eport + "/"))
	time.Sleep(1500 * time.Millisecond)
	f.page.mu.Lock(); t.Log("streams by fetch of another site:", f.page.open); f.page.mu.Unlock()
	_ = chromedp.Cancel(c)
}

// after adds wall time alone, as a suspended machine does.
func rvSuspend(at time.Time, by time.Duration) time.Time {
	type raw struct { wall uint64; ext int64; loc *time.Location }
	r := (*raw)(unsafe.Pointer(&at))
	r.wall += uint64(by/time.Second) << 30
	return at
}

func TestRVSleep(t *testing.T) {
	s := newState()
	base := time.Now()
	sight := func(row catalog.Row, at time.Time) []sighting { return []sighting{{row, at}} }
	s.apply(sight(held("a", rvC+":1"), base), false, base, base)
	two := base.Add(500 * time.Millisecond)
	s.apply(sight(held("a", rvC+":1"), two), false, two, two)
	three := rvSuspend(base.Add(time.Second), time.Hour)
	t.Log("wall differs by", three.Round(0).Sub(two.Round(0)), "monotonic", three.Sub(two))
	s.apply(sight(held("a", rvC+":2"), three), false, three, three)
	for _, h := range s.page(idOf("a")).History { t.Logf("%+v  length %v", h, time.Duration(h.End-h.Start)*time.Millisecond) }
}

func TestRVSameHolder(t *testing.T) {
	f := newFixture(t, Options{})
	ctx := t.Context()
	l := f.locks.NewFencedLock("loop")
	r := connect(t, f.url+"events")
	h, err := l.Acquire(ctx); require.NoError(t, err)
	t.Log(f.rdb.HKeys(ctx, "loop").Val())
	e := until(r, "rows", func(e rowsEvent) bool { return len(e.Rows) > 0 && e.Rows[0].Holders > 0 })
	t.Log(e.Rows[0].Since, e.Rows[0].Token, e.Now)
	time.Sleep(2 * time.Second)
	_ = h.Unlock(ctx)
	h, err = l.Acquire(ctx); require.NoError(t, err)
	t.Log(f.rdb.HKeys(ctx, "loop").Val())
	e = until(r, "rows", func(e rowsEvent) bool { return len(e.Rows) > 0 })
	t.Log("rlock:", e.Rows[0].Since, e.Rows[0].Token, e.Now)
	_ = h.Unlock(ctx)
	// a Redisson thread that takes it again and again; the token says that these are different holds
	fk := newFake()
	row := held("x", rvC+":42"); row.Token = 1; fk.set(row)
	_, ts := serve(t, fk, Options{})
	q := connect(t, ts.URL+"/events")
	a := next[rowsEvent](q, "rows")
	time.Sleep(2 * time.Second)
	row.Token = 2; fk.set(row)
	b := next[rowsEvent](q, "rows")
	t.Log("fake: first since", a.Rows[0].Since, "token", a.Rows[0].Token, "| second since", b.Rows[0].Since, "token", b.Rows[0].Token, "now", b.Now)
}

func TestRVCluster(t *testing.T) {
	cl := redistest.StartCluster(t)
	rdb := cl.Client(t)
	ctx := t.Context()
	locks, err := rlock.New(rdb); require.NoError(t, err)
	t.Cleanup(func() { locks.Close() })
	s, ts := serve(t, catalog.New(rdb, locks, ""), Options{AllowFree: true, Token: "secret"})
	_ = s
	for i := range 40 { _, err := locks.NewFencedLock(fmt.Sprintf("c:%d", i)).Acquire(ctx); require.NoError(t, err) }
	for i := range 5 { _, err := locks.NewSemaphore(fmt.Sprintf("s:%d", i), rlock.Total(2)).Acquire(ctx); require.NoError(t, err) }
	p := open(t, ts.URL+"/"+secret)
	p.live()
	t.Log(get[string](p, `document.getElementById("count").innerText`))
	tk := get[string](p, `[...all.values()].filter(r=>r.token).length + " with token of " + all.size`)
	t.Log(tk)
	p.run(goTo("#/lock/" + idOf("c:7"))); time.Sleep(1500 * time.Millisecond)
	t.Log(get[string](p, `document.getElementById("facts").innerText + "|" + document.getElementById("holders").innerText`))
	p.run(evaluate(`document.getElementById("free").click(); document.getElementById("do-free").click()`)); time.Sleep(time.Second)
	t.Log(get[string](p, `document.getElementById("result").innerText`), rdb.Exists(ctx, "c:7").Val())
	p.run(goTo("#/")); time.Sleep(time.Second)
	// a slot that moves, then a failover
	r := connect(t, ts.URL+"/events")
	e := next[rowsEvent](r, "rows")
	t.Log("rows", len(e.Rows))
	cl.MoveSlot(t, "c:1", func() { time.Sleep(2 * time.Second) })
	gone := map[string]int{}
	stale := 0
	drain := func(what string) {
		for len(r.events) > 0 {
			ev := <-r.events
			if ev.name == "rows" {
				var v rowsEvent
				_ = jsonUn(ev.data, &v)
				for _, g := range v.Gone { gone[g]++ }
				if v.Stale != 0 { stale++; t.Log(what, "stale", v.Why) }
			}
		}
		names := []string{}
		for g := range gone { n, _, _ := nameOf(g); names = append(names, n) }
		t.Log(what, "gone", names, "stale events", stale)
	}
	drain("slot")
	cl.Failover(t, "c:1")
	time.Sleep(4 * time.Second)
	drain("failover")
	t.Log(get[string](p, `document.documentElement.dataset.state + " " + document.getElementById("count").innerText`))
}

func TestRVMemory(t *testing.T) {
	fk := newFake()
	for i := range 5000 {
		row := held(fmt.Sprintf("%05d", i)+strings.Repeat("\U000e0001", 300), fmt.Sprintf("%s:%d", rvC, i))
		row.Identity = &rlock.Identity{Service: strings.Repeat("\U000e0001", 300), Host: "h"}
		fk.set(row)
	}
	_, ts := serve(t, fk, Options{})
	addr := strings.TrimPrefix(ts.URL, "http://")
	rss := func() string { b, _ := os.ReadFile("/proc/self/status"); for _, l := range strings.Split(string(b), "\n") { if strings.HasPrefix(l, "VmHWM") { return l } }; return "" }
	warm := connect(t, ts.URL+"/events"); e := next[rowsEvent](warm, "rows"); warm.close()
	t.Log("rows", len(e.Rows), rss())
	var cs []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", addr); require.NoError(t, err)
		fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); cs = append(cs, c)
	}
	time.Sleep(4 * time.Second)
	var m runtime.MemStats; runtime.ReadMemStats(&m)
	t.Log("20 slow readers:", rss(), "heap", m.HeapAlloc>>20, "MiB")
	for _, c := range cs { c.Close() }
}

func TestRVChurn(t *testing.T) {
	f := newFixture(t, Options{})
	f.server.Pause()
	before := runtime.NumGoroutine()
	for range 300 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, "GET", f.url+"events", nil)
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil { resp.Body.Close() }
		cancel()
	}
	time.Sleep(300 * time.Millisecond)
	t.Log("goroutines", before, "->", runtime.NumGoroutine())
	f.server.Resume()
	time.Sleep(3 * time.Second)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	t.Log("later", runtime.NumGoroutine())
}

func TestRVText(t *testing.T) {
	t.Log(printable("a\u202e") == printable(`a\u202e`), printable("a\u3164") == "a\u3164", printable("a\ufe0f") == "a\ufe0f", printable("a\u2800") == "a\u2800")
}
