package rlock_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// These tests cover the particularities of groups. The conformance suite covers the guarantees that groups share with all locks.

func TestInvalidGroupsAreRefused(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	good := client.NewLock(newName())
	var none *rlock.Lock
	var noMulti *rlock.MultiLock
	var noRed *rlock.RedLock
	for what, lock := range map[string]rlock.Locker{
		"no lock":               rlock.NewMultiLock(),
		"nil":                   rlock.NewMultiLock(good, nil),
		"a nil lock":            rlock.NewMultiLock(none, good),
		"a zero lock":           rlock.NewMultiLock(good, &rlock.Lock{}),
		"a nil multi lock":      rlock.NewMultiLock(good, noMulti),
		"an empty group":        rlock.NewRedLock(good, rlock.NewMultiLock()),
		"no lock for red":       rlock.NewRedLock(),
		"nil for red":           rlock.NewRedLock(nil),
		"one lock twice in red": rlock.NewRedLock(good, client.NewLock(good.Name())),
		"a nil group":           noMulti,
		"a nil red lock":        noRed,
		"a zero group":          &rlock.MultiLock{},
		"a side of a nil RW":    (*rlock.RWLock)(nil).ReadLock(),
		"a side of a zero RW":   (&rlock.RWLock{}).WriteLock(),
		"a nil lock option":     client.NewLock(newName(), nil),
		"backoff for a lock":    client.NewFairLock(newName(), rlock.Backoff(time.Second, time.Second)),
		"a backoff of 0":        client.NewSpinLock(newName(), rlock.Backoff(0, time.Second)),
		"a falling backoff":     client.NewSpinLock(newName(), rlock.Backoff(time.Second, time.Millisecond)),
		"an endless backoff":    client.NewSpinLock(newName(), rlock.Backoff(time.Second, 2*time.Hour)),
		"a backoff for a side":  client.NewRWLock(newName(), rlock.Backoff(time.Second, time.Second)).ReadLock(),
	} {
		ctx := t.Context()
		require.ErrorIs(t, lock.Lock(ctx), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, second(lock.TryLock(ctx)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, second(lock.Acquire(ctx)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, second(lock.TryAcquire(ctx)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, lock.Do(ctx, func(context.Context) error { return nil }), rlock.ErrInvalidOption, what)
	}
	bad := rlock.NewMultiLock(good, client.NewLock(""))
	require.ErrorIs(t, bad.Lock(t.Context()), rlock.ErrInvalidName)
	require.ErrorIs(t, rlock.NewMultiLock(good).Lock(t.Context(), rlock.Lease(-1)), rlock.ErrInvalidOption)
	require.False(t, must(good.IsLocked(t.Context())), "nothing was sent for the good one")
}

func TestGroupsInOppositeOrdersDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b, c := newName(), newName(), newName()
	var inside [3]sync.Mutex // of a, b and c; only TryLock is called
	var wg sync.WaitGroup
	for i, names := range [][]int{{0, 1}, {1, 0}, {1, 2}, {2, 1, 0}, {2, 0}} {
		client := newClient(t, server.Client(t))
		var locks []rlock.Locker
		for _, n := range names {
			locks = append(locks, client.NewLock([]string{a, b, c}[n]))
		}
		group := rlock.NewMultiLock(locks...)
		wg.Go(func() {
			for range 60 {
				err := group.Do(t.Context(), func(context.Context) error {
					for _, n := range names {
						if !inside[n].TryLock() {
							t.Errorf("two hold lock %d", n)
						}
						defer inside[n].Unlock()
					}
					return nil
				}, rlock.Wait(aLongTime))
				if err != nil {
					t.Errorf("group %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAMultiLockHoldsNothingWhileItWaits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, others := newClient(t, rdb), newClient(t, rdb)
		name := newName()
		free, taken := client.NewLock(name+"a"), client.NewLock(name+"b")
		group := rlock.NewMultiLock(free, taken)
		holder := others.NewLock(taken.Name())
		require.NoError(t, holder.Lock(t.Context()))
		require.False(t, must(group.TryLock(t.Context())))
		require.False(t, must(free.IsLocked(t.Context())), "a refused attempt leaves nothing")
		waiting := async(func() error { return group.Lock(t.Context()) })
		eventually(t, "it waits for the member that is held", func() bool { return taken.Waiting() == 1 })
		eventually(t, "it holds no other member", func() bool { return !must(free.IsLocked(t.Context())) })
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, within(t, "it acquires all members", waiting))
		require.True(t, must(free.IsLocked(t.Context())))
		require.True(t, must(taken.IsLocked(t.Context())))
		require.NoError(t, group.Unlock(t.Context()))
	})
}

func TestAWaitingMultiLockDoesNotPoll(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	var members []rlock.Locker
	for range 4 {
		members = append(members, f.client.NewLock(newName()))
	}
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	group := rlock.NewMultiLock(append(members, f.lock)...)
	waiting := async(func() error { return group.Lock(t.Context()) })
	eventually(t, "it waits for the member that is held", f.lock.Rests)
	asked := f.proxy.Count(rlock.Runs("acquire"))
	stays(t, "it asks at most once more, after it subscribed", func() bool {
		return f.proxy.Count(rlock.Runs("acquire")) <= asked+1
	})
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "it is woken", waiting))
	require.NoError(t, group.Unlock(t.Context()))
}

func TestAGroupThatFailsReleasesItsAcquiredMembers(t *testing.T) {
	t.Parallel()
	alive, dead := redistest.Start(t), redistest.Start(t)
	one := newClient(t, alive.Client(t))
	two := newClient(t, redistest.Open(t, &redis.Options{Addr: dead.Addr, MaxRetries: -1}), rlock.WithCommandTimeout(300*time.Millisecond))
	a, b := one.NewLock(newName()), two.NewLock(newName())
	group := rlock.NewMultiLock(a, b)
	require.NoError(t, group.Lock(t.Context()))
	require.NoError(t, group.Unlock(t.Context()))
	dead.Kill()
	err := second(group.TryLock(t.Context()))
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis could not say")
	require.ErrorContains(t, err, b.Name())
	require.False(t, must(a.IsLocked(t.Context())))

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err = group.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, "the acquired member is free again", func() bool { return !must(a.IsLocked(t.Context())) })

	waiting := async(func() error { return group.Lock(t.Context()) })
	eventually(t, "it waits for the dead member", func() bool { return b.Waiting() == 1 })
	dead.Run()
	require.NoError(t, within(t, "it acquires once the member is back", waiting))
	dead.Kill()
	err = group.Unlock(t.Context())
	require.Error(t, err, "the dead member cannot be unlocked")
	require.ErrorContains(t, err, b.Name())
	require.False(t, must(a.IsLocked(t.Context())), "the other member is unlocked")
	require.ErrorIs(t, group.Unlock(t.Context()), rlock.ErrNotHeld)
	dead.Run()
}

func TestAGroupReturnsWhenItsContextEndsWhileItsReleaseHangs(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	other := newClient(t, f.direct)
	taken := f.lock.Name() + "z"
	require.NoError(t, other.NewLock(taken).Lock(t.Context()))
	group := rlock.NewMultiLock(f.lock, f.client.NewLock(taken))
	held := f.proxy.HoldRequest(1, rlock.Runs("release"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := async(func() error { return group.Lock(ctx) })
	within(t, "it releases its acquired member", held.Met())
	cancel()
	require.ErrorIs(t, within(t, "Lock returns", locking), context.Canceled)
	held.Release()
	eventually(t, "the release completes in the background", func() bool { return f.count() == "0" })
}

func TestTheHoldOfAGroupIsLostWithAnyMember(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := newClient(t, rdb, rlock.WithWatchdogTimeout(300*time.Millisecond))
	a, b := client.NewLock(newName()), client.NewFencedLock(newName())
	group := rlock.NewMultiLock(a, b)
	hold, err := group.Acquire(t.Context())
	require.NoError(t, err)
	before := hold.Deadline()
	eventually(t, "both are renewed", func() bool { return hold.Deadline().After(before) })
	ctx := hold.Context()
	require.NoError(t, rdb.Del(t.Context(), b.Name()).Err())
	within(t, "the hold is over", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	require.True(t, must(a.IsLocked(t.Context())), "the protected section may still run")
	err = hold.Unlock(t.Context())
	require.ErrorIs(t, err, rlock.ErrLost)
	require.ErrorContains(t, err, b.Name())
	require.False(t, must(a.IsLocked(t.Context())), "Unlock tries all members")
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrNotHeld)
	require.NotErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.Zero(t, hold.Token())
	eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
}

func TestAMultiLockTakesEachLockOnce(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	name := newName()
	a, b := client.NewLock(name+"a"), client.NewLock(name+"b")
	rw := client.NewRWLock(name + "rw")
	group := rlock.NewMultiLock(b, rw.ReadLock(), rlock.NewMultiLock(a, b), client.NewLock(a.Name()), rw.WriteLock())
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, group.Lock(ctx))
	for _, l := range []*rlock.Lock{a, b, rw.ReadLock(), rw.WriteLock()} {
		n, err := l.HoldCount(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	same := rlock.NewMultiLock(rw.WriteLock(), b, a, rw.ReadLock())
	require.NoError(t, same.Unlock(ctx), "neither the order nor the handle matters")
	require.ErrorIs(t, group.Unlock(ctx), rlock.ErrNotHeld)
	require.False(t, must(a.IsLocked(t.Context())))
	require.False(t, must(rw.WriteLock().IsLocked(t.Context())))
}

func TestAMultiLockOfAllKinds(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	n := newName()
	red := rlock.NewRedLock(client.NewLock(n+"r1"), client.NewLock(n+"r2"), client.NewLock(n+"r3"))
	group := rlock.NewMultiLock(client.NewFairLock(n+"fair"), client.NewSpinLock(n+"spin"), red,
		client.NewRWLock(n+"rw").ReadLock(), client.NewFencedLock(n+"fenced"))
	var inside sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				err := group.Do(t.Context(), func(ctx context.Context) error {
					if !inside.TryLock() {
						t.Error("two are inside")
					}
					defer inside.Unlock()
					return red.Do(ctx, func(context.Context) error { return nil }, rlock.Wait(0)) // re-enters
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
}

func TestAMemberHeldByTheSameOwnerIsReentered(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	a, b := client.NewLock(newName()), client.NewLock(newName())
	group := rlock.NewMultiLock(a, b)
	require.NoError(t, a.Do(t.Context(), func(ctx context.Context) error {
		require.True(t, must(group.TryLock(ctx)), "the owner holds a member")
		return group.Unlock(ctx)
	}))
	require.NoError(t, group.Do(t.Context(), func(ctx context.Context) error {
		require.True(t, must(b.TryLock(ctx)))
		require.NoError(t, b.Unlock(ctx))
		require.True(t, must(group.TryLock(ctx)))
		require.NoError(t, group.Unlock(ctx))
		another := client.NewLock(newName())
		require.True(t, must(another.TryLock(ctx)))
		require.False(t, must(another.TryLock(ctx)), "the group's context is no owner of other locks")
		return another.Unlock(ctx)
	}))
	require.False(t, must(a.IsLocked(t.Context())))
	require.False(t, must(b.IsLocked(t.Context())))
}

func TestADroppedHoldOfAGroupIsNoLongerRenewed(t *testing.T) {
	t.Parallel()
	logger, log := recording()
	client := newClient(t, redistest.Embedded(t), logger, rlock.WithWatchdogTimeout(300*time.Millisecond))
	a, b := client.NewLock(newName()), client.NewLock(newName())
	func() {
		hold, err := rlock.NewMultiLock(a, b).Acquire(t.Context())
		require.NoError(t, err)
		_ = hold.Context()
		require.NoError(t, hold.Err())
	}()
	eventually(t, "the leak is logged", func() bool { runtime.GC(); return log.Contains("dropped") })
	eventually(t, "both are free after their lease", func() bool {
		return !must(a.IsLocked(t.Context())) && !must(b.IsLocked(t.Context()))
	})
	eventually(t, "nothing is left", func() bool { return client.Remains() == 0 })
}

func TestAGroupOfAClosedClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	one, two := newClient(t, rdb), newClient(t, rdb)
	groups := func() []rlock.Locker {
		return []rlock.Locker{
			rlock.NewMultiLock(one.NewLock(newName()), two.NewLock(newName())),
			rlock.NewRedLock(one.NewLock(newName()), two.NewLock(newName())),
		}
	}
	var holds []*rlock.Hold
	for _, group := range groups() {
		hold, err := group.Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	require.NoError(t, two.Close())
	for _, hold := range holds {
		within(t, "the hold ends", hold.Done())
		require.ErrorIs(t, hold.Err(), rlock.ErrClosed)
		require.NoError(t, hold.Unlock(t.Context()), "unlocks work after Close")
	}
	for _, group := range groups() {
		err := group.Lock(t.Context())
		require.ErrorIs(t, err, rlock.ErrClosed)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	}
}
