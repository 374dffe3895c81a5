package claims

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		one, two := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName()), testkit.NewClient(t, rdb)
		other := two.NewRWLock(one.Reader().Name())
		a, b := rlock.WithOwner(t.Context()), rlock.WithOwner(t.Context())
		require.Same(t, one.Reader(), one.Reader())
		require.NoError(t, one.Reader().Lock(a))
		require.True(t, testkit.Must(other.Reader().TryLock(b)), "readers share")
		require.False(t, testkit.Must(other.Writer().TryLock(rlock.WithOwner(t.Context()))), "a reader excludes writers")
		require.True(t, testkit.Must(one.Reader().IsLocked(t.Context())))
		require.False(t, testkit.Must(one.Writer().IsLocked(t.Context())))
		freed, err := other.Writer().ForceUnlock(t.Context())
		require.NoError(t, err)
		require.False(t, freed, "a force unlock of the write lock frees no readers")
		require.NoError(t, one.Reader().Unlock(a))
		require.False(t, testkit.Must(one.Writer().TryLock(a)), "one reader is left")
		require.NoError(t, other.Reader().Unlock(b))

		require.True(t, testkit.Must(one.Writer().TryLock(a)))
		require.False(t, testkit.Must(other.Reader().TryLock(b)), "a writer excludes readers")
		require.False(t, testkit.Must(other.Writer().TryLock(b)))
		require.False(t, testkit.Must(one.Reader().IsLocked(t.Context())))
		require.True(t, testkit.Must(one.Writer().IsLocked(t.Context())))
		freed, err = other.Reader().ForceUnlock(t.Context())
		require.NoError(t, err)
		require.False(t, freed, "a force unlock of the read lock frees no writer")
		require.NoError(t, one.Writer().Unlock(a))
		require.Zero(t, rdb.Exists(t.Context(), one.Reader().Name()).Val())
	})
}

func TestAWriterMayReadAndKeepReading(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Second))
		rw := client.NewRWLock(testkit.NewName())
		other := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour)).NewRWLock(rw.Reader().Name())
		ctx := rlock.WithOwner(t.Context())
		require.NoError(t, rw.Writer().Lock(ctx, rlock.Lease(time.Hour)))
		require.NoError(t, rw.Reader().Lock(ctx))
		require.NoError(t, rw.Reader().Lock(ctx))
		require.True(t, testkit.Must(rw.Reader().IsLocked(t.Context())))
		require.Equal(t, 2, testkit.Must(rw.Reader().HoldCount(ctx)))
		require.Equal(t, 1, testkit.Must(rw.Writer().HoldCount(ctx)))
		require.NoError(t, rw.Reader().Unlock(ctx))
		require.Greater(t, testkit.Must(rw.Writer().TTL(ctx)), 59*time.Minute, "a read unlock does not shorten the writer's lease")
		require.NoError(t, rw.Writer().Lock(ctx), "an owner of both locks re-enters the write lock")
		require.NoError(t, rw.Writer().Unlock(ctx))

		reading := testkit.Async(func() error { return other.Reader().Lock(t.Context()) })
		channel := testkit.Channel(other.Reader())
		testkit.Eventually(t, "another reader waits", func() bool { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 1 })
		<-time.After(50 * time.Millisecond) // until the waiter has tried again and sleeps
		require.NoError(t, rw.Writer().Unlock(ctx))
		require.NoError(t, testkit.Within(t, "the downgrade admits the reader", reading))
		require.LessOrEqual(t, testkit.Must(rw.Reader().TTL(ctx)), 31*time.Second, "the writer's lease of an hour no longer counts")
		require.False(t, testkit.Must(other.Writer().TryLock(rlock.WithOwner(t.Context()))))
		require.NoError(t, other.Reader().Unlock(t.Context()))

		ok, err := other.Writer().TryLock(t.Context(), rlock.Wait(2500*time.Millisecond))
		require.NoError(t, err)
		require.False(t, ok, "the read lock is renewed")
		_, err = rw.Writer().TryLock(ctx)
		require.ErrorIs(t, err, rlock.ErrUpgrade)
		require.ErrorIs(t, rw.Writer().Lock(ctx), rlock.ErrUpgrade, "an upgrade would wait for itself")
		require.ErrorIs(t, rw.Writer().Unlock(ctx), rlock.ErrNotHeld)
		require.NoError(t, rw.Reader().Unlock(ctx))
		require.NoError(t, rw.Writer().Lock(ctx), "the write lock is available after the read unlock")
		require.NoError(t, rw.Writer().Unlock(ctx))
		testkit.Eventually(t, "nothing is left", func() bool {
			return rdb.Exists(t.Context(), rw.Reader().Name()).Val() == 0 && testkit.Remains(client) == 0
		})
	})
}

// An owner that holds one side must not queue behind waiters for its own unlock.
func TestAWriterReadsAlthoughReadersQueue(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	rw := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName())
	var reading <-chan error
	require.NoError(t, rw.Writer().Do(t.Context(), func(ctx context.Context) error {
		reading = testkit.Async(func() error { return rw.Reader().Lock(t.Context()) })
		testkit.Eventually(t, "a reader queues in this process", func() bool { return testkit.Waiting(rw.Reader()) == 1 })
		require.NoError(t, rw.Reader().Lock(ctx, rlock.Wait(testkit.ALongTime)))
		return rw.Reader().Unlock(ctx)
	}))
	require.NoError(t, testkit.Within(t, "the reader gets the lock afterwards", reading))
	require.NoError(t, rw.Reader().Unlock(t.Context()))
}

func TestAWritersUnlockWakesEveryReaderOfEveryProcess(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		name := testkit.NewName()
		writer := testkit.NewClient(t, rdb).NewRWLock(name).Writer()
		require.NoError(t, writer.Lock(t.Context(), rlock.Lease(time.Hour)))
		const readers = 20
		var inside sync.WaitGroup
		inside.Add(readers)
		var locks []*rlock.Lock
		done := make(chan error, readers)
		for range 2 {
			locks = append(locks, testkit.NewClient(t, rdb, tune.PollInterval(time.Hour)).NewRWLock(name).Reader())
		}
		for i := range readers {
			go func() {
				done <- locks[i%2].Do(t.Context(), func(context.Context) error {
					inside.Done()
					inside.Wait() // all readers at once
					return nil
				})
			}()
		}
		testkit.Eventually(t, "all readers wait", func() bool { return testkit.Waiting(locks[0])+testkit.Waiting(locks[1]) == readers })
		require.NoError(t, writer.Unlock(t.Context()))
		for range readers {
			require.NoError(t, testkit.Within(t, "all readers read at once", done))
		}
	})
}

func TestADeadReaderBlocksWritersOnlyForItsOwnLease(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		name := testkit.NewName()
		dead := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
		require.NoError(t, dead.NewRWLock(name).Reader().Lock(t.Context()))
		long := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(2*time.Second)).NewRWLock(name).Reader()
		hold, err := long.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, dead.Close()) // ends its renewals
		for range 5 {                    // the other reader is still renewed
			before := hold.Deadline()
			testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
		}
		writer := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour)).NewRWLock(name).Writer()
		writing := testkit.Async(func() error { return writer.Lock(t.Context()) })
		testkit.Eventually(t, "a writer waits", func() bool { return testkit.Waiting(writer) == 1 })
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the last living reader's unlock admits the writer", writing))
		require.NoError(t, writer.Unlock(t.Context()))
	})
}

// This is Redisson's testReadLockExpiration. Each reader has its own lease, and the lock lasts as long as the longest one.
func TestReadersHaveTheirOwnLeases(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		rw := client.NewRWLock(testkit.NewName())
		short, err := rw.Reader().Acquire(t.Context(), rlock.Lease(300*time.Millisecond))
		require.NoError(t, err)
		long, err := rw.Reader().Acquire(t.Context(), rlock.Lease(time.Minute))
		require.NoError(t, err)
		testkit.Within(t, "the short hold is lost", short.Done())
		require.ErrorIs(t, short.Err(), rlock.ErrLost)
		require.NoError(t, long.Err())
		testkit.Eventually(t, "its field is gone, although the lock exists", func() bool {
			return len(testkit.Holders(t, rdb, rw.Reader().Name())) == 2 // the mode and the long hold
		})
		medium, err := rw.Reader().Acquire(t.Context(), rlock.Lease(20*time.Second))
		require.NoError(t, err)
		require.NoError(t, long.Unlock(t.Context()))
		require.LessOrEqual(t, testkit.Must(rw.Reader().TTL(t.Context())), 20*time.Second, "the lock lasts as long as the longest remaining lease")
		require.NoError(t, medium.Unlock(t.Context()))
		require.ErrorIs(t, short.Unlock(t.Context()), rlock.ErrLost)
		require.Zero(t, rdb.Exists(t.Context(), rw.Reader().Name()).Val())
	})
}

// A read hold is lost with its key, even if other readers keep the lock and its field alive.
func TestAReadHoldWithoutItsKeyIsLost(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
		rw := client.NewRWLock(testkit.NewName())
		ctx := rlock.WithOwner(t.Context())
		hold, err := rw.Reader().Acquire(ctx)
		require.NoError(t, err)
		other, err := rw.Reader().Acquire(rlock.WithOwner(t.Context()))
		require.NoError(t, err)
		for field := range testkit.Holders(t, rdb, rw.Reader().Name()) {
			if field != "mode" {
				key := "{" + rw.Reader().Name() + "}:" + field + ":rwlock_timeout:1"
				require.EqualValues(t, 1, rdb.Exists(t.Context(), key).Val(), "the key has Redisson's name")
				if n, _ := rw.Reader().HoldCount(ctx); n == 1 {
					require.NoError(t, rdb.Del(t.Context(), key).Err())
					if n, _ = rw.Reader().HoldCount(ctx); n == 1 { // the key belongs to the other hold
						require.NoError(t, rdb.Set(t.Context(), key, 1, 5*time.Second).Err())
					}
				}
			}
		}
		testkit.Within(t, "the next renewal detects the loss", hold.Done())
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		_, err = rw.Reader().TryLock(ctx)
		require.ErrorIs(t, err, rlock.ErrLost)
		_, err = rw.Writer().TryLock(ctx)
		require.ErrorIs(t, err, rlock.ErrLost, "the loss is not reported as an upgrade")
		require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrLost)
		testkit.Eventually(t, "its field is removed too", func() bool { return len(testkit.Holders(t, rdb, rw.Reader().Name())) == 2 })
		require.NoError(t, other.Err())
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestNamesOfReadWriteLocks(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(1500*time.Millisecond))
		for _, name := range []string{"{test}:abc:key", "a:b:c", "mode", "x{y}z:1", "{}", "a{b"} {
			rw := client.NewRWLock(name + testkit.NewName())
			one, err := rw.Reader().Acquire(t.Context())
			require.NoError(t, err, name)
			two, err := rw.Reader().Acquire(t.Context())
			require.NoError(t, err, name)
			before := one.Deadline()
			testkit.Eventually(t, "the hold is renewed", func() bool { return one.Deadline().After(before) })
			require.NoError(t, one.Unlock(t.Context()), name)
			require.False(t, testkit.Must(rw.Writer().TryLock(t.Context())), name)
			require.NoError(t, two.Unlock(t.Context()), name)
			require.True(t, testkit.Must(rw.Writer().TryLock(t.Context())), name)
			require.NoError(t, rw.Writer().Unlock(t.Context()), name)
		}
	})
}

func TestForceUnlockOfAReadWriteLockEndsAllItsHolds(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		rw := client.NewRWLock(testkit.NewName())
		ctx := rlock.WithOwner(t.Context())
		one, err := rw.Reader().Acquire(ctx)
		require.NoError(t, err)
		two, err := rw.Reader().Acquire(t.Context())
		require.NoError(t, err)
		_, _ = one.Done(), two.Done()
		require.True(t, testkit.Must(rw.Reader().ForceUnlock(t.Context())))
		for _, hold := range []*rlock.Hold{one, two} {
			testkit.Within(t, "both holds are notified", hold.Done())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}
		write, err := rw.Writer().Acquire(ctx)
		require.NoError(t, err)
		read, err := rw.Reader().Acquire(ctx)
		require.NoError(t, err)
		_, _ = write.Done(), read.Done()
		require.True(t, testkit.Must(rw.Writer().ForceUnlock(t.Context())))
		for _, hold := range []*rlock.Hold{write, read} {
			testkit.Within(t, "both holds of the writer are notified", hold.Done())
			require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		}
		require.True(t, testkit.Must(rw.Writer().TryLock(ctx)))
		require.NoError(t, rw.Writer().Unlock(ctx))
	})
}

// Two goroutines share an owner. When one of them gets the write lock, the other one may read, although a stranger queued first.
func TestAnOwnerThatGetsOneSideLeavesTheQueueForTheOther(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	rw := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour)).NewRWLock(testkit.NewName())
	holder := testkit.NewClient(t, rdb).NewRWLock(rw.Reader().Name()).Writer()
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(time.Hour)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	foreign := testkit.Async(func() error { return rw.Reader().Lock(ctx) })
	testkit.Eventually(t, "a stranger queues", func() bool { return testkit.Waiting(rw.Reader()) == 1 })
	owner := rlock.WithOwner(t.Context())
	reading := testkit.Async(func() error { return rw.Reader().Lock(owner) })
	testkit.Eventually(t, "the owner queues behind the stranger", func() bool { return testkit.Waiting(rw.Reader()) == 2 })
	testkit.Eventually(t, "the stranger is subscribed", func() bool {
		return rdb.PubSubNumSub(t.Context(), testkit.Channel(holder)).Val()[testkit.Channel(holder)] == 1
	})
	testkit.AwaitSleepers(t, rdb, 0, rw.Reader())
	<-time.After(50 * time.Millisecond)                           // until it has tried again since it is subscribed
	require.NoError(t, rdb.Del(t.Context(), holder.Name()).Err()) // without a message
	require.True(t, testkit.Must(rw.Writer().TryLock(owner)))
	require.NoError(t, testkit.Within(t, "the owner reads under its own write lock", reading))
	require.NoError(t, rw.Reader().Unlock(owner))
	require.NoError(t, rw.Writer().Unlock(owner))
	require.NoError(t, testkit.Within(t, "the stranger gets the lock next", foreign))
	require.NoError(t, rw.Reader().Unlock(t.Context()))
	require.ErrorIs(t, holder.Unlock(t.Context()), rlock.ErrLost)
}

// Within a process, no reader overtakes a waiting writer. Like Redisson, rlock admits readers of other processes.
func TestReadersOvertakeOnlyWritersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		rw, other := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName()), testkit.NewClient(t, rdb)
		hold, err := rw.Reader().Acquire(t.Context())
		require.NoError(t, err)
		writing := testkit.Async(func() error { return rw.Writer().Lock(t.Context()) })
		testkit.Eventually(t, "a writer waits", func() bool { return testkit.Waiting(rw.Writer()) == 1 })
		reading := testkit.Async(func() error { return rw.Reader().Lock(t.Context()) })
		testkit.Eventually(t, "a reader waits behind the writer", func() bool { return testkit.Waiting(rw.Writer()) == 2 })
		foreign := other.NewRWLock(rw.Reader().Name()).Reader()
		require.True(t, testkit.Must(foreign.TryLock(t.Context())), "a reader of another process overtakes the writer, as with Redisson")
		require.NoError(t, foreign.Unlock(t.Context()))
		require.Empty(t, reading, "the reader stays behind the writer")
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the writer gets the lock first", writing))
		require.Empty(t, reading)
		require.NoError(t, rw.Writer().Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the reader gets the lock next", reading))
		require.NoError(t, rw.Reader().Unlock(t.Context()))
	})
}
