package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// sorts makes a semaphore of each sort.
var sorts = map[string]func(c *rlock.Client, name string) permits{
	"leased": func(c *rlock.Client, name string) permits {
		return leased{c.NewSemaphore(name, rlock.Total(permitsInAll))}
	},
	"plain": func(c *rlock.Client, name string) permits {
		return plain{c.NewPlainSemaphore(name, rlock.Total(permitsInAll))}
	},
}

// TestPermitsWhileSubscriptionsAreKilled: only a message or a new subscription can wake those who wait, because the poll interval
// is long and permits have long leases.
func TestPermitsWhileSubscriptionsAreKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			client := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never), rlock.WithWatchdogTimeout(time.Hour))
			name := testkit.NewName()
			sem := semaphore(client, name)
			other := semaphore(testkit.NewClient(t, server.Client(t), rlock.WithWatchdogTimeout(time.Hour)), name)
			for range 40 {
				giveBack := testkit.Must(other.take(t.Context(), permitsInAll))
				got := testkit.Async(func() error {
					giveBack, err := sem.take(t.Context(), 2)
					if err == nil {
						err = giveBack(t.Context())
					}
					return err
				})
				testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
				killed := testkit.Async(func() error { return admin.ClientKillByFilter(t.Context(), "type", "pubsub").Err() })
				require.NoError(t, giveBack(t.Context()))
				require.NoError(t, testkit.Within(t, "the waiter has its turn", got))
				require.NoError(t, <-killed)
			}
		})
	}
}

// TestPermitsWithoutTheirReplicas: permits that no replica has are not held, and come back.
func TestPermitsWithoutTheirReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := testkit.NewName()
	client := testkit.NewClient(t, server.Client(t), rlock.WithReplicaAcks(1, 50*time.Millisecond))
	hold, err := client.NewSemaphore(name, rlock.Total(permitsInAll)).TryAcquire(t.Context(), rlock.Permits(2))
	require.ErrorIs(t, err, rlock.ErrNotReplicated)
	require.Nil(t, hold)
	free := testkit.NewClient(t, server.Client(t)).NewSemaphore(name)
	testkit.Eventually(t, "the permits are free", func() bool {
		return testkit.Must(free.AvailablePermits(t.Context())) == permitsInAll
	})
}

// TestShutdownWaitsForPermits: a shutdown tells the holders, and waits for them. Those of plain permits are unknown, and may still release them.
func TestShutdownWaitsForPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := testkit.NewName()
	client := testkit.NewClient(t, server.Client(t))
	sem, plain := client.NewSemaphore(name, rlock.Total(permitsInAll)), client.NewPlainSemaphore(name+":plain", rlock.Total(permitsInAll))
	hold := testkit.Must(sem.Acquire(t.Context()))
	require.NoError(t, plain.Acquire(t.Context()))
	working := hold.Context()
	over := testkit.Async(func() error { return client.Shutdown(t.Context()) })
	<-working.Done()
	require.ErrorIs(t, context.Cause(working), rlock.ErrClosed)
	require.ErrorIs(t, testkit.Second(sem.Acquire(t.Context())), rlock.ErrClosed)
	require.ErrorIs(t, plain.Acquire(t.Context()), rlock.ErrClosed)
	require.Empty(t, over, "it waits")
	require.NoError(t, plain.Release(t.Context(), 1))
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the shutdown is over", over))
}

func permitNames(t *testing.T, _ *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	client := testkit.NewClient(t, rdb)
	for _, semaphore := range sorts {
		for _, name := range []string{"a}b", "a{}b", "a{b"} {
			require.ErrorIs(t, testkit.Second(semaphore(client, name).take(t.Context(), 1)), rlock.ErrInvalidName)
			require.ErrorIs(t, testkit.Second(semaphore(client, name).AvailablePermits(t.Context())), rlock.ErrInvalidName)
		}
		for _, name := range []string{"plain", "{a}b", "x{a}y"} {
			giveBack := testkit.Must(semaphore(client, name+testkit.NewName()).take(t.Context(), 1))
			require.NoError(t, giveBack(t.Context()))
		}
	}
}
