package claims

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// pastHold returns the context of a hold that is over, without its end.
func pastHold(t *testing.T, lock handles.Any) (past context.Context) {
	t.Helper()
	require.NoError(t, lock.Do(t.Context(), func(held context.Context) error {
		past = context.WithoutCancel(held)
		return nil
	}))
	return past
}

// TestAnOuterHoldCountsUntilItEndsToo has the inner of two holds end first, and then the outer one.
func TestAnOuterHoldCountsUntilItEndsToo(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName(), rlock.Fenced())
	outer := testkit.Must(lock.Acquire(t.Context()))
	inner := testkit.Must(lock.Acquire(outer.Context()))
	past := context.WithoutCancel(inner.Context())
	require.NoError(t, inner.Unlock(t.Context()))
	require.True(t, testkit.Must(lock.TryLock(past)), "the outer hold goes on")
	require.NoError(t, lock.Unlock(past))
	hold, ok := rlock.HoldFrom(past, lock)
	require.True(t, ok)
	require.NoError(t, hold.Err(), "the hold that counts")
	require.NoError(t, outer.Unlock(t.Context()))

	next := testkit.Must(lock.Acquire(t.Context()))
	require.False(t, testkit.Must(lock.TryLock(past)))
	hold, ok = rlock.HoldFrom(past, lock)
	require.True(t, ok)
	require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
	require.Less(t, hold.Token(), next.Token(), "a stale writer presents its own token")
	require.NoError(t, next.Unlock(t.Context()))
}

// TestAnEnclosingOwnerOutlivesItsHolds has a hold end within WithOwner: the owner goes on.
func TestAnEnclosingOwnerOutlivesItsHolds(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	owner := rlock.WithOwner(t.Context())
	hold := testkit.Must(lock.Acquire(owner))
	past := context.WithoutCancel(hold.Context())
	require.NoError(t, hold.Unlock(t.Context()))
	require.True(t, testkit.Must(lock.TryLock(past)))
	require.True(t, testkit.Must(lock.TryLock(owner)), "one owner")
	require.NoError(t, lock.Unlock(past))
	require.NoError(t, lock.Unlock(past))
	require.ErrorIs(t, lock.Unlock(owner), rlock.ErrNotHeld)
}

// TestWaitersWithTheContextOfAHoldThatEndsAreNotOneOwner has callers wait for the other side of a read-write lock as the owner of a hold,
// and the hold end meanwhile. A group's callers wait for another member.
func TestWaitersWithTheContextOfAHoldThatEndsAreNotOneOwner(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	first, second := client.NewLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName())
	for what, group := range map[string]handles.Any{
		"multi": rlock.NewMultiLock(first, second), "red": rlock.NewRedLock(first, second),
	} {
		busy := testkit.Must(first.Acquire(t.Context()))
		hold := testkit.Must(second.Acquire(t.Context()))
		past := context.WithoutCancel(hold.Context())
		got := make(chan *rlock.Hold, 2)
		for range 2 {
			go func() { got <- testkit.Must(group.Acquire(past)) }()
		}
		testkit.Eventually(t, "both wait", func() bool { return client.Stats().Waiting >= 2 })
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, busy.Unlock(t.Context()))
		one := testkit.Within(t, "one gets it", got)
		testkit.Stays(t, "the other one waits", func() bool { return len(got) == 0 })
		require.NoError(t, one.Unlock(t.Context()), what)
		require.NoError(t, testkit.Within(t, "the other one gets it", got).Unlock(t.Context()), what)
	}
}

// TestALateUnlockWithThePastContextFreesNobody has a goroutine unlock too late what a hold, which is over, let it acquire. Meanwhile another one
// has the lock with the same context.
func TestALateUnlockWithThePastContextFreesNobody(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context(), rlock.Lease(time.Hour)))
	past := context.WithoutCancel(hold.Context())
	require.NoError(t, lock.Lock(past, rlock.Lease(time.Hour)))
	require.NoError(t, hold.Unlock(t.Context()))
	require.True(t, testkit.Must(lock.ForceUnlock(t.Context())))
	require.True(t, testkit.Must(lock.TryLock(past)), "it is nobody's owner that lost the lock")
	require.ErrorIs(t, lock.Unlock(past), rlock.ErrLost, "the late one")
	require.Positive(t, testkit.Must(lock.HoldCount(past)))
	require.NoError(t, lock.Unlock(past))
}

// TestThePastContextOfAnExportAndOfAParkedLock has the lock go on without its hold.
func TestThePastContextOfAnExportAndOfAParkedLock(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Embedded(t)).NewLock(testkit.NewName())
	hold := testkit.Must(lock.Acquire(t.Context()))
	past := context.WithoutCancel(hold.Context())
	ticket := testkit.Must(hold.Export(t.Context()))
	adopted := testkit.Must(lock.Adopt(past, ticket))
	require.False(t, testkit.Must(lock.TryLock(past)), "who adopted is another owner")
	require.True(t, testkit.Must(lock.TryLock(adopted.Context())))
	require.NoError(t, lock.Unlock(adopted.Context()))
	require.NoError(t, adopted.Unlock(t.Context()))

	kept := testkit.Must(lock.Acquire(t.Context(), rlock.AtLeast(time.Hour)))
	past = context.WithoutCancel(kept.Context())
	require.NoError(t, kept.Unlock(t.Context()))
	require.False(t, testkit.Must(lock.TryLock(past)))
	require.True(t, testkit.Must(lock.ForceUnlock(t.Context())))
}

// TestAReadHoldOutlivesItsWriteHold has a writer read, and go on reading when it no longer writes.
func TestAReadHoldOutlivesItsWriteHold(t *testing.T) {
	t.Parallel()
	both := testkit.NewClient(t, redistest.Embedded(t)).NewRWLock(testkit.NewName())
	write := testkit.Must(both.Writer().Acquire(t.Context()))
	past := context.WithoutCancel(write.Context())
	read := testkit.Must(both.Reader().Acquire(past))
	require.NoError(t, write.Unlock(t.Context()))
	ok, err := both.Writer().TryLock(past)
	require.False(t, ok, "another owner reads")
	require.NoError(t, err, "the context of the write hold upgrades nothing")
	require.ErrorIs(t, testkit.Second(both.Writer().TryLock(context.WithoutCancel(read.Context()))), rlock.ErrUpgrade)
	require.NoError(t, read.Unlock(t.Context()))
	require.True(t, testkit.Must(both.Writer().TryLock(past)))
	require.NoError(t, both.Writer().Unlock(past))
}

// TestAShutdownWithThePastContext waits for nobody.
func TestAShutdownWithThePastContext(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	require.NoError(t, client.Shutdown(pastHold(t, client.NewLock(testkit.NewName()))))
}

// TestTheSidesOfANameAreNotSharedByAPastHold has one caller wait for the write lock and another one for the read lock of a name, both as the
// owner of a hold of a group, and the hold end.
func TestTheSidesOfANameAreNotSharedByAPastHold(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	both, one, two := client.NewRWLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName()), client.NewLock("c"+testkit.NewName())
	busy := testkit.Must(both.Writer().Acquire(t.Context()))
	hold := testkit.Must(rlock.NewMultiLock(one, two).Acquire(t.Context()))
	past := context.WithoutCancel(hold.Context())
	got := make(chan *rlock.Hold, 2)
	go func() { got <- testkit.Must(rlock.NewMultiLock(both.Writer(), one).Acquire(past)) }()
	testkit.Eventually(t, "one waits", func() bool { return client.Stats().Waiting >= 1 })
	go func() { got <- testkit.Must(rlock.NewMultiLock(both.Reader(), two).Acquire(past)) }()
	testkit.Eventually(t, "both wait", func() bool { return client.Stats().Waiting >= 2 })
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, busy.Unlock(t.Context()))
	first := testkit.Within(t, "one gets it", got)
	testkit.Stays(t, "the other one waits", func() bool { return len(got) == 0 })
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the other one gets it", got).Unlock(t.Context()))
}

// TestAGroupReentersNoMemberOfWhichItsContextHasNoHold has a hold of a group end, of which two callers have one member each. The one with a
// hold of its member asks for the group with the context of that hold.
func TestAGroupReentersNoMemberOfWhichItsContextHasNoHold(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for what, group := range groupsOfTwo(client) {
		past, end := openHold(t, group.locker)
		require.NoError(t, group.first.Lock(past))
		other := testkit.Must(group.second.Acquire(past))
		end()
		require.False(t, testkit.Must(group.first.TryLock(other.Context())), what)
		require.ErrorIs(t, testkit.Second(group.locker.TryAcquire(other.Context())), rlock.ErrNotAcquired, what)
		require.NoError(t, group.first.Unlock(past), what)
		require.NoError(t, testkit.Must(group.locker.Acquire(other.Context())).Unlock(t.Context()), what)
		require.NoError(t, other.Unlock(t.Context()))
		requireFree(t, group.first, group.second)
	}
}

// TestAReentryOfAGroupIsUnlockedWhicheverHoldEndsFirst has a context carry holds of two members, of two owners, and a hold of the group.
func TestAReentryOfAGroupIsUnlockedWhicheverHoldEndsFirst(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for what, group := range groupsOfTwo(client) {
		for ends := range 4 { // how many of them end before the unlock
			first := testkit.Must(group.first.Acquire(t.Context()))
			second := testkit.Must(group.second.Acquire(context.WithoutCancel(first.Context())))
			hold := testkit.Must(group.locker.Acquire(context.WithoutCancel(second.Context())))
			again := testkit.Must(group.locker.Acquire(context.WithoutCancel(hold.Context())))
			holds := []*rlock.Hold{first, second, hold}
			for _, h := range holds[:ends] {
				require.NoError(t, h.Unlock(t.Context()))
			}
			require.NoError(t, again.Unlock(t.Context()), "%s, %d ended", what, ends)
			for _, h := range holds[ends:] {
				require.NoError(t, h.Unlock(t.Context()))
			}
			requireFree(t, group.first, group.second)
		}
	}
}

// groupOfTwo is a group, and its members.
type groupOfTwo struct {
	locker        handles.Any
	first, second *rlock.Lock
}

// groupsOfTwo returns groups that need both of their members.
func groupsOfTwo(client *rlock.Client) map[string]groupOfTwo {
	two := func(group func(...*rlock.Lock) handles.Any) groupOfTwo {
		first, second := client.NewLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName())
		return groupOfTwo{group(first, second), first, second}
	}
	return map[string]groupOfTwo{
		"multi": two(func(of ...*rlock.Lock) handles.Any { return rlock.NewMultiLock(of...) }),
		"red":   two(func(of ...*rlock.Lock) handles.Any { return rlock.NewRedLock(of...) }),
	}
}

// openHold returns the context of a hold, without its end, and what ends the hold.
func openHold(t *testing.T, lock handles.Any) (ctx context.Context, end func()) {
	t.Helper()
	hold := testkit.Must(lock.Acquire(t.Context()))
	return context.WithoutCancel(hold.Context()), func() { require.NoError(t, hold.Unlock(t.Context())) }
}

func requireFree(t *testing.T, locks ...*rlock.Lock) {
	t.Helper()
	for _, l := range locks {
		require.True(t, testkit.Must(l.TryLock(t.Context())), "nothing is left")
		require.NoError(t, l.Unlock(t.Context()))
	}
}
