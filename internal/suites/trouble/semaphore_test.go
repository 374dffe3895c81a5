package trouble

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestSettingUpTakesNoLongerThanTheWait has a server hang when the first acquisition sets a semaphore up.
func TestSettingUpTakesNoLongerThanTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const timeout = 20 * time.Second
	sem := testkit.NewClient(t, server.Client(t), rlock.WithCommandTimeout(timeout)).NewSemaphore(testkit.NewName(), rlock.Total(1))
	server.Pause()
	t.Cleanup(server.Resume)
	passed := redistest.Stopwatch(t)
	_, err := sem.TryAcquire(t.Context())
	require.ErrorIs(t, err, rlock.ErrUnavailable)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	require.ErrorContains(t, err, "rlock: try acquire ")
	require.Less(t, passed(), timeout*3/4)
	server.Resume()
	hold := testkit.Must(sem.Acquire(t.Context()))
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestPermitsOnABadNetwork does what it says for semaphores with leases.
func TestPermitsOnABadNetwork(t *testing.T) {
	t.Parallel()
	onABadNetwork(t, sorts["leased"], rlock.Lease(testkit.Never))
}

// TestPlainPermitsOnABadNetwork does so for plain semaphores.
func TestPlainPermitsOnABadNetwork(t *testing.T) {
	t.Parallel()
	onABadNetwork(t, sorts["plain"])
}

// permits is what both kinds of semaphore have.
type permits interface {
	// take acquires n permits, and returns what gives them back.
	take(ctx context.Context, n int, opts ...rlock.AcquireOption) (giveBack func(context.Context) error, err error)
	AvailablePermits(ctx context.Context) (int, error)
}

type leased struct{ *rlock.Semaphore }

func (s leased) take(ctx context.Context, n int, opts ...rlock.AcquireOption) (func(context.Context) error, error) {
	hold, err := s.Acquire(ctx, append(opts, rlock.Permits(n))...)
	return hold.Unlock, err
}

type plain struct{ *rlock.PlainSemaphore }

func (s plain) take(ctx context.Context, n int, opts ...rlock.AcquireOption) (func(context.Context) error, error) {
	err := s.Acquire(ctx, append(opts, rlock.Permits(n))...)
	return func(ctx context.Context) error { return s.Release(ctx, n) }, err
}

const permitsInAll = 5

// onABadNetwork acquires and gives back permits while a fifth of the commands lose their replies, and a fifth are late, many of them
// after their callers have left. There are never more holders than permits, and at the end all permits are free.
func onABadNetwork(t *testing.T, semaphore func(*rlock.Client, string) permits, opts ...rlock.AcquireOption) {
	t.Helper()
	const callers, calls, timeout = 10, 25, 500 * time.Millisecond
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(timeout), tune.PollInterval(200*time.Millisecond))
	name := testkit.NewName()
	direct := semaphore(testkit.NewClient(t, f.Direct), name)
	require.Equal(t, permitsInAll, testkit.Must(direct.AvailablePermits(t.Context())))

	scripts := func(c redistest.Command) bool { return c[0] == "evalsha" }
	lost := f.Proxy.DropReply(-1, func(c redistest.Command) bool { return scripts(c) && rand.N(5) == 0 })
	ctx, stop := context.WithCancel(t.Context())
	var late sync.WaitGroup
	delivered := 0
	late.Go(func() {
		for ctx.Err() == nil {
			fault := f.Proxy.HoldRequest(-1, func(c redistest.Command) bool { return scripts(c) && rand.N(5) == 0 })
			select {
			case <-time.After(rand.N(2 * timeout)): // many of the callers have left by then
			case <-ctx.Done():
			}
			delivered += len(fault.Met())
			fault.Release()
		}
	})
	var inside, most, acquired atomic.Int64
	var all sync.WaitGroup
	for range callers {
		sem := semaphore(f.Client, name)
		all.Go(func() {
			for range calls {
				n := 1 + rand.N(3)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond+rand.N(timeout))
				giveBack, err := sem.take(ctx, n, slices.Clone(opts)...)
				cancel()
				if err != nil {
					continue
				}
				acquired.Add(1)
				for now, high := inside.Add(int64(n)), most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
				}
				<-time.After(time.Millisecond)
				inside.Add(-int64(n))
				_ = giveBack(context.Background()) // it may be unknown
			}
		})
	}
	all.Wait()
	stop()
	late.Wait()
	lost.Release()
	require.LessOrEqual(t, most.Load(), int64(permitsInAll))
	t.Logf("%d of %d calls acquired; %d replies were lost, %d commands were late", acquired.Load(), callers*calls, len(lost.Met()), delivered)
	require.Positive(t, acquired.Load())
	require.Positive(t, delivered)
	redistest.EventuallyWithin(t, time.Minute, "nothing is in doubt", func() bool { return f.Client.Stats().InDoubt == 0 })
	redistest.EventuallyWithin(t, time.Minute, "all permits are free", func() bool {
		return testkit.Must(direct.AvailablePermits(t.Context())) == permitsInAll
	})
}
