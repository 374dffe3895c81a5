package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestTheRightsOfALatchAreMinimal does so for count-down latches.
func TestTheRightsOfALatchAreMinimal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := testkit.Rights(t, "a count-down latch, by itself")
	eachIsNeeded(t, testkit.Admins(t, server), testkit.OpenAs(t, server), all, all, (*trial).countsDown)
}

// TestTheRightsOfASemaphoreAreMinimal does so for semaphores.
func TestTheRightsOfASemaphoreAreMinimal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := testkit.Rights(t, "a semaphore, by itself")
	eachIsNeeded(t, testkit.Admins(t, server), testkit.OpenAs(t, server), all, all, (*trial).takesPermits)
}

// TestTheRightsOfAPlainSemaphoreAreMinimal does so for plain semaphores.
func TestTheRightsOfAPlainSemaphoreAreMinimal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := testkit.Rights(t, "a plain semaphore, by itself")
	eachIsNeeded(t, testkit.Admins(t, server), testkit.OpenAs(t, server), all, all, (*trial).takesPlainPermits)
}

// takesPlainPermits exercises every feature of a plain semaphore.
func (u *trial) takesPlainPermits() error {
	ctx, cancel := context.WithTimeout(u.Context(), testkit.ALongTime)
	defer cancel()
	admin, client := u.nodes[0], u.newClient()
	require.NoError(u, admin.ScriptFlush(ctx).Err())
	sem := client.NewPlainSemaphore(testkit.NewName(), rlock.Total(2))
	mark := wire.NewLatch(testkit.AppPrefix+sem.Name(), client.ID()).Mark(88)
	marks, _ := mark.Keys[0].(string)
	before := u.calls("ping")
	var hold *rlock.Hold
	var waiting <-chan error
	return u.all(
		func() (err error) {
			hold, err = sem.Acquire(ctx, rlock.Permits(2))
			return err
		},
		func() error {
			waiting = testkit.Async(func() error { return sem.Do(ctx, func(context.Context) error { return nil }) })
			return u.until("a caller waits", func() bool { return client.Stats().Waiting == 1 })
		},
		func() error {
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return hold.Unlock(ctx) },
		func() error { return u.result("the waiter has its turn", waiting) },
		func() error { return testkit.Second(sem.AvailablePermits(ctx)) },
		func() error { // a mark where there are many, some of which have expired
			for i := admin.HLen(ctx, marks).Val(); i < 127; i++ {
				require.NoError(u, admin.HSet(ctx, marks, -i, 1).Err())
			}
			return sem.AddPermits(ctx, 5)
		},
		func() error { return sem.Release(ctx, 1) },
		func() error {
			return u.rdb.Eval(ctx, mark.Script.Source, []string{marks}, mark.AppendArgv(nil)...).Err()
		},
		func() error { return testkit.Second(sem.DrainPermits(ctx)) },
		func() error { return testkit.Second(sem.Delete(ctx)) },
		func() error { return testkit.Second(sem.TrySetPermits(ctx, 1, rlock.ExpireAfter(time.Hour))) },
		func() error {
			return u.until("nothing is subscribed", func() bool { return len(admin.PubSubChannels(ctx, "*").Val()) == 0 })
		},
	)
}

// takesPermits exercises every feature of a semaphore.
func (u *trial) takesPermits() error {
	ctx, cancel := context.WithTimeout(u.Context(), testkit.ALongTime)
	defer cancel()
	admin, client := u.nodes[0], u.newClient()
	require.NoError(u, admin.ScriptFlush(ctx).Err())
	sem := client.NewSemaphore(testkit.NewName(), rlock.Total(2))
	mark := wire.NewLatch(testkit.AppPrefix+sem.Name(), client.ID()).Mark(88)
	marks, _ := mark.Keys[0].(string)
	before := u.calls("ping")
	var hold *rlock.Hold
	var waiting <-chan error
	return u.all(
		func() (err error) {
			hold, err = sem.Acquire(ctx, rlock.Permits(2), rlock.RenewedLease(900*time.Millisecond))
			return err
		},
		func() error {
			waiting = testkit.Async(func() error { return sem.Do(ctx, func(context.Context) error { return nil }) })
			return u.until("a caller waits", func() bool { return client.Stats().Waiting == 1 })
		},
		func() error { return u.until("it is renewed", func() bool { return client.Stats().Renewals > 1 }) },
		func() error {
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return testkit.Second(sem.Extend(ctx, hold.PermitIDs()[0], time.Minute)) },
		func() error { return hold.Unlock(ctx) },
		func() error { return u.result("the waiter has its turn", waiting) },
		func() error { return testkit.Second(sem.Permits(ctx)) },
		func() error {
			return testkit.Second(sem.TryAcquire(ctx, rlock.Permits(2), rlock.Lease(100*time.Millisecond)))
		},
		func() error { return testkit.Second(sem.Acquire(ctx, rlock.Lease(time.Minute))) },
		func() error { // a mark where there are many, some of which have expired
			for i := admin.HLen(ctx, marks).Val(); i < 127; i++ {
				require.NoError(u, admin.HSet(ctx, marks, -i, 1).Err())
			}
			return sem.SetPermits(ctx, 5)
		},
		func() error { return sem.AddPermits(ctx, 1) },
		func() error { return testkit.Second(sem.Delete(ctx)) },
		func() error { return testkit.Second(sem.TrySetPermits(ctx, 1, rlock.ExpireAfter(time.Hour))) },
		func() error {
			return u.until("nothing is subscribed", func() bool { return len(admin.PubSubChannels(ctx, "*").Val()) == 0 })
		},
	)
}

// countsDown exercises every feature of a count-down latch.
func (u *trial) countsDown() error {
	ctx, cancel := context.WithTimeout(u.Context(), testkit.ALongTime)
	defer cancel()
	admin, client := u.nodes[0], u.newClient()
	require.NoError(u, admin.ScriptFlush(ctx).Err())
	latch := client.NewCountDownLatch(testkit.NewName())
	mark := wire.NewLatch(testkit.AppPrefix+latch.Name(), client.ID()).Mark(88)
	marks, _ := mark.Keys[0].(string)
	before := u.calls("ping")
	var waiting <-chan error
	return u.all(
		func() error { return testkit.Second(latch.TrySetCount(ctx, 2)) },
		func() error {
			waiting = testkit.Async(func() error { return latch.Await(ctx) })
			return u.until("the caller waits", func() bool { return testkit.Awaited(latch, 1) })
		},
		func() error {
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return testkit.Second(latch.CountDown(ctx)) },
		func() error { // a mark where there are many, some of which have expired
			for i := admin.HLen(ctx, marks).Val(); i < 127; i++ {
				require.NoError(u, admin.HSet(ctx, marks, -i, 1).Err())
			}
			return u.rdb.Eval(ctx, mark.Script.Source, []string{marks}, mark.AppendArgv(nil)...).Err()
		},
		func() error { return testkit.Second(latch.Count(ctx)) },
		func() error { return testkit.Second(latch.CountDown(ctx)) },
		func() error { return u.result("the latch is open", waiting) },
		func() error { return testkit.Second(latch.TrySetCount(ctx, 1)) },
		func() error { return testkit.Second(latch.Delete(ctx)) },
		func() error {
			return u.until("nothing is subscribed", func() bool { return len(admin.PubSubChannels(ctx, "*").Val()) == 0 })
		},
	)
}
