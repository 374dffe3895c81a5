package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// sorts makes a semaphore of each sort.
var sorts = map[string]func(c *rlock.Client, name string) permits{
	"leased": func(c *rlock.Client, name string) permits { return c.NewSemaphore(name, rlock.Total(permitsInAll)) },
	"plain": func(c *rlock.Client, name string) permits {
		return c.NewPlainSemaphore(name, rlock.Total(permitsInAll))
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
			client := testkit.NewClient(t, server.Client(t), rlock.WithPollInterval(testkit.Never), rlock.WithWatchdogTimeout(time.Hour))
			name := testkit.NewName()
			sem := semaphore(client, name)
			other := semaphore(testkit.NewClient(t, server.Client(t), rlock.WithWatchdogTimeout(time.Hour)), name)
			for range 40 {
				hold := testkit.Must(other.Acquire(t.Context(), rlock.Permits(permitsInAll)))
				got := testkit.Async(func() error {
					hold, err := sem.Acquire(t.Context(), rlock.Permits(2))
					if err == nil {
						err = hold.Unlock(t.Context())
					}
					return err
				})
				testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
				killed := testkit.Async(func() error { return admin.ClientKillByFilter(t.Context(), "type", "pubsub").Err() })
				require.NoError(t, hold.Unlock(t.Context()))
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
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			name := testkit.NewName()
			client := testkit.NewClient(t, server.Client(t), rlock.WithReplicaAcks(1, 50*time.Millisecond))
			hold, err := semaphore(client, name).TryAcquire(t.Context(), rlock.Permits(2))
			require.ErrorIs(t, err, rlock.ErrNotReplicated)
			require.Nil(t, hold)
			free := semaphore(testkit.NewClient(t, server.Client(t)), name)
			testkit.Eventually(t, "the permits are free", func() bool {
				return testkit.Must(free.AvailablePermits(t.Context())) == permitsInAll
			})
		})
	}
}

// TestShutdownWaitsForPermits: a shutdown tells the holders, and waits for them.
func TestShutdownWaitsForPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			name := testkit.NewName()
			client := testkit.NewClient(t, server.Client(t))
			hold := testkit.Must(semaphore(client, name).Acquire(t.Context()))
			working := hold.Context()
			over := testkit.Async(func() error { return client.Shutdown(t.Context()) })
			<-working.Done()
			require.ErrorIs(t, context.Cause(working), rlock.ErrClosed)
			_, err := semaphore(client, name).Acquire(t.Context())
			require.ErrorIs(t, err, rlock.ErrClosed)
			require.Empty(t, over, "it waits")
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the shutdown is over", over))
		})
	}
}

// TestSemaphoresOnACluster uses one cluster for all its subtests.
func TestSemaphoresOnACluster(t *testing.T) { // the last subtest kills a master
	t.Parallel()
	cluster := startSharded(t)
	for _, c := range []struct {
		claim string
		test  func(*testing.T, *redistest.Cluster)
	}{
		{"names that cannot work are refused before anything is sent", permitNames},
		{"PUBLISH and SPUBLISH wake those who wait for permits", permitModes},
		{"those who wait for permits follow a slot that moves", permitMoves},
		{"those who wait for permits follow a failover", permitFailover},
		{"permits survive the death of a master", permitDeath},
	} {
		t.Run(c.claim, func(t *testing.T) { c.test(t, cluster) })
	}
}

func permitNames(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	client := testkit.NewClient(t, cluster.Client(t))
	for _, semaphore := range sorts {
		for _, name := range []string{"a}b", "a{}b", "a{b"} {
			require.ErrorIs(t, testkit.Second(semaphore(client, name).TryAcquire(t.Context())), rlock.ErrInvalidName)
			require.ErrorIs(t, testkit.Second(semaphore(client, name).AvailablePermits(t.Context())), rlock.ErrInvalidName)
		}
		for _, name := range []string{"plain", "{a}b", "x{a}y"} {
			hold := testkit.Must(semaphore(client, name+testkit.NewName()).TryAcquire(t.Context()))
			require.NoError(t, hold.Unlock(t.Context()))
		}
	}
}

// permitsAreKept holds permits while another client waits for one, runs meanwhile, and requires that the holds still count, and that
// their end wakes the waiter.
func permitsAreKept(t *testing.T, cluster *redistest.Cluster, mode rlock.ShardedPubSub, meanwhile func(name string)) {
	t.Helper()
	for sort, semaphore := range sorts {
		logger, _ := testkit.Recording()
		opts := []rlock.Option{
			logger, rlock.WithShardedPubSub(mode), rlock.WithPollInterval(testkit.Never), rlock.WithCommandTimeout(30 * time.Second),
			rlock.WithWatchdogTimeout(time.Minute),
		}
		holder, waiter := testkit.NewClient(t, cluster.Client(t), opts...), testkit.NewClient(t, cluster.Client(t), opts...)
		name := testkit.NewName()
		sem := semaphore(holder, name)
		most := testkit.Must(sem.Acquire(t.Context(), rlock.Permits(permitsInAll-1), rlock.Wait(2*time.Minute)))
		one := testkit.Must(sem.Acquire(t.Context()))
		got := make(chan *rlock.Hold, 1)
		go func() {
			hold, err := semaphore(waiter, name).Acquire(t.Context(), rlock.Permits(2))
			if err != nil {
				t.Errorf("%s: %v", sort, err)
			}
			got <- hold
		}()
		testkit.Eventually(t, "it waits", func() bool { return waiter.Stats().Waiting == 1 })
		meanwhile(name)
		require.NoError(t, one.Unlock(t.Context()), sort)
		require.Empty(t, got, "it wants two")
		require.NoError(t, most.Unlock(t.Context()), sort)
		require.NoError(t, testkit.Within(t, "the waiter has its turn", got).Unlock(t.Context()), sort)
		require.Equal(t, permitsInAll, testkit.Must(sem.AvailablePermits(t.Context())), sort)
	}
}

func permitModes(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, mode := range []rlock.ShardedPubSub{rlock.ShardedAuto, rlock.ShardedOn, rlock.ShardedOff} {
		for range 3 {
			permitsAreKept(t, cluster, mode, func(string) {})
		}
	}
}

func permitMoves(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	for _, mode := range []rlock.ShardedPubSub{rlock.ShardedAuto, rlock.ShardedOff} {
		permitsAreKept(t, cluster, mode, func(name string) { cluster.MoveSlot(t, name) })
	}
}

func permitFailover(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	permitsAreKept(t, cluster, rlock.ShardedAuto, func(name string) {
		replicated(t, cluster, name)
		cluster.Failover(t, name)
	})
}

func permitDeath(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	var dead *redistest.Server
	permitsAreKept(t, cluster, rlock.ShardedAuto, func(name string) {
		if dead != nil {
			cluster.Rejoin(t, dead)
		}
		replicated(t, cluster, name)
		dead = cluster.MasterToKill(t, name)
		dead.Kill()
	})
}

// replicated waits until the replica of a name's master has all that the master has.
func replicated(t *testing.T, cluster *redistest.Cluster, name string) {
	t.Helper()
	old := cluster.MasterOf(t, name)
	testkit.Eventually(t, "the replica has the permits", func() bool { return testkit.Replicated(t, old.Client(t), name, 1) })
}
