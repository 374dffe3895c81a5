package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestALongOutageLeavesNoGhost has waiters give up while Redis is silent. They leave the line when it is back. Otherwise the lock
// would be granted to them, because their client still listens there.
func TestALongOutageLeavesNoGhost(t *testing.T) {
	for what, outage := range map[string]time.Duration{"longer than a lease": 40 * time.Second, "minutes": 4 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				m := f.client()
				holder, refused, silent := f.newLock(), f.lock(m, wire.Plain), f.lock(m, wire.Plain)
				f.hold(f.Context(), holder, Terms{Lease: time.Hour})
				first := f.async(func() error { return acquireWithin(f.Context(), refused, 2*time.Second) })
				f.until(time.Second)
				require.Len(f, f.line(), 1)
				f.instead(func(string, func() wire.Reply) wire.Reply {
					time.Sleep(time.Second)
					return network()
				})
				first.failed(fault.ErrRefused, 2*time.Second)
				second := f.async(func() error { return acquireWithin(f.Context(), silent, 3*time.Second) })
				second.failed(fault.ErrUnavailable, 5*time.Second)
				f.until(outage)
				require.Len(f, f.line(), 1)
				f.instead(nil)
				f.until(outage + 3*time.Second)
				require.Empty(f, f.line())
				require.Zero(f, m.Table().Stats().Due)
			})
		})
	}
}

// TestAWaiterWithoutTheLineIsNoGhost has a client lose a right while it waits in the line. It goes on waiting without the line, and
// leaves its entry there. The entry costs a first term as long as the client is still subscribed, and nothing after that.
func TestAWaiterWithoutTheLineIsNoGhost(t *testing.T) {
	for what, c := range map[string]struct{ freed, most time.Duration }{
		"while it is still subscribed": {3600 * time.Millisecond, firstTerm + 200*time.Millisecond},
		"later on":                     {6 * time.Second, 0},
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.newLock()
				h := f.hold(f.Context(), holder, Terms{})
				first := f.waits(Terms{})
				f.until(500 * time.Millisecond)
				second := f.waits(Terms{})
				f.until(2900 * time.Millisecond)
				f.deny(true)
				f.until(3100 * time.Millisecond) // the first one has asked, but not the second one
				f.deny(false)
				require.Len(f, f.logged(), 1)
				require.Len(f, f.line(), 2)
				f.until(c.freed)
				require.NoError(f, h.Unlock(f.Context()))
				f.until(c.freed + c.most)
				if !second.over() {
					first, second = second, first // it asked before the first term was over, and found the lock its own
				}
				require.True(f, second.over())
				require.NoError(f, second.err)
				require.NoError(f, second.hold.Unlock(f.Context()))
				<-first.done
				require.NoError(f, first.err)
				require.LessOrEqual(f, first.at, c.freed+c.most+pollInterval+200*time.Millisecond)
				require.NoError(f, first.hold.Unlock(f.Context()))
				f.until(time.Since(f.start) + time.Second)
				f.free()
			})
		})
	}
}

// bringBack puts a waiter at the head of the line that had its turn before, as a failover does to a replica without the latest
// writes.
func (f *fixture) bringBack(member string) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	for _, q := range f.lines {
		q.waiters = slices.Insert(q.waiters, 0, &waiterInRedis{member: member, came: time.Now()})
	}
}

// TestAFailoverBringsBackAPastWaiter has the lock be granted to a waiter that had its turn before. Its client gives the lock back
// at once, whether or not it waits again.
func TestAFailoverBringsBackAPastWaiter(t *testing.T) {
	for _, kind := range []*wire.Kind{wire.Plain, wire.Fenced, wire.Write, wire.FencedWrite} {
		for what, again := range map[string]bool{"that waits again": true, "that only listens": false} {
			t.Run(kind.Name()+" of a client "+what, func(t *testing.T) {
				runLine(t, func(f *fixture) {
					m, holder := f.client(), f.lock(f.client(), kind)
					h := f.hold(f.Context(), holder, Terms{})
					past := f.waitsFor(f.lock(m, kind), Terms{})
					f.until(time.Second)
					members := f.line()
					require.Len(f, members, 1)
					require.NoError(f, h.Unlock(f.Context()))
					past.now()
					require.NoError(f, past.hold.Unlock(f.Context()))
					f.free()

					h = f.hold(f.Context(), holder, Terms{})
					next := m
					if !again {
						next = f.client()
					}
					w := f.waitsFor(f.lock(next, kind), Terms{})
					f.until(1500 * time.Millisecond)
					f.bringBack(members[0])
					f.took()
					require.NoError(f, h.Unlock(f.Context()))
					w.now()
					require.Equal(f, []string{"release", "release"}, f.took())
					require.NoError(f, w.hold.Unlock(f.Context()))
					f.until(time.Minute)
					require.Zero(f, m.Table().Stats().Due)
					f.free()
				})
			})
		}
	}
}
