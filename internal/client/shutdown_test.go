package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// shutdown begins a shutdown on a goroutine of its own.
func (f *fixture) shutdown(ctx context.Context, c *Client) *result {
	return f.async(func() error { return c.Shutdown(ctx) })
}

// other returns a handle on a lock of its own.
func (f *fixture) other(c *Client, kind *wire.Kind, name string) *Lock {
	l := new(Lock)
	tabled(l, c, kind, name, name)
	return l
}

// TestShutdownKeepsWhatIsHeld has a section take three leases to wind up.
func TestShutdownKeepsWhatIsHeld(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		ctx, done := h.Context(), h.Done()
		stopped := f.shutdown(f.Context(), l.client)
		require.ErrorIs(f, context.Cause(ctx), fault.ErrClosed)
		for range 3 {
			f.until(time.Since(f.start) + watchdogTimeout)
			require.NoError(f, h.Err())
			require.True(f, h.Deadline().After(time.Now()))
			require.NotNil(f, f.held())
			require.False(f, stopped.over())
		}
		select {
		case <-done:
			f.Error("Done is closed")
		default:
		}
		require.NoError(f, h.Unlock(f.Context()))
		stopped.succeeded(3 * watchdogTimeout)
		f.free()
		require.ErrorIs(f, h.Err(), fault.ErrNotHeld)
		require.NoError(f, l.client.Shutdown(f.Context()))
		require.True(f, l.client.IsClosed())
	})
}

// TestShutdownEndsWaits has waiters of every sort be told at once, although a lock of the client is held.
func TestShutdownEndsWaits(t *testing.T) {
	run(t, func(f *fixture) {
		holder, c := f.newLock(), f.client()
		require.NoError(f, acquire(f.Context(), holder))
		mine := f.other(c, wire.Plain, "mine")
		h := f.hold(f.Context(), mine, Terms{})
		l := f.lock(c, wire.Plain)
		head := f.async(func() error { return acquire(f.Context(), l) })
		behind := f.async(func() error { return acquireWithin(f.Context(), l, time.Hour) })
		owned := f.async(func() error { return acquire(WithOwner(f.Context()), l) })
		polls := f.lock(c, wire.Spin)
		polls.Configure(func(h *table.Handle) error {
			h.FirstDelay, h.MaxDelay = time.Minute, time.Minute
			return nil
		})
		spins := f.async(func() error { return acquire(f.Context(), polls) })
		own := f.async(func() error { return acquire(f.Context(), mine) })
		f.until(time.Second)
		require.Equal(f, 5, c.Table().Counts().Waiting)
		f.took()
		stopped := f.shutdown(f.Context(), c)
		for _, r := range []*result{head, behind, owned, spins, own} {
			r.failed(fault.ErrClosed, time.Second)
		}
		require.Zero(f, c.Table().Counts().Waiting)
		require.ErrorIs(f, acquire(f.Context(), f.other(c, wire.Plain, "new")), fault.ErrClosed)
		require.ErrorIs(f, acquire(WithOwner(f.Context()), f.other(c, wire.Plain, "new")), fault.ErrClosed)
		f.until(time.Second)
		require.Equal(f, either(f, []string{"release", "release"}, nil), f.took(), "the heads have left the line")
		_, err := l.TTL(f.Context())
		require.NoError(f, err, "queries work")
		require.NoError(f, h.Unlock(f.Context()))
		stopped.succeeded(time.Second)
		require.NoError(f, holder.Unlock(f.Context()))
	})
}

// TestShutdownEndsTheWaitForAConnection has calls wait for the only connection slot, which an acquire has that goes unanswered.
// An acquisition ends, a re-entry and a query go on.
func TestShutdownEndsTheWaitForAConnection(t *testing.T) {
	run(t, func(f *fixture) {
		f.info = driver.Info{Bounded: true, Slots: 1}
		c := f.client()
		mine := f.other(c, wire.Plain, "mine")
		h := f.hold(f.Context(), mine, Terms{})
		within := context.WithoutCancel(h.Context())
		f.slowly("acquire", 2*time.Second, 2*time.Second)
		slow := f.async(func() error { return acquire(f.Context(), f.lock(c, wire.Plain)) })
		other := f.other(c, wire.Plain, "other")
		waits := f.async(func() error { return acquire(f.Context(), other) })
		owned := f.async(func() error {
			return acquireWithin(WithOwner(f.Context()), f.other(c, wire.Plain, "owned"), time.Minute)
		})
		again := f.async(func() error { return acquire(within, mine) })
		query := f.async(func() error {
			_, err := mine.TTL(f.Context())
			return err
		})
		f.until(time.Second)
		stopped := f.shutdown(f.Context(), c)
		waits.failed(fault.ErrClosed, time.Second)
		owned.failed(fault.ErrClosed, time.Second)
		require.False(f, again.over() || query.over())
		<-slow.done
		require.ErrorIs(f, slow.err, fault.ErrClosed)
		<-again.done
		require.NoError(f, again.err)
		<-query.done
		require.NoError(f, query.err)
		require.NoError(f, mine.Unlock(within))
		require.NoError(f, h.Unlock(f.Context()))
		<-stopped.done
		require.NoError(f, stopped.err)
	})
}

// TestShutdownDuringAcquire has an acquire be granted when the shutdown has begun. Its caller gets ErrClosed, and Shutdown
// waits for the release.
func TestShutdownDuringAcquire(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		f.slowly("acquire", time.Second, time.Second)
		r := f.async(func() error { return acquire(f.Context(), l) })
		f.until(500 * time.Millisecond)
		stopped := f.shutdown(f.Context(), l.client)
		r.failed(fault.ErrClosed, 2*time.Second)
		stopped.succeeded(2 * time.Second)
		f.free()
		require.Equal(f, []string{"acquire", "release"}, f.took())
	})
}

// TestShutdownDuringHandOver has a hand-over go on when the shutdown begins: it is settled, and its grant is released.
func TestShutdownDuringHandOver(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(f.handOvers), wire.Plain)
		require.NoError(f, acquire(f.Context(), l))
		next := f.async(func() error { return acquire(f.Context(), l) })
		f.slowly(either(f, "release", "hand over"), time.Second, time.Second)
		unlock := f.async(func() error { return l.Unlock(f.Context()) })
		f.until(500 * time.Millisecond)
		stopped := f.shutdown(f.Context(), l.client)
		next.failed(fault.ErrClosed, 500*time.Millisecond)
		unlock.succeeded(2 * time.Second)
		stopped.succeeded(either(f, 2500*time.Millisecond, 2*time.Second)) // in the line, the waiter's release goes out at once
		f.free()
	})
}

// TestNothingIsHandedOverDuringShutdown has an unlock free the lock, although a waiter of this process was next.
func TestNothingIsHandedOverDuringShutdown(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(func(cfg *Config) { cfg.Table.HandOverTime = time.Hour }), wire.Plain)
		require.NoError(f, acquire(f.Context(), l))
		next := f.async(func() error { return acquire(f.Context(), l) })
		f.took()
		var n notice.List
		l.client.Table().Stop(&n) // the waiter is not told yet
		n.Deliver(l.client)
		require.NoError(f, l.Unlock(f.Context()))
		require.Equal(f, []string{"release"}, f.took())
		f.free()
		require.NoError(f, l.client.Shutdown(f.Context()))
		next.failed(fault.ErrClosed, 0)
	})
}

// TestReentryDuringShutdown has an owner re-enter what it holds, whatever else the owner does meanwhile.
func TestReentryDuringShutdown(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		within := context.WithoutCancel(h.Context())
		f.slowly("count", time.Second, time.Second)
		first := f.async(func() error { return acquire(within, l) })
		second := f.async(func() error { return acquire(within, l) }) // waits for its turn
		f.until(500 * time.Millisecond)
		stopped := f.shutdown(f.Context(), l.client)
		third := f.async(func() error { return acquire(within, l) })
		require.False(f, first.over() || second.over() || third.over())
		<-third.done
		<-second.done
		<-first.done
		require.NoError(f, errors.Join(first.err, second.err, third.err))
		f.instead(nil)
		require.NoError(f, h.Unlock(f.Context()))
		for range 3 {
			require.False(f, stopped.over())
			require.NoError(f, l.Unlock(within))
		}
		<-stopped.done
		require.NoError(f, stopped.err)
		f.free()
	})
}

// TestReentryInTroubleDuringShutdown has a re-entry pause between its attempts as always.
func TestReentryInTroubleDuringShutdown(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		within := context.WithoutCancel(h.Context())
		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "count" && time.Since(f.start) < 2*time.Second {
				return busy()
			}
			return do()
		})
		before := f.async(func() error { return acquire(within, l) })
		f.until(time.Second)
		stopped := f.shutdown(f.Context(), l.client)
		<-before.done
		require.NoError(f, before.err)
		require.Less(f, count(f, "count"), 30)
		require.NoError(f, l.Unlock(within))
		require.NoError(f, h.Unlock(f.Context()))
		<-stopped.done
		require.NoError(f, stopped.err)
	})
}

// TestShutdownDoesNotWait has locks that no caller can unlock any more.
func TestShutdownDoesNotWait(t *testing.T) {
	for what, end := range map[string]func(f *fixture, h *Hold){
		"for a lost lock":           func(f *fixture, _ *Hold) { f.drop() },
		"for a lease that runs out": func(*fixture, *Hold) {},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				terms := Terms{}
				if what == "for a lease that runs out" {
					terms.Lease = 5 * time.Second
				}
				h := f.hold(f.Context(), l, terms)
				stopped := f.shutdown(f.Context(), l.client)
				require.False(f, stopped.over())
				end(f, h)
				<-stopped.done
				require.NoError(f, stopped.err)
				require.LessOrEqual(f, stopped.at, watchdogTimeout/3+jitter)
			})
		})
	}
}

// TestShutdownEnds has a shutdown end before the locks are unlocked.
func TestShutdownEnds(t *testing.T) {
	hurry := errors.New("a second signal")
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		ctx, cancel := context.WithCancelCause(f.Context())
		long, stop := context.WithTimeout(f.Context(), time.Hour)
		defer stop()
		first, second := f.shutdown(ctx, l.client), f.shutdown(long, l.client)
		f.until(time.Second)
		cancel(hurry)
		first.failed(hurry, time.Second)
		require.ErrorIs(f, first.err, context.Canceled)
		require.NotErrorIs(f, first.err, fault.ErrClosed)
		require.Equal(f, "rlock: shutdown with 1 hold left of \"name\": context canceled: a second signal", first.err.Error())
		second.failed(fault.ErrClosed, time.Second)
		require.Equal(f, "rlock: shutdown with 1 hold left of \"name\": client is closed", second.err.Error())
		require.ErrorIs(f, h.Err(), fault.ErrClosed)
		require.NotNil(f, f.held(), "nothing is freed by force")
		require.NoError(f, h.Unlock(f.Context()))
		require.NoError(f, l.client.Shutdown(ctx), "it is closed already")
	})
	run(t, func(f *fixture) { // Close cuts a shutdown short
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		again := f.hold(h.Context(), l, Terms{})
		stopped := f.shutdown(f.Context(), l.client)
		l.client.Close()
		stopped.failed(fault.ErrClosed, 0)
		require.Equal(f, "rlock: shutdown with 2 holds left of \"name\": client is closed", stopped.err.Error())
		require.NoError(f, again.Unlock(f.Context()))
		require.NoError(f, h.Unlock(f.Context()))
	})
	run(t, func(f *fixture) { // the context has ended before
		l := f.newLock()
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		require.NoError(f, l.client.Shutdown(ctx), "no hold is left")
		require.True(f, l.client.IsClosed())
	})
}

// TestShutdownWaitsForBackgroundReleases has a release that went unanswered be tried again before the client is closed.
func TestShutdownWaitsForBackgroundReleases(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		require.NoError(f, acquire(f.Context(), l))
		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "release" && time.Since(f.start) < 6*time.Second {
				return network()
			}
			return do()
		})
		stopped := f.shutdown(f.Context(), l.client)
		unlock := f.async(func() error { return l.Unlock(f.Context()) })
		<-unlock.done
		require.Error(f, unlock.err)
		<-stopped.done
		require.NoError(f, stopped.err)
		f.free()
		require.Zero(f, l.client.Table().Counts().InDoubt)
	})
}

// TestShutdownOfItsOwnSection has every context refused that carries a hold of the client.
func TestShutdownOfItsOwnSection(t *testing.T) {
	run(t, func(f *fixture) {
		c, others := f.client(), f.client()
		mine := f.hold(f.Context(), f.lock(c, wire.Plain), Terms{})
		theirs := f.hold(mine.Context(), f.other(others, wire.Plain, "theirs"), Terms{})
		again := f.hold(theirs.Context(), f.other(others, wire.Plain, "again"), Terms{})
		for _, h := range []*Hold{mine, theirs, again} {
			err := c.Shutdown(context.WithoutCancel(h.Context()))
			require.ErrorIs(f, err, fault.ErrInvalidOption)
			require.Equal(f, "rlock: shutdown with the context of a hold of this client: invalid option", err.Error())
		}
		require.NoError(f, mine.Context().Err(), "nothing is stopped")
		require.False(f, c.IsStopping())
		stopped := f.shutdown(mine.Context(), others)
		require.False(f, stopped.over(), "this context has no hold of that client")
		require.NoError(f, again.Unlock(f.Context()))
		require.NoError(f, theirs.Unlock(f.Context()))
		stopped.succeeded(0)
		require.NoError(f, mine.Unlock(f.Context()))
	})
}
