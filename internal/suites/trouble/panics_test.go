package trouble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

// panickyHook panics before or behind each command, while it is told to.
type panickyHook struct{ before, behind atomic.Bool }

func (*panickyHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *panickyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.panics(&h.before)
		defer h.panics(&h.behind)
		return next(ctx, cmd)
	}
}

func (h *panickyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.panics(&h.before)
		defer h.panics(&h.behind)
		return next(ctx, cmds)
	}
}

func (*panickyHook) panics(on *atomic.Bool) {
	if on.Load() {
		panic("a bug in a hook")
	}
}

// A hook that panics ends neither the process nor a hold, wherever it runs: in the goroutine of the caller, on a worker, in a pipeline of
// gathered calls, in a round of renewals, in a background release.
func TestAHookThatPanics(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	for _, when := range []string{"before", "behind"} {
		for what, opt := range map[string]rlock.Option{"alone": rlock.WithAutoPipeline(-1), "gathered": rlock.WithAutoPipeline(0)} {
			t.Run(when+"/"+what, func(t *testing.T) {
				t.Parallel()
				hook := &panickyHook{}
				on := map[string]*atomic.Bool{"before": &hook.before, "behind": &hook.behind}[when]
				rdb := server.Client(t)
				rdb.AddHook(hook)
				logger, log := testkit.Recording()
				client := testkit.NewClient(t, rdb, opt, logger, rlock.WithWatchdogTimeout(3*time.Second), rlock.WithPollInterval(100*time.Millisecond))
				kept := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
				lock := client.NewLock(testkit.NewName())

				on.Store(true)
				for _, ctx := range []context.Context{context.Background(), t.Context()} { // in place, and on a worker
					_, err := lock.TryLock(ctx)
					require.ErrorIs(t, err, rlock.ErrUnavailable)
					require.ErrorContains(t, err, "a bug in a hook")
				}
				testkit.Eventually(t, "a renewal has failed", func() bool { return client.Stats().RenewalFailures > 0 })
				on.Store(false)

				before := time.Now()
				testkit.Eventually(t, "the hold is renewed", func() bool { return kept.Deadline().After(before.Add(2 * time.Second)) })
				require.NoError(t, kept.Err(), "nothing is lost")
				testkit.Eventually(t, "nothing is in doubt any more", func() bool { return client.Stats().InDoubt == 0 })
				require.NoError(t, lock.Lock(t.Context()), "nothing is leaked")
				require.NoError(t, lock.Unlock(t.Context()))
				require.NoError(t, kept.Unlock(t.Context()))
				testkit.Eventually(t, "it is logged", func() bool { return log.Contains("application code panicked") })
				require.Equal(t, 1, strings.Count(log.String(), "application code panicked"), "once")
				require.True(t, log.Contains("panickyHook"), "with the stack")
			})
		}
	}
}

// panickyHandler is a log handler that panics.
type panickyHandler struct {
	slog.Handler
	enabled bool // it panics in Enabled, not in Handle
	calls   *atomic.Int64
}

func (h panickyHandler) Enabled(context.Context, slog.Level) bool {
	if h.enabled {
		h.calls.Add(1)
		panic("a bug in a log handler")
	}
	return true
}

func (h panickyHandler) Handle(context.Context, slog.Record) error {
	h.calls.Add(1)
	panic("a bug in a log handler")
}

func TestALogHandlerThatPanics(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		rdb := redistest.Embedded(t)
		var calls atomic.Int64
		client := testkit.NewClient(t, rdb, rlock.WithLogger(slog.New(panickyHandler{slog.DiscardHandler, enabled, &calls})),
			rlock.WithWatchdogTimeout(1500*time.Millisecond))
		lost := client.NewLock(testkit.NewName())
		require.NoError(t, lost.Lock(t.Context()))
		kept := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
		require.NoError(t, rdb.Del(t.Context(), lost.Name()).Err())
		testkit.Eventually(t, "the loss is logged, on a worker", func() bool { return calls.Load() > 0 })
		before := kept.Deadline()
		testkit.Eventually(t, "the other hold is renewed", func() bool { return kept.Deadline().After(before) })
		require.NoError(t, kept.Unlock(t.Context()))
		require.ErrorIs(t, lost.Unlock(t.Context()), rlock.ErrLost)
		err := client.NewLock(testkit.NewName()).Do(t.Context(), func(ctx context.Context) error {
			require.NoError(t, rdb.FlushAll(context.Background()).Err())
			<-ctx.Done() // its loss is logged in place
			return nil
		})
		require.ErrorIs(t, err, rlock.ErrLost)
	}
}

// panickyContext is a context that panics in one of its methods, from some call of that on.
type panickyContext struct {
	context.Context
	method string
	after  int64
	calls  *atomic.Int64
}

func (c panickyContext) panics(method string) {
	if c.method == method && c.calls.Add(1) > c.after {
		panic("a bug in a context")
	}
}

func (c panickyContext) Err() error            { c.panics("Err"); return c.Context.Err() }
func (c panickyContext) Done() <-chan struct{} { c.panics("Done"); return c.Context.Done() }
func (c panickyContext) Value(key any) any     { c.panics("Value"); return c.Context.Value(key) }
func (c panickyContext) Deadline() (time.Time, bool) {
	c.panics("Deadline")
	return c.Context.Deadline()
}

// A context that panics ends the call, with an error or with the panic in the caller's goroutine. Nothing of the call is left.
func TestAContextThatPanics(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Err", "Done", "Value", "Deadline"} {
		for after := range int64(8) {
			for _, kind := range []string{"lock", "red", "multi", "waits", "red waits", "multi waits", "permit", "total", "latch", "unlock", "do", "do value"} {
				t.Run(fmt.Sprintf("%s/%d/%s", method, after, kind), func(t *testing.T) {
					t.Parallel()
					rdb := redistest.Embedded(t)
					client := testkit.NewClient(t, rdb, rlock.WithLogger(testkit.Discard), rlock.WithPollInterval(10*time.Millisecond))
					name := testkit.NewName()
					var lock rlock.Locker = client.NewLock(name)
					semaphore, latch := client.NewSemaphore("permit "+name), client.NewCountDownLatch("latch "+name)
					switch kind {
					case "red", "red waits":
						lock = rlock.NewRedLock(client.NewLock("a "+name), client.NewLock(name))
					case "multi", "multi waits":
						lock = rlock.NewMultiLock(client.NewLock("a "+name), client.NewLock(name))
					case "permit":
						testkit.Must(semaphore.TrySetPermits(t.Context(), 1))
					case "total", "do value":
						semaphore = client.NewSemaphore("permit "+name, rlock.Total(1))
					case "latch":
						testkit.Must(latch.TrySetCount(t.Context(), 1))
					}
					var rival *rlock.Hold
					switch kind {
					case "waits", "unlock", "red waits", "multi waits":
						rival = testkit.Must(client.NewLock(name).Acquire(t.Context()))
					case "permit":
						rival = testkit.Must(semaphore.Acquire(t.Context()))
					}
					parent, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctx := panickyContext{parent, method, after, &atomic.Int64{}}
					ended := testkit.Async(func() (err error) {
						defer func() {
							if p := recover(); p != nil {
								err = fmt.Errorf("%v", p)
							}
						}()
						var hold *rlock.Hold
						switch kind {
						case "unlock":
							return rival.Unlock(ctx)
						case "latch":
							return latch.Await(ctx, rlock.Wait(100*time.Millisecond))
						case "permit":
							hold, err = semaphore.Acquire(ctx, rlock.Wait(100*time.Millisecond))
						case "total":
							hold, err = semaphore.Acquire(ctx)
						case "do":
							return lock.Do(ctx, func(context.Context) error { return nil })
						case "do value":
							return testkit.Second(rlock.DoValue(ctx, semaphore, func(context.Context) (int, error) { return 0, nil }))
						default:
							hold, err = lock.Acquire(ctx, rlock.Wait(300*time.Millisecond))
						}
						if err == nil {
							err = hold.Unlock(context.Background())
						}
						return err
					})
					err := testkit.Within(t, "the call ends", ended)
					switch refused := strings.HasSuffix(kind, "waits") || kind == "permit" || kind == "latch"; {
					case err == nil:
						require.False(t, refused, "nobody can have it")
					case strings.HasPrefix(kind, "red"): // its error is made of those of the members
					case !refused || !errors.Is(err, rlock.ErrNotAcquired):
						require.ErrorContains(t, err, "a bug in a context")
					}
					if kind == "latch" {
						require.Zero(t, client.Stats().Waiting, "it has left")
						testkit.Must(latch.CountDown(t.Context()))
						require.NoError(t, latch.Await(t.Context()), "others get through")
					}
					if kind == "unlock" {
						if err != nil {
							require.NoError(t, rival.Unlock(t.Context()), "nothing has begun")
						}
						rival = nil
					}
					if rival != nil {
						require.NoError(t, rival.Unlock(t.Context()))
					}
					require.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }, rlock.Wait(20*time.Second)), "nothing is leaked")
					if kind == "total" || kind == "do value" {
						require.NoError(t, semaphore.Do(t.Context(), func(context.Context) error { return nil }, rlock.Wait(20*time.Second)), "nothing is leaked")
					}
					testkit.Eventually(t, "nothing is held or waits", func() bool {
						s := client.Stats()
						return s.Held == 0 && s.Waiting == 0 && s.InDoubt == 0
					})
					testkit.Eventually(t, "nothing is under way", func() bool { return testkit.Remains(client) == 0 })
				})
			}
		}
	}
}
