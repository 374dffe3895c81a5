package client

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
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
			locks[i].Init(c, wire.Plain, name, name)
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
		n, err := l.HoldCount(h.Context(), "hold count")
		require.NoError(f, err)
		require.Equal(f, 2, n)
		require.NoError(f, l.Unlock(h.Context()))
		require.Equal(f, 1, f.held().count)
		require.NoError(f, h.Unlock(f.Context()))
		requireOver(f, h, fault.ErrNotHeld)
		f.free()
	})
}

// logging returns a lock whose client has a real clock, and what that client logs.
func logging(t *testing.T) (l *Lock, logs messages) {
	t.Helper()
	logs = make(messages, 10)
	cfg := testConfig()
	cfg.Logger = func() *slog.Logger { return slog.New(logs) }
	c := New(cfg, &client{server: newServer()})
	t.Cleanup(c.Close)
	l = new(Lock)
	l.Init(c, wire.Plain, name, name)
	return l, logs
}

// watched returns a hold of a user, whose leak is noticed.
func watched(t *testing.T, l *Lock) *heldByUser {
	t.Helper()
	held, err := l.Take(t.Context(), Terms{Op: "acquire", ByHold: true})
	require.NoError(t, err)
	user := new(heldByUser)
	user.h.Init(t.Context(), held)
	user.h.DetectDrop()
	return user
}

// awaitLeak waits until a leak is logged.
func (m messages) awaitLeak(t *testing.T) {
	t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		runtime.GC()
		select {
		case message := <-m:
			require.Equal(t, "rlock: hold dropped without Unlock; it is no longer renewed", message)
			return
		case <-deadline:
			require.Fail(t, "nobody noticed")
		case <-time.After(time.Millisecond): // the next collection
		}
	}
}

// TestLeak has a hold be dropped without an unlock. It runs in real time, because cleanups run outside the virtual one.
func TestLeak(t *testing.T) {
	l, logs := logging(t)
	func() {
		user := watched(t, l)
		require.NoError(t, user.h.Context().Err()) // the context knows the hold, and the grant knows how to end it
		runtime.KeepAlive(user)
	}()
	logs.awaitLeak(t)
}

// TestAnExtensionKeepsItsHold has a program use a hold for the last time in an Extend without a reply. Meanwhile the hold is no
// leak. It runs in real time, because cleanups run outside the virtual one.
func TestAnExtensionKeepsItsHold(t *testing.T) {
	d := &stalling{Driver: &client{server: newServer()}, stalled: make(chan struct{}), reply: make(chan struct{})}
	c := New(testConfig(), d)
	defer c.Close()
	var l Lock
	l.Init(c, wire.Plain, name, name)
	held, err := l.Take(t.Context(), Terms{Op: "acquire", ByHold: true})
	require.NoError(t, err)
	extended := make(chan error)
	go func() {
		user := new(heldByUser)
		user.h.Init(t.Context(), held)
		user.h.DetectDrop()
		d.stalls.Store(true)
		extended <- user.h.Extend(t.Context(), time.Hour, nil)
	}()
	<-d.stalled
	for range 3 {
		collect(t)
	}
	err = held.Err()
	close(d.reply)
	require.NoError(t, err)
	require.NoError(t, <-extended)
}

// stalling is a driver whose next call waits.
type stalling struct {
	driver.Driver

	stalls         atomic.Bool
	stalled, reply chan struct{}
}

func (s *stalling) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	if s.stalls.CompareAndSwap(true, false) {
		close(s.stalled)
		<-s.reply
	}
	return s.Driver.Run(ctx, at, c)
}

// messages is a log handler that passes the messages on.
type messages chan string

func (m messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) Handle(_ context.Context, r slog.Record) error {
	m <- r.Message
	return nil
}

func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m messages) WithGroup(string) slog.Handler      { return m }
