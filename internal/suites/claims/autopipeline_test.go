package claims

import (
	"context"
	"errors"
	"slices"
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

// crowd is the number of goroutines that lock at the same time, each under its own name.
const crowd = 40

// batches is a hook that records the size of each batch of scripts that go-redis sends.
type batches struct {
	mu    sync.Mutex
	sizes []int
}

func (*batches) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*batches) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *batches) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // a new connection also starts with a pipeline
			b.mu.Lock()
			b.sizes = append(b.sizes, len(cmds))
			b.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

func (b *batches) largest() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Max(append(b.sizes, 0))
}

// crowded is a faulty lock whose client pipelines everything, together with many other locks of the same client.
type crowded struct {
	*testkit.Faulty
	locks []*rlock.Lock
}

func newCrowded(t *testing.T, opt *redis.Options, opts ...rlock.Option) *crowded {
	t.Helper()
	c := &crowded{Faulty: testkit.NewFaulty(t, opt, append(opts, tune.Crowd(0))...)}
	for range crowd {
		c.locks = append(c.locks, c.Client.NewLock(testkit.NewName()))
	}
	return c
}

// all calls do for every lock at the same time, and returns the errors.
func (c *crowded) all(do func(*rlock.Lock) error) []error {
	errs := make([]error, len(c.locks))
	var wg sync.WaitGroup
	for i, lock := range c.locks {
		wg.Go(func() { errs[i] = do(lock) })
	}
	wg.Wait()
	return errs
}

// sent counts the calls of a script for a lock.
func (c *crowded) sent(script string, lock *rlock.Lock) int {
	runs := testkit.Runs(script)
	return c.Proxy.Count(func(cmd redistest.Command) bool { return runs(cmd) && cmd[3] == lock.Name() })
}

// lockAll has a crowd of goroutines lock and unlock names of their own, some times over.
func lockAll(t *testing.T, client *rlock.Client, times int) {
	t.Helper()
	var wg sync.WaitGroup
	for range crowd {
		lock := client.NewLock(testkit.NewName())
		wg.Go(func() {
			for range times {
				if err := errors.Join(lock.Lock(t.Context()), lock.Unlock(context.Background())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestManyGoroutinesShareBatches needs no option. A goroutine that is alone sends no pipelines.
func TestManyGoroutinesShareBatches(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redistest.Start(t).Client(t)
	sent := &batches{}
	rdb.AddHook(sent)
	client := testkit.NewClient(t, rdb)
	lock := client.NewLock(testkit.NewName())
	for range 20 {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.Zero(t, sent.largest())
	lockAll(t, client, 20)
	require.Greater(t, sent.largest(), 1)
}

func TestAPipelinedCommandIsSentOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCrowded(t, testkit.Quick(), rlock.WithCommandTimeout(10*time.Second))
			lost := lose(c.Proxy, -1, testkit.Runs("acquire"))
			for _, err := range c.all(func(l *rlock.Lock) error { return testkit.Second(l.TryLock(t.Context())) }) {
				require.Error(t, err, "the outcome is in doubt")
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "it is not contention")
			}
			for _, lock := range c.locks {
				require.LessOrEqual(t, c.sent("acquire", lock), 1, "go-redis must not send a command again")
			}
			lost.Release()
			for _, err := range c.all(func(l *rlock.Lock) error { return l.Lock(t.Context(), rlock.Wait(testkit.ALongTime)) }) {
				require.NoError(t, err, "no leftover holder blocks the lock for a lease")
			}
			lose(c.Proxy, 3, testkit.Runs("release"))
			for _, err := range c.all(func(l *rlock.Lock) error { return l.Unlock(t.Context()) }) {
				require.NoError(t, err)
			}
			for _, lock := range c.locks {
				require.Empty(t, testkit.Holders(t, c.Direct, lock.Name()))
			}
		})
	}
}

func TestRenewalsDoNotWaitForPipelines(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, &redis.Options{PoolSize: 3}, rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := c.Lock.Acquire(t.Context())
	require.NoError(t, err)
	held := c.Proxy.HoldReply(-1, testkit.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, crowd)
	for wave := range slices.Chunk(c.locks, crowd/4) { // all waves together take longer than the lease
		for _, lock := range wave {
			go func() { done <- lock.Lock(ctx) }()
		}
		before := hold.Deadline()
		testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	}
	testkit.Within(t, "a batch hangs", held.Met())
	require.NoError(t, hold.Err())
	require.Empty(t, done, "the acquisitions still hang")
	cancel()
	for range c.locks {
		require.ErrorIs(t, testkit.Within(t, "the calls return", done), context.Canceled)
	}
	held.Release()
	require.NoError(t, hold.Unlock(t.Context()))
	for _, lock := range c.locks {
		testkit.Eventually(t, "no holder is left over", func() bool { return len(testkit.Holders(t, c.Direct, lock.Name())) == 0 })
	}
}

func TestAPipelinedCallReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, &redis.Options{})
	held := c.Proxy.HoldReply(-1, testkit.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() { done <- c.all(func(l *rlock.Lock) error { return l.Lock(ctx) }) }()
	testkit.Within(t, "a batch hangs", held.Met())
	cancel()
	passed := redistest.Stopwatch(t)
	for _, err := range testkit.Within(t, "the calls return", done) {
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis replied to nobody")
	}
	require.Less(t, passed(), 3*time.Second, "no caller waits for the batch")
	held.Release()
	for _, lock := range c.locks {
		testkit.Eventually(t, "a late grant is released", func() bool { return len(testkit.Holders(t, c.Direct, lock.Name())) == 0 })
	}
	require.NoError(t, c.locks[0].Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
	require.NoError(t, c.locks[0].Unlock(t.Context()))
}

func TestAPipelinedCommandEndsWithinTheCommandTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	c := newCrowded(t, &redis.Options{PoolSize: 3}, rlock.WithCommandTimeout(timeout))
	require.NoError(t, c.Lock.Lock(t.Context()))
	c.Proxy.Freeze()
	for range 2 { // with idle connections, then with none
		passed := redistest.Stopwatch(t)
		for _, err := range c.all(func(l *rlock.Lock) error { return testkit.Second(l.TryLock(context.Background())) }) {
			require.Error(t, err)
			require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		}
		require.Less(t, passed(), timeout+1500*time.Millisecond, "although most calls waited for another call's batch")
	}
	c.Proxy.Thaw()
	for _, err := range c.all(func(l *rlock.Lock) error { return l.Lock(t.Context(), rlock.Wait(testkit.ALongTime)) }) {
		require.NoError(t, err)
	}
	for _, err := range c.all(func(l *rlock.Lock) error { return l.Unlock(t.Context()) }) {
		require.NoError(t, err)
	}
}

// TestAPipelinedReleaseEndsWithinTheCommandTimeout has callers whose contexts set no limit: nothing but rlock ends their wait.
func TestAPipelinedReleaseEndsWithinTheCommandTimeout(t *testing.T) {
	t.Parallel()
	for what, ctx := range map[string]context.Context{"cannot end": context.Background(), "can end": t.Context()} {
		t.Run("context "+what, func(t *testing.T) {
			t.Parallel()
			const timeout = 2 * time.Second
			c := newCrowded(t, &redis.Options{PoolSize: 3}, rlock.WithCommandTimeout(timeout))
			for range 4 * crowd { // more than go out at once
				c.locks = append(c.locks, c.Client.NewLock(testkit.NewName()))
			}
			for _, err := range c.all(func(l *rlock.Lock) error { return l.Lock(ctx) }) {
				require.NoError(t, err)
			}
			c.Proxy.Freeze()
			passed := redistest.Stopwatch(t)
			for _, err := range c.all(func(l *rlock.Lock) error { return l.Unlock(ctx) }) {
				require.ErrorIs(t, err, rlock.ErrUnavailable)
			}
			require.Less(t, passed(), 2*timeout, "although most wait for pipelines that hang")
			c.Proxy.Thaw()
			for _, err := range c.all(func(l *rlock.Lock) error { return l.Lock(ctx, rlock.Wait(testkit.ALongTime)) }) {
				require.NoError(t, err)
			}
		})
	}
}

func TestPipelinesSurviveAScriptFlush(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, &redis.Options{})
	owner := rlock.WithOwner(t.Context())
	for what, do := range map[string]func(*rlock.Lock) error{
		"lock":     func(l *rlock.Lock) error { return l.Lock(owner) },
		"re-enter": func(l *rlock.Lock) error { return testkit.Second(l.TryLock(owner)) },
	} {
		require.NoError(t, c.Direct.ScriptFlush(t.Context()).Err())
		for _, err := range c.all(do) {
			require.NoError(t, err, what)
		}
	}
	for range 2 {
		require.NoError(t, c.Direct.ScriptFlush(t.Context()).Err())
		for _, err := range c.all(func(l *rlock.Lock) error { return l.Unlock(owner) }) {
			require.NoError(t, err)
		}
	}
	for _, lock := range c.locks {
		require.Empty(t, testkit.Holders(t, c.Direct, lock.Name()))
	}
}

// TestASmallPoolGathersNothing has no connections to spare for pipelines.
func TestASmallPoolGathersNothing(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	rdb := redistest.Open(t, &redis.Options{Addr: redistest.Start(t).Addr, PoolSize: 2})
	sent := &batches{}
	rdb.AddHook(sent)
	client := testkit.NewClient(t, rdb, tune.Crowd(0))
	lockAll(t, client, 1)
	require.Zero(t, sent.largest())
}
