package trouble

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

func TestAReleaseBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	held := f.Proxy.HoldRequest(1, redistest.Named("subscribe"))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	testkit.Within(t, "the waiter subscribes", held.Met())
	require.NoError(t, f.Other.Unlock(t.Context()))
	held.Release()
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.Lock.Unlock(t.Context()))
}

func TestAReleaseWhileTheSubscriptionIsBrokenIsNotMissed(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	for range 20 {
		require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
		waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
		f.AwaitSubscriber()
		f.Proxy.CloseAll()
		require.NoError(t, f.Other.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
		require.NoError(t, f.Lock.Unlock(t.Context()))
	}
}

func TestASilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	silent := f.Proxy.SwallowReply(1, redistest.Named("ping"))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	testkit.Within(t, "the idle subscription is pinged", silent.Met())
	passed := redistest.Stopwatch(t)
	require.NoError(t, f.Other.Unlock(t.Context()), "the message is lost in the black hole")
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.Less(t, passed(), 10*time.Second)
	require.NoError(t, f.Lock.Unlock(t.Context()))
}

// TestASubscriptionAtTheOldMasterIsReplaced breaks a subscription of a Sentinel client and directs the client to a former
// master, as a Sentinel does that has not noticed the failover.
func TestASubscriptionAtTheOldMasterIsReplaced(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	master, old := redistest.Start(t), redistest.Start(t)
	var advertised atomic.Pointer[redistest.Server]
	advertised.Store(master)
	rdb := redistest.Open(t, &redis.Options{
		Addr: "FailoverClient", // as redis.NewFailoverClient names it
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return host.Dial(ctx, network, advertised.Load().Addr)
		},
	})
	lock := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never)).NewLock(testkit.NewName())
	other := testkit.NewClient(t, master.Client(t)).NewLock(lock.Name())
	require.NoError(t, other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	subscribedAt := func(server *redistest.Server) func() bool {
		return func() bool {
			return len(server.Client(t).PubSubChannels(t.Context(), testkit.Channel(lock)).Val()) == 1
		}
	}
	testkit.Eventually(t, "the waiter is subscribed", subscribedAt(master))
	asked := testkit.Stats(t, master.Client(t))["evalsha"]
	advertised.Store(old)
	require.NoError(t, master.Client(t).Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	testkit.Eventually(t, "the waiter is subscribed at the old master", subscribedAt(old))
	advertised.Store(master)
	testkit.Eventually(t, "the waiter has tried again", func() bool { return testkit.Stats(t, master.Client(t))["evalsha"] > asked })
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAMessageThatArrivesInPartsIsUnderstood(t *testing.T) {
	t.Parallel()
	// Replies to commands arrive in parts, too.
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never), rlock.WithCommandTimeout(testkit.ALongTime))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	f.AwaitSubscriber()
	subscribers := func() string { // by the numbers of their connections; a question about the lock may open one more
		list, err := f.Direct.Do(t.Context(), "client", "list", "type", "pubsub").Text()
		require.NoError(t, err)
		return strings.Join(regexp.MustCompile(`(?m)^id=\d+`).FindAllString(list, -1), " ")
	}
	before := subscribers()
	f.Proxy.Split(1500 * time.Millisecond)
	require.NoError(t, f.Other.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.Contains(t, before, subscribers(), "no other connection has replaced it; it may have ended, because nobody waits any more")
	require.NoError(t, f.Lock.Unlock(t.Context()))
}

func TestAllWaitersShareOneConnection(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, &redis.Options{PoolSize: 4})
	const n = 300 // each of which listens on the channel of this client's waiters, and on Redisson's channel and its twin
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range n {
		lock := f.Client.NewLock(testkit.NewName())
		require.NoError(t, testkit.NewClient(t, f.Direct).NewLock(lock.Name()).Lock(t.Context(), rlock.Lease(testkit.Never)))
		wg.Go(func() { _ = lock.Lock(ctx) })
	}
	testkit.Eventually(t, "all channels are subscribed", func() bool {
		return len(f.Direct.PubSubChannels(t.Context(), "*").Val()) == 3*n
	})
	clients := f.Direct.ClientList(t.Context()).Val()
	require.Equal(t, 1, strings.Count(clients, " sub=900 "), clients)
	cancel()
	wg.Wait()
	testkit.Eventually(t, "no channel is left", func() bool {
		return len(f.Direct.PubSubChannels(t.Context(), "*").Val()) == 0 && testkit.Remains(f.Client) == 0
	})
}

func TestABusyLockStaysSubscribed(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	var wg sync.WaitGroup
	for _, lock := range []*rlock.Lock{f.Lock, f.Lock, f.Lock, f.Lock, f.Other, f.Other, f.Other, f.Other} {
		wg.Go(func() {
			for range 20 {
				if err := lock.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if err := lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, f.Proxy.Count(redistest.Named("subscribe")))
}

func TestOnlyOneWaiterPerProcessContends(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	var wg sync.WaitGroup
	const n = 50
	for range n {
		wg.Go(func() {
			if err := f.Lock.Lock(t.Context()); err != nil {
				t.Error(err)
				return
			}
			if err := f.Lock.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all waiters wait", func() bool { return testkit.Waiting(f.Lock) == n })
	f.AwaitSubscriber()
	asked := testkit.Runs("acquire")
	testkit.Eventually(t, "the first waiter has asked once more", func() bool { return f.Proxy.Count(asked) == 2 })
	testkit.Stays(t, "no other waiter asks Redis", func() bool { return f.Proxy.Count(asked) == 2 })
	require.NoError(t, f.Other.Unlock(t.Context()))
	wg.Wait()
	require.Less(t, f.Proxy.Count(asked), 3*n)
}

func TestAnUnannouncedReleaseIsFoundByPolling(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(100*time.Millisecond))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	f.AwaitSubscriber()
	require.NoError(t, f.Direct.Del(t.Context(), f.Lock.Name()).Err())
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.Lock.Unlock(t.Context()))
	require.ErrorIs(t, f.Other.Unlock(t.Context()), rlock.ErrLost)
}

func TestAWaitersContextDoesNotBreakTheSubscription(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	f.AwaitSubscriber()
	opened := f.Proxy.Count(redistest.Named("subscribe"))
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, f.Client.NewLock(f.Lock.Name()).Lock(ctx), context.DeadlineExceeded)
		cancel()
	}
	require.Equal(t, opened, f.Proxy.Count(redistest.Named("subscribe")))
	require.NoError(t, f.Other.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.Lock.Unlock(t.Context()))
}

func TestAServerThatRefusesConnectionsIsNotFlooded(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	admin := server.Client(t)
	name := "u" + strings.ReplaceAll(testkit.NewName(), ":", "")
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "on", ">old", "~*", "&*", "+@all").Err())
	lock := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: name, Password: "old"})).NewLock(testkit.NewName())
	holder := testkit.NewClient(t, admin).NewLock(lock.Name())
	require.NoError(t, holder.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(t, "the waiter is subscribed", func() bool {
		return admin.PubSubNumSub(t.Context(), testkit.Channel(lock)).Val()[testkit.Channel(lock)] == 1
	})
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "resetpass", ">new").Err())
	before := testkit.Connections(t, admin)
	require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	<-time.After(2 * time.Second)
	require.Less(t, testkit.Connections(t, admin)-before, 100)
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, ">old").Err())
	testkit.Eventually(t, "the waiter is subscribed again", func() bool {
		return admin.PubSubNumSub(t.Context(), testkit.Channel(lock)).Val()[testkit.Channel(lock)] == 1
	})
	cancel()
	require.Error(t, testkit.Within(t, "the wait ends", waiting))
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestARefusedChannelAffectsNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	name := "u" + strings.ReplaceAll(testkit.NewName(), ":", "")
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "on", ">pw", "~*",
		"resetchannels", "&redisson_lock__channel:{good*", "&rlock:{good*", "+@all").Err())
	logger, _ := testkit.Recording()
	holder, client := testkit.NewClient(t, admin, logger), testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: name, Password: "pw"}), logger)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	names := []string{"good"}
	for i := range 40 {
		names = append(names, fmt.Sprint("bad", i))
	}
	for _, name := range names {
		require.NoError(t, holder.NewLock(name).Lock(t.Context()))
		wg.Go(func() { _ = client.NewLock(name).Lock(ctx) })
	}
	subscribed := func() bool { return len(admin.PubSubChannels(t.Context(), "*").Val()) > 0 }
	testkit.Eventually(t, "the permitted channel is subscribed", subscribed)
	for range 2 {
		require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		testkit.Eventually(t, "the permitted channel is subscribed again", subscribed)
	}
	require.Less(t, testkit.Stats(t, admin)["subscribe"], 1000, "Redis is not flooded")
	cancel()
	wg.Wait()
}

func TestAWaiterWithoutASubscriptionPolls(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(300*time.Millisecond))
	f.Proxy.SwallowReply(-1, redistest.Named("subscribe"))
	require.NoError(t, f.Other.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	first := testkit.Async(func() error { return f.Lock.Lock(ctx) })
	testkit.Eventually(t, "the first waiter waits", func() bool { return testkit.Waiting(f.Lock) == 1 })
	next := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	testkit.Eventually(t, "the next waiter queues behind it", func() bool { return testkit.Waiting(f.Lock) == 2 })
	cancel()
	require.Error(t, testkit.Within(t, "the first waiter leaves", first))
	require.NoError(t, f.Other.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the next waiter finds the lock free", next))
	require.NoError(t, f.Lock.Unlock(t.Context()))
}

func TestASubscriptionThatIsSilentFromTheStartIsReplaced(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil, tune.PollInterval(testkit.Never))
	require.NoError(t, f.Other.Lock(t.Context(), rlock.Lease(testkit.Never)))
	silent := f.Proxy.SwallowReply(1, redistest.Named("subscribe"))
	waiting := testkit.Async(func() error { return f.Lock.Lock(t.Context()) })
	testkit.Within(t, "the waiter subscribes", silent.Met())
	passed := redistest.Stopwatch(t)
	require.NoError(t, f.Other.Unlock(t.Context()))
	// New waiters keep the connection busy. Commands that go into the black hole must not count as a sign of life.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
			}
			name := testkit.NewName()
			_ = f.Direct.HSet(context.Background(), name, "another owner", "data").Err()
			_, _ = f.Client.NewLock(name).TryLock(context.Background(), rlock.Wait(50*time.Millisecond))
		}
	})
	require.NoError(t, testkit.Within(t, "the waiter gets the lock", waiting))
	require.Less(t, passed(), 8*time.Second)
	close(stop)
	wg.Wait()
	require.NoError(t, f.Lock.Unlock(t.Context()))
}
