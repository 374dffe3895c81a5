package rlockcron_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlockcron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// skewed is a clock that is ahead.
type skewed struct {
	clockwork.Clock

	ahead time.Duration
}

func (s skewed) Now() time.Time { return s.Clock.Now().Add(s.ahead) }

// runs has the times of the runs of a job, on all instances.
type runs struct {
	mu sync.Mutex
	at []time.Time
	by []int
}

func (r *runs) add(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.by = append(r.at, time.Now()), append(r.by, by)
}

func (r *runs) all() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time{}, r.at...)
}

func newClient(t *testing.T, rdb redis.UniversalClient) *rlock.Client {
	t.Helper()
	locks, err := rlock.New(rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// instances starts three schedulers, whose clocks differ, with a job for the seconds of an expression.
func instances(t *testing.T, seconds string, option func(instance int) gocron.SchedulerOption) *runs {
	t.Helper()
	var r runs
	for i, ahead := range []time.Duration{0, 120 * time.Millisecond, -150 * time.Millisecond} {
		scheduler, err := gocron.NewScheduler(option(i), gocron.WithClock(skewed{clockwork.NewRealClock(), ahead}))
		require.NoError(t, err)
		_, err = scheduler.NewJob(gocron.CronJob(seconds+" * * * * *", true), gocron.NewTask(func() { r.add(i) }), gocron.WithName("report"))
		require.NoError(t, err)
		scheduler.Start()
		t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
	}
	return &r
}

// TestLocker has each run once, although the jobs are shorter than the clocks differ. The times are such that a machine may stand still for
// a second.
func TestLocker(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := instances(t, "*/3", func(int) gocron.SchedulerOption {
		locker, err := rlockcron.NewLocker(newClient(t, server.Client(t)), "shop:", 3*time.Second, 1500*time.Millisecond)
		require.NoError(t, err)
		return gocron.WithDistributedLocker(locker)
	})
	redistest.EventuallyWithin(t, 30*time.Second, "four runs", func() bool { return len(r.all()) >= 4 })
	at := r.all()
	for i := range at[1:] {
		require.Greater(t, at[i+1].Sub(at[i]), 1600*time.Millisecond, "a run came twice: %v", at)
		require.Less(t, at[i+1].Sub(at[i]), 4500*time.Millisecond, "a run was skipped: %v", at)
	}
}

// told tells the errors of a locker.
type told struct {
	gocron.Locker

	failed chan error
}

func (l told) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.Locker.Lock(ctx, key)
	l.failed <- err
	return lock, err
}

// TestNoJobRunsWithoutItsLock has Redis be away, so that nobody gets a lock.
func TestNoJobRunsWithoutItsLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker, err := rlockcron.NewLocker(newClient(t, server.Client(t)), "shop:", time.Second, 700*time.Millisecond)
	require.NoError(t, err)
	server.Kill()
	failed, ran := make(chan error, 99), make(chan struct{}, 99)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(told{locker, failed}))
	require.NoError(t, err)
	_, err = scheduler.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func() { ran <- struct{}{} }), gocron.WithName("report"))
	require.NoError(t, err)
	scheduler.Start()
	t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
	for range 2 {
		select {
		case err := <-failed:
			require.ErrorIs(t, err, rlock.ErrUnavailable)
		case <-time.After(20 * time.Second):
			t.Fatal("no run was due")
		}
	}
	require.Empty(t, ran)
}

// TestADeathCostsFewRuns has an instance die in its run, and leave the lock to its lease.
func TestADeathCostsFewRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var lockers [2]*rlockcron.Locker
	var clients [2]*rlock.Client
	for i := range lockers {
		clients[i] = newClient(t, server.Client(t))
		var err error
		lockers[i], err = rlockcron.NewLocker(clients[i], "shop:", 3*time.Second, time.Second)
		require.NoError(t, err)
	}
	_, err := lockers[0].Lock(t.Context(), "report")
	require.NoError(t, err)
	require.NoError(t, clients[0].Close(), "it renews nothing any more")
	_, err = lockers[1].Lock(t.Context(), "report")
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	var lock gocron.Lock
	redistest.EventuallyWithin(t, 20*time.Second, "another instance has its turn", func() bool {
		lock, err = lockers[1].Lock(t.Context(), "report")
		return err == nil
	})
	require.NoError(t, lock.Unlock(t.Context()))
}

// TestElector has the leader run all.
func TestElector(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() { cancel(); ended.Wait() })
	r := instances(t, "*", func(int) gocron.SchedulerOption {
		e := newClient(t, server.Client(t)).NewElection("shop:cron")
		ended.Go(func() {
			_ = e.Run(ctx, func(ctx context.Context, _ rlock.Token) error { <-ctx.Done(); return context.Cause(ctx) })
		})
		return gocron.WithDistributedElector(rlockcron.NewElector(e))
	})
	redistest.EventuallyWithin(t, 30*time.Second, "three runs", func() bool { return len(r.all()) >= 3 })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, by := range r.by {
		require.Equal(t, r.by[0], by)
	}
}

func TestWhatCannotBe(t *testing.T) {
	t.Parallel()
	locks := newClient(t, redistest.Embedded(t))
	for _, c := range []struct {
		locks             *rlock.Client
		prefix            string
		interval, atLeast time.Duration
	}{
		{nil, "a:", time.Minute, time.Second},
		{locks, "", time.Minute, time.Second},
		{locks, "a:", time.Minute, 55 * time.Second},
		{locks, "a:", time.Minute, 0},
		{locks, "a:", 0, time.Second},
	} {
		_, err := rlockcron.NewLocker(c.locks, c.prefix, c.interval, c.atLeast)
		require.ErrorIs(t, err, rlock.ErrInvalidOption, fmt.Sprint(c))
	}
	require.ErrorIs(t, rlockcron.NewElector(locks.NewElection("a")).IsLeader(t.Context()), rlockcron.ErrNotLeader)
	locker, err := rlockcron.NewLocker(locks, "a:", time.Minute, time.Second)
	require.NoError(t, err)
	_, err = locker.Lock(t.Context(), "job")
	require.NoError(t, err)
	lock, err := locker.Lock(t.Context(), "job")
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	require.Nil(t, lock)
}
