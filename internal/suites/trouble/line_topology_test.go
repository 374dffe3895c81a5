package trouble

import (
	"context"
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
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// crowd is some clients that take turns at one lock, without an end. None of them polls.
type crowd struct {
	*testing.T
	name   string
	locks  []*rlock.Lock
	turns  []atomic.Int64
	inside atomic.Int32
	last   atomic.Int64 // when a turn began, in Unix ns
	gap    atomic.Int64 // the longest time between two of them since it was last set to zero
}

// newCrowd starts n clients, which stop at the end of the test.
func newCrowd(t *testing.T, n int, name string, open func(testing.TB) redis.UniversalClient) *crowd {
	t.Helper()
	return newCrowdOf(t, "lock", n, name, open)
}

// newCrowdOf is [newCrowd] with locks of another kind, and other options.
func newCrowdOf(t *testing.T, kind string, n int, name string, open func(testing.TB) redis.UniversalClient,
	opts ...rlock.Option,
) *crowd {
	t.Helper()
	c := &crowd{T: t, name: name, turns: make([]atomic.Int64, n)}
	c.last.Store(time.Now().UnixNano())
	logger, _ := testkit.Recording()
	var working sync.WaitGroup
	stop := make(chan struct{})
	for i := range n {
		usual := []rlock.Option{logger, tune.PollInterval(testkit.Never), rlock.WithCommandTimeout(20 * time.Second)}
		client := testkit.NewClient(t, open(t), append(usual, opts...)...)
		lock := testkit.MakeLock(kind, client, c.name)
		c.locks = append(c.locks, lock)
		working.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.turn(lock, i)
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		working.Wait()
	})
	return c
}

// turn is one turn of a client.
func (c *crowd) turn(lock *rlock.Lock, i int) {
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		c.Errorf("acquire: %v", err)
		return
	}
	now := time.Now().UnixNano()
	if gap := now - c.last.Swap(now); gap > c.gap.Load() {
		c.gap.Store(gap)
	}
	if c.inside.Add(1) != 1 {
		c.Errorf("two are inside")
	}
	<-time.After(5 * time.Millisecond)
	c.inside.Add(-1)
	if err := hold.Unlock(context.Background()); err != nil {
		c.Errorf("unlock: %v", err)
	}
	c.turns[i].Add(1)
}

// everyone waits until each client has had two more turns.
func (c *crowd) everyone(when string) {
	c.Helper()
	c.everyoneHas(2, when)
}

// everyoneHas waits until each client has had n more turns.
func (c *crowd) everyoneHas(n int64, when string) {
	c.Helper()
	var before []int64
	for i := range c.turns {
		before = append(before, c.turns[i].Load())
	}
	start := time.Now()
	redistest.EventuallyWithin(c, time.Minute, "each client has more turns "+when, func() bool {
		return c.progressed(before, n)
	})
	c.Logf("%s: each had %d turns after %v, the longest pause was %v", when, n, time.Since(start), time.Duration(c.gap.Swap(0)))
}

func (c *crowd) progressed(since []int64, by int64) bool {
	for i, before := range since {
		if c.turns[i].Load() < before+by {
			return false
		}
	}
	return true
}

// TestALineOnAClusterThatChanges moves the slot of a lock that has a line, and has a replica take over.
func TestALineOnAClusterThatChanges(t *testing.T) {
	t.Parallel()
	cluster := startSharded(t)
	c := newCrowd(t, 6, testkit.NewName(), func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return cluster.Client(tb)
	})
	c.everyone("from the start")
	for range 2 { // a replica that has taken over stands for election again only later: see redistest.Cluster
		cluster.MoveSlot(t, c.name)
		c.everyone("after the slot moved")
		cluster.MoveSlot(t, c.name, func() { <-time.After(300 * time.Millisecond) })
		c.everyone("after the slot moved slowly")
		cluster.Failover(t, c.name)
		c.everyone("after a replica took over")
	}
}

// TestAWaiterAtADemotedMaster has a waiter subscribed at a node that becomes a replica, which ends the subscription, or that is
// one, which does not. Nobody who releases the lock could see the waiter there. A reader is only found because the node is asked for
// its role: its channel is everybody's, so no script can tell whether this client listens.
func TestAWaiterAtADemotedMaster(t *testing.T) {
	t.Parallel()
	cluster := startSharded(t)
	open := func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return cluster.Client(tb)
	}
	logger, _ := testkit.Recording()
	subscriptions := func(server *redistest.Server) int { return testkit.Stats(t, server.Client(t))["ssubscribe"] }
	t.Run("demoted while it waits", func(t *testing.T) {
		outlivesDemotion(t, open, func(name string) { cluster.Failover(t, name) })
	})
	for _, kind := range []string{"lock", "fair", "read"} {
		t.Run("demoted before, unknown to the client, "+kind, func(t *testing.T) {
			connect.NeedsGoRedis(t)
			others := kind
			if kind == "read" {
				others = "write"
			}
			name := testkit.NewName()
			var known atomic.Bool
			asks := cluster.Nodes[0].Client(t)
			old := asks.ClusterSlots(t.Context()).Val() //nolint:staticcheck // what go-redis itself asks
			opt := cluster.Options()
			opt.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
				if known.Load() {
					return asks.ClusterSlots(ctx).Result() //nolint:staticcheck // as above
				}
				return old, nil
			}
			rdb := redis.NewClusterClient(opt)
			t.Cleanup(func() { _ = rdb.Close() }) // after the lock's client
			demoted := cluster.Failover(t, name)
			newCrowdOf(t, others, 3, name, open).everyone("from the start")
			before := subscriptions(demoted)
			lock := testkit.MakeLock(kind, testkit.NewClient(t, rdb, logger, tune.PollInterval(testkit.Never)), name)
			turn := takesATurn(t, lock)
			testkit.Eventually(t, "it is subscribed at the replica", func() bool { return subscriptions(demoted) > before })
			known.Store(true)
			require.NoError(t, testkit.Within(t, "the waiter has its turn", turn))
		})
	}
}

// TestAWaiterAtADemotedMasterOfSentinels has the Sentinels replace a master that stays up.
func TestAWaiterAtADemotedMasterOfSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	open := func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return sentinel.Client(tb)
	}
	outlivesDemotion(t, open, func(string) {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Sentinels[0].Addr})
		defer rdb.Close()
		require.NoError(t, rdb.Failover(t.Context(), sentinel.Options().MasterName).Err())
		redistest.EventuallyWithin(t, time.Minute, "the old master is a replica", func() bool {
			return strings.Contains(sentinel.Master.Client(t).Info(t.Context(), "replication").Val(), "role:slave")
		})
	})
}

// TestAWaiterAtADemotedMasterBehindAName has a waiter subscribed at a master that is demoted, while the name that led to it leads to
// the new master. Its commands go there, but nothing ends the subscription.
func TestAWaiterAtADemotedMasterBehindAName(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t)
	name := redistest.NewProxy(t, old.Addr)
	host, port, _ := strings.Cut(old.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	status := func() string { return replica.Client(t).Info(t.Context(), "replication").Val() }
	redistest.EventuallyWithin(t, time.Minute, "the replica has its master", func() bool {
		return strings.Contains(status(), "master_link_status:up")
	})
	open := func(tb testing.TB) redis.UniversalClient {
		tb.Helper()
		return redistest.Open(tb, &redis.Options{Addr: name.Addr})
	}
	outlivesDemotion(t, open, func(lock string) {
		testkit.Eventually(t, "all writes survive", func() bool { return testkit.Replicated(t, old.Client(t), lock, 1) })
		require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
		name.LeadTo(replica.Addr)
		host, port, _ := strings.Cut(replica.Addr, ":")
		require.NoError(t, old.Client(t).ReplicaOf(t.Context(), host, port).Err())
	})
}

// outlivesDemotion has a waiter stand in the line of a lock whose master is demoted before the lock is released.
func outlivesDemotion(t *testing.T, open func(testing.TB) redis.UniversalClient, demote func(name string)) {
	t.Helper()
	logger, _ := testkit.Recording()
	name := testkit.NewName()
	held := testkit.NewClient(t, open(t), logger).NewLock(name)
	require.NoError(t, held.Lock(t.Context(), rlock.Lease(testkit.Never)))
	lock := testkit.NewClient(t, open(t), logger, tune.PollInterval(testkit.Never)).NewLock(name)
	turn := takesATurn(t, lock)
	stands := func(lock *rlock.Lock) bool { return testkit.Rests(lock) && testkit.Listens(lock) }
	testkit.Eventually(t, "it stands in the line", func() bool { return stands(lock) })
	demote(name)
	c := newCrowd(t, 3, name, open)
	for _, l := range c.locks {
		testkit.Eventually(t, "so do all others", func() bool { return stands(l) })
	}
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has its turn", turn))
}

// takesATurn has a client take a lock, and release it at once.
func takesATurn(t *testing.T, lock *rlock.Lock) <-chan error {
	t.Helper()
	return testkit.Async(func() error {
		if err := lock.Lock(t.Context()); err != nil {
			return err
		}
		return lock.Unlock(t.Context())
	})
}

// TestALineOutlivesItsMaster kills the master while clients stand in the line.
func TestALineOutlivesItsMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	name := testkit.NewName()
	open := func(kind string) *rlock.Lock {
		logger, _ := testkit.Recording()
		return testkit.MakeLock(kind, testkit.NewClient(t, sentinel.Client(t), logger, tune.PollInterval(testkit.Never)), name)
	}
	first := open("fenced")
	hold := testkit.Must(first.Acquire(t.Context(), rlock.Lease(testkit.Never)))
	type got struct {
		i    int
		hold *rlock.Hold
	}
	turns := make(chan got)
	var all []*rlock.Lock
	for i := range 5 {
		lock := open("fenced")
		all = append(all, lock)
		go func() {
			hold, err := lock.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			turns <- got{i, hold}
		}()
		testkit.Eventually(t, "it stands in the line", func() bool { return testkit.Rests(lock) && testkit.Listens(lock) })
	}
	testkit.Eventually(t, "all writes survive", func() bool { return testkit.Replicated(t, sentinel.Master.Client(t), name, 2) })
	sentinel.Master.Kill()
	rdb := sentinel.Client(t)
	redistest.EventuallyWithin(t, time.Minute, "all are subscribed again", func() bool {
		// A client whose subscription breaks connects once more after some time. A waiter that is not reached meanwhile is passed over.
		return len(rdb.PubSubChannels(t.Context(), "rlock:{"+name+"}:*").Val()) == len(all) && !slices.ContainsFunc(all, testkit.Moves)
	})
	for i := range all {
		require.NoError(t, hold.Unlock(t.Context()))
		next := testkit.Within(t, "the next one has the lock", turns)
		require.Equal(t, i, next.i)
		require.Greater(t, next.hold.Token(), hold.Token())
		hold = next.hold
	}
	require.NoError(t, hold.Unlock(t.Context()))
}
