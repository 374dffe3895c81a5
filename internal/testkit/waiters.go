package testkit

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// WaiterQueue adds waiters for one lock one by one, so that their order is known.
type WaiterQueue struct {
	testing.TB
	Lock *rlock.Lock
	Got  chan *rlock.Hold // in the order of acquisition
	Errs chan error       // of waiters that fail
}

// NewWaiterQueue returns a queue without waiters.
func NewWaiterQueue(tb testing.TB, lock *rlock.Lock) *WaiterQueue {
	tb.Helper()
	q := &WaiterQueue{tb, lock, make(chan *rlock.Hold, 1000), make(chan error, 1000)}
	tb.Cleanup(q.unlockAll)
	return q
}

// unlockAll unlocks what waiters have acquired that nobody received. Otherwise a hold would be reported as dropped.
func (q *WaiterQueue) unlockAll() {
	for {
		select {
		case hold := <-q.Got:
			_ = hold.Unlock(q.Context()) // which has ended: it waits for nothing
		default:
			return
		}
	}
}

// Join adds a waiter, and returns when it waits.
func (q *WaiterQueue) Join(ctx context.Context, opts ...rlock.AcquireOption) {
	q.Helper()
	n := Waiting(q.Lock)
	go func() {
		if hold, err := q.Lock.Acquire(ctx, opts...); err == nil {
			q.Got <- hold
		} else {
			q.Errs <- err
		}
	}()
	Eventually(q, "it waits", func() bool { return Waiting(q.Lock) == n+1 })
}

// AwaitSleep waits until the first waiter sleeps. That waiter has asked once after it subscribed, although this process holds
// the lock.
func (q *WaiterQueue) AwaitSleep(admin *redis.Client) {
	q.Helper()
	AwaitSleepers(q, admin, 2, q.Lock)
	require.NoError(q, admin.ConfigResetStat(context.Background()).Err())
}

// AwaitSleepers waits until at least ran scripts have run, and the first waiter of each lock sleeps and is reached by messages.
func AwaitSleepers(tb testing.TB, admin *redis.Client, ran int, locks ...*rlock.Lock) {
	tb.Helper()
	Eventually(tb, "the first waiters sleep", func() bool {
		return Stats(tb, admin)["evalsha"] >= ran && !slices.ContainsFunc(locks, func(l *rlock.Lock) bool { return !Rests(l) || !Listens(l) })
	})
}

// Next waits until a waiter has the lock, and returns its hold.
func (q *WaiterQueue) Next() *rlock.Hold {
	q.Helper()
	return Within(q, "the next waiter acquires the lock", q.Got)
}

// AwaitLatch awaits a latch n times, each on a goroutine of its own, and returns when all of them listen.
func AwaitLatch(tb testing.TB, latch *rlock.CountDownLatch, n int) <-chan error {
	tb.Helper()
	errs := make(chan error, n)
	for range n {
		go func() { errs <- latch.Await(tb.Context()) }()
	}
	Eventually(tb, "all calls wait", func() bool { return Awaited(latch, n) })
	return errs
}

// Opens requires calls of Await to return nil.
func Opens(tb testing.TB, errs <-chan error, n int) {
	tb.Helper()
	for range n {
		require.NoError(tb, Within(tb, "the latch is open", errs))
	}
}
