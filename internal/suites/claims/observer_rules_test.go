package claims

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/observe"
)

// wayward is an observer whose AcquireStart returns a context that the caller did not have.
type wayward struct {
	observe.Base

	start func(ctx context.Context) context.Context
}

func (w wayward) AcquireStart(ctx context.Context, _ observe.AcquireStart) context.Context {
	return w.start(ctx)
}

// TestOnlyTheValuesOfAnObserverCount has an observer return contexts that end, or that have another owner: P.3.
func TestOnlyTheValuesOfAnObserverCount(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for what, start := range map[string]func(context.Context) context.Context{
		"nil":        func(context.Context) context.Context { return nil },
		"background": func(context.Context) context.Context { return context.Background() },
		"canceled":   func(context.Context) context.Context { return over },
		"owner":      rlock.WithOwner,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := testkit.NewClient(t, redistest.Embedded(t), rlock.WithObserver(wayward{start: start}))
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(rlock.WithOwner(t.Context()), key{}, "own"))
			defer cancel()
			lock := client.NewLock(testkit.NewName())
			hold := testkit.Must(lock.Acquire(ctx))
			require.NoError(t, lock.Lock(ctx, rlock.Wait(0)), "the owner re-enters")
			require.NoError(t, hold.Context().Err())
			require.Equal(t, "own", hold.Context().Value(key{}))
			waiting := testkit.Async(func() error { return lock.Lock(rlock.WithOwner(ctx)) })
			testkit.Eventually(t, "another owner waits", func() bool { return client.Stats().Waiting == 1 })
			require.NoError(t, lock.Unlock(ctx))
			require.NoError(t, hold.Unlock(ctx))
			require.NoError(t, testkit.Within(t, "it has the lock", waiting))
			waiting = testkit.Async(func() error { return lock.Lock(ctx) })
			testkit.Eventually(t, "the first owner waits", func() bool { return client.Stats().Waiting == 1 })
			cancel()
			require.ErrorIs(t, testkit.Within(t, "it is canceled", waiting), context.Canceled)
		})
	}
}

// TestCommandsHaveTheObserversValues has a hook of the redis client see the context that the observer returned.
func TestCommandsHaveTheObserversValues(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	_, observing := testkit.Observe(t)
	rdb := redistest.Embedded(t)
	hook := &contextHook{}
	rdb.AddHook(hook)
	client := testkit.NewClient(t, rdb, observing)
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, lock.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.True(t, testkit.Must(client.NewFairLock(testkit.NewName()).TryLock(ctx)))
	require.NoError(t, lock.Unlock(t.Context()))
	hook.mu.Lock()
	defer hook.mu.Unlock()
	require.Equal(t, 2, hook.with, "both acquisitions")
}

// contextHook counts the scripts that it sees with and without an observation in their context.
type contextHook struct {
	mu            sync.Mutex
	with, without int
}

func (*contextHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *contextHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		if cmd.Name() == "evalsha" {
			if testkit.ObservationOf(ctx) != nil {
				h.with++
			} else {
				h.without++
			}
		}
		h.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (*contextHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// bad is an observer that panics, or blocks.
type bad struct{ do func() }

func (b bad) AcquireStart(ctx context.Context, _ observe.AcquireStart) context.Context {
	b.do()
	return ctx
}
func (b bad) AcquireEnd(context.Context, observe.AcquireEnd) { b.do() }
func (b bad) HoldEnd(context.Context, observe.HoldEnd)       { b.do() }
func (b bad) Event(observe.Event)                            { b.do() }
func (b bad) ClientStart(observe.Client)                     { b.do() }
func (b bad) ClientEnd(observe.Client)                       { b.do() }

// TestAnObserverThatPanics costs no lock, and is logged once: P.2.
func TestAnObserverThatPanics(t *testing.T) {
	t.Parallel()
	log := &testkit.Recorder{}
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, rlock.WithObserver(bad{func() { panic("observer") }}), rlock.WithLogger(log.Logger()))
	lock := client.NewLock(testkit.NewName())
	for range 3 {
		require.NoError(t, lock.Do(t.Context(), func(context.Context) error {
			require.EqualValues(t, 1, rdb.Exists(t.Context(), lock.Name()).Val())
			return nil
		}))
		require.Zero(t, rdb.Exists(t.Context(), lock.Name()).Val())
	}
	require.NoError(t, client.Close())
	testkit.Eventually(t, "it is logged", func() bool { return log.String() != "" })
	require.Regexp(t, `^[^\n]*an observer panicked[^\n]*panic: observer[^\n]*\n$`, log.String())
}

// TestAnObserverThatBlocks holds up no renewal and no other acquisition, and what does not fit is counted: P.1.
func TestAnObserverThatBlocks(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	blocked := &blocking{release: release}
	client := testkit.NewClient(t, redistest.Start(t).Client(t), rlock.WithObserver(blocked))
	hold := testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context(), rlock.RenewedLease(4*time.Second)))
	lock := client.NewLock(testkit.NewName())
	for range 300 {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	renewals := client.Stats().Renewals
	testkit.Eventually(t, "renewals go on", func() bool { return client.Stats().Renewals > renewals+3 })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
	require.EqualValues(t, 301-256-1, client.Stats().DroppedReports, "one is under way, and 256 wait")
	close(release)
	require.NoError(t, client.Close())
	require.Equal(t, 257, blocked.told)
}

// TestAnObserverThatBlocksInTheEnd of a client, or closes it there, holds up no Close: P.1.
func TestAnObserverThatBlocksInTheEnd(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	for what, end := range map[string]func(*rlock.Client){
		"blocks":             func(*rlock.Client) { <-release },
		"closes it":          func(c *rlock.Client) { _ = c.Close() },
		"ends its goroutine": func(*rlock.Client) { runtime.Goexit() },
	} {
		seen := ending{end: end, ended: make(chan struct{})}
		client := testkit.NewClient(t, redistest.Embedded(t), rlock.WithObserver(seen))
		require.NoError(t, testkit.Within(t, "Close returns although it "+what, testkit.Async(client.Close)))
		testkit.Within(t, "it was called", seen.ended)
	}
	close(release)
}

// ending is an observer of the end of a client.
type ending struct {
	bad

	end   func(*rlock.Client)
	ended chan struct{}
}

func (ending) ClientStart(observe.Client) {}
func (e ending) ClientEnd(c observe.Client) {
	close(e.ended)
	e.end(c.(*rlock.Client))
}

// blocking is an observer whose HoldEnd blocks.
type blocking struct {
	observe.Base

	release <-chan struct{}
	told    int
}

func (b *blocking) HoldEnd(context.Context, observe.HoldEnd) {
	<-b.release
	b.told++
}
