package trouble

import (
	"context"
	"fmt"
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

// This file tests lost, wrong and missing replies for every kind of lock.

func TestLostRepliesForEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range singleKinds() {
		for how, lose := range testkit.Lossy {
			t.Run(kind+", "+how, func(t *testing.T) {
				t.Parallel()
				if how == "silent" {
					connect.NeedsGoRedis(t) // two replies that do not come take longer than the command timeout
				}
				f := testkit.NewFaulty(t, testkit.Quick())
				lock := testkit.MakeLock(kind, f.Client, testkit.NewName())
				ctx := rlock.WithOwner(t.Context())
				lost := lose(f.Proxy, 2, testkit.Runs("acquire"))
				require.NoError(t, lock.Lock(ctx, rlock.Wait(testkit.ALongTime)))
				require.Len(t, lost.Met(), 2)
				lose(f.Proxy, 1, testkit.Runs("count"))
				require.NoError(t, lock.Lock(ctx, rlock.Wait(testkit.ALongTime)))
				require.Equal(t, 2, testkit.Must(lock.HoldCount(ctx)))
				lose(f.Proxy, 1, testkit.Runs("count"))
				require.NoError(t, lock.Unlock(ctx))
				lost = lose(f.Proxy, 2, testkit.Runs("release"))
				require.NoError(t, lock.Unlock(ctx), "the lock was held until then")
				require.Len(t, lost.Met(), 2)
				require.False(t, testkit.LeftIn(t, f.Direct, testkit.Keys(lock)))
			})
		}
	}
}

func TestAFairWaiterWhoseRepliesAreLostQueuesOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick())
			lock := f.Client.NewFairLock(testkit.NewName())
			holder := testkit.NewClient(t, f.Direct).NewFairLock(lock.Name())
			require.NoError(t, holder.Lock(t.Context()))
			lost := lose(f.Proxy, 3, testkit.Runs("acquire"))
			waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
			for range 3 {
				testkit.Within(t, "the waiter tries and gets no reply", lost.Met())
			}
			testkit.Eventually(t, "the waiter listens", func() bool { return testkit.Waiting(lock) == 1 })
			require.Len(t, testkit.Queued(t, f.Direct, lock), 1)
			require.NoError(t, holder.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
			require.NoError(t, lock.Unlock(t.Context()))
			require.False(t, testkit.LeftIn(t, f.Direct, testkit.Keys(lock)))
		})
	}
}

func TestAWaitBacksOffWhenItsCallsFail(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	f.Proxy.DropReply(-1, testkit.Runs("acquire"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.ErrorIs(t, f.Lock.Lock(ctx), context.DeadlineExceeded)
	// The pauses are 10, 20, 40 … 640 ms, each shortened by up to a half. At most 16 attempts fit into 3 s.
	require.LessOrEqual(t, f.Proxy.Count(testkit.Runs("acquire")), 16)
}

func TestARenewedLeaseCountsFromTheCall(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := f.Lock.Acquire(t.Context())
	require.NoError(t, err)
	var latest atomic.Int64 // when a renewal last passed the proxy, shortly after it was sent
	held := f.Proxy.HoldReply(-1, func(c redistest.Command) bool {
		renews := testkit.Runs("renew")(c)
		if renews {
			latest.Store(time.Now().UnixNano())
		}
		return renews
	})
	sent := func() time.Time { return time.Unix(0, latest.Load()) }
	acquired := hold.Deadline()
	testkit.Within(t, "Redis has renewed the hold", held.Met())
	testkit.Eventually(t, "the reply is delayed", func() bool { return time.Since(sent()) > 200*time.Millisecond })
	held.Release()
	testkit.Eventually(t, "the reply arrives", func() bool { return hold.Deadline().After(acquired) })
	require.False(t, hold.Deadline().After(sent().Add(3*time.Second)), "the delay does not extend the new lease")
	require.NoError(t, hold.Unlock(t.Context()))
}

// wrongReplies is a hook that replaces the replies of scripts, as an imperfect proxy for Redis may do.
type wrongReplies struct {
	instead any
	off     atomic.Bool
}

func (*wrongReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wrongReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, ok := cmd.(interface{ SetVal(val any) }); ok && err == nil && !w.off.Load() && (cmd.Name() == "evalsha" || cmd.Name() == "eval") {
			script.SetVal(w.instead)
		}
		return err
	}
}

func (*wrongReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAnUnexpectedReplyIsAnError(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, instead := range []any{nil, "OK", []any{}, []any{"many"}, map[any]any{}, 1.5, true} {
		rdb := server.Client(t)
		wrong := &wrongReplies{instead: instead}
		rdb.AddHook(wrong)
		logger, _ := testkit.Recording()
		client := testkit.NewClient(t, rdb, logger)
		lock := client.NewLock(testkit.NewName())
		for verb, err := range map[string]error{
			"TryLock":  testkit.Second(lock.TryLock(t.Context())),
			"Lock":     lock.Lock(t.Context()),
			"IsLocked": testkit.Second(lock.IsLocked(t.Context())),
			"force":    testkit.Second(lock.ForceUnlock(t.Context())),
		} {
			require.ErrorContains(t, err, "unexpected reply", "%s of %v", verb, instead)
			require.NotErrorIs(t, err, rlock.ErrNotAcquired, fmt.Sprint(instead))
		}
		wrong.off.Store(true)
		testkit.Eventually(t, "a grant of Redis is released", func() bool {
			return len(testkit.Holders(t, admin, lock.Name())) == 0
		})
	}
}
