package trouble

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestAnAcquisitionWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
	rdb := master.Client(t)
	testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, rdb, "any", 1) })
	client := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(1, time.Second))
	makers := map[string]func(string, ...rlock.LockOption) *rlock.Lock{
		"lock": client.NewLock, "fair": client.NewFairLock,
	}
	for _, kind := range []string{"fenced", "fenced fair", "fenced write"} {
		makers[kind] = func(name string, _ ...rlock.LockOption) *rlock.Lock { return testkit.MakeLock(kind, client, name) }
	}
	for kind, newLock := range makers {
		lock := newLock(testkit.NewName())
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err, kind)
		require.NotEmpty(t, testkit.Holders(t, replica.Client(t), lock.Name()), "a replica has it when Acquire returns")
		require.False(t, testkit.Must(newLock(lock.Name()).TryLock(t.Context())), "a refusal does not wait for replicas")
		require.NoError(t, hold.Unlock(t.Context()))
	}

	for kind, newLock := range makers {
		hung := newLock(testkit.NewName())
		replica.Pause()
		slow := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(1, 50*time.Millisecond))
		_, err := slow.NewLock(hung.Name()).TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotReplicated, kind)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.ErrorContains(t, err, "0 of 1 replicas")
		require.ErrorIs(t, slow.NewLock(hung.Name()).Lock(t.Context()), rlock.ErrNotReplicated, "waiting does not help")
		testkit.Eventually(t, "the lock is released", func() bool { return len(testkit.Holders(t, rdb, hung.Name())) == 0 })
		replica.Resume()
		testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, rdb, "any", 1) })
		require.NoError(t, hung.Lock(t.Context()))
		require.NoError(t, hung.Unlock(t.Context()))
	}
}

// The next holder waits until a replica has the hand-over, or fails to acquire. The unlock before it succeeds either way. A next
// holder that stands in the line is woken instead, and takes the lock by itself.
func TestAHandOverWaitsForReplicas(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		master := redistest.Start(t)
		replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
		rdb, copied := master.Client(t), replica.Client(t)
		testkit.Eventually(t, "the replica has caught up", func() bool { return rdb.Wait(t.Context(), 1, time.Second).Val() == 1 })
		client := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(1, 2*time.Second), tune.HandOver(100, time.Hour))
		queue := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, client, testkit.NewName()))
		name := queue.Lock.Name()
		hold := testkit.Must(queue.Lock.Acquire(t.Context()))
		queue.Join(t.Context())
		if !testkit.ByTurns(kind) {
			queue.AwaitSleep(rdb)
		}
		require.NoError(t, hold.Unlock(t.Context()))
		hold = queue.Next()
		require.Equal(t, testkit.Holders(t, rdb, name), testkit.Holders(t, copied, name), "a replica has it when the next holder does")

		queue.Join(t.Context())
		testkit.Eventually(t, "another waiter rests", func() bool { return testkit.Rests(queue.Lock) })
		replica.Pause()
		require.NoError(t, hold.Unlock(t.Context()))
		err := testkit.Within(t, "the next waiter gets an error", queue.Errs)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		testkit.Eventually(t, "the lock is released", func() bool { return len(testkit.Holders(t, rdb, name)) == 0 })
		testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
		replica.Resume()
	})
}

func TestReplicaAcksFailWhereRedisRefusesWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	rdb := testkit.OpenAs(t, server)(testkit.NewUser(t, testkit.Admins(t, server), "~*", "&*", "+@all", "-wait"))
	lock := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(1, time.Second)).NewLock(testkit.NewName())
	err := lock.Lock(t.Context())
	require.ErrorIs(t, err, rlock.ErrNotReplicated)
	require.ErrorContains(t, err, "refuses WAIT")
	testkit.Eventually(t, "the lock is released", func() bool { return len(testkit.Holders(t, admin, lock.Name())) == 0 })
}

func TestAWaitCommandWhoseReplyIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithReplicaAcks(1, 2*time.Second))
	redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(f.Server.Port))
	testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, f.Direct, "any", 1) })
	for how, lose := range testkit.Lossy {
		lose(f.Proxy, 1, redistest.Named("wait"))
		hold, err := f.Lock.Acquire(t.Context(), rlock.Wait(testkit.ALongTime))
		require.NoError(t, err, how)
		require.Equal(t, "1", f.Count(), how)
		require.NoError(t, hold.Unlock(t.Context()))
		require.Equal(t, "0", f.Count(), how)
	}
}

// clusterAcks moves a slot without the client's knowledge. The node that the client knows then replies MOVED.
func clusterAcks(t *testing.T, cluster *redistest.Cluster, _ *redis.ClusterClient) {
	t.Helper()
	rdb := cluster.Client(t)
	for n, acks := range map[string]rlock.Option{"one": rlock.WithReplicaAcks(1, 2*time.Second), "all": rlock.WithReplicaAcks(rlock.AllReplicas, 2*time.Second)} {
		client := testkit.NewClient(t, rdb, acks)
		lock := client.NewLock(testkit.NewName())
		for range 3 {
			require.NoError(t, lock.Lock(t.Context()))
			if n == "all" {
				replica := cluster.ReplicaOf(t, cluster.MasterOf(t, lock.Name())).Client(t).Conn()
				require.NoError(t, replica.ReadOnly(t.Context()).Err())
				require.EqualValues(t, 1, testkit.Must(replica.Exists(t.Context(), lock.Name()).Result()))
				require.NoError(t, replica.Close())
			}
			require.NoError(t, lock.Unlock(t.Context()))
			cluster.MoveSlot(t, lock.Name())
		}
	}
}
