package trouble

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// faultyHook does something wrong while it is told to, where commands are sent.
type faultyHook struct {
	on    atomic.Bool
	wrong func()
	calls atomic.Int64
}

func (h *faultyHook) act() {
	if h.on.Load() {
		h.calls.Add(1)
		h.wrong()
	}
}

func (*faultyHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *faultyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.act()
		return next(ctx, cmd)
	}
}

func (h *faultyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.act()
		return next(ctx, cmds)
	}
}

// A hook that ends its goroutine, as t.FailNow does, costs that goroutine and its calls. Nothing is left behind: neither a lane without
// a batch, nor a release that nobody goes on with, nor a channel to which nobody subscribes.
func TestAHookThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	for what, opt := range map[string]rlock.Option{"alone": rlock.WithAutoPipeline(-1), "gathered": rlock.WithAutoPipeline(0)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			hook := &faultyHook{wrong: runtime.Goexit}
			rdb := server.Client(t)
			require.NoError(t, rdb.Ping(t.Context()).Err())
			rdb.AddHook(hook)
			client := testkit.NewClient(t, rdb, opt, rlock.WithLogger(testkit.Discard), rlock.WithWatchdogTimeout(3*time.Second),
				rlock.WithPollInterval(time.Hour), rlock.WithCommandTimeout(time.Second))
			rival := testkit.NewClient(t, server.Client(t))
			kept := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context()))
			name := testkit.NewName()
			released := testkit.Must(client.NewLock(name).Acquire(t.Context()))
			lock := client.NewLock(testkit.NewName())

			hook.on.Store(true)
			ended := make(chan struct{}, 3)
			for _, call := range []func(){
				func() { _, _ = lock.TryLock(context.Background()) }, // in place, if it is alone
				func() { _ = lock.Lock(t.Context(), rlock.Wait(time.Second)) },
				func() { _ = released.Unlock(context.Background()) },
			} {
				go func() {
					defer func() { ended <- struct{}{} }()
					call()
				}()
			}
			for range 3 {
				testkit.Within(t, "the call ends", ended)
			}
			testkit.Eventually(t, "the hook has run", func() bool { return hook.calls.Load() >= 3 })
			hook.on.Store(false)

			before := time.Now()
			testkit.Eventually(t, "the hold is renewed", func() bool { return kept.Deadline().After(before.Add(2 * time.Second)) })
			testkit.Eventually(t, "nothing is in doubt any more", func() bool { return client.Stats().InDoubt == 0 })
			require.NoError(t, lock.Lock(t.Context()), "nothing is leaked")
			require.NoError(t, lock.Unlock(t.Context()))
			again := rival.NewLock(name)
			require.NoError(t, again.Lock(t.Context()), "the release has gone on")
			require.NoError(t, again.Unlock(t.Context()))
			require.NoError(t, kept.Unlock(t.Context()))
		})
	}
}

// A hook panics while go-redis dials for a subscription: another one follows, and waiters hear again. A hook that ends the goroutine of
// go-redis there would keep the commands waiting that share its pool, whoever sends them.
func TestAHookThatPanicsUnderASubscription(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	for _, when := range []string{"first", "again"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			hook := &faultyHook{wrong: func() { panic("a bug in a hook") }}
			rdb := server.Client(t)
			rdb.AddHook(dialHook{hook})
			waiter := testkit.NewClient(t, rdb, rlock.WithPollInterval(time.Hour), rlock.WithLogger(testkit.Discard))
			holder := testkit.NewClient(t, server.Client(t))
			require.NoError(t, waiter.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
			name := testkit.NewName()
			if when == "again" {
				handOff(t, holder.NewLock(name), waiter.NewLock(name))
			}
			hold := testkit.Must(holder.NewLock(name).Acquire(t.Context()))
			hook.on.Store(true)
			lock := waiter.NewLock(name)
			got := testkit.Async(func() error { return lock.Lock(context.Background()) })
			if when == "again" {
				testkit.Eventually(t, "it listens", func() bool { return testkit.Listens(lock) })
				require.NoError(t, server.Client(t).Do(t.Context(), "client", "kill", "type", "pubsub").Err())
			}
			testkit.Eventually(t, "the hook has run", func() bool { return hook.calls.Load() > 0 })
			hook.on.Store(false)
			testkit.Eventually(t, "it listens in spite of it", func() bool { return testkit.Listens(lock) })
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the waiter has it", got))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// dialHook is a hook that acts only where go-redis dials.
type dialHook struct{ *faultyHook }

func (h dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.act()
		return next(ctx, network, addr)
	}
}

func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A provider of credentials that panics, or a Dialer, fails the commands that connect.
func TestAClientThatPanicsWhenItConnects(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	for what, change := range map[string]func(opt *redis.Options, act func()){
		"CredentialsProvider": func(opt *redis.Options, act func()) {
			opt.CredentialsProvider = func() (string, string) { act(); return "", "" }
		},
		"Dialer": func(opt *redis.Options, act func()) {
			opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				act()
				return host.Dial(ctx, network, addr)
			}
		},
		"OnConnect": func(opt *redis.Options, act func()) {
			opt.OnConnect = func(context.Context, *redis.Conn) error { act(); return nil }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bug := &faultyHook{wrong: func() { panic("a bug in a provider") }}
			opt := &redis.Options{Addr: server.Addr, PoolSize: 20}
			change(opt, bug.act)
			client := testkit.NewClient(t, redistest.Open(t, opt), rlock.WithLogger(testkit.Discard))
			bug.on.Store(true)
			lock := client.NewLock(testkit.NewName())
			for _, ctx := range []context.Context{context.Background(), t.Context()} {
				_, err := lock.TryLock(ctx)
				require.ErrorIs(t, err, rlock.ErrUnavailable)
			}
			require.NotZero(t, bug.calls.Load())
			bug.on.Store(false)
			require.NoError(t, lock.Lock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// A name mapper runs where the lock is made, and on a worker for the key of the identity.
func TestANameMapperThatPanics(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	var panics atomic.Int64
	client := testkit.NewClient(t, rdb, rlock.WithLogger(testkit.Discard), rlock.WithIdentity(rlock.Identity{Host: "here"}),
		rlock.WithNameMapper(func(name string) string {
			if strings.HasPrefix(name, "good") {
				return name
			}
			panics.Add(1)
			panic("a bug in a name mapper")
		}))
	require.Panics(t, func() { client.NewLock("bad") }, "in the goroutine of the caller")
	lock := client.NewLock("good")
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
		testkit.Eventually(t, "the worker has panicked, too", func() bool { return panics.Load() > 1 })
		info, err := lock.Inspect(ctx)
		require.NoError(t, err, "it shows no identities")
		require.Len(t, info.Holders, 1)
		return nil
	}))
}

// The calls of a group run on workers, one for each member. A hook that ends such a goroutine costs the call of that member, and the
// group returns nevertheless.
func TestAGroupWhoseHookEndsGoroutines(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	hook := &faultyHook{wrong: runtime.Goexit}
	rdb := server.Client(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	rdb.AddHook(hook)
	client := testkit.NewClient(t, rdb, rlock.WithAutoPipeline(-1), rlock.WithLogger(testkit.Discard), rlock.WithCommandTimeout(time.Second))
	members := func() []rlock.Locker {
		return []rlock.Locker{
			client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName()),
		}
	}
	multi, red := rlock.NewMultiLock(members()...), rlock.NewRedLock(members()...)
	heldMulti, heldRed := testkit.Must(multi.Acquire(t.Context())), testkit.Must(red.Acquire(t.Context()))
	extended := testkit.Must(rlock.NewRedLock(members()...).Acquire(t.Context()))
	tried := rlock.NewRedLock(members()...)

	hook.on.Store(true)
	calls := map[string]func() error{
		"unlock of a multi lock": func() error { return heldMulti.Unlock(context.Background()) },
		"unlock of a red lock":   func() error { return heldRed.Unlock(context.Background()) },
		"extend":                 func() error { return extended.Extend(context.Background(), time.Minute) },
		"try":                    func() error { _, err := tried.TryLock(context.Background()); return err },
	}
	for what, call := range calls {
		done := testkit.Async(call)
		require.ErrorIs(t, testkit.Within(t, what, done), rlock.ErrUnavailable, what)
	}
	hook.on.Store(false)
	require.NoError(t, extended.Unlock(t.Context()))
	testkit.Eventually(t, "nothing is in doubt any more", func() bool { return client.Stats().InDoubt == 0 })
}
