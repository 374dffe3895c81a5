package trouble

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// Neither lost replies nor the hooks of the redis client keep a connection for longer than the command timeout.
func TestASilentServerGivesConnectionsBack(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	const timeout, lease = 300 * time.Millisecond, 12 * time.Second
	for what, opts := range map[string][]rlock.Option{"alone": {rlock.WithAutoPipeline(-1)}, "gathered": {rlock.WithAutoPipeline(0)}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr)
			rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: -1, PoolSize: 20, MaxActiveConns: 20})
			hook := &testkit.Tally{}
			rdb.AddHook(hook)
			client := testkit.NewClient(t, rdb, append(opts, rlock.WithLogger(testkit.Discard),
				rlock.WithCommandTimeout(timeout), rlock.WithWatchdogTimeout(lease))...)
			var holds []*rlock.Hold
			for range 5 {
				holds = append(holds, testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context())))
			}
			lost := proxy.SwallowReply(-1, func(redistest.Command) bool { return true })
			var calls sync.WaitGroup
			for range 40 {
				calls.Go(func() {
					if _, err := client.NewLock(testkit.NewName()).TryLock(context.Background()); err == nil {
						t.Error("a black hole has granted a lock")
					}
				})
			}
			testkit.Within(t, "every call returns", testkit.Async(func() error { calls.Wait(); return nil }))
			testkit.Eventually(t, "renewals are sent in vain", func() bool { return client.Stats().RenewalFailures > 0 })
			lost.Release() // for new connections; the silent ones stay silent
			back := time.Now()
			for _, hold := range holds {
				testkit.Eventually(t, "each hold is renewed", func() bool { return hold.Deadline().After(back.Add(lease)) })
				require.NoError(t, hold.Unlock(t.Context()), "each hold outlives the outage")
			}
			testkit.Eventually(t, "every connection comes back", func() bool { return busy(rdb) == 0 })
			sent := 40
			if what == "gathered" {
				sent = 1 // a call that leaves the queue is never sent
			}
			require.GreaterOrEqual(t, hook.Scripts(), int64(len(holds)+sent+len(holds)+len(holds)), "the hook saw acquisitions, renewals and releases")
		})
	}
}

// busy returns how many connections are in use.
func busy(rdb *redis.Client) int {
	stats := rdb.PoolStats()
	return int(stats.TotalConns) - int(stats.IdleConns)
}

// repeater is a hook that has each script run twice. The first reply is lost if loses is set, as for a hook that tries again after an
// error of the network. It keeps the first arguments, which Redis may still get later.
type repeater struct {
	loses bool
	on    atomic.Bool

	mu    sync.Mutex
	first [][]any
}

func (*repeater) DialHook(next redis.DialHook) redis.DialHook { return next }

// begins takes a command that is about to run for the first time, and reports whether it is a script.
func (h *repeater) begins(cmd redis.Cmder) bool {
	if !h.on.Load() || cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = append(h.first, slices.Clone(cmd.Args()))
	return true
}

func (h *repeater) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		twice := h.begins(cmd)
		err := next(ctx, cmd)
		if !twice || err != nil {
			return err
		}
		if h.loses {
			cmd.(interface{ SetVal(any) }).SetVal(nil)
		}
		return next(ctx, cmd)
	}
}

func (h *repeater) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		twice := false
		for _, cmd := range cmds {
			twice = h.begins(cmd) || twice
		}
		err := next(ctx, cmds)
		if !twice || err != nil {
			return err
		}
		for _, cmd := range cmds {
			if cmd, ok := cmd.(interface{ SetVal(any) }); ok && h.loses {
				cmd.SetVal(nil)
			}
		}
		return next(ctx, cmds)
	}
}

// again has the server run the first run of each script once more, in a connection of its own.
func (h *repeater) again(t *testing.T, rdb *redis.Client) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, args := range h.first {
		_ = rdb.Do(context.Background(), args...).Err()
	}
}

// repeating returns a client whose redis client has the hook, and another client to the same server.
func repeating(t *testing.T, loses bool, opts ...rlock.Option) (client *rlock.Client, h *repeater, log *testkit.Recorder, server *redis.Client) {
	t.Helper()
	connect.NeedsGoRedis(t)
	server = redistest.Start(t).Client(t)
	rdb := redistest.Open(t, &redis.Options{Addr: server.Options().Addr})
	h = &repeater{loses: loses}
	h.on.Store(true)
	rdb.AddHook(h)
	record, log := testkit.Recording()
	return testkit.NewClient(t, rdb, append(opts, record)...), h, log, server
}

// everyRepetition runs a test with hooks that lose the first reply or not, for calls that go out alone and in pipelines.
func everyRepetition(t *testing.T, test func(t *testing.T, loses bool, pipelines rlock.Option)) {
	t.Helper()
	for _, loses := range []bool{true, false} {
		for _, crowd := range []int{-1, 0} {
			t.Run(fmt.Sprintf("first reply lost %v, WithAutoPipeline %d", loses, crowd), func(t *testing.T) {
				t.Parallel()
				test(t, loses, rlock.WithAutoPipeline(crowd))
			})
		}
	}
}

// A hook of the redis client runs each script twice. No hold is reported as lost, none is left, and whatever Redis gets late changes
// nothing.
func TestAHookThatRepeatsEachScript(t *testing.T) {
	t.Parallel()
	everyRepetition(t, func(t *testing.T, loses bool, pipelines rlock.Option) {
		t.Helper()
		client, h, log, server := repeating(t, loses, pipelines)
		ctx := t.Context()
		for _, kind := range slices.Sorted(maps.Keys(testkit.Kinds)) {
			lock := testkit.Kinds[kind].Make(client, testkit.NewName())
			for range 2 {
				hold, err := lock.TryAcquire(ctx)
				require.NoError(t, err, kind)
				inner, err := lock.Acquire(hold.Context())
				require.NoError(t, err, kind)
				require.NoError(t, hold.Extend(ctx, time.Minute), kind)
				require.NoError(t, inner.Unlock(ctx), kind)
				require.NoError(t, hold.Err(), kind)
				require.NoError(t, hold.Unlock(ctx), kind)
			}
			require.NoError(t, lock.Do(ctx, func(context.Context) error { return nil }, rlock.Lease(time.Minute)), kind)
			if loses {
				h.again(t, server)
			}
			require.False(t, testkit.Must(lock.IsLocked(ctx)), kind)
		}
		require.NotContains(t, log.String(), "lost", "no loss is logged")
	})
}

// The lock is given to waiters of the same process, and of another one, while a hook runs each script twice.
func TestAHookThatRepeatsHandOvers(t *testing.T) {
	t.Parallel()
	everyRepetition(t, func(t *testing.T, loses bool, pipelines rlock.Option) {
		t.Helper()
		client, h, log, server := repeating(t, loses, pipelines, rlock.WithHandOver(2, time.Second))
		other := testkit.NewClient(t, server)
		for _, kind := range singleKinds() {
			if kind == "read" {
				continue // readers share
			}
			name := testkit.NewName()
			var inside, turns atomic.Int32
			var all sync.WaitGroup
			for i := range 6 {
				lock := testkit.MakeLock(kind, []*rlock.Client{client, other}[i%2], name)
				all.Go(func() {
					for range 5 {
						hold, err := lock.Acquire(t.Context())
						if err != nil {
							t.Error(kind, err)
							return
						}
						if inside.Add(1) != 1 {
							t.Error(kind, "two are inside")
						}
						turns.Add(1)
						inside.Add(-1)
						if err := hold.Unlock(t.Context()); err != nil {
							t.Error(kind, err)
						}
					}
				})
			}
			testkit.Within(t, kind+": all have had their turns", testkit.Async(func() error { all.Wait(); return nil }))
			require.EqualValues(t, 30, turns.Load())
			if loses {
				h.again(t, server)
			}
			testkit.Eventually(t, kind+" is free", func() bool {
				return !testkit.Must(testkit.MakeLock(kind, client, name).IsLocked(t.Context()))
			})
		}
		require.NotContains(t, log.String(), "lost", "no loss is logged")
	})
}

// Whatever counts, counts once, although a hook runs each script twice.
func TestAHookThatRepeatsCounts(t *testing.T) {
	t.Parallel()
	everyRepetition(t, func(t *testing.T, loses bool, pipelines rlock.Option) {
		t.Helper()
		client, h, log, server := repeating(t, loses, pipelines)
		ctx := t.Context()
		latch := client.NewCountDownLatch(testkit.NewName())
		require.True(t, testkit.Must(latch.TrySetCount(ctx, 5)))
		for left := int64(4); left > 1; left-- {
			require.Equal(t, left, testkit.Must(latch.CountDown(ctx)))
		}
		permits := client.NewSemaphore(testkit.NewName())
		require.True(t, testkit.Must(permits.TrySetPermits(ctx, 2)))
		plain := client.NewPlainSemaphore(testkit.NewName())
		require.True(t, testkit.Must(plain.TrySetPermits(ctx, 2)))
		for range 3 {
			require.NoError(t, permits.AddPermits(ctx, 1))
			require.NoError(t, plain.AddPermits(ctx, 1))
			for _, acquire := range []func(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error){permits.TryAcquire, plain.TryAcquire} {
				hold, err := acquire(ctx, rlock.Permits(2))
				require.NoError(t, err)
				require.NoError(t, hold.Unlock(ctx))
			}
		}
		require.NoError(t, plain.Release(ctx, 1))
		h.on.Store(false) // its hold does not release them, so nothing keeps a late acquisition away
		ids := testkit.Must(permits.TryAcquire(ctx)).PermitIDs()
		h.on.Store(true)
		require.NoError(t, permits.Release(ctx, ids...))
		if loses {
			h.again(t, server)
		}
		require.EqualValues(t, 2, testkit.Must(latch.Count(ctx)))
		require.Equal(t, 5, testkit.Must(permits.AvailablePermits(ctx)))
		require.Equal(t, 6, testkit.Must(plain.AvailablePermits(ctx)))
		require.Equal(t, 6, testkit.Must(plain.DrainPermits(ctx)))
		require.True(t, testkit.Must(latch.Delete(ctx)))
		require.NotContains(t, log.String(), "not given back")
		require.NotContains(t, log.String(), "lost")
	})
}

// A lock is parked, goes to a ticket and comes back, and is freed by force, while a hook runs each script twice.
func TestAHookThatRepeatsTicketsAndParks(t *testing.T) {
	t.Parallel()
	everyRepetition(t, func(t *testing.T, loses bool, pipelines rlock.Option) {
		t.Helper()
		client, h, _, server := repeating(t, loses, pipelines)
		ctx := t.Context()
		for _, kind := range []string{"lock", "fenced", "fair", "fenced fair"} {
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			hold, err := lock.Acquire(ctx)
			require.NoError(t, err, kind)
			before := hold.Token()
			ticket, err := hold.Export(ctx, rlock.Lease(time.Minute))
			require.NoError(t, err, kind)
			hold, err = lock.Adopt(ctx, ticket)
			require.NoError(t, err, kind)
			require.GreaterOrEqual(t, hold.Token(), before)
			require.NoError(t, hold.Unlock(ctx), kind)
			hold, err = lock.Acquire(ctx, rlock.AtLeast(time.Minute))
			require.NoError(t, err, kind)
			require.NoError(t, hold.Unlock(ctx), kind)
			require.True(t, testkit.Must(lock.IsLocked(ctx)), "it is parked")
			h.again(t, server)
			require.False(t, testkit.Must(lock.TryLock(ctx)), "it still is")
		}
	})
}

// A hook that sends an unlock by force once more does not take the lock from the next holder.
func TestAHookThatRepeatsAnUnlockByForce(t *testing.T) {
	t.Parallel()
	everyRepetition(t, func(t *testing.T, loses bool, pipelines rlock.Option) {
		t.Helper()
		client, h, _, server := repeating(t, loses, pipelines)
		h.on.Store(false)
		other := testkit.NewClient(t, server)
		for _, kind := range singleKinds() {
			name := testkit.NewName()
			lock := testkit.MakeLock(kind, client, name)
			require.NoError(t, lock.Lock(t.Context()))
			waits := make(chan *rlock.Hold, 1)
			if kind != "read" {
				next := testkit.MakeLock(kind, other, name)
				go func() { waits <- testkit.Must(next.Acquire(context.Background())) }()
				testkit.Eventually(t, "the next one waits", func() bool { return other.Stats().Waiting == 1 })
			}
			h.on.Store(true)
			_, err := lock.ForceUnlock(t.Context())
			h.on.Store(false)
			require.ErrorIs(t, err, rlock.ErrUnavailable, kind)
			if kind != "read" {
				hold := testkit.Within(t, kind+": the next one has it", waits)
				require.NoError(t, hold.Extend(t.Context(), time.Minute), kind)
				require.NoError(t, hold.Unlock(t.Context()), kind)
			}
		}
	})
}
