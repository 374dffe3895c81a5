package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestUncontended(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		require.NoError(f, acquire(f.Context(), l))
		require.NotNil(f, f.held())
		require.NoError(f, l.Unlock(f.Context()))
		f.free()
		require.Equal(f, []string{"acquire", "release"}, f.took())
		require.ErrorIs(f, l.Unlock(f.Context()), fault.ErrNotHeld)
		require.Empty(f, f.took())
		require.Zero(f, l.client.Hub().Stats().Channels, "nobody listened")
	})
}

func TestMessageWakes(t *testing.T) {
	run(t, func(f *fixture) {
		holder, waiter := f.newLock(), f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		r := f.async(func() error { return acquire(f.Context(), waiter) })
		f.until(time.Second)
		asked := []string{"acquire", "acquire", "acquire"}
		if !f.classic {
			asked = append(asked, "pump") // for what it watches
		}
		require.ElementsMatch(f, asked, f.took(), "the confirmation has the waiter ask once more")
		require.NoError(f, holder.Unlock(f.Context()))
		r.succeeded(time.Second)
		require.NoError(f, waiter.Unlock(f.Context()))
		took := slices.DeleteFunc(f.took(), func(command string) bool { return command == "pump" }) // by the watcher that leaves, at some moment
		require.Equal(f, either(f, []string{"release", "release"}, []string{"release", "acquire", "release"}), took)
		require.Zero(f, waiter.client.Hub().Listeners(""))
	})
}

func TestPausesOfWaiters(t *testing.T) {
	t.Run("the lease that remains", func(t *testing.T) {
		run(t, func(f *fixture) {
			holder, waiter := f.newLock(), f.newLock()
			f.hold(f.Context(), holder, Terms{Lease: 3 * time.Second})
			r := f.async(func() error { return acquire(f.Context(), waiter) })
			holder.client.Close() // it frees nothing
			r.succeeded(3 * time.Second)
			require.NoError(f, waiter.Unlock(f.Context()))
		})
	})
	t.Run("the poll interval", func(t *testing.T) {
		run(t, func(f *fixture) {
			holder, waiter := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			r := f.async(func() error { return acquire(f.Context(), waiter) })
			f.until(time.Second)
			f.drop()
			r.succeeded(either(f, firstTerm, pollInterval))
			require.NoError(f, waiter.Unlock(f.Context()))
			f.until(15 * time.Second)
			require.ErrorIs(f, holder.Unlock(f.Context()), fault.ErrLost)
		})
	})
	t.Run("the poll delays", func(t *testing.T) {
		run(t, func(f *fixture) {
			if f.writes {
				return // its waiters do not poll
			}
			holder, waiter := f.newLock(), f.lock(f.client(), wire.Spin)
			waiter.Configure(func(h *table.Handle) error {
				h.FirstDelay, h.MaxDelay = 100*time.Millisecond, 400*time.Millisecond
				return nil
			})
			require.NoError(f, acquire(f.Context(), holder))
			f.took()
			r := f.async(func() error { return acquire(f.Context(), waiter) })
			f.until(1500 * time.Millisecond) // 0, 100, 300, 700, 1100 and at most a tenth more
			require.Len(f, f.took(), 5)
			require.NoError(f, holder.Unlock(f.Context()))
			<-r.done
			require.NoError(f, r.err)
			require.Less(f, r.at, 1700*time.Millisecond)
			require.NoError(f, waiter.Unlock(f.Context()))
			require.Zero(f, waiter.client.Hub().Stats().Channels)
		})
	})
}

func TestWaitEnds(t *testing.T) {
	cases := map[string]struct {
		call func(f *fixture, l *Lock) error
		want error
		at   time.Duration
	}{
		"wait": {func(f *fixture, l *Lock) error {
			return acquireWithin(f.Context(), l, 500*time.Millisecond)
		}, fault.ErrRefused, 500 * time.Millisecond},
		"deadline": {func(f *fixture, l *Lock) error {
			ctx, cancel := context.WithTimeout(f.Context(), time.Second)
			defer cancel()
			return acquire(ctx, l)
		}, context.DeadlineExceeded, time.Second},
		"cancel": {func(f *fixture, l *Lock) error {
			ctx, cancel := context.WithCancel(f.Context())
			time.AfterFunc(2*time.Second, cancel)
			return acquire(ctx, l)
		}, context.Canceled, 2 * time.Second},
		"no wait": {func(f *fixture, l *Lock) error {
			return acquireWithin(f.Context(), l, 0)
		}, fault.ErrRefused, 0},
		"a wait that is too short for the first question": {func(f *fixture, l *Lock) error {
			return acquireWithin(f.Context(), l, 1)
		}, fault.ErrRefused, 0},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				holder, waiter := f.newLock(), f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				r := f.async(func() error { return c.call(f, waiter) })
				r.failed(c.want, c.at)
				require.ErrorIs(f, r.err, fault.ErrNotAcquired)
				require.Zero(f, waiter.client.Table().Stats().Queues)
				require.Zero(f, waiter.client.Hub().Listeners(""))
				f.until(time.Since(f.start)) // it leaves the line
				require.Empty(f, f.line())
				f.took()
				require.NoError(f, holder.Unlock(f.Context()))
				f.until(10 * time.Second)
				f.free()
				// A client that was asked to watch does so for another while.
				took := slices.DeleteFunc(f.took(), func(command string) bool { return command == "pump" })
				require.Equal(f, []string{"release"}, took, "nothing is left of the waiter")
			})
		})
	}
}

// TestFirstQuestionOutlastsTheWait has the first question take longer than the wait: its reply counts nevertheless.
func TestFirstQuestionOutlastsTheWait(t *testing.T) {
	run(t, func(f *fixture) {
		l, late := f.newLock(), f.newLock()
		const slow = 900 * time.Millisecond
		f.slowly("acquire", 0, slow)
		f.async(func() error { return acquireWithin(f.Context(), l, time.Millisecond) }).succeeded(slow)
		r := f.async(func() error { return acquireWithin(f.Context(), late, time.Millisecond) })
		r.failed(fault.ErrRefused, 2*slow)
		require.NoError(f, l.Unlock(f.Context()))
		f.until(time.Minute)
		f.free()
	})
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	run(t, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		l := f.newLock()
		require.ErrorIs(f, acquire(ctx, l), context.Canceled)
		_, err := l.ForceUnlock(ctx, nil)
		require.ErrorIs(f, err, context.Canceled)
		require.Empty(f, f.took())
	})
}

func TestTroubleOfAttempts(t *testing.T) {
	t.Run("is retried if waiting helps", func(t *testing.T) {
		run(t, func(f *fixture) {
			l, asked := f.newLock(), 0
			f.instead(func(_ string, do func() wire.Reply) wire.Reply {
				if asked++; asked <= 3 {
					return busy()
				}
				return do()
			})
			r := f.async(func() error { return acquire(f.Context(), l) })
			<-r.done
			require.NoError(f, r.err)
			require.Equal(f, 4, asked)
			require.Greater(f, r.at, 30*time.Millisecond-1, "the confirmation ends the first pause; then at least half of 20 and 40 ms")
			require.Less(f, r.at, 90*time.Millisecond)
			require.NoError(f, l.Unlock(f.Context()))
		})
	})
	t.Run("is returned if the wait ends in it", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			f.instead(func(string, func() wire.Reply) wire.Reply { return busy() })
			r := f.async(func() error { return acquireWithin(f.Context(), l, 10*time.Second) })
			<-r.done
			require.ErrorContains(f, r.err, "LOADING")
			require.NotErrorIs(f, r.err, fault.ErrNotAcquired)
			require.InDelta(f, 10*time.Second, r.at, float64(jitter))
		})
	})
	t.Run("is returned at once if waiting does not help", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			f.instead(func(string, func() wire.Reply) wire.Reply { return rejected("NOPERM") })
			require.ErrorContains(f, acquire(f.Context(), l), "NOPERM")
			require.Zero(f, time.Since(f.start))
		})
	})
	t.Run("leaves nothing behind if the reply was lost", func(t *testing.T) {
		run(t, func(f *fixture) {
			l, asked := f.newLock(), 0
			f.instead(func(_ string, do func() wire.Reply) wire.Reply {
				r := do()
				if asked++; asked == 1 {
					return network()
				}
				return r
			})
			require.NoError(f, acquire(f.Context(), l), "the repeated question finds its own holder")
			require.NoError(f, l.Unlock(f.Context()))
			f.free()
		})
	})
}

// TestNoMessageIsMissed releases the lock between a refusal and the sleep that follows.
func TestNoMessageIsMissed(t *testing.T) {
	t.Run("before the subscription is confirmed", func(t *testing.T) {
		run(t, func(f *fixture) {
			f.confirms = time.Second
			holder, waiter := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			r := f.async(func() error { return acquire(f.Context(), waiter) })
			f.until(500 * time.Millisecond)
			require.NoError(f, holder.Unlock(f.Context()), "nobody receives the message")
			r.succeeded(time.Second)
			require.NoError(f, waiter.Unlock(f.Context()))
		})
	})
	t.Run("while the refusal is on its way", func(t *testing.T) {
		run(t, func(f *fixture) {
			holder, waiter := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			r := f.async(func() error { return acquire(f.Context(), waiter) })
			slow := true
			f.instead(func(command string, do func() wire.Reply) wire.Reply {
				reply := do()
				if command == "acquire" && slow {
					slow = false
					time.Sleep(2 * time.Second)
				}
				return reply
			})
			f.until(pollInterval + jitter) // the waiter asks again, and is refused
			require.False(f, slow)
			f.until(6 * time.Second)
			require.NoError(f, holder.Unlock(f.Context()), "the waiter is about to sleep")
			<-r.done
			require.NoError(f, r.err)
			require.Less(f, r.at, pollInterval+2*time.Second+jitter+time.Millisecond, "the message was kept for the sleep")
			require.NoError(f, waiter.Unlock(f.Context()))
		})
	})
	t.Run("on a channel that was subscribed before", func(t *testing.T) {
		run(t, func(f *fixture) {
			c := f.client()
			holder, first, second := f.newLock(), f.lock(c, wire.Plain), f.lock(c, wire.Plain)
			require.NoError(f, acquire(f.Context(), holder))
			require.ErrorIs(f, acquireWithin(f.Context(), first, 500*time.Millisecond), fault.ErrRefused)
			f.slowly("acquire", 0, 200*time.Millisecond)
			r := f.async(func() error { return acquire(f.Context(), second) })
			f.until(600 * time.Millisecond)
			require.NoError(f, holder.Unlock(f.Context()), "the second waiter has been refused, and listens when it hears that")
			// The line grants it the lock, and so the reply tells it all. Otherwise the release has it ask once more.
			r.succeeded(either(f, 700*time.Millisecond, 900*time.Millisecond))
			require.NoError(f, second.Unlock(f.Context()))
		})
	})
	t.Run("for the waiter behind a head that leaves", func(t *testing.T) {
		run(t, func(f *fixture) {
			c := f.client()
			holder, head, next := f.newLock(), f.lock(c, wire.Plain), f.lock(c, wire.Plain)
			require.NoError(f, acquire(f.Context(), holder))
			first := f.async(func() error { return acquireWithin(f.Context(), head, time.Second) })
			second := f.async(func() error { return acquire(f.Context(), next) })
			first.failed(fault.ErrRefused, time.Second)
			f.until(2 * time.Second)
			require.NoError(f, holder.Unlock(f.Context()))
			second.succeeded(2 * time.Second)
			require.NoError(f, next.Unlock(f.Context()))
			require.Zero(f, c.Hub().Listeners(""))
		})
	})
}
