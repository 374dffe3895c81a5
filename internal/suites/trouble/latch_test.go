package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestACallOfALatchWhoseReplyIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	for how, lose := range testkit.Lossy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := testkit.NewFaulty(t, testkit.Quick())
			latch := f.Client.NewCountDownLatch(testkit.NewName())
			sent := func(command string, times int) {
				t.Helper()
				require.Equal(t, times, f.Proxy.Count(testkit.Runs(command)), "go-redis must not send a command again")
			}
			lose(f.Proxy, 2, testkit.Runs("set count"))
			require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 3)), "this call has set it")
			sent("set count", 3)
			lose(f.Proxy, 2, testkit.Runs("count down"))
			require.EqualValues(t, 2, testkit.Must(latch.CountDown(t.Context())))
			sent("count down", 3)
			require.EqualValues(t, 2, testkit.Must(latch.Count(t.Context())))
			lose(f.Proxy, 1, testkit.Runs("delete latch"))
			require.True(t, testkit.Must(latch.Delete(t.Context())), "this call has deleted it")
			sent("delete latch", 2)
			require.Zero(t, testkit.Must(latch.Count(t.Context())))
			sent("mark", 0)
		})
	}
}

// TestALateCountDownDoesNotCountInTheNextRound: its caller has given up, and the latch is set again.
func TestALateCountDownDoesNotCountInTheNextRound(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(time.Second))
	latch := f.Client.NewCountDownLatch(testkit.NewName())
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
	late := f.Proxy.HoldRequest(-1, testkit.Runs("count down"))
	_, err := latch.CountDown(t.Context())
	require.ErrorIs(t, err, rlock.ErrUnavailable)
	require.ErrorContains(t, err, "outcome unknown")
	ctx, cancel := context.WithCancel(t.Context())
	canceled := testkit.Async(func() error { return testkit.Second(latch.CountDown(ctx)) })
	held := len(late.Met())
	testkit.Eventually(t, "one more is on its way", func() bool { return len(late.Met()) > held })
	cancel()
	err = testkit.Within(t, "it returns", canceled)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "outcome unknown")
	testkit.Eventually(t, "both are marked", func() bool { return f.Proxy.Count(testkit.Runs("mark")) >= 2 })
	held = len(late.Met())
	late.Release()
	testkit.Eventually(t, "the late commands arrive", func() bool { return f.Proxy.Count(testkit.Runs("count down")) >= held })
	require.EqualValues(t, 1, testkit.Must(latch.Count(t.Context())))
	require.EqualValues(t, 0, testkit.Must(latch.CountDown(t.Context())))
}

// TestALatchOpensWhileSubscriptionsAreKilled: only a message or a new subscription can wake those who await it.
func TestALatchOpensWhileSubscriptionsAreKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	client := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never))
	other := testkit.NewClient(t, server.Client(t))
	const kills = 40
	killing := testkit.Async(func() error {
		for range kills {
			if err := admin.ClientKillByFilter(t.Context(), "type", "pubsub").Err(); err != nil {
				return err
			}
			<-time.After(50 * time.Millisecond)
		}
		return nil
	})
	rounds := 0
	for ; len(killing) == 0; rounds++ {
		latch := client.NewCountDownLatch(testkit.NewName())
		require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() { errs <- latch.Await(t.Context()) }()
		}
		testkit.Eventually(t, "one of them sleeps", func() bool { return client.Stats().Waiting > 0 })
		require.EqualValues(t, 0, testkit.Must(other.NewCountDownLatch(latch.Name()).CountDown(t.Context())))
		testkit.Opens(t, errs, cap(errs))
		testkit.Eventually(t, "nobody waits", func() bool { return client.Stats().Waiting == 0 })
	}
	require.NoError(t, <-killing)
	require.Greater(t, rounds, kills)
}

func TestALatchDuringAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger, _ := testkit.Recording()
	rdb := redistest.Open(t, &redis.Options{Addr: server.Addr, ReadTimeout: 200 * time.Millisecond})
	client := testkit.NewClient(t, rdb, logger, rlock.WithCommandTimeout(time.Second), tune.PollInterval(300*time.Millisecond))
	latch := client.NewCountDownLatch(testkit.NewName())
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
	long := testkit.AwaitLatch(t, latch, 3)
	short := testkit.Async(func() error { return latch.Await(t.Context(), rlock.Wait(3*time.Second)) })
	testkit.Eventually(t, "it waits, too", func() bool { return testkit.Awaited(latch, 4) })
	server.Pause()
	for _, err := range []error{
		testkit.Within(t, "the wait is over", short), latch.Await(t.Context(), rlock.Wait(0)),
		testkit.Second(latch.CountDown(t.Context())), testkit.Second(latch.Count(t.Context())),
	} {
		require.ErrorIs(t, err, rlock.ErrUnavailable)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	}
	require.Empty(t, long, "they go on")
	server.Resume()
	testkit.Eventually(t, "the background is at rest", func() bool { return testkit.Remains(client) <= 4 })
	for count := testkit.Must(latch.Count(t.Context())); count > 0; { // the call in the outage may have counted
		count = testkit.Must(latch.CountDown(t.Context()))
	}
	testkit.Opens(t, long, 3)
}

// TestALatchWhenRedisIsOutOfMemory: the last ones can count down, and nobody sets another latch.
func TestALatchWhenRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	latch := client.NewCountDownLatch(testkit.NewName())
	require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 2)))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	errs := testkit.AwaitLatch(t, latch, 2)
	require.EqualValues(t, 1, testkit.Must(latch.CountDown(t.Context())))
	require.EqualValues(t, 1, testkit.Must(latch.Count(t.Context())))
	require.EqualValues(t, 0, testkit.Must(latch.CountDown(t.Context())))
	testkit.Opens(t, errs, 2)
	_, err := latch.TrySetCount(t.Context(), 1)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, latch.Await(t.Context()))
}

func TestTheEndOfAClientEndsTheWaitForItsLatches(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(context.Context, *rlock.Client) error{
		"close":    func(_ context.Context, c *rlock.Client) error { return c.Close() },
		"shutdown": func(ctx context.Context, c *rlock.Client) error { return c.Shutdown(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			client := testkit.NewClient(t, redistest.Start(t).Client(t), tune.PollInterval(testkit.Never))
			latch := client.NewCountDownLatch(testkit.NewName())
			require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
			errs := testkit.AwaitLatch(t, latch, 100)
			require.NoError(t, end(t.Context(), client))
			for range 100 {
				require.ErrorIs(t, testkit.Within(t, "it returns", errs), rlock.ErrClosed)
			}
			require.Zero(t, client.Stats().Waiting)
		})
	}
}

func latchNames(t *testing.T, _ *redistest.Cluster, rdb *redis.ClusterClient) {
	t.Helper()
	client := testkit.NewClient(t, rdb)
	for _, name := range []string{"{a}b", "x{a}y", "a}b", "a{}b", "{m}:k:countdownlatch"} {
		latch := client.NewCountDownLatch(name)
		for _, err := range []error{
			testkit.Second(latch.TrySetCount(t.Context(), 1)), testkit.Second(latch.CountDown(t.Context())), latch.Await(t.Context()),
			testkit.Second(latch.Count(t.Context())), testkit.Second(latch.Delete(t.Context())),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidName)
		}
	}
	for _, name := range []string{"plain", "a{b"} {
		latch := client.NewCountDownLatch(name)
		require.True(t, testkit.Must(latch.TrySetCount(t.Context(), 1)))
		require.EqualValues(t, 0, testkit.Must(latch.CountDown(t.Context())))
	}
}
