package claims

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// These tests cover the particularities of groups. The conformance suite covers the guarantees that groups share with all locks.

func TestInvalidGroupsAreRefused(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	good := client.NewLock(testkit.NewName())
	var none *rlock.Lock
	for what, lock := range map[string]handles.Any{
		"no lock":               rlock.NewMultiLock(),
		"nil":                   rlock.NewMultiLock(good, nil),
		"a nil lock":            rlock.NewMultiLock(none, good),
		"a zero lock":           rlock.NewMultiLock(good, &rlock.Lock{}),
		"no lock for red":       rlock.NewRedLock(),
		"nil for red":           rlock.NewRedLock(nil),
		"one lock twice in red": rlock.NewRedLock(good, client.NewLock(good.Name())),
		"a nil group":           (*rlock.MultiLock)(nil),
		"a nil red lock":        (*rlock.RedLock)(nil),
		"a zero group":          &rlock.MultiLock{},
		"a side of a nil RW":    (*rlock.RWLock)(nil).Reader(),
		"a side of a zero RW":   (&rlock.RWLock{}).Writer(),
		"a nil lock option":     client.NewLock(testkit.NewName(), nil),
		"a nil spin option":     client.NewSpinLock(testkit.NewName(), rlock.NonReentrant(), nil),
		"no spin option":        client.NewSpinLock(testkit.NewName(), rlock.LockOption(nil)),
		"a backoff of 0":        client.NewSpinLock(testkit.NewName(), rlock.Backoff(0, time.Second)),
		"a falling backoff":     client.NewSpinLock(testkit.NewName(), rlock.Backoff(time.Second, time.Millisecond)),
		"an endless backoff":    client.NewSpinLock(testkit.NewName(), rlock.Backoff(time.Second, 2*time.Hour)),
	} {
		ctx := t.Context()
		require.ErrorIs(t, testkit.Second(lock.Acquire(ctx)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, testkit.Second(lock.TryAcquire(ctx)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, lock.Do(ctx, func(context.Context) error { return nil }), rlock.ErrInvalidOption, what)
		if lock, ok := lock.(*rlock.Lock); ok {
			require.ErrorIs(t, lock.Lock(ctx), rlock.ErrInvalidOption, what)
			require.ErrorIs(t, testkit.Second(lock.TryLock(ctx)), rlock.ErrInvalidOption, what)
			require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrInvalidOption, what)
		}
	}
	bad := rlock.NewMultiLock(good, client.NewLock(""))
	require.ErrorIs(t, testkit.Second(bad.Acquire(t.Context())), rlock.ErrInvalidName)
	require.ErrorIs(t, testkit.Second(rlock.NewMultiLock(good).Acquire(t.Context(), rlock.Lease(-1))), rlock.ErrInvalidOption)
	require.False(t, testkit.Must(good.IsLocked(t.Context())), "nothing was sent for the good one")
}

func TestGroupsInOppositeOrdersDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b, c := testkit.NewName(), testkit.NewName(), testkit.NewName()
	var inside [3]sync.Mutex // of a, b and c; only TryLock is called
	var wg sync.WaitGroup
	for i, names := range [][]int{{0, 1}, {1, 0}, {1, 2}, {2, 1, 0}, {2, 0}} {
		client := testkit.NewClient(t, server.Client(t))
		var locks []*rlock.Lock
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
				}, rlock.Wait(testkit.ALongTime))
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
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, others := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
		name := testkit.NewName()
		free, taken := client.NewLock(name+"a"), client.NewLock(name+"b")
		group := rlock.NewMultiLock(free, taken)
		holder := others.NewLock(taken.Name())
		require.NoError(t, holder.Lock(t.Context()))
		require.ErrorIs(t, testkit.Second(group.TryAcquire(t.Context())), rlock.ErrNotAcquired)
		require.False(t, testkit.Must(free.IsLocked(t.Context())), "a refused attempt leaves nothing")
		var hold *rlock.Hold
		waiting := testkit.Async(func() (err error) {
			hold, err = group.Acquire(t.Context())
			return err
		})
		testkit.Eventually(t, "it waits for the member that is held", func() bool { return testkit.Waiting(taken) == 1 })
		testkit.Eventually(t, "it holds no other member", func() bool { return !testkit.Must(free.IsLocked(t.Context())) })
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "it acquires all members", waiting))
		require.True(t, testkit.Must(free.IsLocked(t.Context())))
		require.True(t, testkit.Must(taken.IsLocked(t.Context())))
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

func TestAWaitingMultiLockDoesNotPoll(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	var members []*rlock.Lock
	for range 4 {
		members = append(members, f.Client.NewLock(testkit.NewName()))
	}
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	group := rlock.NewMultiLock(append(members, f.Lock)...)
	var hold *rlock.Hold
	waiting := testkit.Async(func() (err error) {
		hold, err = group.Acquire(t.Context())
		return err
	})
	testkit.Eventually(t, "it waits for the member that is held, and holds no other", func() bool {
		return testkit.Rests(f.Lock) && !slices.ContainsFunc(members, func(m *rlock.Lock) bool { return testkit.Must(m.IsLocked(t.Context())) })
	})
	asked := f.Proxy.Count(testkit.Runs("acquire"))
	testkit.Stays(t, "it asks at most once more, after it subscribed", func() bool {
		return f.Proxy.Count(testkit.Runs("acquire")) <= asked+1
	})
	require.NoError(t, f.Other.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it is woken", waiting))
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestAGroupThatFailsReleasesItsAcquiredMembers(t *testing.T) {
	t.Parallel()
	alive, dead := redistest.Start(t), redistest.Start(t)
	one := testkit.NewClient(t, alive.Client(t))
	two := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: dead.Addr, MaxRetries: -1}), rlock.WithCommandTimeout(time.Second))
	a, b := one.NewLock(testkit.NewName()), two.NewLock(testkit.NewName())
	group := rlock.NewMultiLock(a, b)
	require.NoError(t, testkit.Must(group.Acquire(t.Context())).Unlock(t.Context()))
	dead.Kill()
	err := testkit.Second(group.TryAcquire(t.Context()))
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis could not say")
	require.ErrorContains(t, err, b.Name())
	require.False(t, testkit.Must(a.IsLocked(t.Context())))

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, testkit.Second(group.Acquire(ctx)), context.DeadlineExceeded)
	testkit.Eventually(t, "the acquired member is free again", func() bool { return !testkit.Must(a.IsLocked(t.Context())) })

	var hold *rlock.Hold
	waiting := testkit.Async(func() (err error) {
		hold, err = group.Acquire(t.Context())
		return err
	})
	testkit.Eventually(t, "it waits for the dead member", func() bool { return testkit.Waiting(b) == 1 })
	dead.Run()
	require.NoError(t, testkit.Within(t, "it acquires once the member is back", waiting))
	dead.Kill()
	err = hold.Unlock(t.Context())
	require.Error(t, err, "the dead member cannot be unlocked")
	require.ErrorContains(t, err, b.Name())
	require.False(t, testkit.Must(a.IsLocked(t.Context())), "the other member is unlocked")
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrNotHeld)
	dead.Run()
}

func TestAGroupReturnsWhenItsContextEndsWhileItsReleaseHangs(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	other := testkit.NewClient(t, f.Direct)
	taken := f.Lock.Name() + "z"
	require.NoError(t, other.NewLock(taken).Lock(t.Context()))
	group := rlock.NewMultiLock(f.Lock, f.Client.NewLock(taken))
	held := f.Proxy.HoldRequest(1, testkit.Runs("release"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := testkit.Async(func() error { return testkit.Second(group.Acquire(ctx)) })
	testkit.Within(t, "it releases its acquired member", held.Met())
	cancel()
	require.ErrorIs(t, testkit.Within(t, "Acquire returns", locking), context.Canceled)
	held.Release()
	testkit.Eventually(t, "the release completes in the background", func() bool { return f.Count() == "0" })
}

func TestTheHoldOfAGroupIsLostWithAnyMember(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
	a, b := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName(), rlock.Fenced())
	group := rlock.NewMultiLock(a, b)
	hold, err := group.Acquire(t.Context())
	require.NoError(t, err)
	before := hold.Deadline()
	testkit.Eventually(t, "both are renewed", func() bool { return hold.Deadline().After(before) })
	ctx := hold.Context()
	require.NoError(t, rdb.Del(t.Context(), b.Name()).Err())
	testkit.Within(t, "the hold is over", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	require.True(t, testkit.Must(a.IsLocked(t.Context())), "the protected section may still run")
	err = hold.Unlock(t.Context())
	require.ErrorIs(t, err, rlock.ErrLost)
	require.ErrorContains(t, err, b.Name())
	require.False(t, testkit.Must(a.IsLocked(t.Context())), "Unlock tries all members")
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrNotHeld)
	require.NotErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.Zero(t, hold.Token())
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
}

func TestAMultiLockTakesEachLockOnce(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	name := testkit.NewName()
	a, b := client.NewLock(name+"a"), client.NewLock(name+"b")
	rw := client.NewRWLock(name + "rw")
	group := rlock.NewMultiLock(b, rw.Reader(), a, b, client.NewLock(a.Name()), rw.Writer())
	ctx := rlock.WithOwner(t.Context())
	hold := testkit.Must(group.Acquire(ctx))
	for _, l := range []*rlock.Lock{a, b, rw.Reader(), rw.Writer()} {
		n, err := l.HoldCount(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.NoError(t, hold.Unlock(ctx))
	require.False(t, testkit.Must(a.IsLocked(t.Context())))
	require.False(t, testkit.Must(rw.Writer().IsLocked(t.Context())))
}

func TestAMultiLockOfAllKinds(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	n := testkit.NewName()
	fair := client.NewFairLock(n + "fair")
	group := rlock.NewMultiLock(fair, client.NewSpinLock(n+"spin"), client.NewRWLock(n+"rw").Reader(), client.NewLock(n+"fenced", rlock.Fenced()))
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
					return fair.Do(ctx, func(context.Context) error { return nil }, rlock.Wait(0)) // re-enters
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(client) == 0 })
}

func TestAMemberHeldByTheSameOwnerIsReentered(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	a, b := client.NewLock(testkit.NewName()), client.NewLock(testkit.NewName())
	group := rlock.NewMultiLock(a, b)
	require.NoError(t, a.Do(t.Context(), func(ctx context.Context) error {
		hold, err := group.TryAcquire(ctx)
		require.NoError(t, err, "the owner holds a member")
		return hold.Unlock(ctx)
	}))
	require.NoError(t, group.Do(t.Context(), func(ctx context.Context) error {
		require.True(t, testkit.Must(b.TryLock(ctx)))
		require.NoError(t, b.Unlock(ctx))
		require.NoError(t, testkit.Must(group.TryAcquire(ctx)).Unlock(ctx))
		another := client.NewLock(testkit.NewName())
		require.True(t, testkit.Must(another.TryLock(ctx)))
		require.False(t, testkit.Must(another.TryLock(ctx)), "the group's context is no owner of other locks")
		return another.Unlock(ctx)
	}))
	require.False(t, testkit.Must(a.IsLocked(t.Context())))
	require.False(t, testkit.Must(b.IsLocked(t.Context())))
}

func TestAGroupOfAClosedClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	one, two := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
	groups := func() []handles.Any {
		return []handles.Any{
			rlock.NewMultiLock(one.NewLock(testkit.NewName()), two.NewLock(testkit.NewName())),
			rlock.NewRedLock(one.NewLock(testkit.NewName()), two.NewLock(testkit.NewName())),
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
		testkit.Within(t, "the hold ends", hold.Done())
		require.ErrorIs(t, hold.Err(), rlock.ErrClosed)
		require.NoError(t, hold.Unlock(t.Context()), "unlocks work after Close")
	}
	for _, group := range groups() {
		_, err := group.Acquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrClosed)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	}
}
