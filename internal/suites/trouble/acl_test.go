package trouble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// trial runs a lock as a user with limited rights. It is over as soon as Redis denies that user anything.
type trial struct {
	*testing.T
	nodes []*redis.Client // as a user with all rights
	user  string
	rdb   redis.UniversalClient
}

func (u *trial) over() bool { return len(testkit.Denied(u.nodes, u.user)) > 0 }

// until waits for a condition, unless the trial is over.
func (u *trial) until(what string, condition func() bool) error {
	over := false
	testkit.Eventually(u, what, func() bool {
		over = u.over()
		return over || condition()
	})
	if over {
		return fmt.Errorf("denied before %s", what)
	}
	return nil
}

// result waits for the error on a channel that async returned, unless the trial is over.
func (u *trial) result(what string, from <-chan error) error {
	if err := u.until(what, func() bool { return len(from) == 1 }); err != nil {
		return err
	}
	return <-from
}

// calls counts the calls of a command on all nodes.
func (u *trial) calls(command string) (n int) {
	for _, admin := range u.nodes {
		n += testkit.Stats(u, admin)[command]
	}
	return n
}

func (u *trial) newClient(opts ...rlock.Option) *rlock.Client {
	return testkit.NewClient(u, u.rdb, append([]rlock.Option{
		rlock.WithLogger(testkit.Discard), rlock.WithKeyPrefix(testkit.AppPrefix), rlock.WithWatchdogTimeout(1500 * time.Millisecond),
		tune.PollInterval(20 * time.Millisecond), tune.HandOver(1, time.Hour),
	}, opts...)...)
}

// all runs steps until one fails or Redis denies something.
func (u *trial) all(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if u.over() {
			return fmt.Errorf("step %d: something was denied", i+1)
		}
	}
	return nil
}

// eachIsNeeded runs a trial with all of the rights, which must succeed. It then runs a trial without each tested right, in
// which Redis must deny something.
func eachIsNeeded(
	t *testing.T, nodes []*redis.Client, open func(user string) redis.UniversalClient, all, tested []string,
	run func(*trial) error,
) {
	t.Helper()
	connect.NeedsGoRedis(t)
	for _, rule := range append([]string{""}, tested...) {
		t.Run("without "+rule, func(t *testing.T) {
			rules := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == rule })
			u := &trial{T: t, nodes: nodes}
			attempt := func() error {
				u.user = testkit.NewUser(t, nodes, rules...)
				u.rdb = open(u.user)
				return run(u)
			}
			err := attempt()
			for range 2 { // its leases are short, and a machine that stands still may lose one before the denied step
				if !errors.Is(err, rlock.ErrLost) || u.over() {
					break
				}
				err = attempt()
			}
			if rule == "" {
				require.NoError(t, err, "denied: %q", testkit.Denied(nodes, u.user))
				return
			}
			require.NotEmpty(t, testkit.Denied(nodes, u.user), "nothing was denied without it; error: %v", err)
		})
	}
}

// TestTheRightsOfEachKindAreMinimal shows that each kind needs every right that SECURITY.md lists for it.
func TestTheRightsOfEachKindAreMinimal(t *testing.T) {
	t.Parallel()
	for name, sides := range map[string][]string{
		"lock": {"lock"}, "fenced": {"fenced"}, "spin": {"spin"}, "fair": {"fair"}, "read-write": {"read", "write"},
		"fenced fair": {"fenced fair"}, "fenced read-write": {"fenced write", "read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			all := testkit.Rights(t, testkit.RowsOf[sides[0]]...)
			eachIsNeeded(t, testkit.Admins(t, server), testkit.OpenAs(t, server), all, all, func(u *trial) error {
				for _, kind := range sides {
					if err := u.use(kind); err != nil {
						return fmt.Errorf("%s: %w", kind, err)
					}
				}
				return nil
			})
		})
	}
}

func TestTheRightToWaitForReplicasIsNeeded(t *testing.T) { // the subtests share a server
	t.Parallel()
	server := redistest.Start(t)
	tested := testkit.Rights(t, "WithReplicaAcks")
	all := append(testkit.Rights(t, testkit.RowsOf["lock"]...), tested...)
	eachIsNeeded(t, testkit.Admins(t, server), testkit.OpenAs(t, server), all, tested, func(u *trial) error {
		err := u.newClient(rlock.WithReplicaAcks(1, 50*time.Millisecond)).NewLock(testkit.NewName()).Lock(u.Context())
		if errors.Is(err, rlock.ErrNotReplicated) && strings.Contains(err.Error(), "0 of 1 replicas") {
			return nil // the user may call WAIT
		}
		return err
	})
}

// exports hands a hold over by a ticket.
func (*trial) exports(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	ticket, err := hold.Export(ctx)
	if errors.Is(err, rlock.ErrInvalidOption) { // a read lock has no tickets
		return hold.Unlock(ctx)
	}
	if err != nil {
		return err
	}
	if hold, err = lock.Adopt(ctx, ticket); err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

// use exercises every feature of a kind of lock.
func (u *trial) use(kind string) error {
	ctx, cancel := context.WithTimeout(u.Context(), testkit.ALongTime)
	defer cancel()
	admin, client, name := u.nodes[0], u.newClient(), testkit.NewName()
	require.NoError(u, admin.ScriptFlush(ctx).Err())
	lock := testkit.Kinds[kind].Make(client, name).(*rlock.Lock)
	rival := lock
	if testkit.Kinds[kind].Rival != nil {
		rival = testkit.Kinds[kind].Rival(client, name).(*rlock.Lock)
	}
	owner := rlock.WithOwner(ctx)
	var hold *rlock.Hold
	return u.all(
		func() (err error) { hold, err = lock.Acquire(owner); return err },
		func() error { return lock.Lock(owner) },
		func() error { return lock.Unlock(owner) },
		func() error {
			before := hold.Deadline()
			return u.until("the hold is renewed", func() bool { return hold.Deadline().After(before) })
		},
		func() error { return u.waits(ctx, rival, hold) },
		func() error { return testkit.Second(rival.IsLocked(ctx)) },
		func() error { return testkit.Second(rival.HoldCount(ctx)) },
		func() error { return testkit.Second(rival.ForceUnlockFrom(ctx, testkit.Stranger)) },
		func() error { return testkit.Second(rival.ForceUnlock(ctx)) },
		func() error { return u.exports(ctx, lock) },
		func() error { return u.queues(ctx, admin, kind, name) },
		func() error { // a lock without a lease gets one
			if testkit.ByTurns(kind) {
				return nil
			}
			require.NoError(u, admin.HSet(ctx, testkit.AppPrefix+name, testkit.Stranger, 1).Err())
			return testkit.Second(lock.TryLock(ctx))
		},
		func() error { return u.repeats(ctx, client, kind) },
		func() error { return u.beside(ctx, admin, kind) },
		func() error { return u.handsOver(ctx, admin, kind) },
		func() error { return u.leavesTombstone(ctx, admin, kind, lock) },
		func() error { return u.listens(ctx, admin, client, kind) },
		func() error { return u.leavesMany(ctx, client, kind) },
	)
}

// leavesMany has a reader leave so many others that a script looks at some of them.
func (u *trial) leavesMany(ctx context.Context, client *rlock.Client, kind string) (err error) {
	if kind != "read" {
		return nil
	}
	lock := client.NewRWLock(testkit.NewName()).Reader()
	var last *rlock.Hold
	for range 18 {
		if last, err = lock.Acquire(ctx, rlock.Lease(time.Minute)); err != nil {
			return err
		}
	}
	return last.Unlock(ctx)
}

// waits has three callers wait for a held lock. The wait of one ends first. Of the other two, one gets the lock by a
// hand-over and one by a message.
func (u *trial) waits(ctx context.Context, rival *rlock.Lock, hold *rlock.Hold) error {
	job := func(context.Context) error { return nil }
	waiting := []<-chan error{
		testkit.Async(func() error { return rival.Do(ctx, job) }),
		testkit.Async(func() error { return rival.Do(ctx, job) }),
	}
	if err := u.until("two callers wait", func() bool { return testkit.Waiting(rival) == 2 }); err != nil {
		return err
	}
	if ok, err := rival.TryLock(ctx, rlock.Wait(20*time.Millisecond)); ok || err != nil {
		return fmt.Errorf("got the lock: %v, %w", ok, err)
	}
	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	for _, waiter := range waiting {
		if err := u.result("a waiter acquires the lock", waiter); err != nil {
			return err
		}
	}
	return rival.Lock(ctx)
}

// queues has a fair lock evict dead waiters from the head of its queue. Then one waits behind a living waiter of Redisson. In the
// end, a release gives the lock to a waiter of another client.
func (u *trial) queues(ctx context.Context, admin *redis.Client, kind, name string) error {
	if kind != "fair" && kind != "fenced fair" {
		return nil
	}
	lock := testkit.MakeLock(kind, u.newClient(), name)
	require.NoError(u, admin.RPush(ctx, testkit.Keys(lock)[1], testkit.Stranger, testkit.Stranger+"1").Err())
	require.NoError(u, admin.ZAdd(ctx, testkit.Keys(lock)[2], redis.Z{Score: 1, Member: testkit.Stranger}).Err())
	if err := lock.Do(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	// In this order: the late release of a caller that left would remove a waiter without a deadline.
	require.NoError(u, admin.ZAdd(ctx, testkit.Keys(lock)[2], redis.Z{Score: 1e13, Member: testkit.Stranger}).Err())
	require.NoError(u, admin.RPush(ctx, testkit.Keys(lock)[1], testkit.Stranger).Err())
	defer admin.Del(ctx, testkit.Keys(lock)...)
	if ok, err := lock.TryLock(ctx, rlock.Wait(100*time.Millisecond)); ok || err != nil {
		return fmt.Errorf("got the lock: %v, %w", ok, err)
	}
	require.NoError(u, admin.Del(ctx, testkit.Keys(lock)...).Err())
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	next := testkit.MakeLock(kind, u.newClient(), name)
	waiting := testkit.Async(func() error { return next.Do(ctx, func(context.Context) error { return nil }) })
	if err := u.until("it queues", func() bool { return testkit.Waiting(next) == 1 && len(testkit.Queued(u, admin, lock)) == 1 }); err != nil {
		return err
	}
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	return u.result("the waiter has the lock", waiting)
}

// listens waits until the library pings its subscription connection. It then waits until no channel is subscribed.
func (u *trial) listens(ctx context.Context, admin *redis.Client, client *rlock.Client, kind string) error {
	if kind == "spin" {
		return nil
	}
	lock := testkit.Kinds[kind].Make(client, testkit.NewName())
	rival := lock
	if testkit.Kinds[kind].Rival != nil {
		rival = testkit.Kinds[kind].Rival(client, lock.(*rlock.Lock).Name())
	}
	before := u.calls("ping")
	var waiting <-chan error
	return u.all(
		func() error { return lock.Lock(ctx) },
		func() error {
			waiting = testkit.Async(func() error { return rival.Lock(ctx, rlock.Lease(time.Second)) })
			return u.until("the connection is pinged", func() bool { return u.calls("ping") > before })
		},
		func() error { return lock.Unlock(ctx) },
		func() error { return u.result("the waiter gets the lock", waiting) },
		func() error {
			return u.until("nothing is subscribed", func() bool { return len(admin.PubSubChannels(ctx, "*").Val()) == 0 })
		},
	)
}

// repeats has a fenced lock repeat an acquire, as after a lost reply: the script then reads the token.
func (u *trial) repeats(ctx context.Context, client *rlock.Client, kind string) error {
	if !testkit.Kinds[kind].Tokens {
		return nil
	}
	acquire, _ := testkit.Script(kind, "acquire")
	lock := testkit.MakeLock(kind, client, testkit.NewName())
	for range 2 {
		if testkit.ByTurns(kind) {
			if err := testkit.AcquireByTurns(ctx, u.rdb, testkit.AppPrefix+lock.Name(), "x:1", "try", "t"); err != nil {
				return err
			}
			continue
		}
		err := u.rdb.Eval(ctx, acquire, testkit.Keys(lock), "x", 1000, 88, testkit.Channel(lock), "PUBLISH", -10000, "").Err()
		if err != nil {
			return err
		}
	}
	return nil
}

// lines are the kinds whose waiters stand in a line.
var lines = []string{"lock", "fenced", "write", "fenced write"}

// handed are those that a script of its own hands over.
var handed = []string{"write", "fenced write"}

// beside has a process that knows of no line listen, so that the lock is offered to it in turn.
func (u *trial) beside(ctx context.Context, admin *redis.Client, kind string) error {
	if !slices.Contains(lines, kind) {
		return nil
	}
	name := testkit.NewName()
	lock := testkit.MakeLock(kind, u.newClient(), name)
	rival := testkit.MakeLock(kind, u.newClient(), name)
	others := admin.Subscribe(ctx, testkit.Channel(lock))
	defer func() { _ = others.Close() }()
	require.NoError(u, testkit.Second(others.Receive(ctx)))
	owner := rlock.WithOwner(ctx)
	var waiting <-chan error
	return u.all(
		func() error { return lock.Lock(owner) },
		func() error { // one that stood in the line asks again
			if !testkit.ByTurns(kind) {
				return nil
			}
			return testkit.AcquireByTurns(ctx, u.rdb, testkit.AppPrefix+name, "x:1", "again", "")
		},
		func() error {
			waiting = testkit.Async(func() error { return rival.Do(ctx, func(context.Context) error { return nil }) })
			return u.until("the rival waits", func() bool { return testkit.Waiting(rival) == 1 && testkit.Rests(rival) })
		},
		func() error { return lock.Unlock(owner) },
		func() error { return u.result("the rival acquires the lock", waiting) },
	)
}

// handsOver runs the script of a hand-over, which a lock with a line needs where a release gives the lock to
// nobody of its own process: with WithReplicaAcks, or on a cluster with classic pub/sub.
func (u *trial) handsOver(ctx context.Context, admin *redis.Client, kind string) error {
	if !slices.Contains(handed, kind) {
		return nil
	}
	script, _ := testkit.Script(kind, "handOver")
	lock := testkit.MakeLock(kind, u.newClient(), testkit.NewName())
	require.NoError(u, admin.HSet(ctx, testkit.Keys(lock)[0], testkit.Stranger, 1).Err())
	return u.rdb.Eval(ctx, script, testkit.Keys(lock), "x", 1000, 86, testkit.Channel(lock), "PUBLISH", "", testkit.Stranger).Err()
}

// leavesTombstone has a release write a tombstone where there are many, so that the script also removes expired ones.
func (u *trial) leavesTombstone(ctx context.Context, admin *redis.Client, kind string, lock *rlock.Lock) error {
	if testkit.ByTurns(kind) {
		return nil
	}
	release, n := testkit.Script(kind, "release")
	keys := testkit.Keys(lock)
	if kind == "read" {
		keys = []string{keys[0], "{" + keys[0] + "}:x:rwlock_timeout:1", keys[1]}
	}
	keys = append(keys[:n:n], keys[len(keys)-1])
	for i := range 127 {
		require.NoError(u, admin.HSet(ctx, keys[n], -i, 1).Err())
	}
	return u.rdb.Eval(ctx, release, keys, "x", 1000, 87, testkit.Channel(lock), "PUBLISH", 300000).Err()
}
