package claims

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
	"github.com/go-rlock/rlock/observe"
)

func TestEveryKindIsObserved(t *testing.T) {
	t.Parallel()
	for kind, k := range testkit.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seen, observing := testkit.Observe(t)
			client := testkit.NewClient(t, redistest.Embedded(t), observing)
			lock := k.Make(client, testkit.NewName())
			ctx := rlock.WithOwner(t.Context())
			hold := testkit.Must(lock.Acquire(ctx, rlock.Wait(time.Minute), rlock.Lease(time.Hour)))
			first := seen.All()[0]
			require.Equal(t, "acquire", first.Start.Op)
			require.Equal(t, kind, first.Start.Kind)
			require.Equal(t, time.Minute, first.Start.Wait)
			require.Equal(t, time.Hour, first.Start.Lease)
			require.False(t, first.Start.Member)
			require.NotNil(t, first.End, "it is told before the method returns")
			require.Equal(t, observe.OutcomeAcquired, first.End.Outcome)
			require.GreaterOrEqual(t, first.End.Attempts, 1)
			require.False(t, first.End.Reentry)
			require.Zero(t, first.End.Waited)
			require.Equal(t, k.Tokens, first.End.Token != 0)

			inner := testkit.Must(lock.TryAcquire(ctx))
			var again testkit.Observation
			for _, s := range seen.All() {
				if s.Start.Wait == 0 && !s.Start.Member {
					again = s
				}
			}
			require.True(t, again.End.Reentry)
			if kind != "read" && !k.Groups {
				require.False(t, testkit.Must(lock.TryLock(t.Context())))
				last := seen.Last().End
				require.Equal(t, "try lock", last.Op)
				require.Equal(t, observe.OutcomeRefused, last.Outcome)
				require.ErrorIs(t, last.Err, rlock.ErrNotAcquired)
				require.True(t, last.Contended)
				require.Zero(t, last.Attempts, "it was refused in the process")
			}
			require.NoError(t, inner.Unlock(ctx))
			testkit.Stays(t, "the hold goes on", func() bool { return seen.All()[0].Hold == nil })
			require.NoError(t, hold.Unlock(ctx))
			testkit.Eventually(t, "the end is told", func() bool { return seen.All()[0].Hold != nil })
			over := seen.All()[0].Hold
			require.Equal(t, observe.EndUnlocked, over.End)
			require.GreaterOrEqual(t, over.Held, 300*time.Millisecond)
			require.Equal(t, 1, seen.Clients())
			require.NoError(t, client.Close())
			require.Zero(t, seen.Clients())
			members := 0
			for _, s := range seen.All() {
				if s.Start.Member {
					members++
					require.NotEqual(t, kind, s.Start.Kind)
					require.NotNil(t, testkit.ObservationOf(s.Ctx), "it belongs to that of the group")
				} else {
					require.Nil(t, testkit.ObservationOf(s.Ctx))
				}
			}
			require.Equal(t, k.Groups, members > 0)
		})
	}
}

func TestSemaphoresAndLatchesAreObserved(t *testing.T) {
	t.Parallel()
	seen, observing := testkit.Observe(t)
	client := testkit.NewClient(t, redistest.Embedded(t), observing)
	semaphore := client.NewSemaphore(testkit.NewName(), rlock.Total(3))
	hold := testkit.Must(semaphore.Acquire(t.Context(), rlock.Permits(2)))
	require.Equal(t, "semaphore", seen.Last().Start.Kind)
	require.Equal(t, 2, seen.Last().Start.Permits)
	require.Equal(t, 1, seen.Last().End.Attempts)
	require.NoError(t, hold.Unlock(t.Context()))
	require.Equal(t, observe.EndUnlocked, seen.AwaitHoldEnd().End)
	ran, err := semaphore.TryDo(t.Context(), func(context.Context) error { return nil })
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, "try do", seen.AwaitHoldEnd().Op)
	require.Equal(t, 1, seen.Last().Start.Permits)
	require.NoError(t, client.NewPlainSemaphore(testkit.NewName(), rlock.Total(3)).Acquire(t.Context(), rlock.Permits(2)))
	require.Equal(t, "plain semaphore", seen.Last().Start.Kind)
	require.Equal(t, 2, seen.Last().Start.Permits)
	require.Equal(t, 1, seen.Last().End.Attempts)
	latch := client.NewCountDownLatch(testkit.NewName())
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
	require.ErrorIs(t, latch.Await(t.Context(), rlock.Wait(0)), rlock.ErrNotAcquired)
	require.Equal(t, observe.OutcomeRefused, seen.Last().End.Outcome)
	require.Equal(t, "count-down latch", seen.Last().Start.Kind)
	require.Zero(t, testkit.Must(latch.CountDown(t.Context())))
	require.NoError(t, latch.Await(t.Context()))
	require.Equal(t, observe.OutcomeAcquired, seen.Last().End.Outcome)
	require.Equal(t, "await", seen.Last().Start.Op)
}

// TestHowHoldsEnd has every end of a hold told once, with its reason.
func TestHowHoldsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	for end, c := range map[observe.End]struct {
		opts []rlock.Option
		do   func(t *testing.T, client *rlock.Client, lock *rlock.Lock)
	}{
		observe.EndLeaseEnded: {do: func(t *testing.T, _ *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			hold := testkit.Must(lock.Acquire(t.Context(), rlock.Lease(50*time.Millisecond)))
			testkit.Within(t, "the lease ends", hold.Done())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}},
		observe.EndGone: {do: func(t *testing.T, _ *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			hold := testkit.Must(lock.Acquire(t.Context(), rlock.RenewedLease(2*time.Second)))
			require.NoError(t, rdb.Del(t.Context(), lock.Name()).Err())
			testkit.Within(t, "the loss is noticed", hold.Done())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}},
		observe.EndForced: {do: func(t *testing.T, _ *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			require.NoError(t, lock.Lock(t.Context()))
			require.True(t, testkit.Must(lock.ForceUnlock(t.Context())))
		}},
		observe.EndTooLong: {opts: []rlock.Option{rlock.WithMaxHold(100 * time.Millisecond)}, do: func(t *testing.T, _ *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			require.NoError(t, lock.Lock(t.Context()))
		}},
		observe.EndOverwritten: {do: func(t *testing.T, _ *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			hold := testkit.Must(lock.Acquire(t.Context()))
			require.NoError(t, rdb.Set(t.Context(), lock.Name(), "x", 0).Err())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}},
		observe.EndClosed: {do: func(t *testing.T, client *rlock.Client, lock *rlock.Lock) {
			t.Helper()
			require.NoError(t, lock.Lock(t.Context()))
			require.NoError(t, client.Close())
			require.NoError(t, lock.Unlock(t.Context()))
		}},
	} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			seen, observing := testkit.Observe(t)
			client := testkit.NewClient(t, rdb, append(c.opts, observing, rlock.WithLogger(testkit.Discard))...)
			c.do(t, client, client.NewLock(testkit.NewName()))
			over := seen.AwaitHoldEnd()
			require.Equal(t, end, over.End)
			require.Equal(t, over.End.Lost(), errors.Is(over.Err, rlock.ErrLost))
			if end == observe.EndGone {
				require.ErrorIs(t, seen.AwaitEvent(observe.EventLost).Err, rlock.ErrLost)
			}
		})
	}
}

// TestHandOversAreObserved has a lock go from another process to the first waiter of this one, by the line in Redis, and from there to
// the second one, within the process.
func TestHandOversAreObserved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	seen, observing := testkit.Observe(t)
	client := testkit.NewClient(t, server.Client(t), observing, tune.HandOver(100, time.Hour))
	queue := testkit.NewWaiterQueue(t, client.NewLock(testkit.NewName()))
	hold := testkit.Must(testkit.NewClient(t, server.Client(t)).NewLock(queue.Lock.Name()).Acquire(t.Context()))
	queue.Join(t.Context())
	testkit.AwaitSleepers(t, admin, 4, queue.Lock) // the holder asked once, and the waiter three times
	queue.Join(t.Context())
	require.NoError(t, hold.Unlock(t.Context()))
	hold = queue.Next()
	first := *seen.All()[0].End
	require.Equal(t, observe.ViaRemote, first.Via)
	require.False(t, first.Contended, "by another process")
	require.Positive(t, first.Waited)
	require.LessOrEqual(t, first.Waited, first.Took)
	require.NoError(t, hold.Unlock(t.Context()))
	hold = queue.Next()
	second := *seen.All()[1].End
	require.Equal(t, observe.ViaLocal, second.Via)
	require.True(t, second.Contended)
	require.Zero(t, second.Attempts, "it asked for nothing")
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestNothingIsObservedTwice has many goroutines acquire in all ways, with leases that end at once, cancellations and forced unlocks.
// Then every acquisition that began has ended once, and so has every hold.
func TestNothingIsObservedTwice(t *testing.T) {
	t.Parallel()
	seen, observing := testkit.Observe(t)
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, observing, rlock.WithLogger(testkit.Discard))
	names := []string{testkit.NewName(), testkit.NewName(), testkit.NewName()}
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			for range 20 {
				acquireSomehow(t, client, names)
				// On a busy machine, more reports than fit could wait.
				testkit.Eventually(t, "the observer keeps up", func() bool { return seen.Behind() < 100 })
			}
		})
	}
	all.Wait()
	require.NoError(t, client.Close())
	require.Zero(t, client.Stats().DroppedReports)
	acquired := 0
	for _, s := range seen.All() {
		require.NotNil(t, s.End, "%+v", s.Start)
		if s.End.Err == nil && !s.End.Reentry {
			acquired++
			require.NotNil(t, s.Hold, "%+v", s.End)
		}
	}
	t.Logf("%d holds", acquired) // on a busy machine, each wait may have ended first
}

// acquireSomehow takes one of the locks, and leaves it.
func acquireSomehow(t *testing.T, client *rlock.Client, names []string) {
	t.Helper()
	kinds := []string{"lock", "fenced", "spin", "fair", "write", "read", "multi", "red"}
	kind := kinds[rand.N(len(kinds))]
	lock := testkit.Kinds[kind].Make(client, kind+names[rand.N(len(names))])
	ctx, cancel := context.WithTimeout(rlock.WithOwner(t.Context()), time.Duration(1+rand.N(300))*time.Millisecond)
	defer cancel()
	var opts []rlock.AcquireOption
	if rand.N(3) == 0 {
		opts = append(opts, rlock.Lease(time.Duration(1+rand.N(10))*time.Millisecond))
	}
	if lock.Lock(ctx, opts...) != nil {
		return
	}
	for range rand.N(2) {
		if lock.Lock(ctx, rlock.Wait(time.Millisecond)) == nil {
			_ = lock.Unlock(ctx)
		}
	}
	if kind != "multi" && kind != "red" && rand.N(8) == 0 {
		_, _ = lock.ForceUnlock(t.Context())
	}
	_ = lock.Unlock(ctx)
}

// A process that is cut off is granted a fair lock, and does not come. When it is back, its observer is told why others had the
// lock before it.
func TestALostPlaceInAFairQueueIsObserved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := testkit.NewClient(t, server.Client(t)).NewFairLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context()))
	proxy := redistest.NewProxy(t, server.Addr)
	seen, observing := testkit.Observe(t)
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr})
	cut := testkit.NewClient(t, rdb, observing).NewFairLock(holder.Name())
	got := make(chan error, 1)
	go func() { got <- cut.Lock(t.Context()) }()
	awaitQueued(t, server.Client(t), holder, 1)
	proxy.Freeze()
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, holder.Lock(t.Context()), "it is free once the first term of the other process is over")
	proxy.CloseAll() // otherwise a question whose reply nobody awaits any more could join the queue
	proxy.Thaw()
	require.Equal(t, holder.Name(), seen.AwaitEvent(observe.EventPlaceLost).Name)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has the lock in the end", got))
	require.NoError(t, cut.Unlock(t.Context()))
}
