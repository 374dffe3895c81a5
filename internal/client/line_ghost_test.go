package client

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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
				c := f.client()
				holder, refused, silent := f.newLock(), f.lock(c, wire.Plain), f.lock(c, wire.Plain)
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
				require.Zero(f, c.Table().Stats().Due)
			})
		})
	}
}

// bringBack puts a waiter at the head of the line that had its turn before, as a failover does to a replica without the latest
// writes.
func (f *fixture) bringBack(member string) {
	came, err := strconv.ParseInt(text(f.do("ZSCORE", lineKey, f.line()[0])), 10, 64)
	require.NoError(f, err)
	f.do("ZADD", lineKey, strconv.FormatInt(came-1, 10), member)
}

// TestAFailoverBringsBackAPastWaiter has the lock be granted to a waiter that had its turn before. Its client gives the lock back
// at once, whether or not it waits again.
func TestAFailoverBringsBackAPastWaiter(t *testing.T) {
	for _, kind := range []*wire.Kind{wire.Plain, wire.Fenced, wire.Write, wire.FencedWrite} {
		for what, again := range map[string]bool{"that waits again": true, "that only listens": false} {
			t.Run(kind.Name()+" of a client "+what, func(t *testing.T) {
				runLine(t, func(f *fixture) {
					c, holder := f.client(), f.lock(f.client(), kind)
					h := f.hold(f.Context(), holder, Terms{})
					past := f.waitsFor(f.lock(c, kind), Terms{})
					f.until(time.Second)
					members := f.line()
					require.Len(f, members, 1)
					require.NoError(f, h.Unlock(f.Context()))
					past.now()
					require.NoError(f, past.hold.Unlock(f.Context()))
					f.free()

					h = f.hold(f.Context(), holder, Terms{})
					next := c
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
					require.Zero(f, c.Table().Stats().Due)
					f.free()
				})
			})
		}
	}
}

// TestARestoreBringsBackManyPastWaiters has a line come back as it was long ago, as after the restore of a snapshot: each client had
// some waiters there since. The lock is granted to one after the other, and its client gives it back at once, however old it is.
func TestARestoreBringsBackManyPastWaiters(t *testing.T) {
	const clients, each = 4, 5
	for _, kind := range []*wire.Kind{wire.Plain, wire.Fenced, wire.Write} {
		t.Run(kind.Name(), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.lock(f.client(), kind)
				h := f.hold(f.Context(), holder, Terms{})
				var waiting []*waiting
				var past []string
				for range clients {
					c := f.client()
					for range each { // the numbers of waiters that had their turn, long ago
						past = append(past, fmt.Sprintf("%s:%d", c.cfg.Table.ClientID, c.Table().Number()))
					}
					for range 2000 {
						c.Table().Number()
					}
					waiting = append(waiting, f.waitsFor(f.lock(c, kind), Terms{}))
				}
				f.until(time.Second)
				_, suffix, _ := strings.Cut(f.line()[0], "|")
				for _, holder := range past {
					if kind == wire.Write {
						holder += ":write"
					}
					f.bringBack(holder + "|" + suffix)
				}
				f.took()
				require.NoError(f, h.Unlock(f.Context()))
				waiting[0].now()
				require.Equal(f, 1+clients*each, count(f, "release"), "each of them once")
				for i, w := range waiting {
					w.now()
					require.Equal(f, time.Second, w.at, "%d", i)
					require.NoError(f, w.hold.Unlock(f.Context()))
				}
				f.until(time.Minute)
				f.free()
			})
		})
	}
}

// TestAMessageForALiveNumberReleasesNothing has a client hear once more that it was granted a lock that it has, that it is about to
// give back, or for which it asks without the line. It hears of numbers that it has never drawn, too.
func TestAMessageForALiveNumberReleasesNothing(t *testing.T) {
	runLine(t, func(f *fixture) {
		c, holder := f.client(), f.newLock()
		h := f.hold(f.Context(), holder, Terms{})
		w := f.waitsFor(f.lock(c, wire.Plain), Terms{})
		f.until(time.Second)
		field, term, _ := strings.Cut(f.line()[0], "|")
		client, drawn, _ := strings.Cut(strings.TrimSuffix(field, ":write"), ":")
		number, err := strconv.ParseInt(drawn, 10, 64)
		require.NoError(f, err)
		channel := f.base + ":" + client
		again := func(number int64) {
			f.do("PUBLISH", channel, fmt.Sprintf("6 %d %d %s 0", number, time.Now().UnixMicro(), term))
			synctest.Wait()
		}
		require.NoError(f, h.Unlock(f.Context()))
		w.now()
		f.took()
		again(number)
		again(number + 1000)
		again(0)
		f.until(1050 * time.Millisecond)
		require.Empty(f, f.took())
		require.NoError(f, w.hold.Err())
		f.slowly("release", 0, 100*time.Millisecond)
		over := f.async(func() error { return w.hold.Unlock(f.Context()) })
		again(number)
		f.until(1250 * time.Millisecond)
		over.succeeded(1150 * time.Millisecond)
		require.Equal(f, 1, count(f, "release"))

		direct := f.hold(f.Context(), f.lock(c, wire.Plain), Terms{})
		again(number + 1) // that number never stood in the line
		f.until(1300 * time.Millisecond)
		require.NoError(f, direct.Err())
		require.Equal(f, []string{"acquire"}, f.took())
		require.NoError(f, direct.Unlock(f.Context()))
	})
}
