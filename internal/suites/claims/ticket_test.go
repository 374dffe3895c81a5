package claims

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/observe"
)

// exported are the kinds whose holds can be exported.
var exported = []string{"lock", "fenced", "spin", "fair", "fenced fair", "write", "fenced write"}

// TestATicketIsAdopted by another process, once, with no moment in which anybody else can have the lock.
func TestATicketIsAdopted(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for _, kind := range exported {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				from, to, rival := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
				name, ctx := testkit.NewName(), t.Context()
				hold := testkit.Must(testkit.MakeLock(kind, from, name).Acquire(ctx))
				rivals, stop := context.WithCancel(ctx)
				var got [2]<-chan error
				for i, by := range []*rlock.Client{rival, from} { // from has it in its local queue
					lock := testkit.MakeLock(kind, by, name)
					got[i] = testkit.Async(func() error { return lock.Lock(rivals) })
				}
				testkit.Eventually(t, "they wait", func() bool { return rival.Stats().Waiting == 1 && from.Stats().Waiting == 1 })

				ticket := testkit.Must(hold.Export(ctx))
				require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
				require.NotErrorIs(t, hold.Err(), rlock.ErrLost)
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
				require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrNotHeld)
				_, err := hold.Export(ctx)
				require.ErrorIs(t, err, rlock.ErrNotHeld)
				require.ErrorIs(t, hold.Extend(ctx, time.Minute), rlock.ErrNotHeld)

				lock := testkit.MakeLock(kind, to, name)
				require.False(t, testkit.Must(lock.TryLock(ctx)))
				adopted := testkit.Must(lock.Adopt(ctx, ticket))
				require.NoError(t, adopted.Err())
				require.Equal(t, hold.Token() > 0, adopted.Token() > hold.Token())
				require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrNotHeld)
				require.NoError(t, adopted.Err())
				for _, by := range []*rlock.Client{from, to, rival} {
					_, err := testkit.MakeLock(kind, by, name).Adopt(ctx, ticket)
					require.ErrorIs(t, err, rlock.ErrNotHeld)
				}
				require.NoError(t, lock.Do(adopted.Context(), func(context.Context) error { return nil }), "it re-enters")
				require.NoError(t, adopted.Extend(ctx, time.Minute))
				stop()
				for _, err := range got {
					require.ErrorIs(t, testkit.Within(t, "the rival gives up", err), rlock.ErrNotAcquired)
				}
				require.NoError(t, adopted.Unlock(ctx))
				testkit.Eventually(t, "it is free", func() bool { return !testkit.Must(lock.IsLocked(ctx)) }) // the rivals have left
				_, err = lock.Adopt(ctx, ticket)
				require.ErrorIs(t, err, rlock.ErrNotHeld)
				require.False(t, testkit.Must(lock.IsLocked(ctx)))
			})
		}
	})
}

// TestATicketLasts exactly as long as its lease, and the lock is free after it.
func TestATicketLasts(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, kind := range exported {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			client, ctx := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(20*time.Second)), t.Context()
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			for _, c := range []struct {
				of, export []rlock.AcquireOption
				want       time.Duration
			}{
				{nil, nil, 20 * time.Second},
				{[]rlock.AcquireOption{rlock.RenewedLease(7 * time.Second)}, nil, 7 * time.Second},
				{[]rlock.AcquireOption{rlock.Lease(time.Minute)}, nil, 20 * time.Second},
				{[]rlock.AcquireOption{rlock.Lease(time.Hour)}, []rlock.AcquireOption{rlock.Lease(3 * time.Second)}, 3 * time.Second},
				{nil, []rlock.AcquireOption{rlock.Lease(time.Hour)}, time.Hour},
			} {
				hold := testkit.Must(lock.Acquire(ctx, c.of...))
				ticket := testkit.Must(hold.Export(ctx, c.export...))
				require.InDelta(t, c.want, testkit.Must(lock.TTL(ctx)), float64(2*time.Second))
				adopted := testkit.Must(lock.Adopt(ctx, ticket, rlock.Lease(time.Minute)))
				require.InDelta(t, time.Minute, testkit.Must(lock.TTL(ctx)), float64(2*time.Second))
				require.NoError(t, adopted.Unlock(ctx))
			}
			hold := testkit.Must(lock.Acquire(ctx))
			began := time.Now()
			ticket := testkit.Must(hold.Export(ctx, rlock.Lease(300*time.Millisecond)))
			redistest.Eventually(t, "it is free", func() bool { return testkit.Must(lock.TryLock(ctx)) })
			require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
			_, err := lock.Adopt(ctx, ticket)
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.True(t, testkit.Must(lock.IsLocked(ctx)), "the next owner keeps it")
			require.NoError(t, lock.Unlock(ctx))

			hold = testkit.Must(lock.Acquire(ctx))
			ticket = testkit.Must(hold.Export(ctx))
			require.True(t, testkit.Must(lock.ForceUnlock(ctx)))
			_, err = lock.Adopt(ctx, ticket)
			require.ErrorIs(t, err, rlock.ErrNotHeld)
		})
	}
}

// TestWhatIsNotExported goes on, and nothing was sent about it.
func TestWhatIsNotExported(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, ctx := testkit.NewClient(t, rdb), t.Context()
		refused := func(what string, hold *rlock.Hold, want error, opts ...rlock.AcquireOption) {
			t.Helper()
			ticket, err := hold.Export(ctx, opts...)
			require.ErrorIs(t, err, want, what)
			require.NotContains(t, err.Error(), "\n", "names are quoted")
			require.Empty(t, ticket, what)
			require.NoError(t, hold.Err(), what)
		}
		lock := client.NewLock(testkit.NewName()+"\n", rlock.Fenced())
		hold := testkit.Must(lock.Acquire(ctx))
		for what, opt := range map[string]rlock.AcquireOption{
			"renewed": rlock.RenewedLease(time.Second), "wait": rlock.Wait(0), "permits": rlock.Permits(1), "at least": rlock.AtLeast(time.Second),
			"lease": rlock.Lease(-1), "nil": nil,
		} {
			refused(what, hold, rlock.ErrInvalidOption, opt)
		}
		again := testkit.Must(lock.Acquire(hold.Context()))
		refused("re-entered", hold, rlock.ErrReentered)
		refused("re-entry", again, rlock.ErrReentered)
		require.NoError(t, again.Unlock(ctx))
		borrowed, ok := rlock.HoldFrom(hold.Context(), lock)
		require.True(t, ok)
		refused("borrowed", borrowed, rlock.ErrInvalidOption)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := hold.Export(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Unlock(ctx))

		rw := client.NewRWLock(testkit.NewName())
		read := testkit.Must(rw.Reader().Acquire(ctx))
		refused("read", read, rlock.ErrInvalidOption)
		require.NoError(t, read.Unlock(ctx))
		write := testkit.Must(rw.Writer().Acquire(ctx))
		read = testkit.Must(rw.Reader().Acquire(write.Context()))
		refused("own reads", write, rlock.ErrInvalidOption)
		require.NoError(t, read.Unlock(ctx))
		require.NotEmpty(t, testkit.Must(write.Export(ctx)))

		kept := testkit.Must(client.NewLock(testkit.NewName()).Acquire(ctx, rlock.AtLeast(time.Millisecond)))
		refused("at least", kept, rlock.ErrInvalidOption)
		require.NoError(t, kept.Unlock(ctx))
		group := testkit.Must(rlock.NewMultiLock(client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())).Acquire(ctx))
		refused("group", group, rlock.ErrInvalidOption)
		require.NoError(t, group.Unlock(ctx))
		permit := testkit.Must(client.NewSemaphore(testkit.NewName(), rlock.Total(1)).Acquire(ctx))
		refused("permit", permit, rlock.ErrInvalidOption)
		require.NoError(t, permit.Unlock(ctx))
		_, err = (*rlock.Hold)(nil).Export(ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
	})
}

// TestWhatIsNotAdopted is refused before anything is sent, and no error quotes the ticket.
func TestWhatIsNotAdopted(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client, ctx := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"})), t.Context()
	name := testkit.NewName()
	tickets := make(map[string]string)
	for _, kind := range exported {
		lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb), name)
		tickets[kind] = testkit.Must(testkit.Must(lock.Acquire(ctx)).Export(ctx))
		require.True(t, testkit.Must(lock.ForceUnlock(ctx)))
	}
	refused := func(lock *rlock.Lock, ticket string, opts ...rlock.AcquireOption) {
		t.Helper()
		_, err := lock.Adopt(ctx, ticket, opts...)
		require.ErrorIs(t, err, rlock.ErrInvalidOption)
		require.NotContains(t, err.Error(), "rlock-ticket")
		if len(ticket) > 20 {
			require.NotContains(t, err.Error(), ticket[16:])
		}
	}
	for kind, ticket := range tickets {
		for _, other := range exported {
			if other != kind {
				refused(testkit.MakeLock(other, client, name), ticket)
			}
		}
		refused(testkit.MakeLock(kind, client, name+"2"), ticket)
		lock := testkit.MakeLock(kind, client, name)
		for _, opt := range []rlock.AcquireOption{rlock.Wait(time.Second), rlock.AtLeast(time.Second), rlock.Permits(1), nil} {
			refused(lock, ticket, opt)
		}
		for _, wrong := range []string{"", "x", "rlock-ticket-1.", ticket[1:], ticket[:len(ticket)-1], ticket + "A", strings.ToUpper(ticket)} {
			refused(lock, wrong)
		}
	}
	refused(client.NewRWLock(name).Reader(), tickets["write"])
	refused(nil, tickets["lock"])
}

// TestAdoptDoesNotReenter, and leaves what the owner has and the ticket as they are.
func TestAdoptDoesNotReenter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client, other, ctx := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb), t.Context()
	lock := client.NewLock(testkit.NewName())
	ticket := testkit.Must(testkit.Must(other.NewLock(lock.Name()).Acquire(ctx)).Export(ctx, rlock.Lease(200*time.Millisecond)))
	hold := testkit.Must(lock.Acquire(ctx))
	_, err := lock.Adopt(hold.Context(), ticket)
	require.ErrorIs(t, err, rlock.ErrReentered)
	_, err = lock.Adopt(ctx, ticket)
	require.ErrorIs(t, err, rlock.ErrNotHeld)
	require.NoError(t, hold.Unlock(ctx))
}

// TestATicketIsASecret that no log line, error or observer has.
func TestATicketIsASecret(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	log, recorder := testkit.Recording()
	observed, observer := testkit.Observe(t)
	client, ctx := testkit.NewClient(t, rdb, log, observer), t.Context()
	lock := client.NewLock(testkit.NewName())
	ticket := testkit.Must(testkit.Must(lock.Acquire(ctx)).Export(ctx))
	hold := testkit.Must(lock.Adopt(ctx, ticket))
	require.Equal(t, "adopt", observed.Last().Start.Op)
	_, err := lock.Adopt(ctx, ticket)
	require.ErrorIs(t, err, rlock.ErrNotHeld)
	require.NotContains(t, err.Error(), ticket)
	require.Equal(t, observe.OutcomeRefused, observed.Last().End.Outcome)
	require.Zero(t, observed.Last().Start.Wait)
	require.LessOrEqual(t, len(ticket), len(lock.Name())*4/3+150)
	require.NoError(t, hold.Unlock(ctx))
	require.False(t, recorder.Contains(ticket[16:]))
	require.True(t, slices.ContainsFunc(observed.All(), func(o testkit.Observation) bool { return o.Start.Op == "adopt" }))
}

// TestAShutdownExports what it has, and adopts nothing more.
func TestAShutdownExports(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client, other, ctx := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb), t.Context()
	lock := client.NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(ctx))
	down := testkit.Async(func() error { return client.Shutdown(ctx) })
	<-hold.Context().Done()
	ticket := testkit.Must(hold.Export(ctx))
	require.NoError(t, testkit.Within(t, "the shutdown is over", down))
	_, err := lock.Adopt(ctx, ticket)
	require.ErrorIs(t, err, rlock.ErrClosed)
	adopted := testkit.Must(other.NewLock(lock.Name()).Adopt(ctx, ticket))
	require.NoError(t, adopted.Unlock(ctx))
}
