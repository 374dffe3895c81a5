package interop_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestFleetServesJavaThatStandsLong lets a thread of Java stand among the waiters for 5 s, or 48 s in a soak of ten minutes
// or more.
func TestFleetServesJavaThatStandsLong(t *testing.T) {
	t.Parallel()
	long := 5 * time.Second
	if text := os.Getenv("RLOCK_SOAK"); text != "" {
		if soak, err := time.ParseDuration(text); err != nil || soak < 10*time.Minute {
			t.Skip("runs without RLOCK_SOAK, and in long soaks")
		}
		long = 48 * time.Second
	}
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		var all []*waits
		var holders []hand
		for _, kind := range contested {
			for _, order := range [][]string{
				{"go", "go", "go", "java", "go", "go", "go"}, {"java", "go", "go", "go", "go", "go", "go", "go", "go"},
			} {
				w := newWaits(t, v, server, kind)
				holder := w.newHand()
				holder.lock(t)
				w.join(order...)
				all, holders = append(all, w), append(holders, holder)
			}
		}
		<-time.After(long)
		for i, w := range all {
			free := w.now()
			holders[i].release(t)
			w.requireServed(free, w.limit())
		}
	})
}

// TestFleetWhenJavaGivesUp lets a thread of Java leave from among the waiters.
func TestFleetWhenJavaGivesUp(t *testing.T) {
	t.Parallel()
	onWaits(t, func(t *testing.T, w *waits) {
		t.Helper()
		holder := w.newHand()
		holder.lock(t)
		w.join("go", "go")
		leaving := w.newThread().TryLockAsync(wait(2 * time.Second))
		w.stands()
		w.join("go", "go")
		got := within(t, "Java gives up", leaving)
		require.NoError(t, got.Err)
		require.False(t, got.Value)
		free := w.now()
		holder.release(t)
		w.requireServed(free, w.limit())
	})
}

// TestFleetWhileJavaKeepsGivingUp lets four clients in Go take turns while a thread of Java waits for moments only. It may be
// gone when the lock is left to it.
func TestFleetWhileJavaKeepsGivingUp(t *testing.T) {
	t.Parallel()
	onWaits(t, func(t *testing.T, w *waits) {
		t.Helper()
		const length = 2 * time.Second
		var shifts []<-chan error
		for i := range 4 {
			rdb := w.server.Client(t)
			s := shift{name: w.name, log: turnLog{rdb, w.log.key}, me: fmt.Sprintf("go %d", i), hold: time.Millisecond, length: length}
			lock := w.kind.newLock(newClient(t, rdb, rlock.WithWatchdogTimeout(w.lease)), w.name)
			shifts = append(shifts, async(func() error { return s.inGo(lock) }))
		}
		java, got, left := w.newThread(), 0, 0
		for end, i := time.Now().Add(length), 0; time.Now().Before(end); i++ {
			ok, err := java.TryLock(wait(time.Duration(1+i%10) * time.Millisecond))
			require.NoError(t, err)
			if !ok {
				left++
				continue
			}
			got++
			require.NoError(t, w.log.note("java", "in"))
			require.NoError(t, w.log.note("java", "out"))
			require.NoError(t, java.Unlock())
		}
		for _, done := range shifts {
			require.NoError(t, within(t, "the shift ends", done))
		}
		sum := tallyOf(w.log.turns(t))
		t.Logf("Java got %d turns and gave up %d times; Go: %v; longest gap %v between %s and %s", got, left, sum.turns, sum.gap,
			sum.heirs[0], sum.heirs[1])
		limit := handOffLimit
		if w.kind.fair {
			// Redisson's first waiter may give up when it has just been woken, and tells nobody. Others find out at their next poll.
			limit += 5 * time.Second
		}
		require.Less(t, sum.gap, limit)
		require.Less(t, sum.longest("go"), waitLimit+limit)
		require.Positive(t, left)
	})
}

// TestFleetAfterForceUnlockByJava lets Java free a lock while others wait in line.
func TestFleetAfterForceUnlockByJava(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"Go": {"go", "go", "go", "go"}, "both": {"go", "go", "java", "go", "go"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onWaits(t, func(t *testing.T, w *waits) {
				t.Helper()
				holder := w.newHand()
				holder.lock(t)
				w.join(order...)
				free := w.now()
				freed, err := w.newThread().ForceUnlock()
				require.NoError(t, err)
				require.True(t, freed)
				w.requireServed(free, w.limit())
				require.ErrorIs(t, holder.unlock(), rlock.ErrLost)
			})
		})
	}
}
