package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestHandOversAreBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		bound rlock.Option
		hold  time.Duration
		turns int // of this process before another process has its turn
	}{
		"in number":    {tune.HandOver(3, time.Hour), 0, 4},
		"in time":      {tune.HandOver(1000, 50*time.Millisecond), 60 * time.Millisecond, 1},
		"off by count": {tune.HandOver(0, time.Hour), 0, 1},
		"off by time":  {tune.HandOver(1000, 0), 0, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			testkit.EveryKind(t, func(t *testing.T, kind string) {
				t.Helper()
				server := redistest.Start(t)
				client := testkit.NewClient(t, server.Client(t), c.bound, tune.StandBack(testkit.ALongTime), tune.PollInterval(time.Hour))
				ours := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, client, testkit.NewName()))
				theirs := testkit.NewWaiterQueue(t, testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), ours.Lock.Name()))
				hold := testkit.Must(ours.Lock.Acquire(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 8 {
					ours.Join(ctx)
				}
				theirs.Join(t.Context())
				testkit.AwaitSleepers(t, server.Client(t), 5, ours.Lock, theirs.Lock) // each head asks again after it subscribed
				turns, other := 0, false
				for ; !other; turns++ {
					<-time.After(c.hold)
					require.NoError(t, hold.Unlock(t.Context()))
					hold, other = nextOf(t, ours, theirs)
				}
				if testkit.Lined(kind) { // one waiter of this process may stand in the line before the other process
					require.LessOrEqual(t, turns, c.turns+1)
				} else {
					require.Equal(t, c.turns, turns)
				}
				require.NoError(t, hold.Unlock(t.Context()))
				require.NoError(t, ours.Next().Unlock(t.Context()), "this process waits no longer than that turn takes")
			})
		})
	}
}

// nextOf returns the hold of the next waiter of two queues, and whether it is of the second one.
func nextOf(t *testing.T, one, two *testkit.WaiterQueue) (*rlock.Hold, bool) {
	t.Helper()
	select {
	case hold := <-one.Got:
		return hold, false
	case hold := <-two.Got:
		return hold, true
	case <-time.After(testkit.ALongTime):
		require.Fail(t, "no waiter acquires the lock")
		return nil, false
	}
}

func TestAReleasingProcessDoesNotTakeTheLockStraightBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := testkit.NewName()
	one := testkit.NewClient(t, server.Client(t), tune.PollInterval(time.Hour)).NewLock(name)
	theirs := testkit.NewWaiterQueue(t, testkit.NewClient(t, server.Client(t)).NewLock(name))
	require.NoError(t, one.Lock(t.Context()))
	for range 20 {
		theirs.Join(t.Context())
		testkit.Eventually(t, "the other process stands in the line", func() bool { return testkit.Rests(theirs.Lock) })
		require.NoError(t, one.Unlock(t.Context()))
		again := testkit.Async(func() error { return one.Lock(t.Context()) })
		hold := theirs.Next()
		testkit.Eventually(t, "the first process stands in the line", func() bool { return testkit.Rests(one) })
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the first process has its turn again", again))
	}
}

func TestAReleaserStandsBackOnlyForListeners(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, tune.HandOver(0, 0), tune.StandBack(time.Hour), tune.PollInterval(time.Hour))
	queue := testkit.NewWaiterQueue(t, testkit.MakeLock("write", client, testkit.NewName()))
	hold := testkit.Must(queue.Lock.Acquire(t.Context()))
	queue.Join(t.Context())
	testkit.AwaitSleepers(t, rdb, 2, queue.Lock)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, queue.Next().Unlock(t.Context()))
}

func TestTheTimeLimitCoversSuccessiveHandOvers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t), tune.HandOver(1000, 100*time.Millisecond), tune.StandBack(testkit.ALongTime), tune.PollInterval(time.Hour))
	ours := testkit.NewWaiterQueue(t, testkit.MakeLock("write", client, testkit.NewName()))
	theirs := testkit.NewWaiterQueue(t, testkit.MakeLock("write", testkit.NewClient(t, server.Client(t)), ours.Lock.Name()))
	hold := testkit.Must(ours.Lock.Acquire(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 8 {
		ours.Join(ctx)
	}
	theirs.Join(t.Context())
	testkit.AwaitSleepers(t, server.Client(t), 5, ours.Lock, theirs.Lock) // each head asks again after it subscribed
	for range 4 {
		<-time.After(40 * time.Millisecond)
		require.NoError(t, hold.Unlock(t.Context()))
		select {
		case hold = <-ours.Got:
		case hold := <-theirs.Got:
			require.NoError(t, hold.Unlock(t.Context()))
			return
		}
	}
	_ = hold.Unlock(t.Context())
	t.Error("the other process got no turn")
}

func TestAShortWaitDoesNotStandBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t), tune.HandOver(0, 0), tune.StandBack(testkit.ALongTime))
	lock := testkit.MakeLock("write", client, testkit.NewName())
	sub := server.Client(t).Subscribe(t.Context(), testkit.Channel(lock))
	defer sub.Close()
	testkit.Must(sub.Receive(t.Context()))
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	require.True(t, testkit.Must(lock.TryLock(t.Context(), rlock.Wait(500*time.Millisecond))))
	require.NoError(t, lock.Unlock(t.Context()))
}
