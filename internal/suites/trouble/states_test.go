package trouble

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// state is a temporary condition of a server in which it refuses commands.
type state struct {
	errText string   // part of the error
	args    []string // settings of the server
	begin   func(*testing.T, *redistest.Server, *redis.Client)
	end     func(*testing.T, *redis.Client)
}

// do returns a function that sends a command.
func do(args ...any) func(*testing.T, *redis.Client) {
	return func(t *testing.T, admin *redis.Client) {
		t.Helper()
		require.NoError(t, admin.Do(t.Context(), args...).Err(), args)
	}
}

// inBackground sends a command in the background. Its reply comes when the state ends.
func inBackground(t *testing.T, server *redistest.Server, args ...any) {
	t.Helper()
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, ReadTimeout: -1, MaxRetries: -1})
	go func() { _ = rdb.Do(context.Background(), args...).Err() }()
}

// missingSlot is a slot that holds no key of these tests. Without it the cluster serves no slot at all.
const missingSlot = 0

// noServer is an address without a server. A replica of it never finds its master.
var noServer = []any{"127.0.0.1", "1"}

var states = map[string]state{
	"a replica": {
		errText: "READONLY",
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("replicaof", noServer[0], noServer[1])(t, admin)
		},
		end: do("replicaof", "no", "one"),
	},
	"a replica without its master": {
		errText: "MASTERDOWN",
		args:    []string{"--replica-serve-stale-data", "no"},
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("replicaof", noServer[0], noServer[1])(t, admin)
		},
		end: do("replicaof", "no", "one"),
	},
	"a master without replicas": {
		errText: "NOREPLICAS",
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("config", "set", "min-replicas-to-write", "1")(t, admin)
		},
		end: do("config", "set", "min-replicas-to-write", "0"),
	},
	"a server that is loading its data": {
		errText: "LOADING",
		args:    []string{"--loading-process-events-interval-bytes", "1024"},
		begin: func(t *testing.T, server *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("debug", "populate", "2000", "filler")(t, admin)
			do("config", "set", "key-load-delay", "10000")(t, admin) // 20 s for all of it
			inBackground(t, server, "debug", "reload")
		},
		end: do("config", "set", "key-load-delay", "0"),
	},
	"a server that is busy with a script": {
		errText: "BUSY",
		args:    []string{"--lua-time-limit", "50"},
		begin: func(t *testing.T, server *redistest.Server, _ *redis.Client) {
			t.Helper()
			inBackground(t, server, "eval", "while true do end", 0)
		},
		end: do("script", "kill"),
	},
	"a server that cannot save its data": {
		errText: "MISCONF",
		args:    []string{"--enable-protected-configs", "yes"},
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			gone := t.TempDir()
			do("config", "set", "dir", gone, "save", "3600 1000000")(t, admin)
			require.NoError(t, os.Remove(gone))
			do("bgsave")(t, admin)
		},
		end: do("config", "set", "stop-writes-on-bgsave-error", "no"),
	},
	"a cluster with an unassigned slot": {
		errText: "CLUSTERDOWN",
		args:    []string{"--cluster-enabled", "yes"},
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("cluster", "delslots", missingSlot)(t, admin)
		},
		end: do("cluster", "addslots", missingSlot),
	},
	"a server that accepts no more clients": {
		errText: "", // the server closes the connection, usually before the client reads its error
		begin: func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
			t.Helper()
			do("config", "set", "maxclients", "1")(t, admin)
			do("client", "kill", "type", "normal")(t, admin) // except the connection that sends this command
		},
		end: do("config", "set", "maxclients", "1000"),
	},
}

// TestTransientServerStates makes a server refuse everything for longer than a renewal interval. No lock is lost, waiters keep
// waiting, and an unlock succeeds when the state ends.
func TestTransientServerStates(t *testing.T) {
	t.Parallel()
	for what, s := range states {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, s.args...)
			admin := redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 1, MaxRetries: -1})
			if slices.Contains(s.args, "--cluster-enabled") {
				require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
				testkit.Eventually(t, "the cluster is up", func() bool {
					return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
				})
			}
			survives(t, s, server, admin)
		})
	}
}

func survives(t *testing.T, s state, server *redistest.Server, admin *redis.Client) {
	t.Helper()
	logger, log := testkit.Recording()
	const lease = 6 * time.Second
	name := func(n int) string { return fmt.Sprintf("%d{states}", n) }
	require.NotEqualValues(t, missingSlot, wire.Slot(name(1)))
	client := testkit.NewClient(t, server.Client(t), logger, rlock.WithWatchdogTimeout(lease), rlock.WithCommandTimeout(testkit.ALongTime))
	hold, err := client.NewLock(name(1)).Acquire(t.Context())
	require.NoError(t, err)
	unlocked, err := client.NewLock(name(2)).Acquire(t.Context())
	require.NoError(t, err)
	free := client.NewLock(name(3))

	s.begin(t, server, admin)
	probe := redistest.Open(t, &redis.Options{Addr: server.Addr, MaxRetries: -1})
	testkit.Eventually(t, "the server is in the state", func() bool {
		err := probe.Eval(t.Context(), "return redis.call('SET', KEYS[1], 1)", []string{"{states}"}).Err()
		return err != nil && strings.Contains(err.Error(), s.errText)
	})
	err = testkit.Second(free.TryLock(t.Context()))
	require.ErrorContains(t, err, s.errText)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "it is not contention")
	waiting := testkit.Async(func() error { return free.Lock(t.Context()) })
	testkit.Eventually(t, "the waiter waits", func() bool { return testkit.Waiting(free) == 1 })
	unlocking := testkit.Async(func() error { return unlocked.Unlock(t.Context()) })
	renewed := hold.Deadline()
	testkit.Eventually(t, "the time of the renewal has passed", func() bool { return time.Until(renewed) < lease/2 })
	require.Equal(t, renewed, hold.Deadline())
	require.Empty(t, unlocking, "an unlock keeps trying")
	require.Empty(t, waiting, "a waiter keeps trying")

	s.end(t, admin)
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, testkit.Within(t, "the unlock succeeds", unlocking))
	testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(renewed) })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, free.Unlock(t.Context()))
	require.NotContains(t, log.String(), "lost")
}

// TestAHoldSurvivesTransientTrouble holds a lock for two leases during constant trouble.
func TestAHoldSurvivesTransientTrouble(t *testing.T) {
	t.Parallel()
	survivesTrouble(t, map[string]trouble{
		"connections that are closed ten times a second": {100 * time.Millisecond, func(f *testkit.Faulty) { f.Proxy.CloseAll() }},
		"a script cache that is flushed constantly": {10 * time.Millisecond, func(f *testkit.Faulty) {
			require.NoError(f, f.Direct.ScriptFlush(f.Context()).Err())
		}},
		"a server that is stopped": {2 * time.Second, func(f *testkit.Faulty) {
			f.Server.Pause()
			<-time.After(troubled / 3)
			f.Server.Resume()
		}},
	})
}

// TestAHoldSurvivesABusyServer does so while the server itself makes clients wait.
func TestAHoldSurvivesABusyServer(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "CLIENT PAUSE, and scripts that take long")
	survivesTrouble(t, map[string]trouble{
		"a server that pauses": {2 * time.Second, func(f *testkit.Faulty) {
			require.NoError(f, f.Direct.Do(f.Context(), "client", "pause", (troubled/3).Milliseconds(), "all").Err())
		}},
		"scripts that keep the server busy": {2 * time.Second, func(f *testkit.Faulty) {
			over := testkit.Async(func() error { _ = f.Direct.Eval(f.Context(), "while true do end", nil).Err(); return nil })
			<-time.After(troubled / 3)
			require.NoError(f, f.Direct.ScriptKill(f.Context()).Err())
			<-over
		}},
	})
}

// trouble is what goes wrong again and again.
type trouble struct {
	every time.Duration
	do    func(*testkit.Faulty)
}

// troubled is the lease of a hold in trouble.
const troubled = 3 * time.Second

// survivesTrouble holds a lock for two leases, once for each trouble.
func survivesTrouble(t *testing.T, troubles map[string]trouble) {
	t.Helper()
	for what, wrong := range troubles {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithWatchdogTimeout(troubled))
			require.NoError(t, f.Direct.ConfigSet(t.Context(), "lua-time-limit", "50").Err())
			hold, err := f.Lock.Acquire(t.Context())
			require.NoError(t, err)
			for start := time.Now(); time.Since(start) < 2*troubled; <-time.After(wrong.every) {
				wrong.do(f)
				require.NoError(t, hold.Err(), "after %v", time.Since(start))
				require.Equal(t, "1", f.Count())
			}
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}

// A master that does not know of its demotion would renew a lock that another owner holds on the new master. It does know that
// its replicas are gone. If its settings make it refuse writes then, it renews nothing, and its holders give up in time.
func TestAMasterWithoutReplicasRenewsNothing(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
	rdb := master.Client(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
	lock := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(4*time.Second), rlock.WithCommandTimeout(time.Second)).NewLock(testkit.NewName())
	hold, err := lock.Acquire(t.Context(), rlock.Wait(testkit.ALongTime)) // until the replica is in sync
	require.NoError(t, err)
	_ = hold.Done()
	replica.Pause()
	testkit.Within(t, "the hold ends", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorContains(t, hold.Err(), "its lease ended", "the client detects the loss without Redis")
	require.Error(t, hold.Unlock(t.Context()))
	replica.Resume()
}
