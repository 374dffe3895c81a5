package claims

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// letsIn checks that those who wait for a lock of the client from come in when its lease is over, which ends earlier than they know: by
// ends, it ends d from now at the latest, and nobody releases it. Each waiter is a kind of lock of that name, in the process of the client or
// in another one. One after the other they come, and each has its turn in time.
func letsIn(t *testing.T, rdb redis.UniversalClient, from *rlock.Client, lock *rlock.Lock, kinds []string, own []bool, d time.Duration, ends func()) {
	t.Helper()
	passed := redistest.Stopwatch(t)
	other := testkit.NewClient(t, rdb)
	var waiting []<-chan error
	in := make([]time.Duration, len(own))
	for i, its := range own {
		by := other
		if its {
			by = from
		}
		waiting = append(waiting, testkit.Async(func() error {
			return testkit.MakeLock(kinds[i], by, lock.Name()).Do(t.Context(), func(context.Context) error { in[i] = passed(); return nil })
		}))
		testkit.Eventually(t, "it waits", func() bool { return by.Stats().Waiting == 1 })
	}
	asked := passed()
	redistest.Eventually(t, "they know of a lease", func() bool { return passed() > asked+500*time.Millisecond })
	ends()
	ended := passed()
	for i, w := range waiting {
		require.NoError(t, testkit.Within(t, "a waiter has its turn", w))
		require.Less(t, in[i], ended+d+700*time.Millisecond)
	}
}

// TestATicketThatNobodyAdoptsLetsTheFirstWaiterInAtOnce when its lease is over, although the lease that the waiters knew of was longer. So
// does an adoption with a short lease, whose process dies.
func TestATicketThatNobodyAdoptsLetsTheFirstWaiterInAtOnce(t *testing.T) {
	t.Parallel()
	const d = time.Second
	server := redistest.Start(t)
	for _, kind := range exported {
		for name, own := range map[string][]bool{"its own process": {true, false}, "another one": {false, true}} {
			for what, adopts := range map[string]bool{"exported": false, "adopted": true} {
				t.Run(what+" "+kind+" of "+name, func(t *testing.T) {
					t.Parallel()
					rdb, ctx := server.Client(t), t.Context()
					client, heir := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
					lock := testkit.MakeLock(kind, client, testkit.NewName())
					hold := testkit.Must(lock.Acquire(ctx))
					letsIn(t, rdb, client, lock, []string{kind, kind}, own, d, func() {
						lease := rlock.Lease(d)
						if adopts {
							lease = rlock.Lease(time.Hour)
						}
						ticket := testkit.Must(hold.Export(ctx, lease))
						if adopts {
							testkit.Must(testkit.MakeLock(kind, heir, lock.Name()).Adopt(ctx, ticket, rlock.Lease(d)))
							require.NoError(t, heir.Close())
						}
					})
				})
			}
		}
	}
}

// TestATicketThatNobodyAdoptsLetsReadersIn when its lease is over: they wait for another message than writers do.
func TestATicketThatNobodyAdoptsLetsReadersIn(t *testing.T) {
	t.Parallel()
	const d = time.Second
	server := redistest.Start(t)
	for _, kind := range []string{"write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rdb, ctx := server.Client(t), t.Context()
			client := testkit.NewClient(t, rdb)
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			hold := testkit.Must(lock.Acquire(ctx))
			letsIn(t, rdb, client, lock, []string{"read"}, []bool{false}, d, func() {
				testkit.Must(hold.Export(ctx, rlock.Lease(d)))
			})
		})
	}
}
