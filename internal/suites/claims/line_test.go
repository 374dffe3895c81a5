package claims

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// slack is for a machine that does other things. It is less than the shortest poll of a waiter in the line, which is 5 s here.
const slack = 3 * time.Second

// queueing has each of n clients of one server wait for a lock that a further one holds, one after the other. It returns the
// holder's lock and hold, and the holds of the waiters as they get them.
func queueing(t *testing.T, server *redistest.Server, kind string, n int, opts ...rlock.Option) (*rlock.Lock, *rlock.Hold, []*rlock.Lock, <-chan turn) {
	t.Helper()
	name, got := testkit.NewName(), make(chan turn, n)
	open := func() *rlock.Lock {
		all := append([]rlock.Option{tune.PollInterval(testkit.Never)}, opts...)
		return testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t), all...), name)
	}
	first := open()
	hold := testkit.Must(first.Acquire(t.Context(), rlock.Lease(testkit.Never)))
	var all []*rlock.Lock
	for i := range n {
		lock := open()
		all = append(all, lock)
		go func() {
			hold, err := lock.Acquire(t.Context(), rlock.Lease(testkit.Never))
			got <- turn{i, hold, err, time.Now()}
		}()
		testkit.AwaitSleepers(t, server.Client(t), i+2, lock)
	}
	return first, hold, all, got
}

// inLine returns how many waiters stand in the line of a lock.
func inLine(t *testing.T, rdb *redis.Client, lock *rlock.Lock) int {
	t.Helper()
	return int(testkit.Must(rdb.ZCount(t.Context(), "redisson_unlock_latch:{"+lock.Name()+"}:waiters", "0", "3e15").Result()))
}

// turn is what a waiter got.
type turn struct {
	i    int
	hold *rlock.Hold
	err  error
	at   time.Time
}

// requireCost has something happen until it delayed the others by no more than it may, ten times at most: this machine may stand
// still now and then, but hardly each time. Even then it is shorter than a poll.
func requireCost(t *testing.T, most time.Duration, happens func() time.Duration) {
	t.Helper()
	for try := 1; ; try++ {
		cost := happens()
		t.Logf("%v of %v", cost, most)
		if cost <= most {
			return
		}
		require.Less(t, try, 10, "it costs more than %v each time", most)
		require.Less(t, cost, most+slack)
	}
}

func TestTheLineServesInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fenced", "write", "fenced write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, hold, _, got := queueing(t, redistest.Start(t), kind, 8)
			token := hold.Token()
			for i := range 8 {
				require.NoError(t, hold.Unlock(t.Context()))
				next := testkit.Within(t, "the next waiter has the lock", got)
				require.NoError(t, next.err)
				require.Equal(t, i, next.i)
				hold = next.hold
				if testkit.Kinds[kind].Tokens {
					require.Greater(t, hold.Token(), token)
					token = hold.Token()
				}
			}
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}

// TestAHandOffCostsTwoCommands has eight clients take turns. Each of them asks once, and releases once.
func TestAHandOffCostsTwoCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "write"} {
		t.Run(kind, func(t *testing.T) { testHandOffs(t, kind) })
	}
}

func testHandOffs(t *testing.T, kind string) {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	first, hold, locks, got := queueing(t, server, kind, 8)
	require.NoError(t, hold.Unlock(t.Context()))
	for range locks {
		next := testkit.Within(t, "each waiter has had the lock", got)
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Unlock(t.Context()))
	}
	require.NoError(t, first.Lock(t.Context()))
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	const turns = 25
	var wg sync.WaitGroup
	for _, lock := range locks {
		wg.Go(func() {
			for range turns {
				if err := lock.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	require.NoError(t, first.Unlock(t.Context()))
	wg.Wait()
	calls := testkit.Stats(t, admin)
	require.LessOrEqual(t, float64(calls["evalsha"]+calls["eval"])/float64(turns*len(locks)), 2.1)
}

func TestADeadWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	requireCost(t, 100*time.Millisecond, func() time.Duration { return costOfADeadWaiter(t) })
}

func costOfADeadWaiter(t *testing.T) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var dead atomic.Bool
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dead.Load() {
			return nil, net.ErrClosed
		}
		return host.Dial(ctx, network, addr)
	}})
	holder := testkit.NewClient(t, server.Client(t)).NewLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
	client, finish, err := connect.Open(rdb, rlock.WithLogger(testkit.Discard), rlock.WithCommandTimeout(200*time.Millisecond))
	require.NoError(t, err)
	defer finish()
	defer func() { _ = client.Close() }()
	dying := client.NewLock(holder.Name())
	ctx, cancel := context.WithCancel(t.Context())
	lost := testkit.Async(func() error { return dying.Lock(ctx) })
	testkit.AwaitSleepers(t, server.Client(t), 2, dying)
	next := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewLock(holder.Name())
	waiting := testkit.Async(func() error { return next.Lock(t.Context()) })
	testkit.AwaitSleepers(t, server.Client(t), 3, next)
	dead.Store(true)
	proxy.CloseAll()
	testkit.Eventually(t, "Redis has noticed", func() bool {
		return len(server.Client(t).PubSubChannels(t.Context(), testkit.Channel(holder)+":*").Val()) <= 2 // the next one's, and the twin
	})
	passed := redistest.Stopwatch(t)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter behind it has the lock", waiting))
	cost := passed()
	require.NoError(t, next.Unlock(t.Context()))
	cancel()
	require.Error(t, testkit.Within(t, "the dead waiter leaves", lost))
	return cost
}

// TestKilledWaitersAndThenTheHolderCostALease kills the first four waiters of the line, which watch the lease of the holder, and
// then the holder. The waiter behind them watches the lease in their place.
func TestKilledWaitersAndThenTheHolderCostALease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	next := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewLock(testkit.NewName())
	holder := testkit.StartChild(t, server.Addr, "lock", next.Name())
	holder.Next()
	holder.Answer()
	var children []*testkit.Child
	for i := range 4 {
		child := testkit.StartChild(t, server.Addr, "lock", next.Name())
		child.Next()
		testkit.Eventually(t, "the child waits", func() bool {
			return len(rdb.PubSubChannels(t.Context(), testkit.Channel(next)+":????????-*").Val()) == i+1
		})
		children = append(children, child)
	}
	waiting := testkit.Async(func() error { return next.Lock(t.Context()) })
	testkit.Eventually(t, "the last one waits", func() bool {
		return len(rdb.PubSubChannels(t.Context(), testkit.Channel(next)+":????????-*").Val()) == 5
	})
	for _, child := range children {
		child.Kill()
	}
	testkit.Eventually(t, "Redis has noticed", func() bool {
		return len(rdb.PubSubChannels(t.Context(), testkit.Channel(next)+":????????-*").Val()) == 1
	})
	asked := testkit.Stats(t, rdb)["zrank"]
	testkit.Eventually(t, "the last one has asked once more", func() bool { return testkit.Stats(t, rdb)["zrank"] > asked })
	holder.Kill()
	passed, lease := redistest.Stopwatch(t), testkit.Must(rdb.PTTL(t.Context(), testkit.Keys(next)[0]).Result())
	require.NoError(t, testkit.Within(t, "the waiter that lives has the lock", waiting))
	t.Logf("%v after the lease", passed()-lease)
	require.Less(t, passed()-lease, 100*time.Millisecond+slack)
	require.NoError(t, next.Unlock(t.Context()))
}

// TestASilentWaiterCostsAFirstTerm has a process that waits be stopped, or be gone without a word to Redis. The lock is granted to
// it, and the waiters behind it get the lock 3 s later, although it wants the lock for a minute. When it goes on, it waits for its
// turn again.
func TestASilentWaiterCostsAFirstTerm(t *testing.T) {
	t.Parallel()
	for _, terms := range []string{"long", "fixed"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed: %v", terms, killed), func(t *testing.T) {
				t.Parallel()
				requireCost(t, 3200*time.Millisecond, func() time.Duration { return costOfASilentWaiter(t, terms, killed) })
			})
		}
	}
}

// costOfASilentWaiter returns for how long five waiters behind a silent one have waited in all.
func costOfASilentWaiter(t *testing.T, terms string, killed bool) (cost time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	holder := testkit.NewClient(t, server.Client(t)).NewLock(testkit.NewName())
	require.NoError(t, holder.Lock(t.Context(), rlock.Lease(testkit.Never)))
	child := testkit.StartChildFor(t, server.Addr, "lock", holder.Name(), terms)
	child.Next()
	testkit.Eventually(t, "the child waits", func() bool {
		return inLine(t, rdb, holder) == 1 && len(rdb.PubSubChannels(t.Context(), testkit.Channel(holder)+":*").Val()) > 0
	})
	require.NoError(t, child.Cmd.Process.Signal(syscall.SIGSTOP))
	got := make(chan *rlock.Hold, 5)
	for i := range cap(got) {
		next := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewLock(holder.Name())
		go func() { testkit.SendTo(got)(next.Acquire(t.Context())) }()
		testkit.AwaitSleepers(t, rdb, 0, next)
		require.Equal(t, i+2, inLine(t, rdb, holder))
	}
	start, passed := time.Now(), redistest.Stopwatch(t)
	require.NoError(t, holder.Unlock(t.Context()))
	require.Len(t, testkit.Holders(t, rdb, holder.Name()), 1, "the child has it")
	if killed {
		child.Kill()
	}
	first := testkit.Within(t, "the next waiter has the lock", got)
	cost = passed()
	require.GreaterOrEqual(t, time.Since(start), 2900*time.Millisecond, "the child had it for a first term")
	if !killed {
		require.NoError(t, child.Cmd.Process.Signal(syscall.SIGCONT))
		<-time.After(100 * time.Millisecond) // for the child to do something wrong
	}
	freed, since := time.Now(), passed()
	require.NoError(t, first.Unlock(t.Context()))
	for range cap(got) - 1 {
		require.NoError(t, testkit.Within(t, "the others have it", got).Unlock(t.Context()))
	}
	cost += passed() - since
	if !killed {
		require.Greater(t, testkit.Must(strconv.ParseInt(child.Answer(), 10, 64)), freed.UnixNano())
		child.Next()
		require.Equal(t, "unlocked", child.Answer())
	}
	return cost
}

func TestACutSubscriptionCostsLittle(t *testing.T) {
	t.Parallel()
	for range 5 {
		requireCost(t, 300*time.Millisecond, func() time.Duration {
			server := redistest.Start(t)
			_, hold, _, got := queueing(t, server, "lock", 3)
			require.NoError(t, server.Client(t).Do(t.Context(), "client", "kill", "type", "pubsub").Err())
			passed := redistest.Stopwatch(t)
			require.NoError(t, hold.Unlock(t.Context()))
			for range 3 {
				next := testkit.Within(t, "a waiter has the lock", got)
				require.NoError(t, next.err)
				require.NoError(t, next.hold.Unlock(t.Context()))
			}
			return passed()
		})
	}
}

func TestAForceUnlockGivesTheLockToTheLine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "write"} {
		t.Run(kind, func(t *testing.T) { testForceUnlockInLine(t, kind) })
	}
}

func testForceUnlockInLine(t *testing.T, kind string) {
	t.Helper()
	server := redistest.Start(t)
	lock, hold, _, got := queueing(t, server, kind, 2)
	other := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), lock.Name())
	passed := redistest.Stopwatch(t)
	require.True(t, testkit.Must(other.ForceUnlock(t.Context())))
	next := testkit.Within(t, "the first waiter has the lock", got)
	require.NoError(t, next.err)
	require.Zero(t, next.i)
	require.Less(t, passed(), slack)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, next.hold.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the second waiter has it", got).hold.Unlock(t.Context()))
}

func TestTheLineGoesOnAfterTheDeathOfAHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	name := testkit.NewName()
	require.NoError(t, rdb.HSet(t.Context(), name, testkit.Stranger, 1).Err())
	require.NoError(t, rdb.PExpire(t.Context(), name, 2*time.Second).Err())
	passed, got := redistest.Stopwatch(t), make(chan *rlock.Hold, 2)
	for i := range 2 {
		lock := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewLock(name)
		go func() { testkit.SendTo(got)(lock.Acquire(t.Context())) }()
		testkit.AwaitSleepers(t, rdb, i+1, lock)
	}
	for range 2 {
		hold := testkit.Within(t, "a waiter has the lock", got)
		require.Less(t, passed(), 2*time.Second+slack)
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

// TestGroupsBesideALineHaveTheirTurns has a multi lock take locks for which some other process always waits.
func TestGroupsBesideALineHaveTheirTurns(t *testing.T) {
	t.Parallel()
	for what, kind := range map[string]string{"plain": "lock", "fair": "fair"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server, names := redistest.Start(t), []string{testkit.NewName(), testkit.NewName()}
			const clients, turns = 4, 100 // of each name, and of each client
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg, others sync.WaitGroup
			for _, name := range names {
				for range clients {
					lock := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), name)
					others.Go(func() { takeTurns(ctx, t, lock, turns) })
				}
			}
			client, had := testkit.NewClient(t, server.Client(t)), 0
			locks := rlock.NewMultiLock(testkit.MakeLock(kind, client, names[0]), testkit.MakeLock(kind, client, names[1]))
			wg.Go(func() { had = takeTurns(ctx, t, locks, 1<<30) })
			others.Wait()
			cancel()
			wg.Wait()
			t.Logf("%d turns beside %d", had, turns)
			require.Greater(t, had, turns/20)
		})
	}
}

// takeTurns takes a lock and releases it, until it has done so that often or ctx ends. It returns how often it had it.
func takeTurns(ctx context.Context, t *testing.T, lock handles.Any, most int) (had int) {
	t.Helper()
	for ; had < most && ctx.Err() == nil; had++ {
		err := lock.Do(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
		if ctx.Err() != nil {
			return had
		}
		if err != nil {
			t.Error(err)
			return had
		}
	}
	return had
}
