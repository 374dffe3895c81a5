package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestExportAndAdoptWithoutAReply have their effect once, however often they are sent, or none: the lock is free then, and a
// command that arrives later takes it from nobody.
func TestExportAndAdoptWithoutAReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	other := testkit.NewClient(t, server.Client(t))
	for _, what := range []string{"once", "no reply", "much later"} {
		for _, op := range []string{"export", "adopt"} {
			t.Run(what+" "+op, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr)
				client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}), rlock.WithCommandTimeout(500*time.Millisecond))
				lock, ctx := client.NewLock(testkit.NewName(), rlock.Fenced()), t.Context()
				same := other.NewLock(lock.Name(), rlock.Fenced())
				hold := testkit.Must(lock.Acquire(ctx))
				ticket := ""
				if op == "adopt" {
					ticket = testkit.Must(hold.Export(ctx))
				}
				var fault *redistest.Fault
				switch what {
				case "once":
					fault = proxy.DropReply(1, testkit.Runs(op))
				case "no reply":
					fault = proxy.HoldReply(-1, testkit.Runs(op))
				default:
					fault = proxy.HoldRequest(-1, testkit.Runs(op))
				}
				var err error
				var adopted *rlock.Hold
				if op == "export" {
					ticket, err = hold.Export(ctx, rlock.Lease(time.Minute))
				} else {
					adopted, err = lock.Adopt(ctx, ticket)
				}
				if what == "once" {
					require.NoError(t, err)
					require.True(t, testkit.Must(same.IsLocked(ctx)))
					if op == "export" {
						adopted = testkit.Must(same.Adopt(ctx, ticket))
					}
					require.NoError(t, adopted.Unlock(ctx))
					return
				}
				require.ErrorIs(t, err, rlock.ErrUnavailable)
				require.Equal(t, op == "export", ticket == "")
				if op == "adopt" && what == "much later" { // the ticket is not used up yet
					require.True(t, testkit.Must(same.IsLocked(ctx)))
					next := testkit.Must(same.Adopt(ctx, ticket))
					fault.Release()
					require.NoError(t, next.Unlock(ctx))
					return
				}
				require.NoError(t, same.Do(ctx, func(ctx context.Context) error {
					fault.Release()
					return ctx.Err()
				}), "it is free soon")
				redistest.Eventually(t, "nothing is left to do", func() bool { return testkit.Remains(client) == 0 })
				require.False(t, testkit.Must(same.IsLocked(ctx)))
			})
		}
	}
}

// TestExportEndsWithItsContext even if Redis hangs.
func TestExportEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}), rlock.WithCommandTimeout(testkit.Never))
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	fault := proxy.HoldReply(-1, testkit.Runs("export"))
	why := errors.New("the request is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	exporting := testkit.Async(func() error { _, err := hold.Export(ctx); return err })
	redistest.Eventually(t, "it is sent", func() bool { return hold.Err() != nil })
	cancel(why)
	require.ErrorIs(t, testkit.Within(t, "it returns", exporting), why)
	require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
	fault.Release()
	testkit.Eventually(t, "the lock is free", func() bool { return !testkit.Must(lock.IsLocked(t.Context())) })
}

// TestExportUnderItsHoldsContext, which ends because of the export.
func TestExportUnderItsHoldsContext(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for _, kind := range exported {
			lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), testkit.NewName())
			hold := testkit.Must(lock.Acquire(t.Context()))
			ctx, cancel := context.WithTimeout(hold.Context(), time.Minute)
			defer cancel()
			ticket, err := hold.Export(ctx)
			require.NoError(t, err, kind)
			adopted := testkit.Must(lock.Adopt(t.Context(), ticket))
			require.NoError(t, adopted.Unlock(t.Context()))
		}
	})
}

// TestExportBehindAReentry whose reply does not come ends with its context, and the hold goes on, because nothing was sent.
func TestExportBehindAReentry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}), rlock.WithCommandTimeout(testkit.Never))
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	fault := proxy.HoldReply(1, testkit.Runs("count"))
	again := testkit.Async(func() error {
		hold, err := lock.Acquire(hold.Context())
		if err != nil {
			return err
		}
		return hold.Unlock(t.Context())
	})
	<-fault.Met()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	exporting := testkit.Async(func() error { _, err := hold.Export(ctx); return err })
	require.ErrorIs(t, testkit.Within(t, "it returns", exporting), context.DeadlineExceeded)
	require.NoError(t, hold.Err())
	fault.Release()
	require.NoError(t, testkit.Within(t, "the other one re-enters", again))
	require.NotEmpty(t, testkit.Must(hold.Export(t.Context())))
}

// TestExportBetweenTries ends with its context, too.
func TestExportBetweenTries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr}), rlock.WithCommandTimeout(testkit.Never))
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	fault := proxy.DropReply(-1, testkit.Runs("export"))
	defer fault.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
	defer cancel()
	exporting := testkit.Async(func() error { _, err := hold.Export(ctx); return err })
	err := testkit.Within(t, "it returns", exporting)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, rlock.ErrUnavailable)
}

// TestAdoptBesideAWaiter of the same owner, which waits for the lock of the ticket, does not wait for that.
func TestAdoptBesideAWaiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
	lock := client.NewLock(testkit.NewName())
	ticket := testkit.Must(testkit.Must(other.NewLock(lock.Name()).Acquire(t.Context())).Export(t.Context()))
	owner := rlock.WithOwner(t.Context())
	ctx, stop := context.WithCancel(owner)
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
	_, err := lock.Adopt(owner, ticket)
	require.ErrorIs(t, err, rlock.ErrReentered)
	stop()
	require.ErrorIs(t, testkit.Within(t, "it leaves", waiting), rlock.ErrNotAcquired)
	require.NoError(t, testkit.Must(lock.Adopt(owner, ticket)).Unlock(owner))
}

// TestExportWhileRedisIsFull works, and so does an adoption.
func TestExportWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	for _, kind := range exported {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		lock := testkit.MakeLock(kind, client, testkit.NewName())
		hold := testkit.Must(lock.Acquire(t.Context()))
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
		ticket, err := hold.Export(t.Context())
		require.NoError(t, err, kind)
		adopted, err := lock.Adopt(t.Context(), ticket)
		require.NoError(t, err, kind)
		require.NoError(t, adopted.Unlock(t.Context()), kind)
	}
}
