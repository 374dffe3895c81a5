package interop_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestFleetInheritsFromKilledJava kills a JVM that holds locks, and waits for others, while owners of both languages wait.
// They get the held ones when the lease ends, and the others at the next release.
func TestFleetInheritsFromKilledJava(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		doomed := newJVM(t, v).open(t, settings{Watchdog: killedLease}, server.Addr)
		var held, awaited []*waits
		var holders []hand
		for i, kind := range contested {
			w := newWaits(t, v, server, kind)
			javaHand(doomed.thread(2*i).lock(kind, w.name)).lock(t)
			w.join(inheritors(w)...)
			held = append(held, w)
			if w.kind.fair {
				continue // a dead fair waiter of Redisson blocks the queue until its deadline, see fairdeath_test.go
			}
			w = newWaits(t, v, server, kind)
			holder := w.newHand()
			holder.lock(t)
			w.join("go", "go")
			doomed.thread(2*i+1).lock(kind, w.name).LockAsync()
			w.stands()
			w.join("go", "java")
			awaited, holders = append(awaited, w), append(holders, holder)
		}
		doomed.jvm.Kill()
		requireInherited(held)
		for i, w := range awaited {
			free := w.now()
			holders[i].release(t)
			w.requireServed(free, w.limit())
		}
	})
}

// inheritors returns the languages of waiters for the lock of a holder that dies.
func inheritors(w *waits) []string {
	if w.kind.fair && !w.version.atLeast(3, 32) {
		return []string{"go", "go", "go", "go"} // the waiter in Java may hang if the holder renewed the lock before it died
	}
	return []string{"go", "go", "java", "go", "go"}
}

// requireInherited requires that the waiters get their turns when the leases of the dead holders end: no earlier, and not much
// later.
func requireInherited(all []*waits) {
	ends := make([]time.Time, len(all))
	for i, w := range all {
		w.Helper()
		left, err := w.rdb.PTTL(w.Context(), w.name).Result()
		require.NoError(w, err)
		require.Positive(w, left)
		ends[i] = w.now().Add(left)
	}
	for i, w := range all {
		turns := w.requireServed(ends[i], w.limit())
		require.Greater(w, turns[0].in, ends[i].Add(-20*time.Millisecond), w.kind.java)
	}
}

func TestFleetInheritsFromKilledGo(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		estate := holdings{Addr: server.Addr, Kinds: make(map[string]string), Watchdog: killedLease}
		var all []*waits
		for _, kind := range contested {
			w := newWaits(t, v, server, kind)
			estate.Kinds[w.name] = kind
			all = append(all, w)
		}
		doomed := startChild(t, "hold all", estate)
		require.Equal(t, "locked", doomed.reply())
		for _, w := range all {
			w.join(inheritors(w)...)
		}
		doomed.kill()
		requireInherited(all)
	})
}

// TestFleetPassesOverSilentWaiters kills or stops the first waiters, processes in Go. The release then costs the waiters of
// both languages behind them nothing if they are dead, and the first term (3 s) if they are stopped.
func TestFleetPassesOverSilentWaiters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent int // processes
		signal syscall.Signal
		more   time.Duration
	}{"killed": {2, syscall.SIGKILL, 0}, "stopped": {1, syscall.SIGSTOP, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onWaits(t, func(t *testing.T, w *waits) {
				t.Helper()
				if w.kind.fair && wire.Fair.Line == nil {
					t.Skip("silent fair waiters block the queue until their deadline")
				}
				holder := w.newHand()
				holder.lock(t)
				var silent []*child
				for range c.silent {
					waiter := startChild(t, "hold", holding{
						Addr: w.server.Addr, Kind: w.kind.java, Name: w.name, Watchdog: w.lease,
					})
					waiter.say("lock")
					w.stands()
					silent = append(silent, waiter)
				}
				w.join("go", "java", "go")
				for _, waiter := range silent {
					require.NoError(t, waiter.cmd.Process.Signal(c.signal))
				}
				<-time.After(100 * time.Millisecond) // until Redis has noticed
				free := w.now()
				holder.release(t)
				w.requireServed(free, w.limit()+c.more)
			})
		})
	}
}
