package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestRefusalStands has the lock refused once. Then the server goes silent, or refuses connections.
func TestRefusalStands(t *testing.T) {
	const poll = firstTerm // no waiter in the line polls less often
	waits := func(wait time.Duration) patience { return patience{wait: wait} }
	for what, c := range map[string]struct {
		patience
		then func(f *fixture)
		want class
	}{
		"no poll was due":                   {waits(500 * time.Millisecond), (*fixture).hang, refused},
		"a poll has just been sent":         {waits(poll + floor/2), (*fixture).hang, refused},
		"a poll has had no reply":           {waits(poll + 2*floor), (*fixture).hang, unavailable},
		"a poll failed":                     {waits(poll + floor/2), (*fixture).refuse, unavailable},
		"a poll failed, then a deadline":    {patience{wait: -1, deadline: poll + floor/2}, (*fixture).refuse, unavailable},
		"a poll failed, then a cancel":      {patience{wait: -1, cancel: poll + floor/2}, (*fixture).refuse, unavailable},
		"a poll was sent, then a deadline":  {patience{wait: -1, deadline: poll + floor/2}, (*fixture).hang, refused},
		"a poll was sent, then a cancel":    {patience{wait: -1, cancel: poll + floor/2}, (*fixture).hang, refused},
		"a poll is silent, then a deadline": {patience{wait: -1, deadline: poll + 2*floor}, (*fixture).hang, unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				client := f.client(func(cfg *Config) { cfg.Table.PollInterval = poll })
				holder, waiter := f.newLock(), f.lock(client, wire.Plain)
				require.NoError(f, acquire(f.Context(), holder))
				r := f.async(func() error { return c.acquire(f, waiter) })
				f.until(100 * time.Millisecond)
				c.then(f)
				r.ends(c.want, max(c.wait, c.deadline, c.cancel))
				f.instead(nil)
				f.until(20 * time.Second)
				require.NoError(f, holder.Unlock(f.Context()))
			})
		})
	}
}

// refuse makes the server refuse connections.
func (f *fixture) refuse() {
	f.instead(func(string, func() wire.Reply) wire.Reply {
		r := network()
		r.Err.Fate = fault.NotSent
		return r
	})
}

// TestSpinLosersReportNoOutage has many losers at a spin lock of a healthy server. The ends of their short waits cut their
// latest questions off, which says nothing.
func TestSpinLosersReportNoOutage(t *testing.T) {
	run(t, func(f *fixture) {
		f.info = driver.Info{Bounded: true}
		f.instead(func(_ string, do func() wire.Reply) wire.Reply {
			time.Sleep(10 * time.Millisecond)
			r := do()
			time.Sleep(10 * time.Millisecond)
			return r
		})
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		var losers sync.WaitGroup
		classes, cut := make(map[class]int), 0
		var mu sync.Mutex
		c := f.client()
		for i := range 200 {
			client := c
			if i%2 == 0 {
				client = f.client()
			}
			l := f.lock(client, wire.Spin)
			l.Configure(func(h *table.Handle) error {
				h.FirstDelay, h.MaxDelay = time.Millisecond, time.Millisecond
				return nil
			})
			losers.Go(func() {
				time.Sleep(time.Duration(i) * 113 * time.Microsecond)
				began := time.Now()
				err := acquireWithin(f.Context(), l, 100*time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				classes[f.classOf(err)]++
				if time.Since(began) == 100*time.Millisecond {
					cut++
				}
			})
		}
		losers.Wait()
		require.Equal(f, map[class]int{refused: 200}, classes)
		require.Greater(f, cut, 100, "the end of the wait cut questions off")
		require.NoError(f, holder.Unlock(f.Context()))
	})
}

// TestLocalRefusal has the lock held by another owner of the same process.
func TestLocalRefusal(t *testing.T) {
	t.Run("by a hold that ends with the wait", func(t *testing.T) {
		for _, wait := range []int{980, 990, 999, 1005} {
			end := time.Duration(wait) * time.Millisecond
			run(t, func(f *fixture) {
				c := f.client()
				rival, waiter := f.lock(c, wire.Plain), f.lock(c, wire.Plain)
				f.slowly("acquire", 0, 30*time.Millisecond)
				h := f.hold(f.Context(), rival, Terms{Lease: time.Second})
				r := f.async(func() error { return acquireWithin(f.Context(), waiter, end-30*time.Millisecond) })
				if !f.classic && end > time.Second { // the release of a hold that has run out grants the lock
					r.succeeded(time.Second)
					require.NoError(f, waiter.Unlock(f.Context()))
				} else {
					r.ends(refused, end)
				}
				f.until(2 * time.Second)
				require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
			})
		}
	})
	t.Run("counts while the hold is inside its deadline", func(t *testing.T) {
		run(t, func(f *fixture) {
			c := f.client()
			rival, waiter := f.lock(c, wire.Plain), f.lock(c, wire.Plain)
			require.NoError(f, acquire(f.Context(), rival))
			f.hang()
			f.async(func() error { return acquireWithin(f.Context(), waiter, 0) }).ends(refused, 0)
			f.async(func() error { return acquireWithin(f.Context(), waiter, 12*time.Second) }).ends(refused, 12*time.Second)
			f.instead(nil)
			f.until(20 * time.Second)
			require.NoError(f, rival.Unlock(f.Context()))
		})
	})
	t.Run("does not count after the deadline", func(t *testing.T) {
		run(t, func(f *fixture) {
			c := f.client()
			rival, waiter := f.lock(c, wire.Plain), f.lock(c, wire.Plain)
			h := f.hold(f.Context(), rival, Terms{Lease: 2 * time.Second})
			f.hang()
			f.async(func() error { return acquireWithin(f.Context(), waiter, 0) }).ends(refused, 0)
			f.async(func() error { return acquireWithin(f.Context(), waiter, 4*time.Second) }).ends(unavailable, 4*time.Second)
			f.instead(nil)
			f.until(4*time.Second + 2*commandTimeout)
			require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		})
	})
}

// TestOtherGoroutinesOfTheOwner has two goroutines of an owner ask for a lock that another process has.
func TestOtherGoroutinesOfTheOwner(t *testing.T) {
	run(t, func(f *fixture) {
		holder, l := f.newLock(), f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		ctx := WithOwner(f.Context())
		first := f.async(func() error { return acquireWithin(ctx, l, 2*time.Second) })
		second := f.async(func() error { return acquireWithin(ctx, l, 2*time.Second) })
		f.async(func() error { return acquireWithin(ctx, l, 0) }).ends(refused, 0)
		first.ends(refused, 2*time.Second)
		second.ends(refused, 2*time.Second)
		f.hang()
		first = f.async(func() error { return acquireWithin(ctx, l, 2*time.Second) })
		second = f.async(func() error { return acquireWithin(ctx, l, 100*time.Millisecond) })
		third := f.async(func() error { return acquireWithin(ctx, l, 0) })
		second.ends(unavailable, 2*time.Second+floor)
		third.ends(unavailable, 2*time.Second+floor)
		first.ends(unavailable, 4*time.Second)
		f.instead(nil)
		f.until(15 * time.Second)
		require.NoError(f, holder.Unlock(f.Context()))
	})
}

// TestTextOfAnOutage checks the words.
func TestTextOfAnOutage(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		f.instead(func(string, func() wire.Reply) wire.Reply { return busy() })
		require.EqualError(f, acquireWithin(f.Context(), l, 0), `rlock: lock "name": Redis unavailable: LOADING says the server`)
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.EqualError(f, acquire(ctx, l),
			`rlock: lock "name": Redis unavailable: LOADING says the server (context deadline exceeded)`)
		f.hang()
		require.EqualError(f, acquireWithin(f.Context(), l, 0), `rlock: lock "name": Redis unavailable: no answer from Redis in time`)
		f.instead(nil)
		f.until(time.Minute)
	})
}
