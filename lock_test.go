package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// locker is a lock as the suite sees it: what all kinds can do, and questions, which groups answer through their members.
type locker interface {
	rlock.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
	Waiting() int
	Keys() []string
}

// kindOf is a kind of lock, as the suite tests it.
type kindOf struct {
	make  func(*rlock.Client, string) locker
	rival func(*rlock.Client, string) locker // excludes it; nil: another of the same
	skips map[string]string                  // claims that it does not make, and why
	// groups tells that it is made of several names.
	groups bool
}

func single(newLock func(*rlock.Client, string, ...rlock.LockOption) *rlock.Lock) func(*rlock.Client, string) locker {
	return func(c *rlock.Client, name string) locker { return newLock(c, name) }
}

func newReadLock(c *rlock.Client, name string) locker  { return c.NewRWLock(name).ReadLock() }
func newWriteLock(c *rlock.Client, name string) locker { return c.NewRWLock(name).WriteLock() }

// kinds has every kind of lock.
var kinds = map[string]kindOf{
	"lock":   {make: single((*rlock.Client).NewLock)},
	"fenced": {make: single((*rlock.Client).NewFencedLock)},
	"spin":   {make: single((*rlock.Client).NewSpinLock), skips: map[string]string{}},
	"fair":   {make: single((*rlock.Client).NewFairLock)},
	"write":  {make: newWriteLock},
	"read": {make: newReadLock, rival: newWriteLock, skips: map[string]string{
		"excludes goroutines that share a handle":               readersShare,
		"excludes clients":                                      readersShare,
		"one of a thousand TryLocks gets it":                    readersShare,
		"a hundred short leases are served in turn":             readersShare,
		"a plain context does not re-enter":                     readersShare,
		"waiters of one process are served in order of arrival": readersShare,
		"a late unlock on a shared handle is told":              readersShare,
	}},
	"multi": {make: newMultiLock, groups: true, skips: map[string]string{
		"questions without an owner are about the handle": "a group answers no questions",
	}},
	"red": {make: newRedLock, groups: true, skips: map[string]string{
		"questions without an owner are about the handle": "a group answers no questions",
		"one of a thousand TryLocks gets it":              "votes may split, and nobody gets it",
		"the holder is told of a force unlock":            "one member after the other is forced, and heals meanwhile",
	}},
}

// grouped is a group of locks, with questions that its members answer: what most of them say.
type grouped struct {
	rlock.Locker
	members []*rlock.Lock
	most    int
}

func newGroup(c *rlock.Client, name string, n, most int) grouped {
	g := grouped{most: most}
	for i := range n {
		g.members = append(g.members, c.NewLock(fmt.Sprintf("%s:%d", name, i+1)))
	}
	return g
}

func (g grouped) lockers() (all []rlock.Locker) {
	for _, m := range g.members {
		all = append(all, m)
	}
	return all
}

func newMultiLock(c *rlock.Client, name string) locker {
	g := newGroup(c, name, 2, 2)
	g.Locker = rlock.NewMultiLock(g.lockers()...)
	return g
}

func newRedLock(c *rlock.Client, name string) locker {
	g := newGroup(c, name, 3, 2)
	g.Locker = rlock.NewRedLock(g.lockers()...)
	return g
}

// agreed asks all members, and returns the greatest answer that enough of them reach.
func agreed[T cmp.Ordered](g grouped, ask func(*rlock.Lock) (T, error)) (answer T, err error) {
	var answers []T
	for _, m := range g.members {
		a, err := ask(m)
		if err != nil {
			return answer, err
		}
		answers = append(answers, a)
	}
	slices.Sort(answers)
	return answers[len(answers)-g.most], nil
}

func (g grouped) IsLocked(ctx context.Context) (bool, error) {
	n, err := agreed(g, func(l *rlock.Lock) (int, error) {
		locked, err := l.IsLocked(ctx)
		if locked {
			return 1, err
		}
		return 0, err
	})
	return n == 1, err
}

func (g grouped) ForceUnlock(ctx context.Context) (bool, error) {
	n, err := agreed(g, func(l *rlock.Lock) (int, error) {
		freed, err := l.ForceUnlock(ctx)
		if freed {
			return 1, err
		}
		return 0, err
	})
	return n == 1, err
}

func (g grouped) HoldCount(ctx context.Context) (int, error) {
	return agreed(g, func(l *rlock.Lock) (int, error) { return l.HoldCount(ctx) })
}

func (g grouped) TTL(ctx context.Context) (time.Duration, error) {
	return agreed(g, func(l *rlock.Lock) (time.Duration, error) { return l.TTL(ctx) })
}

func (g grouped) Waiting() int {
	if red, ok := g.Locker.(*rlock.RedLock); ok {
		return red.Waiting()
	}
	n := 0
	for _, m := range g.members {
		n += m.Waiting()
	}
	return n
}

func (g grouped) Keys() (all []string) {
	for _, m := range g.members {
		all = append(all, m.Keys()...)
	}
	return all
}

const readersShare = "readers let each other in"

// servers has every kind of Redis that the suite runs on.
var servers = map[string]func(testing.TB) redis.UniversalClient{
	"embedded": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Embedded(tb)
	},
	"single": func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Start(tb).Client(tb)
	},
}

// fixture is what a conformance test gets.
type fixture struct {
	*testing.T
	rdb  redis.UniversalClient
	kind kindOf
	name string
}

// client returns a new client, as another process would have.
func (f *fixture) client(opts ...rlock.Option) *rlock.Client { return newClient(f, f.rdb, opts...) }

// newLock returns a handle of the kind under test.
func (f *fixture) newLock(c *rlock.Client, name string) locker { return f.kind.make(c, name) }

// newRival returns a handle that the kind under test excludes.
func (f *fixture) newRival(c *rlock.Client, name string) locker {
	if f.kind.rival != nil {
		return f.kind.rival(c, name)
	}
	return f.kind.make(c, name)
}

// lock returns a handle on the test's name, of a new client.
func (f *fixture) lock(opts ...rlock.Option) locker { return f.newLock(f.client(opts...), f.name) }

// rival returns a handle that excludes it, of another new client.
func (f *fixture) rival(opts ...rlock.Option) locker { return f.newRival(f.client(opts...), f.name) }

// conform runs every claim for every kind of lock.
func conform(t *testing.T, rdb redis.UniversalClient, groups bool) {
	t.Helper()
	for name, kind := range kinds {
		if kind.groups && !groups {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range conformance {
				t.Run(c.claim, func(t *testing.T) {
					if why := kind.skips[c.claim]; why != "" {
						t.Skip(why)
					}
					c.test(&fixture{T: t, rdb: rdb, kind: kind, name: newName()})
				})
			}
		})
	}
}

// TestConformance runs every claim for every kind of lock on every kind of server.
func TestConformance(t *testing.T) {
	t.Parallel()
	for server, start := range servers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			conform(t, start(t), true)
		})
	}
}

var conformance = []struct {
	claim string
	test  func(*fixture)
}{
	{"excludes goroutines that share a handle", excludesGoroutines},
	{"excludes clients", excludesClients},
	{"one of a thousand TryLocks gets it", oneOfAThousand},
	{"a hundred short leases are served in turn", aHundredInTurn},
	{"locks and unlocks again and again", locksAndUnlocks},
	{"a stranger cannot unlock", strangerCannotUnlock},
	{"an owner re-enters", ownerReenters},
	{"a hold's context re-enters its lock alone", holdContextReenters},
	{"an owner minted within a hold is another", ownerWithinHold},
	{"a plain context does not re-enter", plainContextDoesNotReenter},
	{"goroutines of one owner share the lock", goroutinesOfOneOwner},
	{"unlock settles the latest acquisition of its owner", unlockSettlesLatest},
	{"unlock without owner finds what this handle took", unlockWithoutOwner},
	{"a wait is as long as it was said to be", waitIsBounded},
	{"a wait of zero takes a free lock", waitOfZero},
	{"a context ends the wait", contextEndsWait},
	{"an ended context sends nothing", endedContext},
	{"a waiter is woken by the release", wokenByRelease},
	{"waiters of one process are served in order of arrival", servedInOrder},
	{"a waiter that leaves does not stop the next", leavingWaiter},
	{"a lease ends", leaseEnds},
	{"an unlock that is late loses nothing for the next holder", lateUnlock},
	{"a late unlock on a shared handle is told", lateUnlockOnASharedHandle},
	{"a re-entry never shortens a lease", reentryKeepsLease},
	{"the watchdog keeps the lock", watchdogKeeps},
	{"the watchdog stops when only leased entries are left", watchdogStops},
	{"an unlock works when its context has ended", unlockAfterContext},
	{"force unlock frees any lock", forceUnlock},
	{"the holder is told of a force unlock", forceUnlockTellsHolder},
	{"questions are answered", questions},
	{"questions without an owner are about the handle", questionsWithoutOwner},
	{"Do unlocks whatever happens", doUnlocks},
	{"Do skips work that another does", doSkips},
	{"Do reports a loss", doReportsLoss},
	{"a hold ends once", holdEndsOnce},
	{"a hold's context is a child of the caller's", holdContextIsChild},
	{"close stops everything and releases nothing", closeStops},
	{"what a closed client held is free after its lease", closedClientsLeaseEnds},
	{"a wait that is cancelled leaves nothing to renew", cancelledNotRenewed},
	{"thousands of turns leave no channel", thousandsOfTurns},
	{"nothing is left behind", nothingLeft},
}

func excludesGoroutines(f *fixture) {
	lock := f.lock()
	hammer(f, 16, 25, func(int) locker { return lock })
}

func excludesClients(f *fixture) {
	locks := make([]locker, 4)
	for i := range locks {
		locks[i] = f.lock()
	}
	hammer(f, 16, 10, func(i int) locker { return locks[i%len(locks)] })
}

// hammer checks exclusion with a counter in Redis that nothing else protects.
func hammer(f *fixture, goroutines, times int, lockOf func(int) locker) {
	f.Helper()
	ctx := f.Context()
	counter := newName()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			lock := lockOf(i)
			for range times {
				if !noError(f, lock.Lock(ctx)) {
					return
				}
				if inside.Add(1) != 1 {
					f.Error("two are inside")
				}
				n, _ := f.rdb.Get(ctx, counter).Int()
				if !noError(f, f.rdb.Set(ctx, counter, n+1, time.Minute).Err()) {
					return
				}
				inside.Add(-1)
				if !noError(f, lock.Unlock(ctx)) {
					return
				}
			}
		})
	}
	wg.Wait()
	n, err := f.rdb.Get(ctx, counter).Int()
	require.NoError(f, err)
	require.Equal(f, goroutines*times, n, "no update may be lost")
}

// noError is require.NoError for goroutines.
func noError(f *fixture, err error) bool {
	if err != nil {
		f.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

func oneOfAThousand(f *fixture) {
	lock := f.lock()
	var got atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			ok, err := lock.TryLock(f.Context(), rlock.Lease(10*time.Second))
			noError(f, err)
			if ok {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 1, got.Load())
	require.NoError(f, lock.Unlock(f.Context()))
}

func aHundredInTurn(f *fixture) {
	lock := f.lock()
	var got, inside atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			ok, err := lock.TryLock(f.Context(), rlock.Wait(aLongTime), rlock.Lease(100*time.Millisecond))
			if !noError(f, err) || !ok {
				return
			}
			got.Add(1)
			inside.Add(1)
			inside.Add(-1)
			// A machine that stalls for the lease makes the unlock late, which it is then told.
			if err := lock.Unlock(f.Context()); err != nil && !errors.Is(err, rlock.ErrLost) {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 100, got.Load(), "everybody gets it within the wait")
}

func locksAndUnlocks(f *fixture) {
	lock := f.lock()
	for range 20 {
		require.NoError(f, lock.Lock(f.Context()))
		require.NoError(f, lock.Unlock(f.Context()))
	}
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrNotHeld)
}

func strangerCannotUnlock(f *fixture) {
	lock, stranger := f.lock(), f.rival()
	require.ErrorIs(f, stranger.Unlock(f.Context()), rlock.ErrNotHeld, "nobody holds it")
	require.NoError(f, lock.Lock(f.Context()))
	err := stranger.Unlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotHeld)
	require.NotErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, lock.Unlock(rlock.WithOwner(f.Context())), rlock.ErrNotHeld, "another owner of the same client")
	require.True(f, isLocked(f, lock))
	require.NoError(f, lock.Unlock(f.Context()))
}

func ownerReenters(f *fixture) {
	lock, other := f.lock(), f.rival()
	ctx := rlock.WithOwner(f.Context())
	for n := range 3 {
		require.NoError(f, lock.Lock(ctx))
		require.Equal(f, n+1, holdCount(f, lock, ctx))
	}
	for n := 2; n >= 0; n-- {
		require.False(f, tryLock(f, other, f.Context()), "%d entries are open", n+1)
		require.NoError(f, lock.Unlock(ctx))
		require.Equal(f, n, holdCount(f, lock, ctx))
	}
	require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
	require.True(f, tryLock(f, other, f.Context()))
	require.NoError(f, other.Unlock(f.Context()))
}

func holdContextReenters(f *fixture) {
	client := f.client()
	lock, same := f.newLock(client, f.name), f.newLock(client, f.name)
	elsewhere := newName()
	another, rival := f.newLock(client, elsewhere), f.newRival(client, elsewhere)
	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		require.True(f, tryLock(f, same, ctx), "through whichever handle")
		require.Equal(f, 2, holdCount(f, lock, ctx))
		require.NoError(f, lock.Do(ctx, func(ctx context.Context) error {
			require.Equal(f, 3, holdCount(f, lock, ctx))
			return nil
		}))
		require.NoError(f, lock.Unlock(ctx))
		require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld, "what Do took is Do's")

		require.True(f, tryLock(f, another, ctx))
		require.False(f, tryLock(f, rival, ctx), "for another lock it is no owner")
		return another.Unlock(ctx)
	}))
	require.False(f, isLocked(f, lock))
}

func ownerWithinHold(f *fixture) {
	client := f.client()
	lock, rival := f.newLock(client, f.name), f.newRival(client, f.name)
	outer := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Do(outer, func(ctx context.Context) error {
		require.True(f, tryLock(f, lock, ctx))
		require.True(f, tryLock(f, lock, outer), "the hold belongs to the owner around it")
		require.False(f, tryLock(f, rival, rlock.WithOwner(ctx)))
		require.NoError(f, lock.Unlock(ctx))
		return lock.Unlock(outer)
	}))
	require.False(f, isLocked(f, lock))
}

func plainContextDoesNotReenter(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context()))
	require.False(f, tryLock(f, lock, f.Context()))
	ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(f, lock.Lock(ctx), context.DeadlineExceeded)
	require.NoError(f, lock.Unlock(f.Context()))
}

func goroutinesOfOneOwner(f *fixture) {
	lock, other := f.lock(), f.rival()
	ctx := rlock.WithOwner(f.Context())
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if i%2 == 0 {
				noError(f, lock.Lock(ctx))
			} else if ok, err := lock.TryLock(ctx); err != nil || !ok {
				f.Errorf("TryLock of an owner that gets the lock: %v, %v", ok, err)
			}
		})
	}
	wg.Wait()
	require.Equal(f, n, holdCount(f, lock, ctx))
	for range n {
		wg.Go(func() { noError(f, lock.Unlock(ctx)) })
	}
	wg.Wait()
	require.True(f, tryLock(f, other, f.Context()))
	require.NoError(f, other.Unlock(f.Context()))
}

func unlockSettlesLatest(f *fixture) {
	client := f.client()
	one, two := f.newLock(client, f.name), f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, one.Lock(ctx))
	require.NoError(f, two.Lock(ctx, rlock.Lease(time.Minute)))
	hold, err := one.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, one.Unlock(ctx), "whichever handle took it")
	require.NoError(f, two.Unlock(ctx))
	require.ErrorIs(f, one.Unlock(ctx), rlock.ErrNotHeld, "a Hold unlocks itself")
	require.True(f, isLocked(f, one))
	require.NoError(f, hold.Unlock(f.Context()))
	require.False(f, isLocked(f, one))
}

func unlockWithoutOwner(f *fixture) {
	client := f.client()
	lock, sibling := f.newLock(client, f.name), f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx))
	require.ErrorIs(f, sibling.Unlock(f.Context()), rlock.ErrNotHeld, "another handle took it")
	require.NoError(f, lock.Unlock(f.Context()), "a deferred unlock without the owner leaks nothing")
	require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
	require.False(f, isLocked(f, lock))
}

func waitIsBounded(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context()))
	for what, try := range map[string]func() error{
		"TryLock": func() error {
			ok, err := other.TryLock(f.Context(), rlock.Wait(300*time.Millisecond))
			if err == nil && !ok {
				return rlock.ErrNotAcquired
			}
			return fmt.Errorf("%v, %w", ok, err)
		},
		"Lock":       func() error { return other.Lock(f.Context(), rlock.Wait(300*time.Millisecond)) },
		"TryAcquire": func() error { _, err := other.TryAcquire(f.Context(), rlock.Wait(300*time.Millisecond)); return err },
	} {
		start := time.Now()
		err := try()
		require.ErrorIs(f, err, rlock.ErrNotAcquired, what)
		require.NotErrorIs(f, err, context.DeadlineExceeded, "the caller's context has none")
		require.GreaterOrEqual(f, time.Since(start), 300*time.Millisecond, what)
		require.Less(f, time.Since(start), 3*time.Second, what)
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

func waitOfZero(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context(), rlock.Wait(0)))
	require.ErrorIs(f, other.Lock(f.Context(), rlock.Wait(0)), rlock.ErrNotAcquired)
	_, err := other.TryAcquire(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.NoError(f, lock.Unlock(f.Context()))
	ok, err := lock.TryLock(f.Context(), rlock.Wait(time.Nanosecond))
	require.NoError(f, err)
	require.True(f, ok, "the first attempt is made to its end")
	require.NoError(f, lock.Unlock(f.Context()))
}

func contextEndsWait(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context()))
	ctx, cancel := context.WithTimeout(f.Context(), 100*time.Millisecond)
	defer cancel()
	err := other.Lock(ctx)
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.ErrorIs(f, err, context.DeadlineExceeded)
	require.ErrorContains(f, err, f.name)

	because := errors.New("because")
	ctx, cancelCause := context.WithCancelCause(f.Context())
	waiting := async(func() error { _, err := other.TryLock(ctx, rlock.Wait(time.Minute)); return err })
	eventually(f, "it waits", func() bool { return other.Waiting() == 1 })
	cancelCause(because)
	err = within(f, "the wait ends", waiting)
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.ErrorIs(f, err, context.Canceled)
	require.ErrorIs(f, err, because)
	require.NoError(f, lock.Unlock(f.Context()))
}

func endedContext(f *fixture) {
	lock := f.lock()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	require.ErrorIs(f, lock.Lock(ctx), context.Canceled)
	_, err := lock.TryLock(ctx)
	require.ErrorIs(f, err, rlock.ErrNotAcquired)
	require.False(f, isLocked(f, lock))
}

func wokenByRelease(f *fixture) {
	lock, other := f.lock(), f.rival(rlock.WithPollInterval(time.Hour))
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(time.Hour)))
	waiting := async(func() error { return other.Lock(f.Context()) })
	eventually(f, "it waits", func() bool { return other.Waiting() == 1 })
	require.NoError(f, lock.Unlock(f.Context()))
	require.NoError(f, within(f, "the waiter gets the lock", waiting))
	require.NoError(f, other.Unlock(f.Context()))
}

func servedInOrder(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context()))
	const n = 10
	served := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if noError(f, lock.Lock(f.Context())) {
				served <- i
				noError(f, lock.Unlock(f.Context()))
			}
		})
		eventually(f, "it queues", func() bool { return lock.Waiting() == i+1 })
	}
	require.NoError(f, lock.Unlock(f.Context()))
	wg.Wait()
	for i := range n {
		require.Equal(f, i, <-served)
	}
}

func leavingWaiter(f *fixture) {
	lock, other := f.lock(), f.rival(rlock.WithPollInterval(time.Hour))
	for _, leaver := range []int{0, 1, 2} {
		require.NoError(f, lock.Lock(f.Context(), rlock.Lease(time.Hour)))
		var waiters [3]<-chan error
		var cancels [3]context.CancelFunc
		for i := range waiters {
			ctx, cancel := context.WithCancel(f.Context())
			defer cancel()
			cancels[i] = cancel
			waiters[i] = async(func() error {
				err := other.Lock(ctx)
				if err == nil {
					err = other.Unlock(ctx)
				}
				return err
			})
			eventually(f, "it queues", func() bool { return other.Waiting() == i+1 })
		}
		cancels[leaver]()
		require.ErrorIs(f, within(f, "the leaver leaves", waiters[leaver]), context.Canceled)
		require.NoError(f, lock.Unlock(f.Context()))
		for i, waiter := range waiters {
			if i != leaver {
				require.NoError(f, within(f, "the others get the lock", waiter))
			}
		}
	}
}

func leaseEnds(f *fixture) {
	lock, other := f.lock(), f.rival()
	start := time.Now()
	hold, err := lock.Acquire(f.Context(), rlock.Lease(time.Second))
	require.NoError(f, err)
	require.WithinDuration(f, start.Add(time.Second), hold.Deadline(), 500*time.Millisecond)
	require.NoError(f, other.Lock(f.Context()))
	require.GreaterOrEqual(f, time.Since(start), 900*time.Millisecond, "not before the lease has ended")
	require.Less(f, time.Since(start), 3*time.Second)
	within(f, "the hold is over", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrLost)
	require.ErrorIs(f, hold.Unlock(f.Context()), rlock.ErrNotHeld)
	require.NoError(f, other.Unlock(f.Context()))
}

func lateUnlock(f *fixture) {
	lock, other := f.lock(), f.rival()
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(100*time.Millisecond)))
	require.NoError(f, other.Lock(f.Context()))
	err := lock.Unlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrNotHeld)
	require.ErrorIs(f, err, rlock.ErrLost)
	require.True(f, isLocked(f, other), "the other's hold is untouched")
	require.NoError(f, other.Unlock(f.Context()))
}

func lateUnlockOnASharedHandle(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Lock(f.Context(), rlock.Lease(100*time.Millisecond)))
	require.NoError(f, lock.Lock(f.Context()))
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrLost)
	require.True(f, isLocked(f, lock))
	require.NoError(f, lock.Unlock(f.Context()))
}

func reentryKeepsLease(f *fixture) {
	lock := f.lock()
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Minute)))
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Second)))
	require.Greater(f, ttl(f, lock), 50*time.Second)
	require.NoError(f, lock.Unlock(ctx))
	require.Greater(f, ttl(f, lock), 50*time.Second)
	require.NoError(f, lock.Lock(ctx, rlock.Lease(2*time.Minute)))
	require.Greater(f, ttl(f, lock), 110*time.Second, "a longer one lengthens it")
	require.NoError(f, lock.Unlock(ctx))
	require.NoError(f, lock.Unlock(ctx))
}

func watchdogKeeps(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(time.Second))
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	ok, err := f.rival().TryLock(f.Context(), rlock.Wait(3*time.Second))
	require.NoError(f, err)
	require.False(f, ok, "it is held for three leases")
	require.NoError(f, hold.Err())
	require.NoError(f, hold.Unlock(f.Context()))
}

func watchdogStops(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	ctx := rlock.WithOwner(f.Context())
	leased, err := lock.Acquire(ctx, rlock.Lease(600*time.Millisecond))
	require.NoError(f, err)
	kept, err := lock.Acquire(ctx)
	require.NoError(f, err)
	start := time.Now()
	ok, err := f.rival().TryLock(f.Context(), rlock.Wait(1200*time.Millisecond))
	require.NoError(f, err)
	require.False(f, ok, "one entry without lease keeps them all")
	require.GreaterOrEqual(f, time.Since(start), 1200*time.Millisecond)
	require.NoError(f, kept.Unlock(ctx))
	within(f, "the leased entry ends", leased.Done())
	require.ErrorIs(f, leased.Err(), rlock.ErrLost)
	if err := leased.Unlock(ctx); err != nil { // Redis may have the holder a little longer than it is guaranteed
		require.ErrorIs(f, err, rlock.ErrLost)
	}
	require.False(f, isLocked(f, lock))
}

func unlockAfterContext(f *fixture) {
	lock := f.lock()
	ctx, cancel := context.WithCancel(f.Context())
	require.NoError(f, lock.Lock(ctx))
	cancel()
	require.NoError(f, lock.Unlock(ctx))
	require.False(f, isLocked(f, lock))
}

func forceUnlock(f *fixture) {
	lock, same := f.lock(), f.lock()
	freed, err := lock.ForceUnlock(f.Context())
	require.NoError(f, err)
	require.False(f, freed, "nobody held it")
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx))
	require.NoError(f, lock.Lock(ctx))
	third := f.rival(rlock.WithPollInterval(time.Hour))
	waiting := async(func() error { return third.Lock(f.Context()) })
	eventually(f, "it waits", func() bool { return third.Waiting() == 1 })
	freed, err = same.ForceUnlock(f.Context())
	require.NoError(f, err)
	require.True(f, freed)
	require.NoError(f, within(f, "a waiter is woken", waiting))
	for range 2 {
		require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrLost)
	}
	require.NoError(f, third.Unlock(f.Context()))
}

func forceUnlockTellsHolder(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(time.Hour)) // no renewal finds out
	lock := f.newLock(client, f.name)
	ctx := rlock.WithOwner(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	again, err := lock.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, context.Cause(hold.Context()))
	freed, err := f.newLock(client, f.name).ForceUnlock(f.Context())
	require.NoError(f, err)
	require.True(f, freed)
	within(f, "the hold is over at once", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrLost)

	_, err = lock.TryLock(ctx)
	require.ErrorIs(f, err, rlock.ErrLost, "an owner has to unlock what it lost before it locks again")
	require.True(f, tryLock(f, lock, f.Context()), "others need not")
	require.NoError(f, lock.Unlock(f.Context()))
	require.ErrorIs(f, hold.Unlock(ctx), rlock.ErrLost)
	_, err = lock.TryLock(ctx)
	require.ErrorIs(f, err, rlock.ErrLost)
	require.ErrorIs(f, again.Unlock(ctx), rlock.ErrLost)
	require.True(f, tryLock(f, lock, ctx))
	require.NoError(f, lock.Unlock(ctx))
}

func questions(f *fixture) {
	lock, same, other := f.lock(), f.lock(), f.rival()
	require.False(f, isLocked(f, lock))
	require.Zero(f, ttl(f, lock))
	require.Zero(f, holdCount(f, lock, f.Context()))
	ctx := rlock.WithOwner(f.Context())
	require.NoError(f, lock.Lock(ctx, rlock.Lease(time.Hour)))
	require.True(f, isLocked(f, same))
	require.InDelta(f, time.Hour, ttl(f, same), float64(time.Minute))
	require.Equal(f, 1, holdCount(f, lock, ctx))
	require.Zero(f, holdCount(f, lock, rlock.WithOwner(f.Context())))
	require.Zero(f, holdCount(f, same, f.Context()))
	require.Zero(f, holdCount(f, other, f.Context()))
	require.NoError(f, lock.Unlock(ctx))
	require.False(f, isLocked(f, same))
	require.NoError(f, lock.Lock(f.Context()))
	require.InDelta(f, 30*time.Second, ttl(f, lock), float64(5*time.Second), "the watchdog timeout")
	require.NoError(f, lock.Unlock(f.Context()))
}

func questionsWithoutOwner(f *fixture) {
	lock, same := f.lock().(*rlock.Lock), f.lock().(*rlock.Lock)
	require.Equal(f, f.name, lock.Name())
	require.NoError(f, lock.Lock(f.Context()))
	for _, q := range []struct {
		lock *rlock.Lock
		ctx  context.Context
		held bool
	}{
		{lock, f.Context(), true},
		{lock, rlock.WithOwner(f.Context()), false},
		{same, f.Context(), false},
	} {
		held, err := q.lock.IsHeld(q.ctx)
		require.NoError(f, err)
		require.Equal(f, q.held, held)
		require.Equal(f, q.held, holdCount(f, q.lock, q.ctx) == 1)
	}
	require.NoError(f, lock.Unlock(f.Context()))
}

func doUnlocks(f *fixture) {
	lock := f.lock()
	boom := errors.New("boom")
	require.Equal(f, boom, lock.Do(f.Context(), func(context.Context) error { return boom }), "as it is")
	require.False(f, isLocked(f, lock))
	require.PanicsWithValue(f, "boom", func() {
		_ = lock.Do(f.Context(), func(context.Context) error { panic("boom") })
	})
	require.False(f, isLocked(f, lock))
	ctx, cancel := context.WithCancel(f.Context())
	require.NoError(f, lock.Do(ctx, func(context.Context) error { cancel(); return nil }))
	require.False(f, isLocked(f, lock))
}

func doSkips(f *fixture) {
	lock := f.lock()
	require.NoError(f, lock.Do(f.Context(), func(context.Context) error {
		err := f.rival().Do(f.Context(), func(context.Context) error {
			f.Error("two at work")
			return nil
		}, rlock.Wait(0))
		require.ErrorIs(f, err, rlock.ErrNotAcquired)
		return nil
	}))
}

func doReportsLoss(f *fixture) {
	lock := f.lock(rlock.WithWatchdogTimeout(300 * time.Millisecond))
	boom := errors.New("boom")
	for _, result := range []error{nil, boom} {
		err := lock.Do(f.Context(), func(ctx context.Context) error {
			for _, key := range lock.Keys() {
				require.NoError(f, f.rdb.Del(f.Context(), key).Err())
			}
			<-ctx.Done()
			require.ErrorIs(f, context.Cause(ctx), rlock.ErrLost)
			return result
		})
		require.ErrorIs(f, err, rlock.ErrLost)
		if result != nil {
			require.ErrorIs(f, err, result)
		}
	}
	err := lock.Do(f.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }, rlock.Lease(50*time.Millisecond))
	require.ErrorIs(f, err, rlock.ErrLost, "the work outlasted the lease")
}

func holdEndsOnce(f *fixture) {
	lock := f.lock()
	hold, err := lock.Acquire(f.Context())
	require.NoError(f, err)
	require.NoError(f, hold.Err())
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrNotHeld, "what Acquire took is its Hold's")
	var nils atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := hold.Unlock(f.Context()); {
			case err == nil:
				nils.Add(1)
			case !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost):
				f.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(f, 1, nils.Load())
	within(f, "the hold is over", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrNotHeld)
	require.NotErrorIs(f, hold.Err(), rlock.ErrLost)
	require.ErrorIs(f, context.Cause(hold.Context()), rlock.ErrNotHeld)
}

func holdContextIsChild(f *fixture) {
	lock := f.lock()
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(f.Context())
	hold, err := lock.Acquire(ctx)
	require.NoError(f, err)
	require.NoError(f, hold.Context().Err())
	cancel(because)
	require.ErrorIs(f, context.Cause(hold.Context()), because)
	require.NoError(f, hold.Err(), "the hold itself goes on")
	require.True(f, isLocked(f, lock))
	require.NoError(f, hold.Unlock(ctx))
}

func closeStops(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(time.Second))
	lock := f.newLock(client, f.name)
	require.NoError(f, lock.Lock(f.Context()))
	hold, err := f.newLock(client, newName()).Acquire(f.Context())
	require.NoError(f, err)
	ctx := hold.Context()
	rival := f.newRival(client, f.name)
	waiting := async(func() error { return rival.Lock(f.Context()) })
	queued := async(func() error { return rival.Lock(f.Context()) })
	eventually(f, "they wait", func() bool { return rival.Waiting() == 2 })
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { noError(f, client.Close()) })
	}
	wg.Wait()
	require.ErrorIs(f, within(f, "the head's wait ends", waiting), rlock.ErrClosed)
	require.ErrorIs(f, within(f, "the queue's wait ends", queued), rlock.ErrClosed)
	within(f, "the hold is told", hold.Done())
	require.ErrorIs(f, hold.Err(), rlock.ErrClosed)
	require.ErrorIs(f, context.Cause(ctx), rlock.ErrClosed)
	require.True(f, isLocked(f, f.lock()), "nothing is released")

	require.ErrorIs(f, lock.Lock(f.Context()), rlock.ErrClosed)
	_, err = lock.TryLock(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)
	_, err = lock.IsLocked(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)
	_, err = lock.ForceUnlock(f.Context())
	require.ErrorIs(f, err, rlock.ErrClosed)

	require.NoError(f, lock.Unlock(f.Context()), "but what is held can be unlocked")
	require.NoError(f, hold.Unlock(f.Context()))
	require.False(f, isLocked(f, f.lock()))
	require.NoError(f, f.rdb.Ping(f.Context()).Err(), "the redis client stays open")
}

func closedClientsLeaseEnds(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(500 * time.Millisecond))
	lock := f.newLock(client, f.name)
	require.NoError(f, lock.Lock(f.Context()))
	require.NoError(f, client.Close())
	other := f.rival()
	require.NoError(f, other.Lock(f.Context(), rlock.Wait(5*time.Second)))
	require.ErrorIs(f, lock.Unlock(f.Context()), rlock.ErrLost)
	require.NoError(f, other.Unlock(f.Context()))
}

func cancelledNotRenewed(f *fixture) {
	client := f.client(rlock.WithWatchdogTimeout(200 * time.Millisecond))
	lock := f.newLock(client, f.name)
	for range 20 {
		ctx, cancel := context.WithCancel(f.Context())
		trying := async(func() error { return second(lock.TryLock(ctx, rlock.Wait(time.Minute))) })
		cancel()
		if within(f, "the call returns", trying) == nil {
			require.NoError(f, lock.Unlock(ctx))
		} else {
			require.ErrorIs(f, lock.Unlock(ctx), rlock.ErrNotHeld)
		}
	}
	eventually(f, "nothing is planned", func() bool { return client.Remains() == 0 && !isLocked(f, lock) })
	stays(f, "and nothing comes back", func() bool { return !isLocked(f, lock) })
}

func thousandsOfTurns(f *fixture) {
	client := f.client()
	locks := make([]locker, 5)
	for i := range locks {
		locks[i] = f.newLock(client, fmt.Sprintf("%s:%d", f.name, i))
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 40 {
				lock := locks[(i+n)%len(locks)]
				if !noError(f, lock.Lock(f.Context())) || !noError(f, lock.Unlock(f.Context())) {
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(f, "no channel is left", func() bool {
		return len(f.rdb.PubSubChannels(f.Context(), "*"+f.name+"*").Val()) == 0 && client.Remains() == 0
	})
}

func nothingLeft(f *fixture) {
	client := f.client()
	lock, other := f.newLock(client, f.name), f.rival()
	require.NoError(f, other.Lock(f.Context()))
	ctx, cancel := context.WithCancel(f.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(f, "it waits", func() bool { return lock.Waiting() == 1 })
	cancel()
	require.Error(f, within(f, "the wait ends", waiting))
	require.NoError(f, other.Unlock(f.Context()))
	require.NoError(f, lock.Do(f.Context(), func(ctx context.Context) error {
		return lock.Do(ctx, func(context.Context) error { return nil })
	}))
	eventually(f, "client and Redis are as before", func() bool {
		return client.Remains() == 0 && !leftIn(f, f.rdb, lock.Keys())
	})
}

// leftIn tells whether any of the keys of a lock is left that should not be. A fencing token stays for good, and a number
// that is abandoned for its time.
func leftIn(tb testing.TB, rdb redis.UniversalClient, keys []string) bool {
	tb.Helper()
	for _, key := range keys {
		ttl, err := rdb.PTTL(context.Background(), key).Result()
		require.NoError(tb, err)
		switch {
		case ttl == -2, strings.HasPrefix(key, "redisson_lock_token:"):
		case ttl > 0 && strings.HasPrefix(key, "redisson_unlock_latch:"):
		default:
			return true
		}
	}
	return false
}

func holdCount(f *fixture, lock locker, ctx context.Context) int { //nolint:revive // the fixture goes first
	f.Helper()
	n, err := lock.HoldCount(ctx)
	require.NoError(f, err)
	return n
}

func tryLock(f *fixture, lock locker, ctx context.Context) bool { //nolint:revive // the fixture goes first
	f.Helper()
	ok, err := lock.TryLock(ctx)
	require.NoError(f, err)
	return ok
}

func isLocked(f *fixture, lock locker) bool {
	f.Helper()
	locked, err := lock.IsLocked(f.Context())
	require.NoError(f, err)
	return locked
}

func ttl(f *fixture, lock locker) time.Duration {
	f.Helper()
	d, err := lock.TTL(f.Context())
	require.NoError(f, err)
	return d
}
