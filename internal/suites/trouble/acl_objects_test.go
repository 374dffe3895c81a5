package trouble

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
	undo := wire.NewSemaphore(wire.NewNames(wire.PlainPermit, testkit.AppPrefix+sem.Name(), client.ID())).Undo(88, 1)
	undo.Args.Publish = wire.PublishPlain
	before := u.calls("ping")
	var waiting <-chan error
	return u.all(
		func() error { return sem.Acquire(ctx, rlock.Permits(2)) },
		func() error {
			waiting = testkit.Async(func() error { return sem.Acquire(ctx) })
			return u.until("a caller waits", func() bool { return client.Stats().Waiting == 1 })
		},
		func() error {
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return sem.Release(ctx, 2) },
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
		func() error {
			return u.rdb.Eval(ctx, undo.Script.Source, []string{testkit.AppPrefix + sem.Name(), marks}, undo.AppendArgv(nil)...).Err()
		},
		func() error { return testkit.Second(sem.DrainPermits(ctx)) },
		func() error { return testkit.Second(sem.Delete(ctx)) },
		func() error {
			return testkit.Second(client.NewPlainSemaphore(sem.Name(), rlock.ExpireAfter(time.Hour)).TrySetPermits(ctx, 1))
		},
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
		func() error { return hold.Unlock(ctx) },
		func() error { return u.result("the waiter has its turn", waiting) },
		func() error { return testkit.Second(sem.Permits(ctx)) },
		func() error {
			for {
				err := testkit.Second(sem.TryAcquire(ctx, rlock.Permits(2), rlock.Lease(100*time.Millisecond)))
				if !errors.Is(err, rlock.ErrUnavailable) || u.over() || ctx.Err() != nil { // the reply may come when the lease is nearly over
					return err
				}
			}
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
		func() error {
			return testkit.Second(client.NewSemaphore(sem.Name(), rlock.ExpireAfter(time.Hour)).TrySetPermits(ctx, 1))
		},
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

// TestTheRightsOfInspectAreMinimal does so for Inspect of a plain lock, and shows that they are enough for the other kinds.
func TestTheRightsOfInspectAreMinimal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admins := testkit.Admins(t, server)
	tested := testkit.Rights(t, "Lock.Inspect`, in addition to the kind")
	for kind, k := range testkit.Kinds {
		if k.Groups {
			continue
		}
		all, some := append(testkit.Rights(t, testkit.RowsOf[kind]...), tested...), tested
		if kind != "lock" {
			some = nil
		}
		t.Run(kind, func(t *testing.T) {
			eachIsNeeded(t, admins, testkit.OpenAs(t, server), all, some, func(u *trial) error {
				lock := testkit.MakeLock(kind, u.newClient(), testkit.NewName())
				if testkit.ByTurns(kind) {
					line := "rlock:{" + testkit.AppPrefix + lock.Name() + "}"
					require.NoError(t, u.nodes[0].ZAdd(u.Context(), line, redis.Z{Score: 1, Member: "client:1|3000|"}).Err())
				} else if testkit.Lined(kind) {
					line := "redisson_unlock_latch:{" + testkit.AppPrefix + lock.Name() + "}:waiters"
					require.NoError(t, u.nodes[0].ZAdd(u.Context(), line, redis.Z{Score: 1, Member: "client:1|3000"}).Err())
				} else {
					queue := "redisson_lock_queue:{" + testkit.AppPrefix + lock.Name() + "}"
					require.NoError(t, u.nodes[0].RPush(u.Context(), queue, "client:1").Err())
				}
				info, err := lock.Inspect(u.Context())
				if err == nil && kind != "spin" && !u.over() { // whose users have no right to a line
					require.Equal(t, 1, info.WaiterCount)
				}
				return err
			})
		})
	}
}

// TestAnIdentityThatMayNotBeWritten fails nothing, and is logged once.
func TestAnIdentityThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := testkit.Rights(t, testkit.RowsOf["lock"]...)
	rdb := testkit.OpenAs(t, server)(testkit.NewUser(t, testkit.Admins(t, server), rights...))
	log := &testkit.Recorder{}
	client := testkit.NewClient(t, rdb, rlock.WithIdentity(rlock.AutoIdentity()), rlock.WithLogger(log.Logger())) // without the prefix
	lock := client.NewLock(testkit.AppPrefix + testkit.NewName())
	for range 3 {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	testkit.Eventually(t, "it is logged", func() bool { return log.String() != "" })
	require.Equal(t, 1, strings.Count(log.String(), "identity"))
	require.NoError(t, client.Close())
}
