package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestUnlockIgnoresItsContext has an unlock work after its context has ended, and while it ends.
func TestUnlockIgnoresItsContext(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		require.NoError(f, acquire(f.Context(), l))
		f.slowly("release", time.Second, time.Second)
		ctx, cancel := context.WithTimeout(f.Context(), 1500*time.Millisecond)
		defer cancel()
		f.async(func() error { return l.Unlock(ctx) }).succeeded(2 * time.Second)
		f.free()
		require.NoError(f, acquire(f.Context(), l))
		require.NoError(f, l.Unlock(ctx))
		f.free()
	})
}

func TestTroubleOfReleases(t *testing.T) {
	// unlocks acquires, and unlocks while commands are carried out as a test wants it.
	unlocks := func(f *fixture, l *Lock, intercept func(command string, do func() wire.Reply) wire.Reply) *result {
		require.NoError(f, acquire(f.Context(), l))
		f.took()
		f.instead(intercept)
		return f.async(func() error { return l.Unlock(f.Context()) })
	}
	t.Run("is retried", func(t *testing.T) {
		run(t, func(f *fixture) {
			tries := 0
			r := unlocks(f, f.newLock(), func(_ string, do func() wire.Reply) wire.Reply {
				if tries++; tries <= 3 {
					return busy()
				}
				return do()
			})
			<-r.done
			require.NoError(f, r.err)
			require.Less(f, r.at, 80*time.Millisecond)
			f.free()
		})
	})
	t.Run("leaves no doubt if the lock is gone after a lost reply", func(t *testing.T) {
		run(t, func(f *fixture) {
			tries := 0
			r := unlocks(f, f.newLock(), func(_ string, do func() wire.Reply) wire.Reply {
				reply := do()
				if tries++; tries == 1 {
					return network()
				}
				return reply
			})
			<-r.done
			require.NoError(f, r.err)
			require.Equal(f, []string{"release", "release"}, f.took())
		})
	})
	t.Run("goes to the background after the command timeout", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			r := unlocks(f, l, func(_ string, do func() wire.Reply) wire.Reply {
				if time.Since(f.start) < 10*time.Second {
					return busy()
				}
				return do()
			})
			<-r.done
			require.ErrorContains(f, r.err, "LOADING")
			require.LessOrEqual(f, r.at, commandTimeout)
			require.Greater(f, r.at, commandTimeout-2*time.Second)
			require.ErrorIs(f, l.Unlock(f.Context()), fault.ErrNotHeld, "the hold is over nevertheless")
			f.until(12 * time.Second)
			f.free()
			require.Equal(f, []string{"release"}, f.took())
			require.Zero(f, l.client.Table().Stats().Due)
		})
	})
	t.Run("ends by the command timeout, although an attempt ends before", func(t *testing.T) {
		run(t, func(f *fixture) {
			r := unlocks(f, f.newLock(), func(string, func() wire.Reply) wire.Reply {
				time.Sleep(commandTimeout * 3 / 5) // such as the ReadTimeout of a client
				return network()
			})
			<-r.done
			require.Equal(f, unavailable, f.classOf(r.err))
			require.Equal(f, commandTimeout, r.at)
			f.instead(nil)
			f.until(time.Minute)
			f.free()
		})
	})
	t.Run("is logged if the background gives up", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			r := unlocks(f, l, func(string, func() wire.Reply) wire.Reply { return busy() })
			<-r.done
			require.Error(f, r.err)
			f.until(time.Minute)
			require.Equal(f, []string{"rlock: lock could not be released; it is free when its lease ends"}, f.logged())
			require.Zero(f, l.client.Table().Stats().Due)
		})
	})
	t.Run("is returned at once if waiting does not help", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			r := unlocks(f, l, func(string, func() wire.Reply) wire.Reply { return rejected("WRONGTYPE") })
			r.failed(fault.ErrLost, 0)
		})
	})
}

// TestUnlockDuringReentry has an unlock wait for a re-entry of the same owner, and the other way round.
func TestUnlockDuringReentry(t *testing.T) {
	t.Run("unlock waits", func(t *testing.T) {
		run(t, func(f *fixture) {
			l, ctx := f.newLock(), WithOwner(f.Context())
			require.NoError(f, acquire(ctx, l))
			f.slowly("count", time.Second, time.Second)
			enter := f.async(func() error { return acquire(ctx, l) })
			unlock := f.async(func() error { return l.Unlock(ctx) })
			f.until(time.Second)
			require.False(f, unlock.over())
			enter.succeeded(2 * time.Second)
			unlock.succeeded(4 * time.Second)
			require.Equal(f, 1, f.held().count)
			require.NoError(f, l.Unlock(ctx))
			f.free()
			require.Equal(f, []string{"acquire", "count", "count", "release"}, f.took())
		})
	})
	t.Run("re-entry waits", func(t *testing.T) {
		run(t, func(f *fixture) {
			l, ctx := f.newLock(), WithOwner(f.Context())
			require.NoError(f, acquire(ctx, l))
			f.slowly("release", time.Second, time.Second)
			unlock := f.async(func() error { return l.Unlock(ctx) })
			enter := f.async(func() error { return acquire(ctx, l) })
			unlock.succeeded(2 * time.Second)
			enter.succeeded(2 * time.Second)
			require.NoError(f, l.Unlock(ctx))
			f.free()
			require.Equal(f, []string{"acquire", "release", "acquire", "release"}, f.took())
		})
	})
	t.Run("of a caller that leaves", func(t *testing.T) {
		run(t, func(f *fixture) {
			l, ctx := f.newLock(), WithOwner(f.Context())
			require.NoError(f, acquire(ctx, l))
			f.slowly("count", 2*time.Second, 0)
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			f.async(func() error { return acquire(limited, l) }).failed(context.DeadlineExceeded, time.Second)
			require.NoError(f, l.Unlock(ctx), "the count that Redis has does not matter")
			f.free()
			f.until(time.Minute)
			f.free()
		})
	})
}

func TestQueries(t *testing.T) {
	run(t, func(f *fixture) {
		l, other := f.newLock(), f.newLock()
		state := func(l *Lock) (bool, time.Duration, int) {
			locked, err := l.IsLocked(f.Context())
			require.NoError(f, err)
			ttl, err := l.TTL(f.Context())
			require.NoError(f, err)
			n, err := l.HoldCount(f.Context())
			require.NoError(f, err)
			return locked, ttl, n
		}
		require := require.New(f)
		locked, ttl, n := state(l)
		require.False(locked)
		require.Zero(ttl)
		require.Zero(n)
		require.NoError(acquire(f.Context(), l))
		locked, ttl, n = state(l)
		require.True(locked)
		require.Equal(watchdogTimeout, ttl)
		require.Equal(1, n)
		locked, ttl, n = state(other)
		require.True(locked)
		require.Equal(watchdogTimeout, ttl)
		require.Zero(n, "it is another's")
		freed, err := other.ForceUnlock(f.Context(), nil)
		require.NoError(err)
		require.True(freed)
		locked, _, n = state(l)
		require.False(locked)
		require.Zero(n)
		require.ErrorIs(l.Unlock(f.Context()), fault.ErrLost)
	})
}

// TestAnUnlockPastTheDeadline has an unlock between the deadline and the end of the lease in Redis: it returns at once, and the
// release goes out at the same moment, whatever Redis does.
func TestAnUnlockPastTheDeadline(t *testing.T) {
	const lease = 10 * time.Second
	for what, c := range map[string]struct {
		others int           // acquisitions of the owner
		hangs  time.Duration // every command from the deadline on
	}{"the last one": {}, "a partial one": {others: 1}, "while Redis hangs": {hangs: time.Minute}, "both": {1, time.Minute}} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l, ctx := f.newLock(), WithOwner(f.Context())
				h := f.hold(ctx, l, Terms{Lease: lease})
				for range c.others {
					f.hold(ctx, l, Terms{Lease: lease - time.Second})
				}
				f.until(h.Deadline().Sub(f.start))
				require.ErrorIs(f, h.Err(), fault.ErrLost)
				require.NotNil(f, f.held(), "Redis still has it")
				f.took()
				var asked time.Duration
				f.instead(func(_ string, do func() wire.Reply) wire.Reply {
					asked = time.Since(f.start)
					time.Sleep(c.hangs)
					return do()
				})
				now := time.Since(f.start)
				r := f.async(func() error { return h.Unlock(ctx) })
				r.failed(fault.ErrLost, now)
				require.Equal(f, now, r.at, "at once")
				require.ErrorIs(f, r.err, fault.ErrLost)
				require.Equal(f, h.Err().Error(), r.err.Error())
				require.NotErrorIs(f, r.err, fault.ErrUnavailable)
				require.Equal(f, now, asked, "the release is under way")
				if c.hangs == 0 {
					f.free()
				}
				f.until(2 * time.Minute)
			})
		})
	}
}

// TestAReleaseWithoutAReplyIsUnavailable has no unlock return an error of two classes.
func TestAReleaseWithoutAReplyIsUnavailable(t *testing.T) {
	for what, reply := range map[string]func() wire.Reply{"the network": network, "a state of the server": busy} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				require.NoError(f, acquire(f.Context(), l))
				f.instead(func(string, func() wire.Reply) wire.Reply { return reply() })
				err := l.Unlock(f.Context())
				require.ErrorIs(f, err, fault.ErrUnavailable)
				require.NotErrorIs(f, err, fault.ErrLost)
				require.NotErrorIs(f, err, fault.ErrNotHeld)
				err = l.Unlock(f.Context())
				require.ErrorIs(f, err, fault.ErrNotHeld, "the hold is over")
				require.NotErrorIs(f, err, fault.ErrUnavailable)
				f.until(time.Hour)
			})
		})
	}
}

// TestAnUnlockThatWaitsForItsTurnEndsAtTheDeadline has an unlock wait behind a re-entry that goes unanswered. It returns when the
// hold is over, not when Redis may have freed the lock.
func TestAnUnlockThatWaitsForItsTurnEndsAtTheDeadline(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{Lease: 2 * time.Second})
		deadline := time.Until(h.Deadline())
		f.slowly("count", 4*time.Second, 4*time.Second)
		again := f.async(func() error { return acquire(context.WithoutCancel(h.Context()), l) })
		unlock := f.async(func() error { return h.Unlock(f.Context()) })
		f.until(deadline - 1)
		require.False(f, unlock.over())
		f.until(deadline)
		unlock.failed(fault.ErrLost, deadline)
		<-again.done
	})
}

// TestAnUnlockThatComesTooLate has Redis run a release when the lease has ended. Nobody took the lock away, so the loss has that reason.
func TestAnUnlockThatComesTooLate(t *testing.T) {
	for _, c := range []struct {
		slow time.Duration
		gone bool
		want string
	}{
		{100 * time.Millisecond, true, "its holder is gone from Redis"},
		{time.Second, false, "its lease ended"},
	} {
		t.Run(c.want, func(t *testing.T) {
			run(t, func(f *fixture) {
				h := f.hold(f.Context(), f.newLock(), Terms{Lease: 3 * time.Second})
				f.until(2500 * time.Millisecond)
				if c.gone {
					f.drop()
				}
				f.slowly("release", c.slow, 0)
				err := h.Unlock(f.Context())
				require.ErrorIs(f, err, fault.ErrLost)
				require.ErrorContains(f, err, c.want)
				f.free()
			})
		})
	}
}
