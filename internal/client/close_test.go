package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestCloseDuringWaits has waiters of every sort be told at once.
func TestCloseDuringWaits(t *testing.T) {
	run(t, func(f *fixture) {
		holder, c := f.newLock(), f.client()
		require.NoError(f, acquire(f.Context(), holder))
		l := f.lock(c, wire.Plain)
		head := f.async(func() error { return acquire(f.Context(), l) })
		behind := f.async(func() error { return acquireWithin(f.Context(), l, time.Hour) })
		polls := f.lock(c, wire.Spin)
		polls.Configure(func(h *table.Handle) error {
			h.FirstDelay, h.MaxDelay = time.Minute, time.Minute
			return nil
		})
		spins := f.async(func() error { return acquire(f.Context(), polls) })
		f.until(time.Second)
		f.took()
		c.Close()
		for _, r := range []*result{head, behind, spins} {
			r.failed(fault.ErrClosed, time.Second)
		}
		require.Equal(f, time.Second, time.Since(f.start), "Close has not waited")
		c.Close()
		require.ErrorIs(f, acquire(f.Context(), l), fault.ErrClosed)
		_, err := l.TTL(f.Context())
		require.ErrorIs(f, err, fault.ErrClosed)
		left := []string{"release", "pump"} // it watched, and has another one asked
		require.ElementsMatch(f, either(f, left, nil), f.took(), "the head has left the line")
		require.NoError(f, holder.Unlock(f.Context()))
	})
}

func TestCloseEndsHolds(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		h.Context()
		l.client.Close()
		requireOver(f, h, fault.ErrClosed)
		f.took()
		f.until(watchdogTimeout / 2)
		require.NotContains(f, f.took(), "renew")
		require.NoError(f, h.Unlock(f.Context()), "an unlock works after Close")
		f.free()
	})
}

// TestCloseWaitsForCommands has Close wait for an acquire that is under way, and for the release that follows it.
func TestCloseWaitsForCommands(t *testing.T) {
	for what, call := range map[string]func(f *fixture, l *Lock) error{
		"with its caller":    func(f *fixture, l *Lock) error { return acquire(f.Context(), l) },
		"without its caller": func(f *fixture, l *Lock) error { return acquireForASecond(f, l) },
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				f.slowly("acquire", 2*time.Second, time.Second)
				r := f.async(func() error { return call(f, l) })
				f.until(1500 * time.Millisecond)
				closed := f.async(func() error { l.client.Close(); return nil })
				closed.succeeded(3 * time.Second)
				<-r.done
				require.Error(f, r.err)
				f.free()
				// The line must not get a waiter that is gone, and so the release does not wait for the acquire.
				expected := []string{"acquire", "release"}
				if what == "without its caller" && !f.classic {
					expected = []string{"release", "acquire"}
				}
				require.Equal(f, expected, f.took())
			})
		})
	}
}

// TestCloseTimesOut has a command go on for longer than Close waits. Then the client is retired: it begins no background
// duty any more, and an unlock needs no worker. In the line, the release has gone out when the caller left.
func TestCloseTimesOut(t *testing.T) {
	run(t, func(f *fixture) {
		c := f.client()
		l := f.lock(c, wire.Plain)
		var held Lock
		tabled(&held, c, wire.Plain, "held", "held")
		require.NoError(f, acquire(f.Context(), &held))
		f.slowly("acquire", time.Minute, 0)
		r := f.async(func() error { return acquireForASecond(f, l) })
		r.failed(context.Canceled, time.Second)
		f.async(func() error { c.Close(); return nil }).succeeded(time.Second + commandTimeout)
		require.True(f, c.tasks.Retired())
		f.took()
		require.NoError(f, held.Unlock(f.Context()))
		require.Equal(f, []string{"release"}, f.took())
		f.until(time.Minute)
		require.Equal(f, []string{"acquire"}, f.took(), "nobody is left to release it")
		require.Equal(f, f.classic, f.held() != nil)
		f.until(time.Minute + watchdogTimeout + time.Millisecond)
		f.free()
	})
}

// TestCloseDuringUnlock has Close wait for an unlock that is retried.
func TestCloseDuringUnlock(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		require.NoError(f, acquire(f.Context(), l))
		f.instead(func(_ string, do func() wire.Reply) wire.Reply {
			if time.Since(f.start) < 2*time.Second {
				return busy()
			}
			return do()
		})
		unlock := f.async(func() error { return l.Unlock(f.Context()) })
		f.until(time.Second)
		l.client.Close()
		<-unlock.done
		require.NoError(f, unlock.err)
		f.free()
	})
}

// TestCloseDuringBackgroundRelease has Close bring a background release forward that pauses after a failure.
func TestCloseDuringBackgroundRelease(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		require.NoError(f, acquire(f.Context(), l))
		f.instead(func(string, func() wire.Reply) wire.Reply { return busy() })
		r := f.async(func() error { return l.Unlock(f.Context()) })
		<-r.done
		require.Error(f, r.err)
		f.until(8 * time.Second)
		f.instead(nil)
		l.client.Close()
		f.free()
		require.Less(f, time.Since(f.start), 8*time.Second+jitter)
	})
}
