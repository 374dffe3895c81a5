package claims

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// pastHold returns the context of a hold that is over, without its end.
func pastHold(t *testing.T, lock rlock.Acquirer) (past context.Context) {
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
	for what, group := range map[string]rlock.Locker{
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
	require.True(t, testkit.Must(lock.IsHeld(past)))
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
	write := testkit.Must(both.WriteLock().Acquire(t.Context()))
	past := context.WithoutCancel(write.Context())
	read := testkit.Must(both.ReadLock().Acquire(past))
	require.NoError(t, write.Unlock(t.Context()))
	ok, err := both.WriteLock().TryLock(past)
	require.False(t, ok, "another owner reads")
	require.NoError(t, err, "the context of the write hold upgrades nothing")
	require.ErrorIs(t, testkit.Second(both.WriteLock().TryLock(context.WithoutCancel(read.Context()))), rlock.ErrUpgrade)
	require.NoError(t, read.Unlock(t.Context()))
	require.True(t, testkit.Must(both.WriteLock().TryLock(past)))
	require.NoError(t, both.WriteLock().Unlock(past))
}

// TestAShutdownWithThePastContext waits for nobody.
func TestAShutdownWithThePastContext(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	require.NoError(t, client.Shutdown(pastHold(t, client.NewLock(testkit.NewName()))))
}

// TestALateUnlockOfAGroupWithThePastContextFreesNobody has two callers wait for a group as the owner of a hold of one of its members, and
// the hold end. One gets the group and loses it; the other one gets it then. The late unlock of the first must not free it.
func TestALateUnlockOfAGroupWithThePastContextFreesNobody(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	first, second := client.NewLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName())
	for what, group := range map[string]rlock.Locker{
		"multi": rlock.NewMultiLock(first, second), "red": rlock.NewRedLock(first, second),
	} {
		busy := testkit.Must(first.Acquire(t.Context()))
		hold := testkit.Must(second.Acquire(t.Context()))
		past := context.WithoutCancel(hold.Context())
		got := make(chan error, 2)
		for range 2 {
			go func() { got <- group.Lock(past, rlock.Lease(time.Hour)) }()
		}
		testkit.Eventually(t, "both wait", func() bool { return client.Stats().Waiting >= 2 })
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, busy.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "one gets it", got))
		for _, lock := range []*rlock.Lock{second, first} {
			testkit.Eventually(t, "the other one rests, so that no reply of unknown age gives it the lock", func() bool {
				resting := 0
				for _, l := range []*rlock.Lock{first, second} {
					switch {
					case testkit.Rests(l):
						resting++
					case testkit.Waiting(l) > 0:
						return false
					}
				}
				return resting > 0
			})
			require.True(t, testkit.Must(lock.ForceUnlock(t.Context())))
		}
		require.NoError(t, testkit.Within(t, "the other one gets it", got))
		require.ErrorIs(t, group.Unlock(past), rlock.ErrLost, "the late one, "+what)
		require.False(t, testkit.Must(first.TryLock(t.Context())), what)
		require.NoError(t, group.Unlock(past), what)
		require.True(t, testkit.Must(first.TryLock(t.Context())), what)
		require.NoError(t, first.Unlock(t.Context()))
	}
}

// TestTheSidesOfANameAreNotSharedByAPastHold has one caller wait for the write lock and another one for the read lock of a name, both as the
// owner of a hold of a group, and the hold end.
func TestTheSidesOfANameAreNotSharedByAPastHold(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	both, one, two := client.NewRWLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName()), client.NewLock("c"+testkit.NewName())
	busy := testkit.Must(both.WriteLock().Acquire(t.Context()))
	hold := testkit.Must(rlock.NewMultiLock(one, two).Acquire(t.Context()))
	past := context.WithoutCancel(hold.Context())
	got := make(chan *rlock.Hold, 2)
	go func() { got <- testkit.Must(rlock.NewMultiLock(both.WriteLock(), one).Acquire(past)) }()
	testkit.Eventually(t, "one waits", func() bool { return client.Stats().Waiting >= 1 })
	go func() { got <- testkit.Must(rlock.NewMultiLock(both.ReadLock(), two).Acquire(past)) }()
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
		require.False(t, testkit.Must(group.locker.TryLock(other.Context())), what)
		require.False(t, testkit.Must(rlock.NewMultiLock(rlock.NewRedLock(group.first, group.second)).TryLock(other.Context())), "a group in a group")
		require.NoError(t, group.first.Unlock(past), what)
		require.NoError(t, group.locker.Lock(other.Context()), what)
		require.NoError(t, group.locker.Unlock(other.Context()), what)
		require.NoError(t, other.Unlock(t.Context()))
		requireFree(t, group.first, group.second)
	}
}

// TestTheHoldsOfTwoCallersShareNoOtherMember has two callers hold one member of a group as the owner of a hold that is over. Each has a hold
// of its own, and asks for the group with the context of that.
func TestTheHoldsOfTwoCallersShareNoOtherMember(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for what, group := range groupsOfTwo(client) {
		past, end := openHold(t, group.second)
		one, two := testkit.Must(group.second.Acquire(past)), testkit.Must(group.second.Acquire(past))
		end()
		require.NoError(t, group.locker.Lock(one.Context()), what)
		require.False(t, testkit.Must(group.locker.TryLock(two.Context())), what)
		require.True(t, testkit.Must(group.locker.TryLock(one.Context())), what)
		require.NoError(t, group.locker.Unlock(one.Context()), what)
		require.NoError(t, group.locker.Unlock(one.Context()), what)
		require.ErrorIs(t, group.locker.Unlock(one.Context()), rlock.ErrNotHeld, what)
		require.NoError(t, one.Unlock(t.Context()))
		require.NoError(t, two.Unlock(t.Context()))
		requireFree(t, group.first, group.second)
	}
}

// TestTheHoldsOfOneMemberWithinEachOtherAreOneOwnerOfAGroup has calls within each other take a group: with the context of a hold of a member, of a
// hold within that, of a hold of the group, and for a group with one more member.
func TestTheHoldsOfOneMemberWithinEachOtherAreOneOwnerOfAGroup(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for what, group := range groupsOfTwo(client) {
		for _, member := range []*rlock.Lock{group.first, group.second} {
			larger := rlock.NewMultiLock(group.first, group.second, client.NewLock("c"+testkit.NewName()))
			outer := testkit.Must(member.Acquire(t.Context()))
			inner := testkit.Must(member.Acquire(outer.Context()))
			require.NoError(t, group.locker.Lock(outer.Context()))
			hold := testkit.Must(group.locker.TryAcquire(inner.Context()))
			for _, ctx := range []context.Context{outer.Context(), inner.Context(), hold.Context()} {
				for _, locker := range []rlock.Locker{group.locker, group.first, group.second, larger} {
					if ctx != hold.Context() && (locker == group.first || locker == group.second) && locker != rlock.Locker(member) {
						require.False(t, testkit.Must(locker.TryLock(ctx)), "the context has no hold of this member, "+what)
						continue
					}
					require.True(t, testkit.Must(locker.TryLock(ctx)), what)
					require.True(t, testkit.Must(locker.TryLock(ctx)), what)
					require.NoError(t, locker.Unlock(ctx), what)
					require.NoError(t, locker.Unlock(ctx), what)
				}
			}
			require.True(t, testkit.Must(group.locker.TryLock(hold.Context())))
			require.NoError(t, group.locker.Unlock(inner.Context()), "the latest one, "+what)
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, group.locker.Unlock(inner.Context()), "that of the outer context, "+what)
			require.ErrorIs(t, group.locker.Unlock(outer.Context()), rlock.ErrNotHeld, what)
			require.NoError(t, inner.Unlock(t.Context()))
			require.NoError(t, outer.Unlock(t.Context()))
			requireFree(t, group.first, group.second)
		}
	}
}

// TestAGroupIsUnlockedWithItsContextWhicheverHoldEndsFirst has a context carry holds of two members, of two owners, and a hold of the group.
func TestAGroupIsUnlockedWithItsContextWhicheverHoldEndsFirst(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	for what, group := range groupsOfTwo(client) {
		for ends := range 4 { // how many of them end before the unlock
			first := testkit.Must(group.first.Acquire(t.Context()))
			second := testkit.Must(group.second.Acquire(context.WithoutCancel(first.Context())))
			hold := testkit.Must(group.locker.Acquire(context.WithoutCancel(second.Context())))
			ctx := context.WithoutCancel(hold.Context())
			require.NoError(t, group.locker.Lock(ctx))
			holds := []*rlock.Hold{first, second, hold}
			for _, h := range holds[:ends] {
				require.NoError(t, h.Unlock(t.Context()))
			}
			require.NoError(t, group.locker.Unlock(ctx), "%s, %d ended", what, ends)
			for _, h := range holds[ends:] {
				require.NoError(t, h.Unlock(t.Context()))
			}
			requireFree(t, group.first, group.second)
		}
	}
}

// groupOfTwo is a group, and its members.
type groupOfTwo struct {
	locker        rlock.Locker
	first, second *rlock.Lock
}

// groupsOfTwo returns groups that need both of their members.
func groupsOfTwo(client *rlock.Client) map[string]groupOfTwo {
	two := func(group func(...rlock.Locker) rlock.Locker) groupOfTwo {
		first, second := client.NewLock("a"+testkit.NewName()), client.NewLock("b"+testkit.NewName())
		return groupOfTwo{group(first, second), first, second}
	}
	return map[string]groupOfTwo{
		"multi": two(func(of ...rlock.Locker) rlock.Locker { return rlock.NewMultiLock(of...) }),
		"red":   two(func(of ...rlock.Locker) rlock.Locker { return rlock.NewRedLock(of...) }),
	}
}

// openHold returns the context of a hold, without its end, and what ends the hold.
func openHold(t *testing.T, lock rlock.Acquirer) (ctx context.Context, end func()) {
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
