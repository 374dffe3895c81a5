package client

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestForceGrantsToTheLine has a client unlock the lock of another process by force, and get it itself. The reply to the
// unlock comes before or after the grant.
func TestForceGrantsToTheLine(t *testing.T) {
	for what, c := range map[string]struct{ grant, reply time.Duration }{
		"grant first": {0, 100 * time.Millisecond}, "reply first": {100 * time.Millisecond, 0}, "at once": {0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.newLock()
				lost := f.hold(f.Context(), holder, Terms{})
				w := f.waits(Terms{})
				f.until(time.Second)
				f.took()
				f.late = c.grant
				f.slowly("force", 0, c.reply)
				freed, err := w.lock.ForceUnlock(f.Context(), nil)
				require.NoError(f, err)
				require.True(f, freed)
				w.succeeded(time.Second + c.grant)
				require.Equal(f, time.Second+c.grant, w.at)
				require.NotContains(f, f.took(), "acquire")
				f.until(2 * time.Second)
				require.NoError(f, w.hold.Err(), "the new hold is not ended")
				require.NoError(f, w.hold.Unlock(f.Context()))
				f.until(watchdogTimeout)
				require.ErrorIs(f, lost.Err(), fault.ErrLost)
				require.ErrorIs(f, lost.Unlock(f.Context()), fault.ErrLost)
				f.free()
			})
		})
	}
}

// TestForceEndsTheOwnHold has a client unlock its own hold by force: another process gets the lock.
func TestForceEndsTheOwnHold(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		h := f.hold(f.Context(), holder, Terms{})
		w := f.waits(Terms{})
		f.until(time.Second)
		freed, err := holder.ForceUnlock(f.Context(), nil)
		require.NoError(f, err)
		require.True(f, freed)
		requireOver(f, h, fault.ErrLost)
		w.now()
		f.until(2 * time.Second)
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		require.NoError(f, w.hold.Unlock(f.Context()))
	})
}

// TestPublicRelease has others listen. The process that offers them the lock grants it to the line a little later.
func TestPublicRelease(t *testing.T) {
	t.Run("that nobody takes", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			others := f.foreign()
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{})
			f.until(1500 * time.Millisecond)
			f.took()
			var again atomic.Int32 // commands may run at the same time
			f.instead(func(command string, do func() wire.Reply) wire.Reply {
				if n := again.Add(1); command == "pump" && n <= 3 {
					return wire.Reply{N: -2} // others may still take it
				}
				return do()
			})
			require.NoError(f, holder.Unlock(f.Context()))
			f.free()
			require.Len(f, others.arrives, 1)
			<-w.done
			require.NoError(f, w.err)
			require.GreaterOrEqual(f, w.at, 1501*time.Millisecond)
			require.LessOrEqual(f, w.at, 1505*time.Millisecond)
			require.NotContains(f, f.took(), "acquire")
			require.NoError(f, w.hold.Unlock(f.Context()))
		})
	})
	t.Run("of which no watcher hears", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			f.foreign()
			f.deaf = wire.NewNames(f.kind(wire.Plain), name, "").Base()
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{})
			f.until(1500 * time.Millisecond)
			f.took()
			require.NoError(f, holder.Unlock(f.Context()))
			f.free()
			f.until(1502 * time.Millisecond)
			w.now()
			require.Equal(f, []string{"release", "pump"}, f.took())
			require.NoError(f, w.hold.Unlock(f.Context()))
		})
	})
	t.Run("that one of them takes", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			f.foreign()
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{})
			f.until(1500 * time.Millisecond)
			f.took()
			require.NoError(f, holder.Unlock(f.Context()))
			require.True(f, f.takeForOthers(watchdogTimeout))
			f.until(2 * time.Second)
			require.False(f, w.over())
			f.freeForOthers()
			w.now()
			require.NotContains(f, f.took(), "acquire")
			require.NoError(f, w.hold.Unlock(f.Context()))
		})
	})
}

// TestOthersTakeTurns has one of the others listen while the goroutines of two clients pass the lock on: it is offered to them.
func TestOthersTakeTurns(t *testing.T) {
	runLine(t, func(f *fixture) {
		others := f.foreign()
		f.contend(4, 25, f.newLock(), f.newLock())
		f.free()
		require.Greater(f, len(others.arrives), 200/4, "in turn with two clients")
		require.Less(f, time.Since(f.start), time.Second, "200 turns of a ms, and what they cost")
	})
}

// TestAWatcherPumps has one of the others hold the lock when a client begins to wait, and release it. It knows of no line.
func TestAWatcherPumps(t *testing.T) {
	runLine(t, func(f *fixture) {
		require.True(f, f.takeForOthers(watchdogTimeout))
		all := []*waiting{f.waits(Terms{}), f.waits(Terms{}), f.waits(Terms{})}
		f.until(time.Second)
		base := wire.NewNames(f.kind(wire.Plain), name, "").Base()
		twin := base + ":rlock-twin"
		require.Equal(f, []any{twin, int64(1), base, int64(1)}, f.do("PUBSUB", "NUMSUB", twin, base), "one is asked to watch within a second")
		f.took()
		f.freeForOthers()
		for _, w := range all {
			w.now()
			require.NoError(f, w.hold.Unlock(f.Context()))
		}
		took := f.took()
		if last := len(took) - 1; took[last] == "pump" { // by the watcher that leaves, at some moment
			took = took[:last]
		}
		require.Equal(f, []string{"pump", "release", "release", "release"}, took)
	})
}

// TestLeavingTheLine has the first waiter leave: the next one gets the lock.
func TestLeavingTheLine(t *testing.T) {
	for what, leave := range map[string]func(f *fixture, l *Lock) (takes []string){
		"because its wait is over": func(*fixture, *Lock) []string { return []string{"release"} },
		"by Close": func(_ *fixture, l *Lock) []string {
			l.client.Close()
			return []string{"release", "pump", "pump"} // it watched, and has another one asked, which begins with a look
		},
		"by Shutdown": func(f *fixture, l *Lock) []string {
			require.NoError(f, l.client.Shutdown(f.Context()))
			return []string{"release", "pump", "pump"}
		},
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder, leaves := f.newLock(), f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				first := f.async(func() error { return acquireWithin(f.Context(), leaves, time.Second) })
				second := f.waits(Terms{})
				f.until(time.Second - time.Millisecond)
				require.Len(f, f.line(), 2)
				f.took()
				takes := leave(f, leaves)
				f.until(time.Second + 10*time.Millisecond)
				<-first.done
				require.Error(f, first.err)
				require.Len(f, f.line(), 1)
				require.ElementsMatch(f, takes, f.took())
				require.NoError(f, holder.Unlock(f.Context()))
				second.now()
				require.NoError(f, second.hold.Unlock(f.Context()))
			})
		})
	}
}

// TestShutdownGrantsToOthers has the lock of a client that shuts down go to another process, not to its own waiter.
func TestShutdownGrantsToOthers(t *testing.T) {
	runLine(t, func(f *fixture) {
		c := f.client()
		l := f.lock(c, wire.Plain)
		require.NoError(f, acquire(f.Context(), l))
		own := f.waitsFor(l, Terms{})
		other := f.waits(Terms{})
		f.until(time.Second)
		stopped := f.shutdown(f.Context(), c)
		own.failed(fault.ErrClosed, time.Second)
		require.False(f, other.over())
		require.NoError(f, l.Unlock(f.Context()))
		other.now()
		stopped.succeeded(time.Second)
		require.NoError(f, other.hold.Unlock(f.Context()))
	})
}

// TestAnUnreachableWaiter has a process stand in the line that is gone.
func TestAnUnreachableWaiter(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		f.do("ZADD", lineKey, "1", "gone:1|3000")
		first, second := f.waits(Terms{}), f.waits(Terms{})
		f.until(time.Second)
		require.Len(f, f.line(), 3)
		require.NoError(f, holder.Unlock(f.Context()))
		first.now()
		require.Len(f, f.line(), 2, "it is passed over")
		f.until(5 * time.Second)
		require.NoError(f, first.hold.Unlock(f.Context()))
		second.now()
		require.Empty(f, f.line(), "and removed")
		require.NoError(f, second.hold.Unlock(f.Context()))
	})
}

// TestAPlainReleaseMeetsAFencedWaiter has a release without a token key meet a waiter that needs a token: it tells it to ask.
func TestAPlainReleaseMeetsAFencedWaiter(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder, fenced := f.newLock(), f.lock(f.client(), wire.Fenced)
		require.NoError(f, acquire(f.Context(), holder))
		w := f.waitsFor(fenced, Terms{})
		f.until(time.Second)
		f.took()
		require.NoError(f, holder.Unlock(f.Context()))
		w.now()
		require.Equal(f, []string{"release", "acquire"}, f.took())
		require.Equal(f, f.token(), w.hold.Token())
		require.NoError(f, w.hold.Unlock(f.Context()))
	})
}

// TestDenied has Redis refuse the scripts of the line, from the start or later on: each call that needs them says so.
func TestDenied(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		h := f.hold(f.Context(), holder, Terms{})
		w := f.waits(Terms{})
		f.until(time.Second)
		f.deny(true)
		for _, err := range []error{acquire(f.Context(), f.newLock()), h.Unlock(f.Context())} {
			require.ErrorContains(f, err, "the user of Redis lacks a right")
			require.NotErrorIs(f, err, fault.ErrUnavailable)
			require.NotErrorIs(f, err, fault.ErrNotAcquired)
		}
		require.ErrorIs(f, h.Err(), fault.ErrNotHeld)
		<-w.done
		require.ErrorContains(f, w.err, "the user of Redis lacks a right")
		require.Less(f, w.at, time.Second+pollInterval)
		f.deny(false)
		f.until(time.Second + watchdogTimeout)
		f.free()
	})
}

// TestAPumpDoesNotHoldUpTheReader has a message arrive when Close no longer waits, at a server that does not answer.
func TestAPumpDoesNotHoldUpTheReader(t *testing.T) {
	runLine(t, func(f *fixture) {
		require.True(f, f.takeForOthers(watchdogTimeout))
		w := f.waits(Terms{})
		f.until(time.Second)
		f.clients[0].Close()
		w.failed(fault.ErrClosed, time.Second)
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			time.Sleep(time.Second)
			return run()
		})
		f.clients[0].onFreed(wire.NewNames(f.kind(wire.Plain), name, "").Base())
		require.Equal(f, time.Second, time.Since(f.start))
		time.Sleep(2 * time.Second)
		require.Contains(f, f.took(), "pump")
	})
}
