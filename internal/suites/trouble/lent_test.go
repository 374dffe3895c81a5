package trouble

import (
	"context"
	"sync/atomic"
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

// lent is a context that its owner takes back: then nobody may call a method of it.
type lent struct {
	context.Context

	back    atomic.Bool
	touched atomic.Int32
}

func (c *lent) touch() {
	if c.back.Load() {
		c.touched.Add(1)
	}
}

func (c *lent) Err() error            { c.touch(); return c.Context.Err() }
func (c *lent) Done() <-chan struct{} { c.touch(); return c.Context.Done() }
func (c *lent) Value(key any) any     { c.touch(); return c.Context.Value(key) }
func (c *lent) Deadline() (time.Time, bool) {
	c.touch()
	return c.Context.Deadline()
}

// slowHook takes its time for scripts, and then reads a value of their contexts, as a tracer does.
type slowHook struct {
	after time.Duration
	reads atomic.Int32
}

func (*slowHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *slowHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.read(ctx)
		defer h.read(ctx)
		return next(ctx, cmd)
	}
}

func (h *slowHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.read(ctx)
		defer h.read(ctx)
		return next(ctx, cmds)
	}
}

func (h *slowHook) read(ctx context.Context) {
	time.Sleep(h.after)
	_ = ctx.Value("a span")
	_ = ctx.Err()
	h.reads.Add(1)
}

// A verb whose context ends returns while its command goes on. From then on nothing touches the context.
func TestNothingTouchesAContextAfterTheCall(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	holder := testkit.NewClient(t, server.Client(t))
	semaphore, latch := holder.NewSemaphore("semaphore"), holder.NewCountDownLatch("latch")
	require.True(t, testkit.Must(semaphore.TrySetPermits(t.Context(), 5)))
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 100)))
	for verb, call := range map[string]func(ctx context.Context, c *rlock.Client, hold *rlock.Hold, ticket string){
		"Lock": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) { _ = c.NewLock("a").Lock(ctx) },
		"Lock, Wait": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_ = c.NewLock("b").Lock(ctx, rlock.Wait(time.Hour))
		},
		"TryLock": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewLock("c").TryLock(ctx)
		},
		"Acquire": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewFairLock("d").Acquire(ctx)
		},
		"TryAcquire": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewLock("e", rlock.Fenced()).TryAcquire(ctx)
		},
		"Do": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_ = c.NewLock("f").Do(ctx, func(context.Context) error { return nil })
		},
		"multi lock": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = rlock.NewMultiLock(c.NewLock("m"), c.NewLock("n")).Acquire(ctx)
		},
		"red lock": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = rlock.NewRedLock(c.NewLock("o"), c.NewLock("p"), c.NewLock("q")).TryAcquire(ctx)
		},
		"Unlock": func(ctx context.Context, _ *rlock.Client, hold *rlock.Hold, _ string) { _ = hold.Unlock(ctx) },
		"Extend": func(ctx context.Context, _ *rlock.Client, hold *rlock.Hold, _ string) {
			_ = hold.Extend(ctx, time.Minute)
		},
		"Export": func(ctx context.Context, _ *rlock.Client, hold *rlock.Hold, _ string) { _, _ = hold.Export(ctx) },
		"Adopt": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, ticket string) {
			_, _ = c.NewLock("g").Adopt(ctx, ticket)
		},
		"ForceUnlock": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewLock("h").ForceUnlock(ctx)
		},
		"Inspect": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewLock("i").Inspect(ctx)
		},
		"IsLocked": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewLock("j").IsLocked(ctx)
		},
		"TrySetPermits": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewSemaphore("k").TrySetPermits(ctx, 3)
		},
		"AddPermits": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_ = c.NewSemaphore("semaphore").AddPermits(ctx, 1)
		},
		"semaphore": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewSemaphore("semaphore").Acquire(ctx)
		},
		"TrySetCount": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewCountDownLatch("l").TrySetCount(ctx, 3)
		},
		"CountDown": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_, _ = c.NewCountDownLatch("latch").CountDown(ctx)
		},
		"Await": func(ctx context.Context, c *rlock.Client, _ *rlock.Hold, _ string) {
			_ = c.NewCountDownLatch("latch").Await(ctx)
		},
	} {
		for _, opt := range []rlock.Option{rlock.WithoutAutoPipeline(), tune.Crowd(0)} {
			t.Run(verb, func(t *testing.T) {
				t.Parallel()
				rdb, hook := server.Client(t), &slowHook{after: 100 * time.Millisecond}
				client := testkit.NewClient(t, rdb, opt, rlock.WithLogger(testkit.Discard))
				hold := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
				ticket := testkit.Must(testkit.Must(holder.NewLock(testkit.NewName()).Acquire(t.Context())).Export(t.Context()))
				require.NoError(t, rdb.ScriptFlush(t.Context()).Err(), "the next script is sent twice")
				rdb.AddHook(hook)
				timed, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				ctx := &lent{Context: timed}
				call(ctx, client, hold, ticket)
				ctx.back.Store(true)
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, client.Close())
				require.Zero(t, ctx.touched.Load())
				if verb != "Adopt" { // the ticket is of another name
					require.Positive(t, hook.reads.Load())
				}
			})
		}
	}
}
