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

// Lost, wrong and missing replies, for what is not the plain lock's alone.

func TestLostRepliesOfEveryKind(t *testing.T) {
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
				require.NoError(t, lock.Unlock(ctx), "it was held until then")
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
				within(t, "it asks, and hears nothing", lost.Met())
			}
			eventually(t, "it listens", func() bool { return lock.Waiting() == 1 })
			require.Len(t, queued(t, f.direct, lock), 1)
			require.NoError(t, holder.Unlock(t.Context()))
			require.NoError(t, within(t, "it is served", waiting))
			require.NoError(t, lock.Unlock(t.Context()))
			require.False(t, leftIn(t, f.direct, lock.Keys()))
		})
	}
}

func TestAWaitThatMeetsTroublePausesLongerAndLonger(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	f.proxy.DropReply(-1, rlock.Runs("acquire"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.ErrorIs(t, f.lock.Lock(ctx), context.DeadlineExceeded)
	// 10, 20, 40 … 640 ms, less up to half of each: 16 attempts within 3 s are the most there can be.
	require.LessOrEqual(t, f.proxy.Count(rlock.Runs("acquire")), 16)
}

func TestARenewalCountsFromWhenItWasSent(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithWatchdogTimeout(3*time.Second))
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	var latest atomic.Int64 // when a renewal was last on its way, which is after it was sent
	held := f.proxy.HoldReply(-1, func(c redistest.Command) bool {
		renews := rlock.Runs("renew")(c)
		if renews {
			latest.Store(time.Now().UnixNano())
		}
		return renews
	})
	sent := func() time.Time { return time.Unix(0, latest.Load()) }
	acquired := hold.Deadline()
	within(t, "Redis has renewed it", held.Met())
	eventually(t, "the answer takes a while", func() bool { return time.Since(sent()) > 200*time.Millisecond })
	held.Release()
	eventually(t, "it comes", func() bool { return hold.Deadline().After(acquired) })
	require.False(t, hold.Deadline().After(sent().Add(3*time.Second)), "that while is not part of the new lease")
	require.NoError(t, hold.Unlock(t.Context()))
}

// answers is a hook that puts something else in the place of what scripts answer, as a proxy that is not quite Redis may.
type answers struct {
	instead any
	over    atomic.Bool
}

func (*answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, ok := cmd.(interface{ SetVal(val any) }); ok && err == nil && !a.over.Load() && (cmd.Name() == "evalsha" || cmd.Name() == "eval") {
			script.SetVal(a.instead)
		}
		return err
	}
}

func (*answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAnAnswerThatNoScriptGivesIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, instead := range []any{nil, "OK", []any{}, []any{"many"}, map[any]any{}, 1.5, true} {
		rdb := server.Client(t)
		wrong := &answers{instead: instead}
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
		wrong.over.Store(true)
		eventually(t, "what Redis may have granted is released", func() bool {
			return len(holders(t, admin, lock.Name())) == 0
		})
	}
}
