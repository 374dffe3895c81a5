package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestRenewals(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		f.took()
		deadline := h.Deadline()
		for d := time.Second; d < 5*time.Minute; d += time.Second {
			f.until(d)
			require.NoError(f, h.Err())
			require.NotNil(f, f.held())
			require.Greater(f, time.Until(f.held().expires), watchdogTimeout/2)
			require.False(f, h.Deadline().Before(deadline), "a deadline only ever moves later")
			deadline = h.Deadline()
		}
		require.InDelta(f, 30, count(f, "renew"), 1, "one in a third of the lease")
		require.NoError(f, h.Unlock(f.Context()))
		f.until(time.Hour)
		require.Equal(f, []string{"release"}, f.took(), "the watchdog has forgotten it")
		require.Empty(f, f.logged())
	})
}

// TestRenewalsShareACommand has locks be taken one by one: after a while they are renewed together.
func TestRenewalsShareACommand(t *testing.T) {
	runLine(t, func(f *fixture) {
		c := f.client()
		var locks [50]*Lock
		for i := range locks {
			name := string(rune('A' + i))
			locks[i] = new(Lock)
			tabled(locks[i], c, wire.Plain, name, name)
			require.NoError(f, acquire(f.Context(), locks[i]))
			time.Sleep(10 * time.Millisecond)
		}
		f.until(time.Minute)
		f.took()
		f.until(2 * time.Minute)
		require.LessOrEqual(f, count(f, "renew"), 7)
		for _, l := range locks {
			require.NoError(f, l.Unlock(f.Context()))
		}
	})
}

func TestLease(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{Lease: 10 * time.Second})
		ctx := h.Context()
		over := f.async(func() error { <-ctx.Done(); return context.Cause(ctx) })
		deadline := h.Deadline().Sub(f.start)
		require.Less(f, deadline, 10*time.Second, "a little before the lease ends in Redis")
		f.until(deadline - 1)
		require.NoError(f, h.Err())
		require.False(f, over.over())
		f.until(deadline)
		over.failed(fault.ErrLost, deadline)
		requireOver(f, h, fault.ErrLost)
		require.NotNil(f, f.held(), "Redis still has it")
		f.until(10 * time.Second)
		f.free()
		require.NotContains(f, f.took(), "renew")
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrNotHeld)
		require.Empty(f, f.logged(), "the end of a lease is what was asked for")
	})
}

// TestLostInRedis has the lock disappear from Redis: the next renewal notices.
func TestLostInRedis(t *testing.T) {
	t.Run("with a hold", func(t *testing.T) {
		run(t, func(f *fixture) {
			h := f.hold(f.Context(), f.newLock(), Terms{})
			h.Context()
			f.drop()
			f.until(watchdogTimeout/3 - time.Second)
			require.NoError(f, h.Err())
			f.until(watchdogTimeout/3 + time.Second)
			requireOver(f, h, fault.ErrLost)
			require.Equal(f, []string{"rlock: lock lost while held"}, f.logged(), "although its context has told the holder")
			require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		})
	})
	t.Run("without one", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			require.NoError(f, acquire(f.Context(), l))
			f.drop()
			f.until(watchdogTimeout)
			require.Equal(f, []string{"rlock: lock lost while held"}, f.logged())
			require.ErrorIs(f, l.Unlock(f.Context()), fault.ErrLost)
		})
	})
}

// TestRenewalsFail has renewals fail until the deadline, and then a release clean up.
func TestRenewalsFail(t *testing.T) {
	run(t, func(f *fixture) {
		h := f.hold(f.Context(), f.newLock(), Terms{})
		h.Context()
		failed := 0
		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "renew" {
				failed++
				return network()
			}
			return do()
		})
		deadline := h.Deadline().Sub(f.start)
		f.until(deadline - 1)
		require.NoError(f, h.Err())
		require.Greater(f, failed, 15, "about each second")
		require.Less(f, failed, 60)
		f.until(deadline)
		requireOver(f, h, fault.ErrLost)
		f.until(watchdogTimeout + time.Second)
		require.Contains(f, f.took(), "release")
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
	})
	t.Run("and recover", func(t *testing.T) {
		run(t, func(f *fixture) {
			h := f.hold(f.Context(), f.newLock(), Terms{})
			f.instead(func(command string, do func() wire.Reply) wire.Reply {
				if command == "renew" && time.Since(f.start) < 20*time.Second {
					return network()
				}
				return do()
			})
			f.until(2 * time.Minute)
			require.NoError(f, h.Err())
			require.NoError(f, h.Unlock(f.Context()))
			f.free()
		})
	})
}

// TestMaxHold has a hold end on purpose while it is renewed.
func TestMaxHold(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(func(cfg *Config) { cfg.Table.MaxHold = time.Minute }), wire.Plain)
		h := f.hold(f.Context(), l, Terms{})
		f.until(time.Minute - 1)
		require.NoError(f, h.Err())
		f.until(time.Minute)
		requireOver(f, h, fault.ErrLost)
		f.free()
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
	})
}

func TestZeroHold(t *testing.T) {
	for _, h := range []*Hold{nil, {}} {
		<-h.Done()
		require.ErrorIs(t, h.Err(), fault.ErrNotHeld)
		require.ErrorIs(t, context.Cause(h.Context()), fault.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrNotHeld)
		require.True(t, h.Deadline().IsZero())
		require.Zero(t, h.Token())
	}
}

// TestContextCarriesTheHold has the context of a hold re-enter, unless an owner was created within the hold.
func TestContextCarriesTheHold(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.lock(f.client(), wire.Fenced)
		h := f.hold(f.Context(), l, Terms{})
		require.Equal(f, f.token(), h.Token())
		require.Same(f, h.Context(), h.Context())
		require.NoError(f, acquireWithin(h.Context(), l, 0))
		require.Equal(f, 2, f.held().count)
		require.ErrorIs(f, acquireWithin(WithOwner(h.Context()), l, 0), fault.ErrRefused)
		n, err := l.HoldCount(h.Context())
		require.NoError(f, err)
		require.Equal(f, 2, n)
		require.NoError(f, l.Unlock(h.Context()))
		require.Equal(f, 1, f.held().count)
		require.NoError(f, h.Unlock(f.Context()))
		requireOver(f, h, fault.ErrNotHeld)
		f.free()
	})
}
