// Package rlocktest helps to test code that uses rlock, without a Redis.
//
//	func TestInvoice(t *testing.T) {
//		locks := rlocktest.New(t)
//		release := rlocktest.HoldElsewhere(t, locks, func(elsewhere *rlock.Client) *rlock.Lock {
//			return elsewhere.NewLock("invoice:42") // another process has the lock
//		})
//		…
//	}
//
// The locks run the same scripts as in production, on an embedded server whose clock runs. It has no sockets, so the kit also works in
// a bubble of testing/synctest, where waiting takes no time. Tests that use the kit may run in parallel.
package rlocktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlocktest/internal/server"
)

// kit is the server of a client.
type kit struct {
	*server.Server

	opts []rlock.Option
}

// kits has the kit of each client.
var kits sync.Map

// New returns a client on an embedded server of its own. Both are closed when the test ends. A lock, or a permit, that is still held then
// fails the test, with the line that has locked it.
func New(tb testing.TB, opts ...rlock.Option) *rlock.Client {
	tb.Helper()
	k := &kit{server.New(time.Now), opts}
	tb.Cleanup(k.Close)
	return k.client(tb)
}

// client returns a client of the server, which ends with the test.
func (k *kit) client(tb testing.TB) *rlock.Client {
	tb.Helper()
	all := new(held)
	locks, stop, err := k.Client(append(slices.Clone(k.opts), rlock.WithObserver(all)))
	if err != nil {
		tb.Fatal(err)
	}
	kits.Store(locks, k)
	tb.Cleanup(func() {
		kits.Delete(locks)
		n := locks.Stats().Held
		all.end()
		stop()
		if n > 0 {
			tb.Errorf("rlocktest: still held at the end of the test, %d in all:%s", n, all)
		}
	})
	return locks
}

// of returns the kit of a client.
func of(tb testing.TB, locks *rlock.Client) *kit {
	tb.Helper()
	k, ok := kits.Load(locks)
	if !ok {
		tb.Fatal("rlocktest: the client is not one of New, or its test has ended")
	}
	return k.(*kit) //nolint:forcetypeassert // nothing else is stored
}

// handle is what acquires for HoldElsewhere.
type handle interface {
	TryAcquire(ctx context.Context, opts ...rlock.AcquireOption) (*rlock.Hold, error)
}

// HoldElsewhere has another process, which has the options of locks, hold what open makes of its client: a lock of any kind, a group of
// locks, or a permit. It must be what the code under test waits for, because kinds do not wake each other's waiters. HoldElsewhere returns
// what makes the process unlock; the end of the test does that too. It fails the test if it is held already. After [Advance], the process
// is one that has died.
func HoldElsewhere[H handle](tb testing.TB, locks *rlock.Client, open func(elsewhere *rlock.Client) H) (release func()) {
	tb.Helper()
	other := of(tb, locks).client(tb)
	hold, err := open(other).TryAcquire(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			if err := hold.Unlock(context.Background()); err != nil && !errors.Is(err, rlock.ErrLost) { // as after Advance or Lose
				tb.Errorf("rlocktest: %v", err)
			}
		})
	}
	tb.Cleanup(release)
	return release
}

// Lose takes a lock away from its holders, as an operator might. The holds of its client are lost at once: their contexts end, and their
// unlocks return [rlock.ErrLost]. It fails the test if nobody holds the lock.
func Lose(tb testing.TB, lock *rlock.Lock) {
	tb.Helper()
	freed, err := lock.ForceUnlock(context.Background())
	switch {
	case err != nil:
		tb.Fatal(err)
	case !freed:
		tb.Fatalf("rlocktest: nobody holds %q", lock.Name())
	}
}

// Outage breaks all connections to the server, also those of HoldElsewhere, and refuses new ones, until end is called or the test ends. Locks whose leases end
// meanwhile are lost.
func Outage(tb testing.TB, locks *rlock.Client) (end func()) {
	tb.Helper()
	k := of(tb, locks)
	k.Outage(true)
	end = func() { k.Outage(false) }
	tb.Cleanup(end)
	return end
}

// Advance moves the server's clock ahead, and no other: leases of less than d end in Redis, before their holders would expect that. It is
// for locks of processes that have died. For those of this process, sleep in a bubble of testing/synctest. The least d is 1 ms, the unit of
// leases: less ends the test, as a negative d does.
func Advance(tb testing.TB, locks *rlock.Client, d time.Duration) {
	tb.Helper()
	if d < time.Millisecond {
		tb.Fatalf("rlocktest: advance by %v, but the least is 1ms; a number without a unit is in nanoseconds", d)
	}
	of(tb, locks).Advance(d)
}
