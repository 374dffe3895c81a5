package claims

import (
	"context"
	"errors"
	"fmt"
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

// latchChannel returns the channel of a latch.
func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

func TestALatchCountsDown(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		latch, same := client.NewCountDownLatch(testkit.NewName()), testkit.NewClient(t, rdb)
		other := same.NewCountDownLatch(latch.Name())
		require.Zero(t, testkit.Must(latch.Count(ctx)))
		require.NoError(t, latch.Await(ctx), "nobody has set it")
		require.Zero(t, testkit.Must(latch.CountDown(ctx)))
		require.Zero(t, rdb.Exists(ctx, latch.Name()).Val())
		require.False(t, testkit.Must(latch.Delete(ctx)))

		require.True(t, testkit.Must(latch.TrySetCount(ctx, 2)))
		require.False(t, testkit.Must(other.TrySetCount(ctx, 5)))
		require.EqualValues(t, 2, testkit.Must(other.Count(ctx)))
		require.Equal(t, "2", rdb.Get(ctx, latch.Name()).Val(), "as Redisson has it")
		require.ErrorIs(t, latch.Await(ctx, rlock.Wait(0)), rlock.ErrNotAcquired)
		require.EqualValues(t, 1, testkit.Must(other.CountDown(ctx)))
		require.EqualValues(t, 1, testkit.Must(latch.Count(ctx)))
		require.EqualValues(t, 0, testkit.Must(latch.CountDown(ctx)))
		require.Zero(t, rdb.Exists(ctx, latch.Name()).Val())
		require.NoError(t, other.Await(ctx))
		require.Zero(t, testkit.Must(other.CountDown(ctx)))

		require.True(t, testkit.Must(latch.TrySetCount(ctx, 1)))
		require.True(t, testkit.Must(other.Delete(ctx)))
		require.False(t, testkit.Must(latch.Delete(ctx)))
		require.Zero(t, testkit.Must(latch.Count(ctx)))
		testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client)+testkit.Remains(same) == 0 })
	})
}

// TestCallsOfALatchLeaveFewMarks: as many as are under way at once, and some more. A call that a busy machine has rlock send again leaves
// its mark, too, because its first command may be on its way.
func TestCallsOfALatchLeaveFewMarks(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const callers, calls = 4, 250
		sent := &testkit.Tally{}
		rdb.AddHook(sent)
		client := testkit.NewClient(t, rdb)
		latch := client.NewCountDownLatch(testkit.NewName())
		require.True(t, testkit.Must(latch.TrySetCount(t.Context(), callers*calls)))
		before := sent.Scripts()
		errs := make(chan error, callers)
		for range callers {
			go func() {
				for range calls {
					if err := testkit.Second(latch.CountDown(t.Context())); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range callers {
			require.NoError(t, testkit.Within(t, "all have counted down", errs))
		}
		again := max(0, sent.Scripts()-before-callers*calls)
		require.Zero(t, testkit.Must(latch.Count(t.Context())))
		marks := rdb.HLen(t.Context(), fmt.Sprintf("redisson_unlock_latch:{%s}:%s", latch.Name(), client.ID())).Val()
		require.LessOrEqual(t, marks, 2*callers+again)
	})
}

func TestALatchOpensForEverybody(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const participants, each = 8, 10
		name := testkit.NewName()
		var clients [3]*rlock.Client
		var waiting []<-chan error
		for i := range clients {
			clients[i] = testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
		}
		require.True(t, testkit.Must(clients[0].NewCountDownLatch(name).TrySetCount(t.Context(), participants)))
		for _, client := range clients {
			waiting = append(waiting, testkit.AwaitLatch(t, client.NewCountDownLatch(name), each))
		}
		var all sync.WaitGroup
		left := make(chan int64, participants)
		for i := range participants {
			all.Go(func() {
				n, err := clients[i%len(clients)].NewCountDownLatch(name).CountDown(context.Background())
				if err == nil {
					left <- n
				}
			})
		}
		for _, errs := range waiting {
			testkit.Opens(t, errs, each)
		}
		all.Wait()
		close(left)
		seen := make(map[int64]bool)
		for n := range left {
			seen[n] = true
		}
		require.Len(t, seen, participants, "each call got another count")
		for _, client := range clients {
			require.Zero(t, client.Stats().Waiting)
		}
	})
}

// TestAThousandAwaitOneLatch: they share a subscription.
func TestAThousandAwaitOneLatch(t *testing.T) {
	t.Parallel()
	const callers = 1000
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
	latch := client.NewCountDownLatch(testkit.NewName())
	other := testkit.NewClient(t, rdb).NewCountDownLatch(latch.Name())
	require.True(t, testkit.Must(other.TrySetCount(t.Context(), 2)))
	errs := testkit.AwaitLatch(t, latch, callers)
	channel := latchChannel(latch.Name())
	require.EqualValues(t, 1, rdb.PubSubNumSub(t.Context(), channel).Val()[channel])
	require.EqualValues(t, 1, testkit.Must(other.CountDown(t.Context())))
	require.EqualValues(t, 0, testkit.Must(other.CountDown(t.Context())))
	testkit.Opens(t, errs, callers)
}

func TestTheWaitForALatchEnds(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		latch := testkit.NewClient(t, rdb).NewCountDownLatch(testkit.NewName())
		require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
		start := time.Now()
		err := latch.Await(t.Context(), rlock.Wait(50*time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
		require.EqualError(t, err, fmt.Sprintf("rlock: await %q: not acquired", latch.Name()))

		cause := errors.New("the user has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		canceled := testkit.Async(func() error { return latch.Await(ctx) })
		testkit.Eventually(t, "it waits", func() bool { return testkit.Awaited(latch, 1) })
		cancel(cause)
		err = testkit.Within(t, "the wait ends", canceled)
		for _, want := range []error{rlock.ErrNotAcquired, context.Canceled, cause} {
			require.ErrorIs(t, err, want)
		}
		later := testkit.Async(func() error { return latch.Await(t.Context(), rlock.Wait(testkit.ALongTime)) })
		require.EqualValues(t, 0, testkit.Must(latch.CountDown(t.Context())))
		require.NoError(t, testkit.Within(t, "the latch is open", later))
	})
}

// TestALatchThatGoesOpens: without a message, at the poll interval.
func TestALatchThatGoesOpens(t *testing.T) {
	t.Parallel()
	for how, remove := range map[string]func(context.Context, *redis.Client, string) error{
		"deleted": func(ctx context.Context, rdb *redis.Client, name string) error { return rdb.Del(ctx, name).Err() },
		"flushed": func(ctx context.Context, rdb *redis.Client, _ string) error { return rdb.FlushAll(ctx).Err() },
		"expired": func(ctx context.Context, rdb *redis.Client, name string) error {
			return rdb.PExpire(ctx, name, 1).Err()
		},
		"not above zero": func(ctx context.Context, rdb *redis.Client, name string) error {
			return rdb.Set(ctx, name, -2, 0).Err()
		},
		"evicted": evict,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client(t)
			client := testkit.NewClient(t, rdb, tune.PollInterval(200*time.Millisecond))
			latch := client.NewCountDownLatch(testkit.NewName())
			require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 3)))
			errs := testkit.AwaitLatch(t, latch, 5)
			require.NoError(t, remove(t.Context(), rdb, latch.Name()))
			testkit.Opens(t, errs, 5)
		})
	}
}

// evict has Redis evict everything.
func evict(ctx context.Context, rdb *redis.Client, name string) error {
	err := rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err()
	if err == nil {
		err = rdb.ConfigSet(ctx, "maxmemory", "1").Err()
	}
	for err == nil && rdb.Exists(ctx, name).Val() > 0 { // each command evicts some
		err = ctx.Err()
	}
	return errors.Join(err, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
}

func TestADeletedLatchOpens(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
		latch := client.NewCountDownLatch(testkit.NewName())
		other := testkit.NewClient(t, rdb).NewCountDownLatch(latch.Name())
		require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 3)))
		errs := testkit.AwaitLatch(t, latch, 5)
		require.True(t, testkit.Must(other.Delete(t.Context())))
		testkit.Opens(t, errs, 5)
	})
}

func TestAKeyThatIsNoLatchIsLeftAlone(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		lock := client.NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(ctx))
		text := testkit.NewName()
		require.NoError(t, rdb.Set(ctx, text, "not a number\n"+testkit.NewName(), 0).Err())
		for name, want := range map[string]string{
			lock.Name(): "has a value that is not a count-down latch: ", text: `the value is not a count: "not a number?test:`,
		} {
			latch := client.NewCountDownLatch(name)
			for op, err := range map[string]error{
				"try set count": testkit.Second(latch.TrySetCount(ctx, 1)), "count down": testkit.Second(latch.CountDown(ctx)),
				"count": testkit.Second(latch.Count(ctx)), "delete": testkit.Second(latch.Delete(ctx)), "await": latch.Await(ctx),
			} {
				require.ErrorContains(t, err, fmt.Sprintf("rlock: %s %q: the key %q", op, name, name))
				require.ErrorContains(t, err, want)
				require.NotErrorIs(t, err, rlock.ErrUnavailable)
				require.NotErrorIs(t, err, rlock.ErrNotAcquired)
			}
		}
		require.Positive(t, testkit.Must(lock.HoldCount(ctx)))
		require.NoError(t, lock.Unlock(ctx))
		require.Contains(t, rdb.Get(ctx, text).Val(), "not a number\n")
	})
}

func TestLatchNamesAreMapped(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb, rlock.WithKeyPrefix("app:"))
	latch := client.NewCountDownLatch("start")
	require.Equal(t, "start", latch.Name())
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
	require.Equal(t, "1", rdb.Get(t.Context(), "app:start").Val())
	waiting := testkit.Async(func() error { return latch.Await(t.Context()) })
	testkit.Eventually(t, "it listens to the mapped name", func() bool {
		channel := latchChannel("app:start")
		return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
	})
	require.EqualValues(t, 0, testkit.Must(latch.CountDown(t.Context())))
	require.NoError(t, testkit.Within(t, "the latch is open", waiting))
}

func TestALatchThatIsMisused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb)
	var none *rlock.Client
	for _, latch := range []*rlock.CountDownLatch{nil, {}, none.NewCountDownLatch("a"), new(rlock.Client).NewCountDownLatch("a")} {
		for _, err := range []error{
			testkit.Second(latch.TrySetCount(ctx, 1)), testkit.Second(latch.CountDown(ctx)), testkit.Second(latch.Count(ctx)),
			testkit.Second(latch.Delete(ctx)), latch.Await(ctx),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
		}
		require.Empty(t, latch.Name())
	}
	latch := client.NewCountDownLatch(testkit.NewName())
	for _, n := range []int64{0, -1, 1 << 53} {
		require.ErrorIs(t, testkit.Second(latch.TrySetCount(ctx, n)), rlock.ErrInvalidOption)
	}
	for _, opt := range []rlock.AcquireOption{rlock.Lease(time.Second), rlock.RenewedLease(time.Second), nil, rlock.Wait(-1)} {
		require.ErrorIs(t, latch.Await(ctx, opt), rlock.ErrInvalidOption)
		require.ErrorIs(t, latch.Await(ctx, rlock.Wait(0), opt), rlock.ErrInvalidOption)
	}
	require.ErrorIs(t, testkit.Second(client.NewCountDownLatch("").Count(ctx)), rlock.ErrInvalidName)
	var missing context.Context
	require.Panics(t, func() { _ = latch.Await(missing) })
	require.Panics(t, func() { _, _ = latch.CountDown(missing) })
	require.Zero(t, rdb.DBSize(ctx).Val(), "nothing was sent")
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
}
