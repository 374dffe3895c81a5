package rlock_test

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
)

// This file tests lost, wrong and missing replies for every kind of lock.

func TestLostRepliesForEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range singleKinds() {
		for how, lose := range lossy {
			t.Run(kind+", "+how, func(t *testing.T) {
				t.Parallel()
				f := newFaulty(t, quick())
				lock := makeLock(kind, f.client, newName())
				ctx := rlock.WithOwner(t.Context())
				lost := lose(f.proxy, 2, rlock.Runs("acquire"))
				require.NoError(t, lock.Lock(ctx, rlock.Wait(aLongTime)))
				require.Len(t, lost.Met(), 2)
				lose(f.proxy, 1, rlock.Runs("count"))
				require.NoError(t, lock.Lock(ctx, rlock.Wait(aLongTime)))
				require.Equal(t, 2, must(lock.HoldCount(ctx)))
				lose(f.proxy, 1, rlock.Runs("count"))
				require.NoError(t, lock.Unlock(ctx))
				lost = lose(f.proxy, 2, rlock.Runs("release"))
				require.NoError(t, lock.Unlock(ctx), "the lock was held until then")
				require.Len(t, lost.Met(), 2)
				require.False(t, leftIn(t, f.direct, lock.Keys()))
			})
		}
	}
}

func TestAFairWaiterWhoseRepliesAreLostQueuesOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, quick())
			lock := f.client.NewFairLock(newName())
			holder := newClient(t, f.direct).NewFairLock(lock.Name())
			require.NoError(t, holder.Lock(t.Context()))
			lost := lose(f.proxy, 3, rlock.Runs("acquire"))
			waiting := async(func() error { return lock.Lock(t.Context()) })
			for range 3 {
				within(t, "the waiter tries and gets no reply", lost.Met())
			}
			eventually(t, "the waiter listens", func() bool { return lock.Waiting() == 1 })
			require.Len(t, queued(t, f.direct, lock), 1)
			require.NoError(t, holder.Unlock(t.Context()))
			require.NoError(t, within(t, "the waiter gets the lock", waiting))
			require.NoError(t, lock.Unlock(t.Context()))
			require.False(t, leftIn(t, f.direct, lock.Keys()))
		})
	}
}

func TestAWaitBacksOffWhenItsCallsFail(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	f.proxy.DropReply(-1, rlock.Runs("acquire"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.ErrorIs(t, f.lock.Lock(ctx), context.DeadlineExceeded)
	// The pauses are 10, 20, 40 … 640 ms, each shortened by up to a half. At most 16 attempts fit into 3 s.
	require.LessOrEqual(t, f.proxy.Count(rlock.Runs("acquire")), 16)
}

func TestARenewedLeaseCountsFromTheCall(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	var latest atomic.Int64 // when a renewal last passed the proxy, shortly after it was sent
	held := f.proxy.HoldReply(-1, func(c redistest.Command) bool {
		renews := rlock.Runs("renew")(c)
		if renews {
			latest.Store(time.Now().UnixNano())
		}
		return renews
	})
	sent := func() time.Time { return time.Unix(0, latest.Load()) }
	acquired := hold.Deadline()
	within(t, "Redis has renewed the hold", held.Met())
	eventually(t, "the reply is delayed", func() bool { return time.Since(sent()) > 200*time.Millisecond })
	held.Release()
	eventually(t, "the reply arrives", func() bool { return hold.Deadline().After(acquired) })
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
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, instead := range []any{nil, "OK", []any{}, []any{"many"}, map[any]any{}, 1.5, true} {
		rdb := server.Client(t)
		wrong := &wrongReplies{instead: instead}
		rdb.AddHook(wrong)
		logger, _ := recording()
		client := newClient(t, rdb, logger)
		lock := client.NewLock(newName())
		for verb, err := range map[string]error{
			"TryLock":  second(lock.TryLock(t.Context())),
			"Lock":     lock.Lock(t.Context()),
			"IsLocked": second(lock.IsLocked(t.Context())),
			"force":    second(lock.ForceUnlock(t.Context())),
		} {
			require.ErrorContains(t, err, "unexpected reply", "%s of %v", verb, instead)
			require.NotErrorIs(t, err, rlock.ErrNotAcquired, fmt.Sprint(instead))
		}
		wrong.off.Store(true)
		eventually(t, "a grant of Redis is released", func() bool {
			return len(holders(t, admin, lock.Name())) == 0
		})
	}
}
