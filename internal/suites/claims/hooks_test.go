package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// watcher is a hook that counts commands, as telemetry does.
type watcher struct {
	mu      sync.Mutex
	seen    map[string]int // by name
	foreign int            // commands without the caller's value in their context
	wrapped int            // how often go-redis has built its chain of hooks
}

// request is the key of a value that callers have in their contexts, such as a span.
type request struct{}

func (*watcher) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *watcher) note(ctx context.Context, cmds ...redis.Cmder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cmd := range cmds {
		if w.seen == nil {
			w.seen = make(map[string]int)
		}
		w.seen[cmd.Name()]++
		if ctx.Value(request{}) == nil {
			w.foreign++
		}
	}
}

func (w *watcher) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrapped++
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.note(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (w *watcher) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.note(ctx, cmds...)
		return next(ctx, cmds)
	}
}

// of returns how often the hook saw commands of these names.
func (w *watcher) of(names ...string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		n += w.seen[name]
	}
	return n
}

// ours lists the commands that rlock sends outside of subscriptions.
var ours = []string{"eval", "evalsha", "wait"}

// ran returns how often servers ran commands of these names.
func ran(t *testing.T, names []string, servers ...*redistest.Server) (n int) {
	t.Helper()
	for _, server := range servers {
		stats := testkit.Stats(t, server.Client(t))
		for _, name := range names {
			n += stats[name]
		}
	}
	return n
}

// use makes a client send each sort of command: single ones, pipelines of renewals, and those of a waiter.
func use(ctx context.Context, t *testing.T, client *rlock.Client) {
	t.Helper()
	lock := client.NewFairLock(testkit.NewName())
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	before := hold.Deadline()
	testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	require.False(t, testkit.Must(client.NewFairLock(lock.Name()).TryLock(ctx, rlock.Wait(50*time.Millisecond))))
	require.True(t, testkit.Must(lock.IsLocked(ctx)))
	require.NoError(t, hold.Unlock(ctx))
	testkit.Must(lock.ForceUnlock(ctx)) // true if the release gave the lock to the waiter while that was leaving
	require.NoError(t, client.Close())
}

func TestHooksSeeEveryCommand(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	for _, timeout := range []time.Duration{3 * time.Second, 30 * time.Second, -1} {
		for what, opts := range map[string][]rlock.Option{
			"alone": {rlock.WithoutAutoPipeline()}, "gathered": {tune.Crowd(0)}, "with acks": {rlock.WithReplicaAcks(1, time.Second)},
		} {
			t.Run(fmt.Sprintf("%s/ReadTimeout %v", what, timeout), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				if what == "with acks" {
					redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(server.Port))
					rdb := server.Client(t)
					testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, rdb, "any", 1) })
				}
				before := ran(t, ours, server)
				rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, ReadTimeout: timeout})
				hook := &watcher{}
				rdb.AddHook(hook)
				ctx := context.WithValue(t.Context(), request{}, "a span")
				use(ctx, t, testkit.NewClient(t, rdb, append(opts, rlock.WithWatchdogTimeout(6*time.Second))...))
				require.Equal(t, ran(t, ours, server)-before, hook.of(ours...), "%v", hook.seen)
			})
		}
	}
}

func TestHooksOfAClusterSeeEveryCommand(t *testing.T) { // the subtests share a cluster
	t.Parallel()
	connect.NeedsGoRedis(t)
	cluster := redistest.StartCluster(t)
	for what, opts := range map[string][]rlock.Option{
		"alone": {rlock.WithoutAutoPipeline()}, "gathered": {tune.Crowd(0)}, "with acks": {rlock.WithReplicaAcks(1, time.Second)},
	} {
		t.Run(what, func(t *testing.T) {
			name := testkit.NewName()
			opt := cluster.Options()
			opt.ReadTimeout = 3 * time.Second
			rdb := redis.NewClusterClient(opt)
			defer rdb.Close()
			whole, nodes := &watcher{}, &watcher{}
			rdb.AddHook(whole)
			rdb.OnNewNode(func(node *redis.Client) { node.AddHook(nodes) })
			require.NoError(t, rdb.Set(t.Context(), name, "", time.Second).Err(), "go-redis knows the topology")
			before := ran(t, ours, cluster.Nodes...)
			use(t.Context(), t, testkit.NewClient(t, rdb, append(opts, rlock.WithWatchdogTimeout(3*time.Second))...))
			sent := ran(t, ours, cluster.Nodes...) - before
			require.Equal(t, sent, whole.of(ours...), "%v", whole.seen)
			require.Equal(t, sent, nodes.of(ours...), "%v", nodes.seen)
		})
	}
}

// A hook that starts a span finds its parent in the context.
func TestHooksSeeTheValuesOfTheCallersContext(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	for _, timeout := range []time.Duration{3 * time.Second, -1} {
		rdb := redistest.Embedded(t).WithTimeout(timeout)
		hook := &watcher{}
		rdb.AddHook(hook)
		lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
		ctx := context.WithValue(t.Context(), request{}, "a span")
		require.NoError(t, rdb.Ping(ctx).Err(), "the handshake is over")
		hook.foreign = 0
		require.NoError(t, lock.Lock(ctx))
		require.True(t, testkit.Must(lock.IsLocked(ctx)))
		require.NoError(t, lock.Unlock(ctx))
		require.Positive(t, hook.of(ours...))
		require.Zero(t, hook.foreign, "%v", hook.seen)
	}
}

// refusal is a hook that fails every script.
type refusal struct{ watcher }

var errRefused = errors.New("refused by a hook")

func (*refusal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			return errRefused
		}
		return next(ctx, cmd)
	}
}

func TestAHookMayFailACommand(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redistest.Embedded(t).WithTimeout(-1)
	rdb.AddHook(&refusal{})
	require.ErrorIs(t, testkit.Second(testkit.NewClient(t, rdb).NewLock(testkit.NewName()).TryLock(t.Context())), errRefused)
}

func TestManyClientsShareOneHook(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redistest.Embedded(t).WithTimeout(-1)
	hook := &watcher{}
	rdb.AddHook(hook)
	for range 50 {
		client := testkit.NewClient(t, rdb)
		lock := client.NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, client.Close())
	}
	require.Positive(t, hook.of(ours...))
	require.LessOrEqual(t, hook.wrapped, 2, "New stacks no hooks")
}

// go-redis runs later hooks inside of earlier ones. A hook that is added after New is inside of rlock's own, which takes the
// commands elsewhere if the ReadTimeout does not fit. The user's commands pass every hook.
func TestHooksAddedAfterNew(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	for timeout, sees := range map[time.Duration]bool{3 * time.Second: true, -1: false} {
		rdb := redistest.Embedded(t).WithTimeout(timeout)
		lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
		late := &watcher{}
		rdb.AddHook(late)
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, sees, late.of(ours...) > 0)
		require.NoError(t, rdb.Ping(t.Context()).Err())
		require.Equal(t, 1, late.of("ping"))
	}
}
