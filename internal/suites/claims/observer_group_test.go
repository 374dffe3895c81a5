package claims

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/observe"
)

// TestTheLossOfAGroupIsAnEvent, which the member reports that was lost.
func TestTheLossOfAGroupIsAnEvent(t *testing.T) {
	t.Parallel()
	seen, observing := testkit.Observe(t)
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, observing, rlock.WithLogger(testkit.Discard))
	a, b := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	hold := testkit.Must(rlock.NewMultiLock(a, b).Acquire(t.Context(), rlock.RenewedLease(2*time.Second)))
	require.NoError(t, rdb.Del(t.Context(), a.Name()).Err())
	testkit.Within(t, "the group is lost", hold.Done())
	lost := seen.AwaitEvent(observe.EventLost)
	require.Equal(t, a.Name(), lost.Name)
	require.ErrorIs(t, lost.Err, rlock.ErrLost)
	testkit.Eventually(t, "the end is told", func() bool { return seen.All()[0].Hold != nil })
	require.Equal(t, observe.EndGone, seen.All()[0].Hold.End)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

// TestAGroupCountsTheAttemptsOfItsMembers, those whose clients are not observed aside.
func TestAGroupCountsTheAttemptsOfItsMembers(t *testing.T) {
	t.Parallel()
	seen, observing := testkit.Observe(t)
	rdb := redistest.Embedded(t)
	client, other := testkit.NewClient(t, rdb, observing), testkit.NewClient(t, rdb)
	lock := func() *rlock.Lock { return client.NewLock(testkit.NewName()) }
	group := rlock.NewMultiLock(lock(), other.NewLock("a:"+testkit.NewName()), lock(), lock())
	hold := testkit.Must(group.Acquire(t.Context()))
	outer := seen.All()[0]
	require.False(t, outer.Start.Member)
	require.GreaterOrEqual(t, outer.End.Attempts, 3)
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestMistakesWithGroupsAreObserved as those with locks are.
func TestMistakesWithGroupsAreObserved(t *testing.T) {
	t.Parallel()
	seen, observing := testkit.Observe(t)
	client := testkit.NewClient(t, redistest.Embedded(t), observing)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, lock := range []handles.Any{client.NewLock(testkit.NewName()), rlock.NewMultiLock(client.NewLock(testkit.NewName()))} {
		require.Error(t, testkit.Second(lock.Acquire(over)))
		require.Equal(t, observe.OutcomeCanceled, seen.Last().End.Outcome)
		require.Error(t, testkit.Second(lock.Acquire(t.Context(), rlock.Lease(-1))))
		require.Equal(t, observe.OutcomeMisused, seen.Last().End.Outcome)
	}
	require.Len(t, seen.All(), 4)
	require.Error(t, testkit.Second(rlock.NewMultiLock().Acquire(t.Context())))
	require.Error(t, testkit.Second((*rlock.MultiLock)(nil).Acquire(t.Context())))
	require.Error(t, testkit.Second(rlock.NewRedLock((*rlock.Lock)(nil)).Acquire(t.Context())))
}

// TestAnObserverKeepsWhatAnotherOneDrops has a later observer return a context without the values of the first one: P.3.
func TestAnObserverKeepsWhatAnotherOneDrops(t *testing.T) {
	t.Parallel()
	_, observing := testkit.Observe(t) // it fails the test if it misses its values
	drops := rlock.WithObserver(wayward{start: func(context.Context) context.Context { return context.Background() }})
	client := testkit.NewClient(t, redistest.Embedded(t), observing, drops)
	require.NoError(t, client.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
}

// calls is an observer that notes the order of its calls. AcquireEnd waits until end is closed.
type calls struct {
	observe.Base

	end chan struct{}

	mu  sync.Mutex
	all []string
}

func (c *calls) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

func (c *calls) AcquireStart(ctx context.Context, _ observe.AcquireStart) context.Context {
	c.add("start")
	return ctx
}

func (c *calls) AcquireEnd(context.Context, observe.AcquireEnd) {
	c.add("end")
	<-c.end
}
func (c *calls) HoldEnd(context.Context, observe.HoldEnd) { c.add("hold") }
func (c *calls) ClientStart(observe.Client)               { c.add("client") }
func (c *calls) ClientEnd(observe.Client)                 { c.add("over") }

// TestAClientEndsLast has Close wait for an observer that is slow.
func TestAClientEndsLast(t *testing.T) {
	t.Parallel()
	seen := &calls{end: make(chan struct{})}
	client := testkit.NewClient(t, redistest.Embedded(t), rlock.WithObserver(seen))
	locked := testkit.Async(func() error { return client.NewLock(testkit.NewName()).Lock(t.Context()) })
	testkit.Eventually(t, "the end is told", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return len(seen.all) == 3
	})
	closed := testkit.Async(client.Close)
	testkit.Eventually(t, "the hold is over", func() bool { return client.Stats().Held == 0 })
	close(seen.end)
	require.NoError(t, testkit.Within(t, "it returns", locked))
	require.NoError(t, testkit.Within(t, "Close returns", closed))
	require.Equal(t, []string{"client", "start", "end", "hold", "over"}, seen.all)
}
