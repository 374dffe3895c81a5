package rlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestAnAcquisitionWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
	rdb := master.Client(t)
	eventually(t, "the replica has caught up", func() bool { return replicated(t, rdb, "any", 1) })
	client := newClient(t, rdb, rlock.WithReplicaAcks(1, time.Second))
	makers := map[string]func(string, ...rlock.LockOption) *rlock.Lock{
		"lock": client.NewLock, "fair": client.NewFairLock, "fenced": client.NewFencedLock,
	}
	for kind, newLock := range makers {
		lock := newLock(newName())
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err, kind)
		require.NotEmpty(t, holders(t, replica.Client(t), lock.Name()), "a replica has it when Acquire returns")
		require.False(t, must(newLock(lock.Name()).TryLock(t.Context())), "a refusal does not wait for replicas")
		require.NoError(t, hold.Unlock(t.Context()))
	}

	for kind, newLock := range makers {
		hung := newLock(newName())
		replica.Pause()
		slow := newClient(t, rdb, rlock.WithReplicaAcks(1, 50*time.Millisecond))
		_, err := slow.NewLock(hung.Name()).TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotReplicated, kind)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.ErrorContains(t, err, "0 of 1 replicas")
		require.ErrorIs(t, slow.NewLock(hung.Name()).Lock(t.Context()), rlock.ErrNotReplicated, "waiting does not help")
		eventually(t, "the lock is released", func() bool { return len(holders(t, rdb, hung.Name())) == 0 })
		replica.Resume()
		eventually(t, "the replica has caught up", func() bool { return replicated(t, rdb, "any", 1) })
		require.NoError(t, hung.Lock(t.Context()))
		require.NoError(t, hung.Unlock(t.Context()))
	}
}

// The next holder waits until a replica has the hand-over, or fails to acquire. The unlock before it succeeds either way.
func TestAHandOverWaitsForReplicas(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		master := redistest.Start(t)
		replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
		rdb, copied := master.Client(t), replica.Client(t)
		eventually(t, "the replica has caught up", func() bool { return rdb.Wait(t.Context(), 1, time.Second).Val() == 1 })
		client := newClient(t, rdb, rlock.WithReplicaAcks(1, 2*time.Second), rlock.WithHandOver(100, time.Hour))
		queue := newWaiterQueue(t, makeLock(kind, client, newName()))
		name := queue.lock.Name()
		hold := must(queue.lock.Acquire(t.Context()))
		queue.join(t.Context())
		queue.awaitSleep(rdb)
		require.NoError(t, hold.Unlock(t.Context()))
		hold = queue.next()
		require.Equal(t, holders(t, rdb, name), holders(t, copied, name), "a replica has it when the next holder does")
		require.Equal(t, 1, stats(t, rdb)["hsetnx"], "the lock was handed over")

		queue.join(t.Context())
		eventually(t, "another waiter rests", queue.lock.Rests)
		replica.Pause()
		require.NoError(t, hold.Unlock(t.Context()))
		err := within(t, "the next waiter gets an error", queue.errs)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.Equal(t, 2, stats(t, rdb)["hsetnx"], "the lock was handed over nevertheless")
		eventually(t, "the lock is released", func() bool { return len(holders(t, rdb, name)) == 0 })
		eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
		replica.Resume()
	})
}

func TestReplicaAcksFailWhereRedisRefusesWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	rdb := openAs(t, server)(newUser(t, admins(t, server), "~*", "&*", "+@all", "-wait"))
	lock := newClient(t, rdb, rlock.WithReplicaAcks(1, time.Second)).NewLock(newName())
	err := lock.Lock(t.Context())
	require.ErrorIs(t, err, rlock.ErrNotReplicated)
	require.ErrorContains(t, err, "refuses WAIT")
	eventually(t, "the lock is released", func() bool { return len(holders(t, admin, lock.Name())) == 0 })
}

func TestAWaitCommandWhoseReplyIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, quick(), rlock.WithReplicaAcks(1, 2*time.Second))
	redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(f.server.Port))
	eventually(t, "the replica has caught up", func() bool { return replicated(t, f.direct, "any", 1) })
	for how, lose := range lossy {
		lose(f.proxy, 1, redistest.Named("wait"))
		hold, err := f.lock.Acquire(t.Context(), rlock.Wait(aLongTime))
		require.NoError(t, err, how)
		require.Equal(t, "1", f.count(), how)
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, "0", f.count(), how)
	}
}

// clusterAcks moves a slot without the client's knowledge. The node that the client knows then replies MOVED.
func clusterAcks(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	rdb := cluster.Client(t)
	client := newClient(t, rdb, rlock.WithReplicaAcks(1, 2*time.Second))
	lock := client.NewLock(newName())
	for range 3 {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.MoveSlot(t, lock.Name())
	}
}
