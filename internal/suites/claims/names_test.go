package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// pairOf returns a name and the same in braces, or the other way round. Redisson's rule derives the same from both.
func pairOf(swapped bool) (one, other string) {
	one = testkit.NewName()
	other = "{" + one + "}"
	if swapped {
		return other, one
	}
	return one, other
}

// TestANameInBracesIsAnotherLock has one process hold {x} while another one waits for it. Whoever releases x gives it to a waiter for
// x, although the other one stands before it in what the two locks have in common.
func TestANameInBracesIsAnotherLock(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fenced", "spin", "fair", "fenced fair", "write", "fenced write", "read"} {
		for _, swapped := range []bool{false, true} {
			for _, together := range []bool{false, true} { // whether one client waits for both
				t.Run(fmt.Sprintf("%s, swapped: %v, together: %v", kind, swapped, together), func(t *testing.T) {
					t.Parallel()
					requireTwoLocks(t, kind, swapped, together)
				})
			}
		}
	}
}

func requireTwoLocks(t *testing.T, kind string, swapped, together bool) {
	t.Helper()
	server := redistest.Start(t)
	one, other := pairOf(swapped)
	open := func() *rlock.Client {
		return testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
	}
	rivals := kind
	if kind == "read" {
		rivals = "write"
	}
	a, b := open(), open()
	if together {
		b = a
	}
	// wait has a client wait for a lock that is held, as the nth waiter for both. It gets the hold once it has it.
	wait := func(c *rlock.Client, name string, nth int) <-chan turn {
		lock, got := testkit.MakeLock(rivals, c, name), make(chan turn, 1)
		go func() {
			hold, err := lock.Acquire(t.Context(), rlock.Lease(testkit.Never))
			got <- turn{0, hold, err, time.Now()}
		}()
		if strings.Contains(kind, "fair") {
			awaitQueued(t, server.Client(t), lock, nth)
		} else {
			testkit.Eventually(t, "the waiter waits", func() bool {
				return testkit.Waiting(lock) == 1 && (kind == "spin" || testkit.Rests(lock) && testkit.Listens(lock))
			})
		}
		return got
	}
	othersHold := testkit.Must(testkit.MakeLock(kind, open(), other).Acquire(t.Context(), rlock.Lease(testkit.Never)))
	hold := testkit.Must(testkit.MakeLock(kind, open(), one).Acquire(t.Context(), rlock.Lease(testkit.Never)))
	before := wait(b, other, 1)
	waiter := wait(a, one, 2)
	require.NoError(t, hold.Unlock(t.Context()))
	got := testkit.Within(t, "the waiter for the lock that was unlocked has it", waiter)
	require.NoError(t, got.err)
	require.Empty(t, before, "the other lock has an owner")
	require.NoError(t, othersHold.Err())
	require.True(t, testkit.Must(testkit.MakeLock(kind, open(), other).IsLocked(t.Context())))
	require.NoError(t, got.hold.Unlock(t.Context()))
	require.False(t, testkit.Must(testkit.MakeLock(kind, open(), one).IsLocked(t.Context())), "nobody waits for it")
	require.NoError(t, othersHold.Unlock(t.Context()))
	got = testkit.Within(t, "the waiter for the other lock has that", before)
	require.NoError(t, got.err)
	require.NoError(t, got.hold.Unlock(t.Context()))
	require.False(t, testkit.Must(testkit.MakeLock(kind, open(), other).IsLocked(t.Context())))
}

// TestTheFirstWaiterOfEachFairLockWatchesItsLease has a waiter for {x} stand before the waiters for x in the queue that both have. The
// holder of x dies, and the first waiter for x leaves. The second one sees when the lease ends.
func TestTheFirstWaiterOfEachFairLockWatchesItsLease(t *testing.T) {
	t.Parallel()
	for _, swapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("swapped: %v", swapped), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			one, other := pairOf(swapped)
			open := func(name string) *rlock.Lock {
				return testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(name)
			}
			const lease = 2 * time.Second
			othersHold := testkit.Must(open(other).Acquire(t.Context(), rlock.Lease(testkit.Never)))
			rdb := server.Client(t)
			require.NoError(t, rdb.HSet(t.Context(), one, uuid.NewString()+":1", 1).Err()) // nobody is that, so nobody unlocks it
			var locks []*rlock.Lock
			var left []<-chan error
			ctx, cancel := context.WithCancel(t.Context())
			for i, name := range []string{other, one, one} {
				lock, its := open(name), t.Context()
				if i == 1 {
					its = ctx
				}
				locks = append(locks, lock)
				left = append(left, testkit.Async(func() error { return lock.Lock(its, rlock.Lease(testkit.Never)) }))
				awaitQueued(t, server.Client(t), lock, i+1)
			}
			require.NoError(t, rdb.PExpire(t.Context(), one, lease).Err())
			passed := redistest.Stopwatch(t)
			info := testkit.Must(locks[1].Inspect(t.Context()))
			require.Len(t, info.Waiters, 2, "those for the other lock are not among them")
			require.EqualValues(t, 2, info.WaiterCount)
			cancel()
			require.ErrorIs(t, testkit.Within(t, "the first one leaves", left[1]), context.Canceled)
			require.NoError(t, testkit.Within(t, "the second one has the lock", left[2]))
			require.Less(t, passed(), lease+slack)
			require.NoError(t, locks[2].Unlock(t.Context()))
			require.Empty(t, left[0])
			require.NoError(t, othersHold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the other lock is free", left[0]))
			require.NoError(t, locks[0].Unlock(t.Context()))
		})
	}
}

// TestAFairWaiterBehindManyForTheOtherLock has many waiters for {x} stand before the waiters for x, and between them. The second waiter
// for x learns when the lease of the holder ends, whether the first one leaves or gets the lock and dies.
func TestAFairWaiterBehindManyForTheOtherLock(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		t.Run(fmt.Sprintf("the first one leaves: %v", leaves), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			one, other := pairOf(false)
			open := func(name string) *rlock.Lock {
				return testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewFairLock(name)
			}
			const lease, many = 2 * time.Second, 20
			others, queued := open(other), 0
			testkit.Must(others.Acquire(t.Context(), rlock.Lease(testkit.Never)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// queue has a client wait for a lock, and get the hold with a lease once it has it.
			queue := func(ctx context.Context, lock *rlock.Lock, lease time.Duration) <-chan turn {
				got := make(chan turn, 1)
				go func() {
					hold, err := lock.Acquire(ctx, rlock.Lease(lease))
					got <- turn{0, hold, err, time.Now()}
				}()
				queued++
				awaitQueued(t, server.Client(t), lock, queued)
				return got
			}
			crowd := func() {
				for range many {
					queue(t.Context(), others, testkit.Never)
				}
			}
			dead, rdb := uuid.NewString()+":1", server.Client(t)
			require.NoError(t, server.Client(t).HSet(t.Context(), one, dead, 1).Err())
			crowd()
			firsts := server.Client(t)
			first := queue(ctx, testkit.NewClient(t, firsts, tune.PollInterval(testkit.Never)).NewFairLock(one), lease)
			crowd()
			second := queue(t.Context(), open(one), testkit.Never)
			require.NoError(t, rdb.PExpire(t.Context(), one, lease).Err())
			begun := time.Now()
			if leaves {
				cancel()
				require.ErrorIs(t, testkit.Within(t, "the first one leaves", first).err, context.Canceled)
			} else {
				_, err := open(one).ForceUnlock(t.Context())
				require.NoError(t, err)
				require.NoError(t, testkit.Within(t, "the first one has the lock", first).err)
				require.NoError(t, firsts.Close(), "it dies")
			}
			got := testkit.Within(t, "the second one has it when the lease is over", second)
			require.NoError(t, got.err)
			require.Less(t, got.at.Sub(begun), lease+slack)
			require.NoError(t, got.hold.Unlock(t.Context()))
		})
	}
}

// TestSemaphoresThatWouldHaveTheSameLeases is rule T.3: by Redisson's rule the leases of the semaphores x and {x} are one set, in which
// each would take back the other's permits. So the second one is not set up.
func TestSemaphoresThatWouldHaveTheSameLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t))
	for _, swapped := range []bool{false, true} {
		one, other := pairOf(swapped)
		first, second, plain := client.NewSemaphore(one), client.NewSemaphore(other), client.NewPlainSemaphore(other)
		require.True(t, testkit.Must(first.TrySetPermits(t.Context(), 1)))
		for _, err := range []error{
			testkit.Second(second.TrySetPermits(t.Context(), 1)),
			second.AddPermits(t.Context(), 1),
			testkit.Second(plain.TrySetPermits(t.Context(), 1)),
			testkit.Second(client.NewSemaphore(other, rlock.Total(1)).TryAcquire(t.Context())),
		} {
			require.ErrorContains(t, err, "braces has a count, and both would have the same leases")
			require.NotErrorIs(t, err, rlock.ErrUnavailable)
		}
		require.Zero(t, server.Client(t).Exists(t.Context(), other).Val())
		hold := testkit.Must(first.TryAcquire(t.Context()))
		require.NoError(t, first.AddPermits(t.Context(), 1), "it is set up already")
		require.NoError(t, hold.Unlock(t.Context()))
		require.True(t, testkit.Must(first.Delete(t.Context())))
		require.True(t, testkit.Must(second.TrySetPermits(t.Context(), 1)), "now it is alone")
		require.NoError(t, server.Client(t).Set(t.Context(), other, "a text of somebody else", 0).Err())
		require.True(t, testkit.Must(first.TrySetPermits(t.Context(), 1)), "a text is no count")
	}
}

// TestALockWithTheNameOfLeases has a lock with the name that the leases of a semaphore would have. Redis refuses to mix them, and neither
// takes anything from the other.
func TestALockWithTheNameOfLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t))
	name := testkit.NewName() + "{42}"
	s := client.NewSemaphore(name)
	require.True(t, testkit.Must(s.TrySetPermits(t.Context(), 1)))
	hold := testkit.Must(client.NewLock(name+":timeout").TryAcquire(t.Context(), rlock.Lease(testkit.Never)))
	require.ErrorContains(t, testkit.Second(s.TryAcquire(t.Context())), "WRONGTYPE")
	require.ErrorContains(t, testkit.Second(s.Delete(t.Context())), "WRONGTYPE")
	require.NoError(t, hold.Unlock(t.Context()), "it was not deleted")
	permit := testkit.Must(s.TryAcquire(t.Context()))
	require.ErrorContains(t, testkit.Second(client.NewLock(name+":timeout").TryAcquire(t.Context())), "WRONGTYPE")
	require.NoError(t, permit.Unlock(t.Context()))
}

// TestNamesThatAreDerivedFromOthers is rule T.2: a name that is a key or a channel of another lock is refused.
func TestNamesThatAreDerivedFromOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, prefixed := testkit.NewClient(t, server.Client(t)), testkit.NewClient(t, server.Client(t), rlock.WithKeyPrefix("app:"))
	for name, refused := range map[string]bool{
		"redisson_unlock_latch:{x}:waiters": true, "redisson_lock_queue:{x}": true, "redisson_lock_timeout:y{x}": true, "redisson_lock_token:{x}": true,
		"{x}:rlock-twin": true, "{x}:rlock-twin{}": true,
		"redisson_lock_queue:x": false, "redisson_lock__channel:{x}": false, "{x}:rlock": false, "x:rlock-twin": false, "orders:{42}:timeout": false,
	} {
		for kind, of := range testkit.Kinds {
			if of.Groups {
				continue // its members have names of their own
			}
			err := of.Make(client, name).Lock(t.Context(), rlock.Wait(0))
			require.Equal(t, refused, errors.Is(err, rlock.ErrInvalidName), "%s %s: %v", kind, name, err)
			if err == nil {
				require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
			}
		}
		require.Equal(t, refused, errors.Is(testkit.Second(client.NewSemaphore(name).TrySetPermits(t.Context(), 1)), rlock.ErrInvalidName), name)
		require.Equal(t, refused, errors.Is(testkit.Second(client.NewCountDownLatch(name).Count(t.Context())), rlock.ErrInvalidName), name)
		if strings.HasPrefix(name, "redisson_") {
			require.NoError(t, testkit.Second(prefixed.NewLock(name).IsLocked(t.Context())), "under a prefix it is none of them")
		}
	}
}
