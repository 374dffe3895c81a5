package trouble

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// acquire acquires from a semaphore that the handle sets up, and returns the error.
type acquire func(ctx context.Context, opts ...rlock.AcquireOption) error

// settingUp runs a test for each sort of semaphore, with a new handle that has a total. Redis is behind a proxy.
func settingUp(t *testing.T, timeout time.Duration, test func(t *testing.T, f *testkit.Faulty, name string, acquire acquire)) {
	t.Helper()
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			f, name := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(timeout)), testkit.NewName()
			test(t, f, name, func(ctx context.Context, opts ...rlock.AcquireOption) error {
				return testkit.Second(semaphore(f.Client, name).take(ctx, 1, opts...))
			})
		})
	}
}

func TestAShutdownEndsASetUp(t *testing.T) {
	t.Parallel()
	settingUp(t, time.Second, func(t *testing.T, f *testkit.Faulty, _ string, acquire acquire) {
		t.Helper()
		hold := testkit.Must(f.Lock.Acquire(t.Context()))
		held := f.Proxy.HoldRequest(1, evals)
		waits := testkit.Async(func() error { return acquire(t.Context()) })
		testkit.Within(t, "the set-up is under way", held.Met())
		stopped := testkit.Async(func() error { return f.Client.Shutdown(t.Context()) })
		require.ErrorIs(t, testkit.Within(t, "it does not wait for Redis", waits), rlock.ErrClosed)
		before := f.Proxy.Count(evals)
		held.Release()
		testkit.Eventually(t, "the set-up arrives late", func() bool { return f.Proxy.Count(evals) > before })
		require.NoError(t, hold.Unlock(context.Background()))
		require.NoError(t, testkit.Within(t, "the shutdown is over", stopped))
		sent := f.Proxy.Count(evals)
		require.ErrorIs(t, acquire(t.Context()), rlock.ErrClosed)
		require.Equal(t, sent, f.Proxy.Count(evals), "a later call sets nothing up")
	})
}

func TestACancellationOfASetUpAfterASilenceIsAnOutage(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	settingUp(t, timeout, func(t *testing.T, f *testkit.Faulty, _ string, acquire acquire) {
		t.Helper()
		f.Proxy.Freeze()
		for _, rounds := range []float64{0.95, 1.05, 2.1, 3.1} {
			ctx, cancel := context.WithCancelCause(t.Context())
			because := errors.New("because")
			time.AfterFunc(time.Duration(rounds*float64(timeout)), func() { cancel(because) })
			err := acquire(ctx)
			require.ErrorIs(t, err, rlock.ErrUnavailable, "after %v command timeouts", rounds)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, because)
		}
	})
}

// readOnly makes the server a replica of nobody.
func readOnly(t *testing.T, f *testkit.Faulty) {
	t.Helper()
	require.NoError(t, f.Direct.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
}

func TestASingleAttemptTriesASetUpOnce(t *testing.T) {
	t.Parallel()
	settingUp(t, testkit.ALongTime, func(t *testing.T, f *testkit.Faulty, _ string, acquire acquire) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testkit.ALongTime)
		defer cancel()
		readOnly(t, f)
		for _, ctx := range []context.Context{t.Context(), ctx} {
			passed := redistest.Stopwatch(t)
			err := acquire(ctx, rlock.Wait(0))
			require.ErrorIs(t, err, rlock.ErrUnavailable)
			require.ErrorContains(t, err, "READONLY")
			require.NotContains(t, err.Error(), "outcome unknown", "a set-up does not count")
			require.Less(t, passed(), testkit.ALongTime/10)
		}
	})
}

func TestACallThatCountsOnceSaysWhyItsContextEnded(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	readOnly(t, f)
	latch, plain := f.Client.NewCountDownLatch(testkit.NewName()), f.Client.NewPlainSemaphore(testkit.NewName())
	for what, call := range map[string]func(ctx context.Context) error{
		"TrySetCount": func(ctx context.Context) error { return testkit.Second(latch.TrySetCount(ctx, 1)) },
		"AddPermits":  func(ctx context.Context) error { return plain.AddPermits(ctx, 1) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, rlock.ErrUnavailable, what)
		require.ErrorIs(t, err, context.DeadlineExceeded, what)
		require.ErrorContains(t, err, "READONLY", what)
	}
}

// The first waiter does not set the semaphore up. The one behind it does, when it is gone.
func TestASemaphoreIsSetUpForAWaiterWithoutATotal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	for sort, semaphore := range sorts {
		logger, _ := testkit.Recording()
		client := testkit.NewClient(t, rdb, logger, tune.PollInterval(200*time.Millisecond))
		name := testkit.NewName()
		with, without := semaphore(client, name), permits(leased{client.NewSemaphore(name)})
		if sort == "plain" {
			without = plain{client.NewPlainSemaphore(name)}
		}
		giveBack := testkit.Must(with.take(t.Context(), permitsInAll))
		var got []<-chan error
		for i, p := range []permits{without, with} {
			got = append(got, testkit.Async(func() error {
				giveBack, err := p.take(t.Context(), 1)
				if err != nil {
					return err
				}
				return giveBack(t.Context())
			}))
			testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == i+1 })
		}
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		for _, got := range got {
			require.NoError(t, testkit.Within(t, sort, got))
		}
		_ = giveBack(t.Context()) // it was lost
	}
}

// An Await asks for a count, and a set-up for no lock: no replica acknowledges them.
func TestWhatNoReplicaAcknowledgesDoesNotWaitForOne(t *testing.T) {
	t.Parallel()
	const timeout, acks = 6 * time.Second, 3 * time.Second
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(timeout), rlock.WithReplicaAcks(1, acks))
	f.Proxy.Freeze()
	for what, call := range map[string]func(rlock.AcquireOption) error{
		"await": func(o rlock.AcquireOption) error {
			return f.Client.NewCountDownLatch(testkit.NewName()).Await(t.Context(), o)
		},
		"set up": func(o rlock.AcquireOption) error {
			return testkit.Second(f.Client.NewSemaphore(testkit.NewName(), rlock.Total(1)).Acquire(t.Context(), o))
		},
	} {
		passed := redistest.Stopwatch(t)
		require.ErrorIs(t, call(rlock.Wait(300*time.Millisecond)), rlock.ErrUnavailable, what)
		require.Less(t, passed(), acks, "%s returns after a fifth of the command timeout", what)
	}
}

func TestAnAwaitThatMayNotWaitAsksOnce(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(testkit.ALongTime))
	f.Server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.ALongTime)
	defer cancel()
	passed := redistest.Stopwatch(t)
	require.ErrorIs(t, f.Client.NewCountDownLatch(testkit.NewName()).Await(ctx, rlock.Wait(0)), rlock.ErrUnavailable)
	require.Less(t, passed(), testkit.ALongTime/2)
}

// refusesLate checks that the refusal of a semaphore that is gone stands, although there is no time left to set it up again. Redis answers
// after 1.2 s. An attempt has a fifth of the command timeout, and the time for acknowledgements.
func refusesLate(t *testing.T, sorts map[string]func(*rlock.Client, string) permits, replicas int, opts ...rlock.Option) {
	t.Helper()
	for sort, semaphore := range sorts {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			f, name := testkit.NewFaulty(t, &redis.Options{}, opts...), testkit.NewName()
			for range replicas {
				redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(f.Server.Port))
			}
			testkit.Eventually(t, "the replicas follow", func() bool { return testkit.Replicated(t, f.Direct, name, int64(replicas)) })
			s := semaphore(f.Client, name)
			require.NoError(t, testkit.Must(s.take(t.Context(), 1))(t.Context()))
			require.NoError(t, f.Direct.Del(t.Context(), f.Direct.Keys(t.Context(), "*"+name+"*").Val()...).Err())
			f.Proxy.Delay(1200 * time.Millisecond)
			_, err := s.take(t.Context(), 1, rlock.Wait(300*time.Millisecond))
			f.Proxy.Delay(0)
			require.ErrorIs(t, err, rlock.ErrNoPermits)
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
		})
	}
}

// The answer is in time only because replicas may have to acknowledge the acquisition.
func TestALateAnswerThatThereAreNoPermitsIsARefusal(t *testing.T) {
	t.Parallel()
	refusesLate(t, map[string]func(*rlock.Client, string) permits{"leased": sorts["leased"]}, 1, rlock.WithReplicaAcks(1, 2*time.Second))
}

// The wait ends when the set-up that follows the refusal has had no answer, but not for long.
func TestASetUpThatIsCutOffLeavesTheRefusal(t *testing.T) {
	t.Parallel()
	refusesLate(t, sorts, 0, rlock.WithCommandTimeout(10*time.Second))
}
