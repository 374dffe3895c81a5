package trouble

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestARestoreBringsBackWaitersOfLongAgo has four clients wait for a lock while a snapshot is taken, and take turns for long after
// that. Then the snapshot is restored. The lock is granted to one past waiter after the other, and none of them keeps it.
func TestARestoreBringsBackWaitersOfLongAgo(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fenced", "write", "fair"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const clients, turns = 4, 1200
			server, name := redistest.Start(t), testkit.NewName()
			holder := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), name)
			var locks []testkit.Locker
			for range clients {
				locks = append(locks, testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), name))
			}
			inTurn := func(times int) {
				var all sync.WaitGroup
				for _, lock := range locks {
					all.Go(func() {
						for range times {
							hold, err := lock.Acquire(t.Context(), rlock.Wait(time.Minute))
							if err == nil {
								err = hold.Unlock(t.Context())
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			}
			hold := testkit.Must(holder.Acquire(t.Context(), rlock.Lease(time.Minute)))
			waiting := testkit.Async(func() error { inTurn(1); return nil })
			key, size := "redisson_unlock_latch:{"+name+"}:waiters", server.Client(t).ZCard
			if kind == "fair" {
				key, size = "redisson_lock_queue:{"+name+"}", server.Client(t).LLen
			}
			testkit.Eventually(t, "all of them wait", func() bool { return size(t.Context(), key).Val() >= clients })
			snapshot := server.Snapshot()
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "they have their turns", waiting))
			inTurn(turns)

			server.Restore(snapshot)
			server.Client(t).Del(t.Context(), name) // its holder is gone
			passed := redistest.Stopwatch(t)
			inTurn(1)
			gap := passed()
			t.Logf("all had a turn %v after the restore", gap)
			require.Less(t, gap, 11*time.Second, "none of them waits for the end of %d first terms", clients)
		})
	}
}

// TestARestoreForgetsReleasesOfPermits has a snapshot in which permits are out that were given back later. They come back when their
// leases end.
func TestARestoreForgetsReleasesOfPermits(t *testing.T) {
	t.Parallel()
	const total = 3
	ctx := t.Context()
	server := redistest.Start(t)
	sem := testkit.NewClient(t, server.Client(t)).NewSemaphore(testkit.NewName(), rlock.Total(total))
	hold := testkit.Must(sem.Acquire(ctx, rlock.Permits(2), rlock.Lease(3*time.Second)))
	snapshot := server.Snapshot()
	require.NoError(t, hold.Unlock(ctx))
	server.Restore(snapshot)
	all := testkit.Must(sem.Acquire(ctx, rlock.Permits(total), rlock.Wait(time.Minute)))
	require.NoError(t, all.Unlock(ctx))
	testkit.Eventually(t, "all permits are free", func() bool { // an idle connection may have died with the server
		free, err := sem.AvailablePermits(ctx)
		return err == nil && free == total
	})
}
