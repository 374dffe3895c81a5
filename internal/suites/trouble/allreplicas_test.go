package trouble

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// online waits until a master has so many replicas that are in step, and that acknowledge.
func online(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint(n, " replicas are online"), func() bool {
		return strings.Count(rdb.Info(t.Context(), "replication").Val(), "state=online") == n && testkit.Replicated(t, rdb, "any", int64(n))
	})
}

// waits is a hook that remembers the commands WAIT.
type waits struct {
	mu  sync.Mutex
	all []string
}

func (w *waits) see(cmds ...redis.Cmder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range cmds {
		if c.Name() == "wait" {
			w.all = append(w.all, fmt.Sprint(c.Args()[1]))
		}
	}
}

// seen returns the numbers of replicas that were waited for since it was called last.
func (w *waits) seen() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.all = w.all, nil
	return all
}

func (*waits) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *waits) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { w.see(cmd); return next(ctx, cmd) }
}

func (w *waits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { w.see(cmds...); return next(ctx, cmds) }
}

func replicaOf(t *testing.T, master *redistest.Server) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
}

// TestAllReplicasThatAreOnline acknowledge each acquisition, as many as there are.
func TestAllReplicasThatAreOnline(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	rdb := master.Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 2*time.Second))
	held := func(rdb *redis.Client) []string {
		return slices.Sorted(slices.Values(slices.DeleteFunc(rdb.Keys(t.Context(), "*").Val(), func(key string) bool {
			return strings.HasSuffix(key, ":replicated")
		})))
	}
	acquired := func(replicas ...*redistest.Server) {
		t.Helper()
		all := map[string]handles.Any{"semaphore": client.NewSemaphore(testkit.NewName(), rlock.Total(2))}
		for _, kind := range []string{"lock", "fair", "fenced", "read", "write"} {
			all[kind] = testkit.MakeLock(kind, client, testkit.NewName())
		}
		for kind, lock := range all {
			hold, err := lock.Acquire(t.Context())
			require.NoError(t, err, kind)
			for _, r := range replicas {
				require.Equal(t, held(rdb), held(r.Client(t)), "%s: a replica has it when Acquire returns", kind)
			}
			require.NoError(t, hold.Unlock(t.Context()))
		}
	}
	acquired()
	require.Zero(t, testkit.Stats(t, rdb)["wait"], "there is none")
	one := replicaOf(t, master)
	online(t, rdb, 1)
	client = testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 2*time.Second))
	acquired(one)
	two := replicaOf(t, master)
	online(t, rdb, 2)
	client = testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 2*time.Second))
	acquired(one, two)
}

// TestAReplicaThatConnects is waited for soon.
func TestAReplicaThatConnects(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	master := redistest.Start(t)
	replicaOf(t, master)
	seen, rdb, admin := &waits{}, master.Client(t), master.Client(t)
	online(t, admin, 1)
	rdb.AddHook(seen)
	lock := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 2*time.Second)).NewLock(testkit.NewName())
	last := func() string {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		all := seen.seen()
		return all[len(all)-1]
	}
	require.Equal(t, "1", last())
	replicaOf(t, master)
	online(t, admin, 2)
	testkit.Eventually(t, "both are waited for", func() bool { return last() == "2" })
}

// TestAReplicaThatLeaves may have become the master. So acquisitions that it does not acknowledge fail, and soon the next ones wait for the rest.
func TestAReplicaThatLeaves(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica, rdb := replicaOf(t, master), master.Client(t)
	online(t, rdb, 1)
	client := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 50*time.Millisecond))
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	replica.Kill()
	online(t, rdb, 0)
	err := lock.Lock(t.Context())
	require.ErrorIs(t, err, rlock.ErrNotReplicated)
	require.ErrorContains(t, err, "0 of 1 replicas within 50ms")
	testkit.Eventually(t, "it is released", func() bool { return len(testkit.Holders(t, rdb, lock.Name())) == 0 })
	testkit.Eventually(t, "nobody waits for it", func() bool { return lock.Lock(t.Context()) == nil })
	require.NoError(t, lock.Unlock(t.Context()))
	before := testkit.Stats(t, rdb)["wait"]
	for range 3 {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.Equal(t, before, testkit.Stats(t, rdb)["wait"])
}

// TestAReplicaThatHangs does not have the lock, so that does not count.
func TestAReplicaThatHangs(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica, rdb := replicaOf(t, master), master.Client(t)
	online(t, rdb, 1)
	replica.Pause()
	client := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, 50*time.Millisecond))
	lock := client.NewLock(testkit.NewName())
	for range 2 {
		err := lock.Lock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		require.ErrorContains(t, err, "0 of 1 replicas")
		testkit.Eventually(t, "it is released", func() bool { return len(testkit.Holders(t, rdb, lock.Name())) == 0 })
	}
	replica.Resume()
	testkit.Eventually(t, "it acknowledges", func() bool { return lock.Lock(t.Context()) == nil })
	require.NoError(t, lock.Unlock(t.Context()))
}

// TestAllReplicasWithoutARight fails with the right that is missing, and keeps no lock.
func TestAllReplicasWithoutARight(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replicaOf(t, master)
	admin := master.Client(t)
	online(t, admin, 1)
	for lacks, says := range map[string]string{
		"-info": "Redis does not say how many replicas are online (INFO replication): the user of Redis lacks a right " +
			"(see SECURITY.md, or run: rlock doctor --acks all)",
		"-wait": "Redis refuses WAIT: the user of Redis lacks a right",
	} {
		rdb := testkit.OpenAs(t, master)(testkit.NewUser(t, testkit.Admins(t, master), "~*", "&*", "+@all", lacks))
		lock := testkit.NewClient(t, rdb, rlock.WithReplicaAcks(rlock.AllReplicas, time.Second)).NewLock(testkit.NewName())
		for range 2 {
			err := lock.Lock(t.Context())
			require.ErrorIs(t, err, rlock.ErrNotReplicated)
			require.ErrorContains(t, err, says)
		}
		testkit.Eventually(t, "the lock is released", func() bool { return len(testkit.Holders(t, admin, lock.Name())) == 0 })
	}
}

// TestAllReplicasOfNothing works in tests, on a server that knows nothing of replicas.
func TestAllReplicasOfNothing(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t), rlock.WithReplicaAcks(rlock.AllReplicas, time.Second)).NewLock("a")
	require.NoError(t, lock.Lock(t.Context()))
	require.False(t, testkit.Must(lock.TryLock(t.Context())))
	require.NoError(t, lock.Unlock(t.Context()))
}

// TestAllReplicasInAFailover has another master at the other end of the client's name, which has one replica fewer.
func TestAllReplicasInAFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	client := testkit.NewClient(t, sentinel.Client(t), rlock.WithReplicaAcks(rlock.AllReplicas, time.Second))
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, sentinel.Sentinels[0].Client(t).Do(t.Context(), "sentinel", "failover", sentinel.Options().MasterName).Err())
	copies := func() (n int) {
		for _, s := range append(sentinel.Replicas, sentinel.Master) {
			n += len(testkit.Holders(t, s.Client(t), lock.Name()))
		}
		return n
	}
	redistest.EventuallyWithin(t, time.Minute, "an acquisition is acknowledged by the old master, too", func() bool {
		if lock.Lock(t.Context()) != nil {
			return false
		}
		defer func() { require.NoError(t, lock.Unlock(t.Context())) }()
		return copies() == 3
	})
}
