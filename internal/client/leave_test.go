package client

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// slowly has every command of a name take so long before it is carried out, and then so long until its reply comes.
func (f *fixture) slowly(slow string, before, after time.Duration) {
	f.instead(func(command string, do func() wire.Reply) wire.Reply {
		if command != slow {
			return do()
		}
		time.Sleep(before)
		r := do()
		time.Sleep(after)
		return r
	})
}

// acquireForASecond is an acquire whose context is canceled after a second.
func acquireForASecond(f *fixture, l *Lock) error {
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	defer time.AfterFunc(time.Second, cancel).Stop()
	return acquire(ctx, l)
}

// TestCallerLeaves has the caller walk away from an acquire that is carried out later: its lock is released once. If the acquire
// may put it into the line, a release goes out at once, and again if the reply says that the lock was granted.
func TestCallerLeaves(t *testing.T) {
	for what, slow := range map[string][2]time.Duration{
		"before Redis grants the lock":              {3 * time.Second, 0},
		"before the reply":                          {0, 3 * time.Second},
		"while the question is on its way to Redis": {2 * time.Second, time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				f.slowly("acquire", slow[0], slow[1])
				r := f.async(func() error { return acquireForASecond(f, l) })
				r.failed(context.Canceled, time.Second)
				require.ErrorIs(f, r.err, fault.ErrUnavailable)
				f.until(3*time.Second - 1)
				require.Equal(f, either(f, 1, 0), count(f, "release"), "nobody knows of a holder yet")
				f.until(3 * time.Second)
				f.free()
				require.Equal(f, either(f, slow[0] == 0, true), count(f, "release") == 1)
				f.until(time.Minute)
				require.Empty(f, f.took())
				require.Zero(f, l.client.Table().Stats().Due)
				require.Zero(f, l.client.tasks.Count())
				require.NoError(f, acquire(f.Context(), l), "the lock can be had again")
				require.NoError(f, l.Unlock(f.Context()))
			})
		})
	}
}

// count returns how many commands of some names were carried out since took was last called, and forgets all but these.
func count(f *fixture, commands ...string) int {
	n := 0
	for _, c := range f.took() {
		if slices.Contains(commands, c) {
			n++
		}
	}
	return n
}

// TestCallerLeavesAsTheReplyComes has the end of the wait and the reply come at the same moment. Either
// way, the caller holds the lock if and only if it was told so.
func TestCallerLeavesAsTheReplyComes(t *testing.T) {
	granted := 0
	for i := range 200 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				f.slowly("acquire", 0, time.Second)
				r := f.async(func() error { return acquireForASecond(f, l) })
				<-r.done
				f.until(time.Second)
				if r.err == nil {
					granted++
					require.NotNil(f, f.held())
					require.NoError(f, l.Unlock(f.Context()))
				}
				f.free()
				commands := f.took()
				require.Equal(f, []string{"acquire", "release"}, commands[:2])
				if len(commands) > 2 { // in the line, the release does not wait for the reply, which causes another one
					require.Equal(f, either(f, []string{"release"}, nil), commands[2:])
				}
			})
		})
	}
	t.Logf("granted %d times", granted)
}

// TestReplyNeverComes has an acquire be carried out after its caller left, without any reply: a tombstone stops it.
func TestReplyNeverComes(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "acquire" {
				time.AfterFunc(4*time.Second, func() { do() })
				time.Sleep(2 * time.Second)
				return network()
			}
			return do()
		})
		r := f.async(func() error { return acquireForASecond(f, l) })
		r.failed(context.Canceled, time.Second)
		f.until(2 * time.Second)
		require.Equal(f, either(f, []string{"release", "release"}, []string{"release"}), f.took(), "it writes the tombstone")
		f.until(4 * time.Second)
		require.Equal(f, []string{"acquire"}, f.took())
		f.free()
	})
}

// TestDriverHangs has an acquire go unanswered for longer than the command timeout, with a driver that does not end it.
func TestDriverHangs(t *testing.T) {
	run(t, func(f *fixture) {
		f.info.Bounded = false
		l, asked := f.newLock(), new(atomic.Bool)
		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "acquire" && !asked.Swap(true) {
				time.Sleep(20 * time.Second)
			}
			return do()
		})
		r := f.async(func() error { return acquire(f.Context(), l) })
		r.succeeded(commandTimeout)
		f.until(20 * time.Second)
		require.NotNil(f, f.held())
		require.NoError(f, l.Unlock(f.Context()))
		f.free()
	})
}

// TestForcedByOneThatLeft has an unlock by force be carried out after its caller left: the hold is lost nevertheless.
func TestForcedByOneThatLeft(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		h := f.hold(f.Context(), l, Terms{})
		f.slowly("force", time.Second, time.Second)
		ctx, cancel := context.WithTimeout(f.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := l.ForceUnlock(ctx, nil)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		f.until(2*time.Second - 1)
		require.NoError(f, h.Err(), "nobody here knows yet")
		f.until(2 * time.Second)
		requireOver(f, h, fault.ErrLost)
		f.free()
		require.ErrorIs(f, h.Unlock(f.Context()), fault.ErrLost)
		freed, err := l.ForceUnlock(f.Context(), nil)
		require.NoError(f, err)
		require.False(f, freed)
	})
}

// TestForcedDuringAnAcquire has an unlock by force come between a grant and its reply: that reply is not relied on.
func TestForcedDuringAnAcquire(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		f.slowly("acquire", 0, 2*time.Second)
		r := f.async(func() error { return acquire(f.Context(), l) })
		f.until(time.Second)
		freed, err := l.ForceUnlock(f.Context(), nil)
		require.NoError(f, err)
		require.True(f, freed)
		f.until(3 * time.Second)
		require.False(f, r.over())
		f.until(5 * time.Second)
		require.NoError(f, r.err)
		require.NotNil(f, f.held())
		require.NoError(f, l.Unlock(f.Context()))
		f.free()
	})
}

// requireOver requires that a hold is over for a reason, in all ways in which it says so.
func requireOver(f *fixture, h *Hold, want error) {
	f.Helper()
	require.ErrorIs(f, h.Err(), want)
	select {
	case <-h.Done():
	default:
		require.Fail(f, "Done is open")
	}
	require.ErrorIs(f, context.Cause(h.Context()), want)
}
