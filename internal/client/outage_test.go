package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// floor is how long silence has to last to be an outage.
const floor = commandTimeout / 5

// hang makes the server carry out nothing any more. The driver gives each command up after the command timeout.
func (f *fixture) hang() {
	f.instead(func(string, func() wire.Reply) wire.Reply {
		time.Sleep(commandTimeout)
		return network()
	})
}

// refuseConnections makes each command fail at once.
func (f *fixture) refuseConnections() {
	f.instead(func(string, func() wire.Reply) wire.Reply { return network() })
}

// class is how an error tells its caller what happened.
type class string

const (
	refused     class = "refused"
	unavailable class = "unavailable"
	neither     class = "neither"
)

// classOf returns the class of an error, which may be of one class at most.
func (f *fixture) classOf(err error) class {
	f.Helper()
	require.Error(f, err)
	taken, down := errors.Is(err, fault.ErrNotAcquired), errors.Is(err, fault.ErrUnavailable)
	require.False(f, taken && down, "both: %v", err)
	require.False(f, down && errors.Is(err, fault.ErrLost), "an outage and a loss: %v", err)
	switch {
	case taken:
		return refused
	case down:
		return unavailable
	}
	return neither
}

// ends requires the call to fail with an error of a class, at a time since the start or at most a jitter later.
func (r *result) ends(want class, at time.Duration) {
	r.f.Helper()
	<-r.done
	require.Equal(r.f, want, r.f.classOf(r.err), "%v", r.err)
	r.returnedAt(at)
}

// patience is how long a caller waits, and what ends its wait.
type patience struct {
	what     string
	wait     time.Duration // negative means no Wait
	deadline time.Duration // zero means none
	cancel   time.Duration // zero means never
}

func (p patience) acquire(f *fixture, l *Lock) error {
	ctx := context.Background()
	if p.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.deadline)
		defer cancel()
	}
	if p.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	_, err := l.Take(ctx, Terms{Op: "lock", Limited: p.wait >= 0, Wait: max(p.wait, 0)})
	if err != nil && p.deadline > 0 && ctx.Err() != nil {
		require.ErrorIs(f, err, context.DeadlineExceeded)
	}
	return err
}

// TestSilence asks a server that never answers.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		patience
		want class
		at   time.Duration
	}{
		{patience{"no wait", -1, 0, floor / 2}, neither, floor / 2},
		{patience{"a cancellation after the floor", -1, 0, 2 * floor}, unavailable, 2 * floor},
		{patience{"a deadline", -1, 2 * time.Second, 0}, unavailable, 2 * time.Second},
		{patience{"a short deadline", -1, 300 * time.Millisecond, 0}, unavailable, 300 * time.Millisecond},
		{patience{"a short wait", 300 * time.Millisecond, 0, 0}, unavailable, floor},
		{patience{"a short wait and a shorter deadline", 300 * time.Millisecond, 200 * time.Millisecond, 0}, unavailable, 200 * time.Millisecond},
		{patience{"a long wait", 3 * time.Second, 0, 0}, unavailable, 3 * time.Second},
		{patience{"a wait beyond the command timeout", 7 * time.Second, 0, 0}, unavailable, 7 * time.Second},
		{patience{"a single attempt", 0, 0, 0}, unavailable, floor},
		{patience{"a single attempt with a deadline", 0, 2 * time.Second, 0}, unavailable, 2 * time.Second},
		{patience{"a single attempt with a far deadline", 0, time.Minute, 0}, unavailable, commandTimeout},
		{patience{"a single attempt that is canceled", 0, 0, floor / 2}, neither, floor / 2},
	} {
		for _, bounded := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, bounded %v", c.what, bounded), func(t *testing.T) {
				run(t, func(f *fixture) {
					f.info = driver.Info{Bounded: bounded, Slots: 9}
					l := f.newLock()
					f.hang()
					r := f.async(func() error { return c.acquire(f, l) })
					r.ends(c.want, c.at)
					f.instead(nil)
					f.until(time.Minute)
					f.free()
				})
			})
		}
	}
}

// TestSilenceBehindAHead has a waiter of a local queue, whose head has no reply.
func TestSilenceBehindAHead(t *testing.T) {
	for _, c := range []struct {
		patience
		want class
		at   time.Duration
	}{
		{patience{"a wait", 300 * time.Millisecond, 0, 0}, unavailable, floor},
		{patience{"a long wait", 2 * floor, 0, 0}, unavailable, 2 * floor},
		{patience{"a deadline", -1, 300 * time.Millisecond, 0}, unavailable, 300 * time.Millisecond},
		{patience{"a cancellation", -1, 0, floor / 2}, neither, floor / 2},
		{patience{"a late cancellation", -1, 0, 2 * floor}, unavailable, 2 * floor},
	} {
		t.Run(c.what, func(t *testing.T) {
			run(t, func(f *fixture) {
				m := f.client()
				head, next := f.lock(m, wire.Plain), f.lock(m, wire.Plain)
				f.hang()
				first := f.async(func() error { return acquireWithin(f.Context(), head, time.Minute) })
				f.async(func() error { return c.acquire(f, next) }).ends(c.want, c.at)
				f.instead(nil)
				<-first.done
				require.NoError(f, first.err)
				require.NoError(f, head.Unlock(f.Context()))
			})
		})
	}
}

// TestSilenceWithoutAConnection has all connections busy, so that nothing leaves the process.
func TestSilenceWithoutAConnection(t *testing.T) {
	for _, c := range []struct {
		patience
		want class
		at   time.Duration
	}{
		{patience{"a wait", 300 * time.Millisecond, 0, 0}, unavailable, floor},
		{patience{"a long wait", 2 * floor, 0, 0}, unavailable, 2 * floor},
		{patience{"a single attempt", 0, 0, 0}, unavailable, floor},
		{patience{"a deadline", -1, 2 * time.Second, 0}, unavailable, 2 * time.Second},
		{patience{"a deadline before f", -1, floor / 2, 0}, unavailable, floor / 2},
		{patience{"a cancellation", -1, 0, floor / 2}, neither, floor / 2},
		{patience{"a late cancellation", -1, 0, 2 * floor}, unavailable, 2 * floor},
	} {
		t.Run(c.what, func(t *testing.T) {
			run(t, func(f *fixture) {
				f.info = driver.Info{Bounded: true, Slots: 1}
				m := f.client()
				busy, l := new(Lock), f.lock(m, wire.Plain)
				tabled(busy, m, wire.Plain, "busy", "busy")
				f.slowly("acquire", 0, commandTimeout-time.Millisecond)
				first := f.async(func() error { return acquire(f.Context(), busy) })
				f.took()
				r := f.async(func() error { return c.acquire(f, l) })
				r.ends(c.want, c.at)
				if c.want == unavailable {
					require.ErrorContains(f, r.err, "Redis unavailable: no", c.what)
					require.ErrorContains(f, r.err, "no free connection", c.what)
				}
				require.Empty(f, f.took(), "nothing was sent")
				first.succeeded(commandTimeout - time.Millisecond)
				f.until(time.Minute)
				f.free()
			})
		})
	}
}

// TestEndedContextIsNeither has a context that ends before the call.
func TestEndedContextIsNeither(t *testing.T) {
	run(t, func(f *fixture) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(f.Context())
		cancel(why)
		l := f.newLock()
		for _, err := range []error{
			acquire(ctx, l), acquireWithin(ctx, l, 0), acquireWithin(ctx, l, time.Second),
		} {
			require.Equal(f, neither, f.classOf(err))
			require.ErrorIs(f, err, context.Canceled)
			require.ErrorIs(f, err, why)
			require.EqualError(f, err, `rlock: lock "name": context canceled: why`)
		}
		require.Empty(f, f.took())
	})
}

// TestCauseOfAnotherClass has a context that ends because another call failed. The error of this call is of its own class.
func TestCauseOfAnotherClass(t *testing.T) {
	for what, cause := range map[string]error{
		"refused": fault.ErrRefused, "unavailable": fault.ErrNoAnswer, "lost": fault.ErrLost,
		"named": &fault.OpError{Op: "lock", Name: "other", Err: fault.ErrRefused},
	} {
		run(t, func(f *fixture) {
			holder, l := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			for _, want := range []class{refused, unavailable, neither} {
				began := time.Since(f.start)
				ctx, cancel := context.WithCancelCause(f.Context())
				after := 2 * floor
				switch want {
				case unavailable:
					f.hang()
				case neither:
					after = floor / 2
				default:
				}
				time.AfterFunc(after, func() { cancel(cause) })
				r := f.async(func() error { return acquire(ctx, l) })
				r.ends(want, began+after)
				require.ErrorIs(f, r.err, context.Canceled, what)
				require.ErrorContains(f, r.err, cause.Error(), what)
				require.ErrorContains(f, r.err, `lock "name"`, what)
				require.NotErrorIs(f, r.err, fault.ErrRefused, "%s: only Wait ends in this", what)
				cancel(nil)
			}
			f.instead(nil)
			f.until(15 * time.Second)
			require.NoError(f, holder.Unlock(f.Context()))
		})
	}
}

// TestErrorsThatStayAreNeither has errors of Redis that waiting does not help.
func TestErrorsThatStayAreNeither(t *testing.T) {
	for _, code := range []string{"NOPERM", "NOAUTH", "WRONGTYPE", "OOM"} {
		run(t, func(f *fixture) {
			l := new(Lock)
			tabled(l, f.client(), wire.Plain, "name", "prefix:name")
			f.instead(func(string, func() wire.Reply) wire.Reply { return rejected(code) })
			_, forced := l.ForceUnlock(f.Context(), nil)
			_, queried := l.IsLocked(f.Context())
			for _, err := range []error{
				acquire(f.Context(), l), acquireWithin(f.Context(), l, 0), acquireWithin(f.Context(), l, time.Second), forced, queried,
			} {
				require.Equal(f, neither, f.classOf(err))
				require.ErrorContains(f, err, code)
				require.Equal(f, code == "WRONGTYPE", strings.Contains(err.Error(), "the key"), "what the server says of the key: %v", err)
				require.Equal(f, code == "NOPERM", strings.Contains(err.Error(), "run: rlock doctor --kinds lock --key-prefix prefix:)"), "%v", err)
			}
		})
	}
}

// TestQueriesInAnOutage has queries and unlocks by force without a reply.
func TestQueriesInAnOutage(t *testing.T) {
	for what, query := range map[string]func(ctx context.Context, l *Lock) error{
		"ForceUnlock": func(ctx context.Context, l *Lock) error { _, err := l.ForceUnlock(ctx, nil); return err },
		"IsLocked":    func(ctx context.Context, l *Lock) error { _, err := l.IsLocked(ctx); return err },
		"TTL":         func(ctx context.Context, l *Lock) error { _, err := l.TTL(ctx); return err },
		"HoldCount":   func(ctx context.Context, l *Lock) error { _, err := l.HoldCount(ctx); return err },
	} {
		run(t, func(f *fixture) {
			l := f.newLock()
			f.hang()
			began := func() time.Duration { return time.Since(f.start) }
			at := began()
			f.async(func() error { return query(context.Background(), l) }).ends(unavailable, at+commandTimeout)
			for _, c := range []struct {
				d    time.Duration
				want class
			}{{floor / 2, neither}, {2 * floor, unavailable}} {
				ctx, cancel := context.WithCancel(f.Context())
				time.AfterFunc(c.d, cancel)
				at = began()
				r := f.async(func() error { return query(ctx, l) })
				r.ends(c.want, at+c.d)
				require.ErrorIs(f, r.err, context.Canceled, what)
				ctx, cancel = context.WithTimeout(f.Context(), c.d)
				at = began()
				r = f.async(func() error { return query(ctx, l) })
				r.ends(unavailable, at+c.d)
				require.ErrorIs(f, r.err, context.DeadlineExceeded, what)
				cancel()
			}
		})
	}
}

// TestExtendInAnOutage has an extension without a reply. Its error has the class that a query's has, and the hold goes on.
func TestExtendInAnOutage(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{Op: "acquire", ByHold: true})
		extend := func(ctx context.Context, want class, after time.Duration) error {
			f.hang()
			began := time.Since(f.start)
			r := f.async(func() error { return h.Extend(ctx, time.Hour, nil) })
			r.ends(want, began+after)
			require.Equal(f, 1, strings.Count(r.err.Error(), "unavailable")+strings.Count(r.err.Error(), "canceled"), "%v", r.err)
			f.instead(nil)
			f.until(began + 2*commandTimeout)
			require.NoError(f, h.Err())
			return r.err
		}
		require.NotErrorIs(f, extend(context.Background(), unavailable, commandTimeout), context.DeadlineExceeded)
		for _, d := range []time.Duration{floor / 2, 2 * floor} {
			ctx, cancel := context.WithTimeout(f.Context(), d)
			require.ErrorIs(f, extend(ctx, unavailable, d), context.DeadlineExceeded)
			cancel()
		}
		ctx, cancel := context.WithCancel(f.Context())
		time.AfterFunc(floor/2, cancel)
		require.ErrorIs(f, extend(ctx, neither, floor/2), context.Canceled)
		require.NoError(f, h.Unlock(f.Context()))
	})
}

// TestQueriesWithoutAConnection has all connections busy. A query waits no longer than an attempt would.
func TestQueriesWithoutAConnection(t *testing.T) {
	for _, deadline := range []time.Duration{0, 2 * time.Second} {
		run(t, func(f *fixture) {
			f.info = driver.Info{Bounded: true, Slots: 1}
			m := f.client()
			l := f.lock(m, wire.Plain)
			f.slowly("acquire", 0, commandTimeout-time.Millisecond) // one after the other
			var all []*result
			for _, name := range []string{"one", "two", "three"} {
				busy := new(Lock)
				tabled(busy, m, wire.Plain, name, name)
				all = append(all, f.async(func() error { return acquire(f.Context(), busy) }))
				f.took()
			}
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			at := commandTimeout
			if deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, deadline)
				at = deadline
			}
			defer cancel()
			r := f.async(func() error { _, err := l.IsLocked(ctx); return err })
			r.ends(unavailable, at)
			require.ErrorContains(f, r.err, "no free connection")
			for _, r := range all {
				<-r.done
				require.NoError(f, r.err)
			}
			f.until(time.Minute)
			f.free()
		})
	}
}

// TestClosedClientIsNoOutage closes the client while callers wait: for a reply, for a connection, and for a lock.
func TestClosedClientIsNoOutage(t *testing.T) {
	run(t, func(f *fixture) {
		f.info = driver.Info{Bounded: true, Slots: 1}
		m := f.client()
		l, other := f.lock(m, wire.Plain), new(Lock)
		tabled(other, m, wire.Plain, "other", "other")
		f.hang()
		var all []*result
		for _, p := range []patience{{wait: -1}, {wait: time.Minute}, {wait: -1, deadline: time.Minute}} {
			all = append(all, f.async(func() error { return p.acquire(f, l) }), f.async(func() error { return p.acquire(f, other) }))
		}
		f.until(floor / 2)
		f.instead(nil) // for the releases
		m.Close()
		for _, r := range all {
			<-r.done
			require.ErrorIs(f, r.err, fault.ErrClosed)
			require.Equal(f, neither, f.classOf(r.err), "%v", r.err)
		}
		require.EqualError(f, acquire(f.Context(), l), `rlock: lock "name": client is closed`)
		f.until(time.Minute)
	})
}
