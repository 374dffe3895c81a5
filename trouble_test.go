package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
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

// What happens to owners, waiters and closing clients while Redis does not answer.

func TestALostPossessionIsAbandonedInRedisToo(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, quick())
	held := f.proxy.HoldRequest(1, rlock.Runs("acquire")) // go-redis gives it up; the retry is granted
	hold, err := f.lock.Acquire(t.Context())
	require.NoError(t, err)
	_ = hold.Done()
	require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	eventually(t, "its number is abandoned", func() bool { return f.client.Remains() == 0 })
	n := f.proxy.Count(rlock.Runs("acquire"))
	held.Release()
	eventually(t, "the delayed acquire arrives", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == n+1 })
	stays(t, "no holder comes back", func() bool { return f.count() == "0" })
}

// outage is a network that can be switched off: nothing is sent and nothing connects.
type outage struct{ down atomic.Bool }

func (o *outage) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return outageConn{conn, o}, err
}

type outageConn struct {
	net.Conn
	*outage
}

func (c outageConn) Write(b []byte) (int, error) {
	if c.down.Load() {
		return 0, &net.OpError{Op: "write", Err: errors.New("no route to host")}
	}
	return c.Conn.Write(b)
}

func TestAnOrphanIsReleasedHoweverLongTheOutage(t *testing.T) {
	t.Parallel()
	var network outage
	f := newFaulty(t, &redis.Options{Dialer: network.dial, DialerRetries: 1}, rlock.WithCommandTimeout(300*time.Millisecond))
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := async(func() error { return f.lock.Lock(ctx, rlock.Lease(time.Hour)) })
	within(t, "Redis has granted it", held.Met())
	cancel()
	require.ErrorIs(t, within(t, "the call returns", locking), context.Canceled)
	network.down.Store(true)
	held.Release()
	<-time.After(time.Second) // several command timeouts
	require.Equal(t, "1", f.count())
	network.down.Store(false)
	eventually(t, "the orphan is released", func() bool { return f.count() == "0" })
}

func TestAnUnlockComesBeforeAReentryThatRetries(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.lock.Lock(ctx, rlock.Lease(time.Minute)))
	f.proxy.Freeze()
	reentering := async(func() error { return f.lock.Lock(ctx) })
	n := f.proxy.Opened()
	eventually(t, "it tries again", func() bool { return f.proxy.Opened() > n })
	unlocking := async(func() error { return f.lock.Unlock(ctx) })
	require.Error(t, within(t, "the unlock gives up after the command timeout", unlocking))
	cancel()
	require.Error(t, within(t, "the re-entry ends", reentering))
	f.proxy.Thaw()
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)))
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestASingleAttemptDoesNotWaitForTheWaitsOfItsOwner(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	owner := rlock.WithOwner(ctx)
	try := func() <-chan error {
		return async(func() error { return second(f.lock.TryAcquire(owner)) })
	}
	require.NoError(t, f.other.Lock(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.lock.Lock(ctx) })
	eventually(t, "somebody waits", func() bool { return f.lock.Waiting() == 1 })
	wg.Go(func() { _ = f.lock.Lock(owner) })
	eventually(t, "the owner waits behind", func() bool { return f.lock.Waiting() == 2 })
	require.ErrorIs(t, within(t, "TryAcquire returns", try()), rlock.ErrNotAcquired)
	cancel()
	wg.Wait()

	owner = rlock.WithOwner(t.Context())
	ctx, cancel = context.WithCancel(owner)
	defer cancel()
	f.proxy.Freeze()
	wg.Go(func() { _ = f.lock.Lock(ctx) })
	eventually(t, "the owner waits", func() bool { return f.lock.Waiting() == 1 })
	err := within(t, "TryAcquire returns", try())
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis did not answer the owner either")
	cancel()
	wg.Wait()
	f.proxy.Thaw()
	require.NoError(t, f.other.Unlock(t.Context()))
}

func TestSilenceIsNotContention(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(300*time.Millisecond))
	f.proxy.Freeze()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ok, err := f.lock.TryLock(t.Context(), rlock.Wait(time.Duration(i+1)*50*time.Millisecond))
			if ok || err == nil {
				t.Errorf("waiter %d: %v, %v: nobody has said that the lock is held", i, ok, err)
			}
		})
	}
	wg.Wait()
	f.proxy.Thaw()
}

func TestAReentryIsNeverRefused(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	require.NoError(t, f.lock.Lock(ctx))
	held := f.proxy.HoldReply(1, rlock.Runs("count"))
	trying := make(chan bool, 1)
	go func() {
		ok, err := f.lock.TryLock(ctx, rlock.Wait(10*time.Millisecond))
		if err != nil {
			t.Error(err)
		}
		trying <- ok
	}()
	within(t, "Redis has answered", held.Met())
	<-time.After(100 * time.Millisecond) // the wait is over
	held.Release()
	require.True(t, within(t, "TryLock returns", trying), "the first attempt is made to its end")
	require.NoError(t, f.lock.Unlock(ctx))
	require.NoError(t, f.lock.Unlock(ctx))
}

func TestAWaitEndsThoughTheConnectionsAreBusy(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{PoolSize: 2}, rlock.WithCommandTimeout(time.Minute))
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	ctx, cancel := context.WithCancel(t.Context())
	locking := async(func() error { return f.lock.Lock(ctx) })
	within(t, "an acquire hangs", held.Met())
	trying := async(func() error {
		return second(f.client.NewLock(newName()).TryLock(t.Context(), rlock.Wait(100*time.Millisecond)))
	})
	err := within(t, "the wait ends", trying)
	require.Error(t, err)
	require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	cancel()
	require.Error(t, within(t, "the call returns", locking))
	held.Release()
}

func TestRenewalsDoNotStarve(t *testing.T) {
	t.Parallel()
	for what, opt := range map[string]*redis.Options{
		"by the size of the pool":             {PoolSize: 3},
		"by the connections that may be open": {PoolSize: 10, MaxActiveConns: 3},
	} {
		for _, script := range []string{"acquire", "count", "inspect"} {
			t.Run(what+", "+script, func(t *testing.T) {
				t.Parallel()
				f := newFaulty(t, opt, rlock.WithWatchdogTimeout(900*time.Millisecond))
				hold, err := f.lock.Acquire(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				owners := make([]context.Context, 6)
				locks := make([]*rlock.Lock, 6)
				for i := range owners {
					owners[i] = rlock.WithOwner(ctx) //nolint:fatcontext // one for each, none within another
					locks[i] = f.client.NewLock(newName())
					if script == "count" {
						require.NoError(t, locks[i].Lock(owners[i], rlock.Lease(time.Minute)))
					}
				}
				held := f.proxy.HoldReply(-1, rlock.Runs(script))
				for i, owner := range owners {
					wg.Go(func() {
						if script == "inspect" {
							_, _ = locks[i].IsLocked(owner)
						} else {
							_, _ = locks[i].TryLock(owner)
						}
					})
				}
				within(t, "one hangs", held.Met())
				for range 4 {
					before := hold.Deadline()
					eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
				}
				require.NoError(t, hold.Err())
				cancel()
				wg.Wait()
				held.Release()
				require.NoError(t, hold.Unlock(t.Context()))
			})
		}
	}
}

func TestARedisClientWithoutReadTimeoutIsBoundedByOurs(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{ReadTimeout: -1, PoolSize: 3}, rlock.WithCommandTimeout(200*time.Millisecond))
	f.proxy.SwallowReply(2, rlock.Runs("acquire"))
	for range 2 {
		require.Error(t, second(f.lock.TryLock(t.Context())))
	}
	require.NoError(t, f.other.Lock(t.Context(), rlock.Wait(aLongTime)), "no orphan stays")
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, f.lock.Lock(t.Context()), "nor does it lack a connection")
	f.proxy.SwallowReply(-1, rlock.Runs("release"))
	require.NoError(t, f.client.Close())
	unlocking := async(func() error { return f.lock.Unlock(t.Context()) })
	require.Error(t, within(t, "an unlock after Close returns", unlocking))

	cluster := redis.NewClusterClient(&redis.ClusterOptions{ReadTimeout: -1})
	defer cluster.Close()
	require.ErrorIs(t, second(rlock.New(cluster)), rlock.ErrInvalidOption)
}

func TestAPartialUnlockAfterTheDeadlineIsALoss(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithCommandTimeout(200*time.Millisecond))
	ctx := rlock.WithOwner(t.Context())
	var holds [3]*rlock.Hold
	for i := range holds {
		var err error
		holds[i], err = f.lock.Acquire(ctx, rlock.Lease(time.Second))
		require.NoError(t, err)
	}
	f.proxy.Freeze()
	within(t, "the lease ends", holds[0].Done())
	require.ErrorIs(t, holds[0].Unlock(ctx), rlock.ErrLost)
	f.proxy.Thaw()
}

func TestCloseIsBoundedAndEndsEveryWait(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{ReadTimeout: 3 * time.Second}, rlock.WithCommandTimeout(400*time.Millisecond))
	ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context()))
	defer cancel()
	f.proxy.Freeze()
	locking := make(chan error, 4)
	for range 4 {
		go func() { locking <- f.lock.Lock(ctx) }()
	}
	n := f.proxy.Opened()
	eventually(t, "they are at it, and the subscription connects", func() bool { return f.proxy.Opened() > n+1 })
	start := time.Now()
	require.NoError(t, f.client.Close())
	require.Less(t, time.Since(start), 2*time.Second)
	for range 4 {
		require.ErrorIs(t, within(t, "the wait ends", locking), rlock.ErrClosed)
	}
	require.Less(t, time.Since(start), 2500*time.Millisecond, "none waits for the redis client")
	f.proxy.Thaw()
}

func TestForceUnlockEndsAnAcquisitionWhoseAnswerIsOnItsWay(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	held := f.proxy.HoldReply(1, rlock.Runs("acquire"))
	acquiring := make(chan *rlock.Hold, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		hold, err := f.lock.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		acquiring <- hold
	}()
	within(t, "Redis has granted it", held.Met())
	require.NoError(t, second(f.lock.ForceUnlock(t.Context())))
	held.Release()
	hold := within(t, "it is acquired", acquiring)
	require.NoError(t, hold.Err())
	require.Equal(t, "1", f.count(), "what it returns was granted after the unlock by force")
	require.NoError(t, hold.Unlock(t.Context()))
}

// slowHandler is a log handler that takes its time.
type slowHandler struct {
	slog.Handler
	gate chan struct{}
}

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.gate
	return nil
}

func TestASlowLogHandlerDelaysNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	logger := slog.New(slowHandler{slog.DiscardHandler, gate})
	rdb := redistest.Embedded(t)
	client := newClient(t, rdb, rlock.WithLogger(logger), rlock.WithWatchdogTimeout(300*time.Millisecond))
	lost := client.NewLock(newName())
	require.NoError(t, lost.Lock(t.Context()))
	hold, err := client.NewLock(newName()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), lost.Name()).Err())
	for range 6 {
		before := hold.Deadline()
		eventually(t, "the other is renewed", func() bool { return hold.Deadline().After(before) })
	}
	close(gate)
	require.ErrorIs(t, lost.Unlock(t.Context()), rlock.ErrLost)
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestADroppedHoldDoesNotStandInItsOwnersWay(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Embedded(t))
	lock := client.NewLock(newName())
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, second(lock.TryAcquire(owner, rlock.Lease(50*time.Millisecond))))
	eventually(t, "it can lock again", func() bool {
		runtime.GC()
		ok, err := lock.TryLock(owner)
		require.True(t, err == nil || errors.Is(err, rlock.ErrLost))
		return ok
	})
	require.NoError(t, lock.Unlock(owner))
}

func TestABrokenQuestionLeavesItsResultsAlone(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	held := f.proxy.HoldReply(1, rlock.Runs("inspect"))
	ctx, cancel := context.WithCancel(t.Context())
	asking := async(func() error { return second(f.lock.IsLocked(ctx)) })
	within(t, "Redis has answered", held.Met())
	cancel()
	require.ErrorIs(t, within(t, "the question ends", asking), context.Canceled)
	held.Release()
	require.NoError(t, f.client.Close()) // waits for the answer
}

// TestRandomFaults lets a network do its worst while three clients use three locks in every way there is. Nobody may
// hold a lock while another does, and when it is over nothing may be left.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := server.Client(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var clients [3]*rlock.Client
	for i := range clients {
		rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 250 * time.Millisecond})
		clients[i] = newClient(t, rdb, rlock.WithLogger(slog.New(slog.DiscardHandler)), rlock.WithCommandTimeout(300*time.Millisecond),
			rlock.WithWatchdogTimeout(600*time.Millisecond), rlock.WithPollInterval(200*time.Millisecond))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	names := []string{newName(), newName(), newName()}
	var holders [3]sync.Map // *rlock.Hold -> nothing: those that may believe themselves the holder
	stop := time.Now().Add(6 * time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		all := func(redistest.Command) bool { return true }
		for time.Now().Before(stop) {
			<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
			switch random.IntN(6) {
			case 0:
				proxy.DropReply(1, all)
			case 1:
				proxy.SwallowReply(1, all)
			case 2:
				time.AfterFunc(time.Duration(random.IntN(700))*time.Millisecond, proxy.HoldReply(1, all).Release)
			case 3:
				time.AfterFunc(time.Duration(random.IntN(1500))*time.Millisecond, proxy.HoldRequest(1, all).Release)
			case 4:
				if random.IntN(4) == 0 {
					proxy.CloseAll()
				}
			case 5:
				if random.IntN(4) == 0 {
					_ = direct.ScriptFlush(context.Background()).Err()
				}
			}
		}
	})
	var acquired atomic.Int32
	for i := range 18 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for time.Now().Before(stop) {
				n := random.IntN(len(names))
				if oneTurn(t, random, clients[i%3].NewLock(names[n]), &holders[n]) {
					acquired.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, acquired.Load())
	t.Logf("%d acquisitions", acquired.Load())
	for _, client := range clients {
		eventually(t, "nothing is left in the clients", func() bool { return client.Remains() == 0 })
	}
	for _, name := range names {
		eventually(t, "nothing is left in Redis", func() bool { return direct.Exists(context.Background(), name).Val() == 0 })
	}
}

// oneTurn acquires a lock in some way, re-enters it, and unlocks it in some order.
func oneTurn(t *testing.T, random *rand.Rand, lock *rlock.Lock, holders *sync.Map) bool {
	t.Helper()
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if random.IntN(2) == 0 {
		ctx = rlock.WithOwner(ctx)
	}
	if random.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+random.IntN(400))*time.Millisecond)
	}
	defer cancel()
	var opts []rlock.AcquireOption
	if random.IntN(3) == 0 {
		opts = append(opts, rlock.Lease(time.Duration(50+random.IntN(300))*time.Millisecond))
	}
	if random.IntN(2) == 0 {
		opts = append(opts, rlock.Wait(time.Duration(random.IntN(300))*time.Millisecond))
	}
	hold, err := lock.Acquire(ctx, opts...)
	if err != nil {
		return false
	}
	holders.Store(hold, nil)
	holders.Range(func(other, _ any) bool {
		if other != hold && other.(*rlock.Hold).Err() == nil && hold.Err() == nil {
			t.Errorf("two hold %s", lock.Name())
		}
		return true
	})
	entries := 0
	for range random.IntN(3) {
		if ok, err := lock.TryLock(hold.Context(), opts...); ok {
			entries++
		} else if err == nil {
			t.Error("a re-entry is refused")
		}
	}
	<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
	holders.Delete(hold)
	unlock := func() {
		if err := hold.Unlock(ctx); err == nil || !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			return
		}
		t.Errorf("the first unlock of a hold says %v", err)
	}
	first := random.IntN(2) == 0
	if first {
		unlock()
	}
	for range entries {
		err := lock.Unlock(context.WithoutCancel(hold.Context()))
		if errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
			t.Errorf("the unlock of a re-entry says %v", err)
		}
	}
	if !first {
		unlock()
	}
	if err := hold.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
		t.Errorf("the second unlock of a hold says %v", err)
	}
	return true
}

func TestAServerThatWantsNoConnectionIsNotStormed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	name := "u" + strings.ReplaceAll(newName(), ":", "")
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "on", ">old", "~*", "&*", "+@all").Err())
	lock := newClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: name, Password: "old"})).NewLock(newName())
	require.NoError(t, lock.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(t, "it is subscribed", func() bool {
		return admin.PubSubNumSub(t.Context(), lock.Channel()).Val()[lock.Channel()] == 1
	})
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "resetpass", ">new").Err())
	before := connections(t, admin)
	require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	<-time.After(2 * time.Second)
	require.Less(t, connections(t, admin)-before, 100)
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, ">old").Err())
	eventually(t, "it is subscribed again", func() bool {
		return admin.PubSubNumSub(t.Context(), lock.Channel()).Val()[lock.Channel()] == 1
	})
	cancel()
	require.Error(t, within(t, "the wait ends", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestARefusedChannelHarmsNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	name := "u" + strings.ReplaceAll(newName(), ":", "")
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "on", ">pw", "~*",
		"resetchannels", "&redisson_lock__channel:{good*", "+@all").Err())
	logger, _ := recording()
	client := newClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: name, Password: "pw"}), logger)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, name := range []string{"bad1", "bad2", "good", "bad3"} {
		lock := client.NewLock(name)
		require.NoError(t, lock.Lock(t.Context()))
		wg.Go(func() { _ = lock.Lock(ctx) })
	}
	subscribed := func() bool { return len(admin.PubSubChannels(t.Context(), "*").Val()) == 1 }
	eventually(t, "the permitted channel is subscribed", subscribed)
	for range 2 {
		require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		eventually(t, "it is subscribed again", subscribed)
	}
	cancel()
	wg.Wait()
}

func TestAWaiterWithoutSubscriptionTries(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(300*time.Millisecond))
	f.proxy.SwallowReply(-1, redistest.Named("subscribe"))
	require.NoError(t, f.other.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	first := async(func() error { return f.lock.Lock(ctx) })
	eventually(t, "one waits", func() bool { return f.lock.Waiting() == 1 })
	next := async(func() error { return f.lock.Lock(t.Context()) })
	eventually(t, "another waits behind", func() bool { return f.lock.Waiting() == 2 })
	cancel()
	require.Error(t, within(t, "the first leaves", first))
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "the next finds the lock free", next))
	require.NoError(t, f.lock.Unlock(t.Context()))
}

func TestASubscriptionThatIsSilentFromTheStartIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	silent := f.proxy.SwallowReply(1, redistest.Named("subscribe"))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	within(t, "it subscribes", silent.Met())
	start := time.Now()
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.Less(t, time.Since(start), 8*time.Second)
	require.NoError(t, f.lock.Unlock(t.Context()))
}

func TestAClusterBehindAPlainClientKeepsItsHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	admin := server.Client(t)
	require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	eventually(t, "the cluster is up", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	client := newClient(t, admin, rlock.WithWatchdogTimeout(time.Second))
	holds := make([]*rlock.Hold, 200)
	for i := range holds {
		var err error
		holds[i], err = client.NewLock(fmt.Sprint("h", i)).Acquire(t.Context())
		require.NoError(t, err)
	}
	for range 4 {
		before := make([]time.Time, len(holds))
		for i, hold := range holds {
			before[i] = hold.Deadline()
		}
		for i, hold := range holds {
			eventually(t, "each is renewed", func() bool { return hold.Deadline().After(before[i]) })
		}
	}
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}
