package client

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// The waiters of these tests are the heads of clients of their own. They are in the line once their channel is confirmed.

// waiting is a lock that a call on a goroutine of its own acquires.
type waiting struct {
	*result

	lock *Lock
	hold *Hold
}

// waits has a new client wait for the lock.
func (f *fixture) waits(t Terms) *waiting { return f.waitsFor(f.newLock(), t) }

func (f *fixture) waitsFor(l *Lock, t Terms) *waiting {
	w := &waiting{lock: l}
	w.result = f.async(func() error {
		t.Op, t.ByHold = "acquire", true
		held, err := l.Take(f.Context(), t)
		if err == nil {
			w.hold = new(Hold)
			w.hold.Init(f.Context(), held)
		}
		return err
	})
	return w
}

// unlock requires the call to have the lock at a time since the start, and unlocks it.
func (w *waiting) unlock(at time.Duration) {
	w.f.Helper()
	w.succeeded(at)
	require.NoError(w.f, w.hold.Unlock(w.f.Context()))
}

// now requires that the call has acquired at this very moment.
func (w *waiting) now() {
	w.f.Helper()
	w.f.until(time.Since(w.f.start))
	require.True(w.f, w.over(), "it waits")
	require.NoError(w.f, w.err)
	require.Equal(w.f, time.Since(w.f.start), w.at)
}

// TestGrantByMessage has a release make a waiter the holder, which sends nothing for it.
func TestGrantByMessage(t *testing.T) {
	for _, kind := range []*wire.Kind{wire.Plain, wire.Fenced} {
		t.Run(kind.Name(), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder, waiter := f.lock(f.client(), kind), f.lock(f.client(), kind)
				require.NoError(f, acquire(f.Context(), holder))
				w := f.waitsFor(waiter, Terms{})
				f.until(time.Second)
				require.Len(f, f.line(), 1)
				f.took()
				require.NoError(f, holder.Unlock(f.Context()))
				w.now()
				require.Equal(f, []string{"release"}, f.took())
				require.Empty(f, f.line())
				if kind.Tokens {
					require.Equal(f, f.token(), w.hold.Token())
				}
				require.NoError(f, w.hold.Unlock(f.Context()))
				f.free()
			})
		})
	}
}

// TestTheLineIsInOrder has the waiters of five clients get the lock in the order in which they came. A newcomer is the last.
func TestTheLineIsInOrder(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		var all []*waiting
		for i := range 5 {
			f.until(time.Duration(i) * 100 * time.Millisecond)
			all = append(all, f.waits(Terms{}))
		}
		f.until(time.Second)
		f.took()
		require.NoError(f, holder.Unlock(f.Context()))
		all = append(all, f.waits(Terms{}))
		for i, w := range all {
			f.until(time.Second + time.Duration(i)*10*time.Millisecond)
			for _, later := range all[i+1:] {
				require.False(f, later.over())
			}
			require.NoError(f, w.err)
			require.NoError(f, w.hold.Unlock(f.Context()))
		}
		f.until(2 * time.Second)
		require.Equal(f, 7, count(f, "release"))
	})
}

// TestGrantBeforeTheSleep has the grant come between the refusal and the sleep.
func TestGrantBeforeTheSleep(t *testing.T) {
	runLine(t, func(f *fixture) {
		c := f.client()
		holder, first, second := f.newLock(), f.lock(c, wire.Plain), f.lock(c, wire.Plain)
		require.NoError(f, acquire(f.Context(), holder))
		require.ErrorIs(f, acquireWithin(f.Context(), first, 500*time.Millisecond), fault.ErrRefused)
		f.until(500 * time.Millisecond) // the client listens for a while longer
		f.slowly("acquire", 0, 200*time.Millisecond)
		w := f.waitsFor(second, Terms{})
		f.until(650 * time.Millisecond)
		f.took()
		require.NoError(f, holder.Unlock(f.Context()))
		f.until(700 * time.Millisecond)
		w.now()
		require.Equal(f, []string{"release"}, f.took())
		require.NoError(f, w.hold.Unlock(f.Context()))
	})
}

// TestLateGrant has a grant arrive when the process was stopped in between: then the waiter asks.
func TestLateGrant(t *testing.T) {
	t.Run("and the lock is still its own", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{})
			f.until(time.Second)
			f.took()
			f.late = 800 * time.Millisecond // over a quarter of 3 s
			require.NoError(f, holder.Unlock(f.Context()))
			f.until(1800 * time.Millisecond)
			w.now()
			require.Equal(f, []string{"release", "acquire"}, f.took())
			require.Greater(f, time.Until(w.hold.Deadline()), watchdogTimeout-time.Second, "the acquire has lengthened the lease")
			require.NoError(f, w.hold.Unlock(f.Context()))
			f.free()
		})
	})
	t.Run("and the lock is another's", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			holder, other := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{Lease: time.Second})
			f.until(500 * time.Millisecond)
			f.late = 2 * time.Second
			require.NoError(f, holder.Unlock(f.Context()))
			f.until(1600 * time.Millisecond) // the granted term is over, and the waiter does not ask before 3 s
			require.NoError(f, acquire(f.Context(), other))
			f.took()
			f.until(2500 * time.Millisecond)
			require.False(f, w.over())
			require.Equal(f, []string{"acquire"}, f.took())
			require.Len(f, f.line(), 1, "it stands in the line again")
			f.late = 0
			require.NoError(f, other.Unlock(f.Context()))
			w.now()
			require.NoError(f, w.hold.Unlock(f.Context()))
		})
	})
}

// TestDeadlineOfAGrant has a grant take a while to arrive. The deadline counts from the grant by the clock of Redis.
func TestDeadlineOfAGrant(t *testing.T) {
	runLine(t, func(f *fixture) {
		const lease = 2 * time.Second
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		w := f.waits(Terms{Lease: lease})
		f.until(time.Second)
		f.late = 400 * time.Millisecond
		require.NoError(f, holder.Unlock(f.Context()))
		expires := f.start.Add(time.Second + lease)
		require.Equal(f, expires, f.held().expires, "the whole lease is granted")
		f.until(1400 * time.Millisecond)
		w.now()
		require.WithinRange(f, w.hold.Deadline(), expires.Add(-40*time.Millisecond), expires.Add(-30*time.Millisecond),
			"a hundredth of the wait, and a hundredth of the lease")
		f.until(time.Second + lease)
		require.ErrorIs(f, w.hold.Err(), fault.ErrLost)
		f.free()
		require.ErrorIs(f, w.hold.Unlock(f.Context()), fault.ErrLost)
	})
}

// TestFirstRenewal has a renewed hold begin with a short term, which is lengthened soon, unless the section is over by then.
func TestFirstRenewal(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		short, long := f.waits(Terms{}), f.waits(Terms{})
		f.until(time.Second)
		f.took()
		require.NoError(f, holder.Unlock(f.Context()))
		short.now()
		require.Equal(f, 3*time.Second, time.Until(f.held().expires))
		f.until(1080 * time.Millisecond)
		require.NoError(f, short.hold.Unlock(f.Context()))
		long.now()
		require.Equal(f, []string{"release", "release"}, f.took())
		f.until(1160 * time.Millisecond)
		require.Empty(f, f.took())
		f.until(1200 * time.Millisecond)
		require.Equal(f, []string{"renew"}, f.took())
		require.Greater(f, time.Until(f.held().expires), watchdogTimeout-100*time.Millisecond)
		f.until(time.Minute)
		require.Zero(f, long.lock.client.Table().Counts().Losses)
		require.NoError(f, long.hold.Unlock(f.Context()))
	})
}

// TestCutSubscriptions has all subscriptions be cut: after every confirmation, the client looks at the lock for its waiter.
func TestCutSubscriptions(t *testing.T) {
	t.Run("while the lock is held", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			all := []*waiting{f.waits(Terms{}), f.waits(Terms{}), f.waits(Terms{})}
			f.until(time.Second)
			f.took()
			line := f.line()
			f.cut(200 * time.Millisecond)
			f.until(1100 * time.Millisecond)
			require.Empty(f, f.took())
			f.until(1200 * time.Millisecond)
			require.GreaterOrEqual(f, count(f, "acquire"), len(all), "all ask")
			require.Equal(f, line, f.line(), "nobody loses its place")
			require.NoError(f, holder.Unlock(f.Context()))
			for _, w := range all {
				w.unlock(1200 * time.Millisecond)
			}
		})
	})
	t.Run("while it is released", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			all := []*waiting{f.waits(Terms{}), f.waits(Terms{}), f.waits(Terms{})}
			f.until(time.Second)
			f.cut(200 * time.Millisecond)
			require.NoError(f, holder.Unlock(f.Context()))
			f.free() // no waiter is reached
			require.Len(f, f.line(), 3)
			f.until(1200 * time.Millisecond)
			for len(all) > 0 {
				for i, w := range all {
					if w.over() {
						w.unlock(1200 * time.Millisecond)
						all = append(all[:i:i], all[i+1:]...)
						break
					}
				}
				f.until(1200 * time.Millisecond)
			}
		})
	})
	t.Run("while the refusal is on its way", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			c := f.client()
			holder, first, second := f.newLock(), f.lock(c, wire.Plain), f.lock(c, wire.Plain)
			require.NoError(f, acquire(f.Context(), holder))
			require.ErrorIs(f, acquireWithin(f.Context(), first, 500*time.Millisecond), fault.ErrRefused)
			f.until(500 * time.Millisecond) // the client listens for a while longer
			f.slowly("acquire", 0, 200*time.Millisecond)
			w := f.waitsFor(second, Terms{})
			f.until(600 * time.Millisecond)
			f.cut(50 * time.Millisecond)
			require.NoError(f, holder.Unlock(f.Context()))
			f.free() // nobody is reached
			f.until(700 * time.Millisecond)
			require.Len(f, f.line(), 0, "it has asked again")
			w.unlock(700 * time.Millisecond) // the client still watches, and pumps
		})
	})
	t.Run("while a grant is on its way", func(t *testing.T) {
		runLine(t, func(f *fixture) {
			holder := f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			w := f.waits(Terms{})
			f.until(time.Second)
			f.late = time.Hour // it is lost
			require.NoError(f, holder.Unlock(f.Context()))
			f.cut(200 * time.Millisecond)
			f.until(1200 * time.Millisecond)
			w.now()
			require.NoError(f, w.hold.Unlock(f.Context()))
			f.free()
			f.until(2 * time.Hour)
			f.free()
		})
	})
}

// TestALostLine has Redis forget the line: the polls of the waiters find the lock.
func TestALostLine(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		all := []*waiting{f.waits(Terms{}), f.waits(Terms{}), f.waits(Terms{})}
		f.until(time.Second)
		f.loseLine()
		f.drop()
		f.until(pollInterval + 100*time.Millisecond)
		for _, w := range all {
			<-w.done
			require.NoError(f, w.err)
			require.LessOrEqual(f, w.at, pollInterval+100*time.Millisecond)
			require.NoError(f, w.hold.Unlock(f.Context()))
			f.until(time.Since(f.start))
		}
		require.ErrorIs(f, holder.Unlock(f.Context()), fault.ErrLost)
	})
}

// TestReleaseInDoubtNamesOneThatLeaves has a release name a waiter of its process. Its reply is lost, and the waiter leaves,
// before or after Redis carries the release out.
func TestReleaseInDoubtNamesOneThatLeaves(t *testing.T) {
	for what, late := range map[string]time.Duration{"before": time.Second, "after": 0} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				l := f.newLock()
				require.NoError(f, acquire(f.Context(), l))
				next := f.async(func() error { return acquireWithin(f.Context(), l, 80*time.Millisecond) })
				var again atomic.Bool // the waiter sends its release while the first one waits for its reply
				f.instead(func(command string, do func() wire.Reply) wire.Reply {
					if command != "release" || again.Swap(true) {
						return do()
					}
					if late == 0 {
						do()
					} else {
						time.AfterFunc(late, func() { do() })
					}
					time.Sleep(100 * time.Millisecond)
					return network()
				})
				f.until(50 * time.Millisecond)
				unlock := f.async(func() error { return l.Unlock(f.Context()) })
				next.failed(fault.ErrRefused, 80*time.Millisecond)
				<-unlock.done
				require.NoError(f, unlock.err)
				f.until(300 * time.Millisecond)
				f.free()
				for range 20 {
					f.until(time.Since(f.start) + 100*time.Millisecond)
					f.free()
				}
				require.Zero(f, l.client.Table().Stats().Due)
			})
		})
	}
}
