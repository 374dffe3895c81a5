package page

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// fill writes locks as Redisson would.
func (f *fixture) fill(n int) {
	f.Helper()
	for first := 0; first < n; first += 5000 {
		_, err := f.rdb.Pipelined(f.Context(), func(pipe redis.Pipeliner) error {
			for i := first; i < min(first+5000, n); i++ {
				name := fmt.Sprintf("many:%06d", i)
				pipe.HSet(f.Context(), name, fmt.Sprintf("71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:%d", i), 1)
				pipe.PExpire(f.Context(), name, time.Hour)
			}
			return nil
		})
		require.NoError(f, err)
	}
}

// search types a text into the filter, and nothing else.
func (p *tab) search(text string) {
	p.Helper()
	p.run(evaluate(`q.focus()`))
	p.press(escape) // clears it, or leaves it
	p.run(evaluate(`q.focus()`))
	p.press(text)
}

// patiently waits for what takes as long as a look at very many locks.
func (p *tab) patiently(what, js string, args ...any) {
	p.Helper()
	redistest.EventuallyWithin(p, 4*time.Minute, what, func() bool { return get[bool](p, js, args...) })
}

// TestAHundredThousandLocks has one that somebody waits for. It is shown, and first, wherever it is among them, and each of the others is
// found by its name. With -short there are twenty thousand, which also are many more than the page shows.
func TestAHundredThousandLocks(t *testing.T) {
	many, written, waited, names := 100_000, "100,000", "many:077777", []string{"many:099999", "many:000000", "many:050000"}
	if testing.Short() {
		many, written, waited, names = 20_000, "20,000", "many:017777", []string{"many:019999", "many:000000", "many:010000"}
	}
	f := newFixture(t, Options{})
	f.fill(many)
	f.wait(f.client("billing", "node-1", 42).NewLock(waited))
	p := open(t, f.url)
	const first = `document.querySelector("#rows a")?.textContent === %q`
	begun := time.Now()
	p.patiently("the one with a waiter is first", first, waited)
	t.Logf("the one with a waiter was first within %v", time.Since(begun))
	p.patiently("the count", `document.querySelector("#count").textContent.startsWith("5,001 of %s locks")`, written)
	t.Logf("all were counted within %v", time.Since(begun))
	p.click(`#heads .c-name button`)
	p.await("another one is first", `!(`+first+`)`, waited)
	p.click(`#heads .c-waiters button`)
	p.await("the one with a waiter is first", first, waited)
	for _, name := range names {
		p.search(name)
		took := p.row(name)
		t.Logf("the exact name was found within %v", took)
	}
	p.search("MANY:0123*")
	p.patiently("the locks of a pattern", `document.querySelector("#count").textContent.startsWith("100 of %s locks") || document.querySelector("#count").textContent.startsWith("100 locks")`, written)
}

// scans is a hook that keeps back each SCAN while it is closed, and counts the other commands.
type scans struct {
	closed chan struct{} // nil means open
	mu     sync.Mutex
	others atomic.Int32
}

func (s *scans) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s *scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if cmd.Name() != "scan" {
			s.others.Add(1)
		} else if closed != nil {
			select {
			case <-closed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return next(ctx, cmd)
	}
}

func (s *scans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.others.Add(int32(len(cmds)))
		return next(ctx, cmds)
	}
}

// TestAnExactNameIsFoundWithoutAScan finds a lock of each kind by its key, in a few commands, while no SCAN is answered.
func TestAnExactNameIsFoundWithoutAScan(t *testing.T) {
	f := newFixture(t, Options{})
	f.fill(2 * maxRows)
	one := f.client("billing", "node-1", 42)
	for name, of := range map[string]handles.Any{
		"exact:lock": one.NewLock("exact:lock"), "exact:fair": one.NewFairLock("exact:fair"), "exact:rw": one.NewRWLock("exact:rw").Reader(),
		"exact:permits": one.NewSemaphore("exact:permits", rlock.Total(2)), "exact:fenced": one.NewLock("exact:fenced", rlock.Fenced()),
		"exact: two  words": one.NewLock("exact: two  words"), "{exact}:*": one.NewLock("{exact}:*"),
	} {
		f.take(of, rlock.Lease(time.Hour))
		assert.NotEmpty(t, name)
	}
	p := open(t, f.url)
	p.patiently("not all are shown", `!document.querySelector("#cut").hidden && ready`)
	s := &scans{closed: make(chan struct{})}
	f.rdb.AddHook(s)
	t.Cleanup(func() { close(s.closed) })
	for _, name := range []string{
		"exact:lock", "exact:fair", "exact:rw", "exact:permits", "exact:fenced", "exact: two  words", "{exact}:*", "many:000001", "many:009999",
	} {
		before := s.others.Load()
		p.search(name)
		p.row(name)
		assert.Less(t, s.others.Load()-before, int32(30*len(name)), "a few commands for each text that was asked for")
	}
	p.search("none at all")
	p.await("it is not said yet that there is none", `document.querySelector("#empty").textContent.includes("Searching")`)
}

// TestWhatIsTypedIsFound compares the filter of the server with that of the browser.
func TestWhatIsTypedIsFound(t *testing.T) {
	for _, many := range []int{0, 2 * maxRows} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			f := newFixture(t, Options{})
			f.fill(many)
			names := []string{"Orders:1", "orders:2", "x:orders", "größe:Ä", "a.b", "aXb", "[ab]", `back\slash`, "{tag}orders", "two words"}
			one := f.client("billing", "node-1", 42)
			for _, name := range names {
				f.take(one.NewLock(name), rlock.Lease(time.Hour))
			}
			f.take(one.NewSemaphore("orders:permits", rlock.Total(2)), rlock.Lease(time.Hour))
			p := open(t, f.url)
			p.patiently("all is read", `ready && document.querySelector("#cut").hidden === %v`, many == 0)
			for text, want := range map[string]string{
				"ORDERS:": "Orders:1,orders:2,orders:permits", "orders*": "Orders:1,orders:2,orders:permits", "*orders": "{tag}orders,x:orders",
				"größe": "größe:Ä", "ä": "größe:Ä", "a.b": "a.b", "[ab]": "[ab]", "words two": "two words", "o*s:*1": "Orders:1", `back\`: `back\\slash`,
			} {
				p.search("")
				p.run(evaluate(`q.value = ` + js(text) + `; q.dispatchEvent(new Event("input"))`))
				p.await(text, `[...document.querySelectorAll("#rows a")].map((a) => a.textContent).sort(collator.compare).join() === %s`, js(want))
			}
		})
	}
}

// TestAFilterIsInTheAddress opens a link to a filter, and comes back to it from a lock.
func TestAFilterIsInTheAddress(t *testing.T) {
	f := newFixture(t, Options{Prefix: "many:"})
	f.fill(2 * maxRows)
	f.take(f.client("billing", "node-1", 42).NewLock("orders:42"))
	p := open(t, f.url+"#/?q=many:00123*")
	const found = `[...document.querySelectorAll("#rows a")].map((a) => a.textContent.slice(-1)).sort().join("") === "0123456789"`
	p.patiently("those of the link", found)
	assert.Equal(t, "many:00123*", get[string](p, `q.value`))
	p.search("")
	p.await("no filter", `location.hash === "#/"`)
	p.search("many:001239")
	p.row("many:001239")
	p.await("the filter is in the address", `location.hash === "#/?q=many:001239"`)
	p.press(enter)
	p.await("its page", `!document.querySelector("#one").hidden && location.hash === "#/lock/many:001239"`)
	p.press(escape)
	p.await("the filter is still there", `q.value === "many:001239" && location.hash === "#/?q=many:001239"`)
	p.search("orders:42")
	p.await("nothing outside the prefix", `document.querySelector("#empty").textContent.includes("No lock")`)
}
