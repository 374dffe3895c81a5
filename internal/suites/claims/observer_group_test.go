package claims

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestARedLockReportsAMemberThatCameBack has a member that was lost reported when the lock has it again: as an event, and not as an
// acquisition of the caller's.
func TestARedLockReportsAMemberThatCameBack(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t), observe, rlock.WithLogger(testkit.Discard))
	lost := client.NewLock(testkit.NewName())
	red := rlock.NewRedLock(client.NewLock(testkit.NewName()), lost, client.NewLock(testkit.NewName()))
	hold := testkit.Must(red.Acquire(t.Context(), rlock.RenewedLease(3*time.Second)))
	testkit.Eventually(t, "all members are held and renewed", func() bool {
		return client.Stats().Held == 3 && client.Stats().Renewals >= 6
	})
	before := len(seen.All())
	require.NoError(t, server.Client(t).Del(t.Context(), lost.Name()).Err())
	seen.AwaitEvent(rlock.EventReacquired, lost.Name()) // on a busy machine, others may have joined late
	require.Len(t, seen.All(), before)
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestARedLockReportsAMemberThatItGetsLater covers members that somebody else had at first. They may be groups.
func TestARedLockReportsAMemberThatItGetsLater(t *testing.T) {
	t.Parallel()
	for what, member := range map[string]func(a, b *rlock.Lock) (rlock.Locker, string){
		"a lock":     func(a, _ *rlock.Lock) (rlock.Locker, string) { return a, a.Name() },
		"a group":    func(a, b *rlock.Lock) (rlock.Locker, string) { return rlock.NewMultiLock(a, b), "multi lock of" },
		"a red lock": func(a, _ *rlock.Lock) (rlock.Locker, string) { return rlock.NewRedLock(a), "red lock of" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			seen, observe := testkit.Observe(t)
			server := redistest.Start(t)
			client := testkit.NewClient(t, server.Client(t), observe, rlock.WithLogger(testkit.Discard))
			a := client.NewLock(testkit.NewName())
			rival := testkit.Must(testkit.NewClient(t, server.Client(t)).NewLock(a.Name()).Acquire(t.Context()))
			m, name := member(a, client.NewLock(testkit.NewName()))
			red := rlock.NewRedLock(client.NewLock(testkit.NewName()), m, client.NewLock(testkit.NewName()))
			hold := testkit.Must(red.Acquire(t.Context(), rlock.RenewedLease(3*time.Second)))
			testkit.Eventually(t, "all members were tried", func() bool {
				return !slices.ContainsFunc(seen.All(), func(s testkit.Observation) bool { return s.End == nil })
			})
			before := len(seen.All())
			require.NoError(t, rival.Unlock(t.Context()))
			require.Contains(t, seen.AwaitEvent(rlock.EventReacquired).Name, name)
			require.Len(t, seen.All(), before)
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}

// TestTheLossOfAGroupIsAnEvent, which its members do not report.
func TestTheLossOfAGroupIsAnEvent(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, observe, rlock.WithLogger(testkit.Discard))
	a, b := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	hold := testkit.Must(rlock.NewMultiLock(a, b).Acquire(t.Context(), rlock.RenewedLease(2*time.Second)))
	require.NoError(t, rdb.Del(t.Context(), a.Name()).Err())
	testkit.Within(t, "the group is lost", hold.Done())
	lost := seen.AwaitEvent(rlock.EventLost)
	require.Contains(t, lost.Name, "multi lock of")
	require.ErrorIs(t, lost.Err, rlock.ErrLost)
	testkit.Eventually(t, "the end is told", func() bool { return seen.All()[0].Hold != nil })
	require.Equal(t, rlock.HoldGone, seen.All()[0].Hold.End)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

// TestAGroupCountsTheAttemptsOfItsMembers, also those of groups among them, and those whose clients are not observed aside.
func TestAGroupCountsTheAttemptsOfItsMembers(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	rdb := redistest.Embedded(t)
	client, other := testkit.NewClient(t, rdb, observe), testkit.NewClient(t, rdb)
	lock := func() rlock.Locker { return client.NewLock(testkit.NewName()) }
	group := rlock.NewMultiLock(rlock.NewMultiLock(lock(), lock()), rlock.NewRedLock(other.NewLock("a:"+testkit.NewName()), lock(), lock()))
	require.NoError(t, group.Lock(t.Context()))
	outer := seen.All()[0]
	require.False(t, outer.Start.Member)
	require.GreaterOrEqual(t, outer.End.Attempts, 3)
	require.NoError(t, group.Unlock(t.Context()))
}

// TestMistakesWithGroupsAreObserved as those with locks are.
func TestMistakesWithGroupsAreObserved(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	client := testkit.NewClient(t, redistest.Embedded(t), observe)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, lock := range []rlock.Locker{client.NewLock(testkit.NewName()), rlock.NewMultiLock(client.NewLock(testkit.NewName()))} {
		require.Error(t, lock.Lock(over))
		require.Equal(t, rlock.OutcomeCanceled, seen.Last().End.Outcome)
		require.Error(t, lock.Lock(t.Context(), rlock.Lease(-1)))
		require.Equal(t, rlock.OutcomeMisused, seen.Last().End.Outcome)
	}
	require.Len(t, seen.All(), 4)
	require.Error(t, rlock.NewMultiLock().Lock(t.Context()))
	require.Error(t, (*rlock.MultiLock)(nil).Lock(t.Context()))
	require.Error(t, rlock.NewRedLock((*rlock.Lock)(nil)).Lock(t.Context()))
}

// TestAnObserverKeepsWhatAnotherOneDrops has a later observer return a context without the values of the first one: P.3.
func TestAnObserverKeepsWhatAnotherOneDrops(t *testing.T) {
	t.Parallel()
	_, observe := testkit.Observe(t) // it fails the test if it misses its values
	drops := rlock.WithObserver(wayward{func(context.Context) context.Context { return context.Background() }})
	client := testkit.NewClient(t, redistest.Embedded(t), observe, drops)
	require.NoError(t, client.NewLock(testkit.NewName()).Do(t.Context(), func(context.Context) error { return nil }))
}

// calls is an observer that notes the order of its calls. AcquireEnd waits until end is closed.
type calls struct {
	end chan struct{}

	mu  sync.Mutex
	all []string
}

func (c *calls) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

func (c *calls) AcquireStart(ctx context.Context, _ rlock.AcquireStartData) context.Context {
	c.add("start")
	return ctx
}

func (c *calls) AcquireEnd(context.Context, rlock.AcquireEndData) {
	c.add("end")
	<-c.end
}
func (c *calls) HoldEnd(context.Context, rlock.HoldEndData) { c.add("hold") }
func (c *calls) ClientStart(*rlock.Client)                  { c.add("client") }
func (c *calls) ClientEnd(*rlock.Client)                    { c.add("over") }

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

// TestAReentryOfARedLockIsObserved even if a member that its owner holds does not reply. Each member has an owner of its own.
func TestAReentryOfARedLockIsObserved(t *testing.T) {
	t.Parallel()
	seen, observe := testkit.Observe(t)
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithLogger(testkit.Discard))
	client := testkit.NewClient(t, f.Direct, observe)
	a, c := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	first := testkit.Must(a.Acquire(t.Context()))
	silent := testkit.Must(f.Lock.Acquire(first.Context()))
	f.Proxy.Freeze()
	hold := testkit.Must(rlock.NewRedLock(a, f.Lock, c).Acquire(silent.Context()))
	groups := slices.DeleteFunc(seen.All(), func(s testkit.Observation) bool { return s.Start.Kind != "red" })
	require.Len(t, groups, 1)
	require.True(t, groups[0].End.Reentry, "its owner had a majority")
	f.Proxy.Thaw()
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, silent.Unlock(t.Context()))
	require.NoError(t, first.Unlock(t.Context()))
}
