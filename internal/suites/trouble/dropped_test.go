package trouble

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestADroppedHoldDoesNotBlockItsOwner(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "the garbage collector")
	client := testkit.NewClient(t, redistest.Embedded(t))
	lock := client.NewLock(testkit.NewName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, testkit.Second(lock.TryAcquire(owner, rlock.Lease(2*time.Second))))
	testkit.Eventually(t, "the owner can lock again", func() bool {
		runtime.GC()
		ok, err := lock.TryLock(owner)
		require.True(t, err == nil || errors.Is(err, rlock.ErrLost))
		return ok
	})
	require.NoError(t, lock.Unlock(owner))
}

func TestAHoldDroppedDuringItsReleaseIsReleasedOnce(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "the garbage collector")
	f := testkit.NewFaulty(t, nil, rlock.WithCommandTimeout(10*time.Second))
	gone := make(chan struct{})
	held := f.Proxy.HoldReply(1, testkit.Runs("release"))
	func() {
		hold, err := f.Lock.Acquire(t.Context())
		require.NoError(t, err)
		runtime.AddCleanup(hold, func(struct{}) { close(gone) }, struct{}{})
		require.NoError(t, testkit.Second(f.Lock.ForceUnlock(t.Context())))
		testkit.Within(t, "the detached release is under way", held.Met())
		runtime.KeepAlive(hold)
	}()
	testkit.Eventually(t, "the hold is collected", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	testkit.Stays(t, "the hold is released once", func() bool { return f.Proxy.Count(testkit.Runs("release")) == 1 })
	held.Release()
	passed := redistest.Stopwatch(t)
	require.NoError(t, f.Client.Close())
	require.Less(t, passed(), 5*time.Second, "Close has nothing to wait for")
}

func TestTheDoneChannelOfADroppedHoldCloses(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "the garbage collector")
	for how, end := range map[string]func(*rlock.Client, *rlock.Lock, context.Context) error{
		"by Close":           func(c *rlock.Client, _ *rlock.Lock, _ context.Context) error { return c.Close() },
		"by the last unlock": func(_ *rlock.Client, l *rlock.Lock, ctx context.Context) error { return l.Unlock(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			logger, log := testkit.Recording()
			client := testkit.NewClient(t, redistest.Embedded(t), logger)
			lock := client.NewLock(testkit.NewName())
			owner := rlock.WithOwner(t.Context())
			require.NoError(t, lock.Lock(owner))
			done := func() <-chan struct{} {
				hold, err := lock.Acquire(owner)
				require.NoError(t, err)
				return hold.Done()
			}()
			testkit.Eventually(t, "the dropped hold is noticed", func() bool {
				runtime.GC()
				return log.Contains("dropped without Unlock")
			})
			require.NoError(t, end(client, lock, owner))
			testkit.Within(t, "the Done channel closes", done)
		})
	}
}

func TestAHoldIsInUseDuringItsExtension(t *testing.T) {
	t.Parallel()
	redistest.NeedsRealServer(t, "the garbage collector")
	f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: testkit.ALongTime}, rlock.WithCommandTimeout(testkit.ALongTime))
	held := f.Proxy.HoldReply(1, testkit.Runs("renew"))
	gone := make(chan struct{})
	extended := testkit.Async(func() error {
		hold, err := f.Lock.Acquire(t.Context())
		if err != nil {
			return err
		}
		runtime.AddCleanup(hold, func(struct{}) { close(gone) }, struct{}{})
		return hold.Extend(t.Context(), time.Minute) // the last use of the hold
	})
	testkit.Within(t, "the extension is under way", held.Met())
	for range 3 {
		runtime.GC()
	}
	select {
	case <-gone:
		t.Error("the hold is collected while it is being extended")
	default:
	}
	held.Release()
	require.NoError(t, testkit.Within(t, "it is extended", extended))
}
