package rlock_test

import (
	"context"
	"fmt"
	"net"
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

// never is a poll interval that rules out polling: in a test that passes with it, a message woke the waiter.
const never = time.Hour

func TestAReleaseBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	held := f.proxy.HoldRequest(1, redistest.Named("subscribe"))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	within(t, "the waiter subscribes", held.Met())
	require.NoError(t, f.other.Unlock(t.Context()))
	held.Release()
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.lock.Unlock(t.Context()))
}

func TestAReleaseWhileTheSubscriptionIsBrokenIsNotMissed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	for range 20 {
		require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
		waiting := async(func() error { return f.lock.Lock(t.Context()) })
		f.awaitSubscriber()
		f.proxy.CloseAll()
		require.NoError(t, f.other.Unlock(t.Context()))
		require.NoError(t, within(t, "the waiter gets the lock", waiting))
		require.NoError(t, f.lock.Unlock(t.Context()))
	}
}

func TestASilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	silent := f.proxy.SwallowReply(1, redistest.Named("ping"))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	within(t, "the idle subscription is pinged", silent.Met())
	start := time.Now()
	require.NoError(t, f.other.Unlock(t.Context()), "the message is lost in the black hole")
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.Less(t, time.Since(start), 10*time.Second)
	require.NoError(t, f.lock.Unlock(t.Context()))
}

// TestASubscriptionAtTheOldMasterIsReplaced breaks a subscription of a Sentinel client and directs the client to a former
// master, as a Sentinel does that has not noticed the failover.
func TestASubscriptionAtTheOldMasterIsReplaced(t *testing.T) {
	t.Parallel()
	master, old := redistest.Start(t), redistest.Start(t)
	var advertised atomic.Pointer[redistest.Server]
	advertised.Store(master)
	rdb := redistest.Open(t, &redis.Options{
		Addr: "FailoverClient", // as redis.NewFailoverClient names it
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, advertised.Load().Addr)
		},
	})
	lock := newClient(t, rdb, rlock.WithPollInterval(never)).NewLock(newName())
	other := newClient(t, master.Client(t)).NewLock(lock.Name())
	require.NoError(t, other.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return lock.Lock(t.Context()) })
	subscribedAt := func(server *redistest.Server) func() bool {
		return func() bool {
			return len(server.Client(t).PubSubChannels(t.Context(), lock.Channel()).Val()) == 1
		}
	}
	eventually(t, "the waiter is subscribed", subscribedAt(master))
	asked := stats(t, master.Client(t))["evalsha"]
	advertised.Store(old)
	require.NoError(t, master.Client(t).Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	eventually(t, "the waiter is subscribed at the old master", subscribedAt(old))
	advertised.Store(master)
	eventually(t, "the waiter has tried again", func() bool { return stats(t, master.Client(t))["evalsha"] > asked })
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestAMessageThatArrivesInPartsIsUnderstood(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	f.awaitSubscriber()
	opened := f.proxy.Opened()
	f.proxy.Split(1500 * time.Millisecond)
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.Equal(t, opened, f.proxy.Opened(), "the connection is unchanged")
	require.NoError(t, f.lock.Unlock(t.Context()))
}

// awaitSubscriber waits until Redis has a subscriber of the lock's channel.
func (f *faulty) awaitSubscriber() {
	f.Helper()
	channel := f.lock.Channel()
	eventually(f, "the waiter is subscribed", func() bool {
		return f.direct.PubSubNumSub(f.Context(), channel).Val()[channel] == 1
	})
}

func TestAllWaitersShareOneConnection(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, &redis.Options{PoolSize: 4})
	const n = 300
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range n {
		lock := f.client.NewLock(newName())
		require.NoError(t, newClient(t, f.direct).NewLock(lock.Name()).Lock(t.Context(), rlock.Lease(never)))
		wg.Go(func() { _ = lock.Lock(ctx) })
	}
	eventually(t, "all channels are subscribed", func() bool {
		return len(f.direct.PubSubChannels(t.Context(), "redisson_lock__channel:*").Val()) == n
	})
	clients := f.direct.ClientList(t.Context()).Val()
	require.Equal(t, 1, strings.Count(clients, " sub=300 "), clients)
	cancel()
	wg.Wait()
	eventually(t, "no channel is left", func() bool {
		return len(f.direct.PubSubChannels(t.Context(), "*").Val()) == 0 && f.client.Remains() == 0
	})
}

func TestABusyLockStaysSubscribed(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := f.lock.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if err := f.lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, f.proxy.Count(redistest.Named("subscribe")))
}

func TestOnlyOneWaiterPerProcessContends(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	var wg sync.WaitGroup
	const n = 50
	for range n {
		wg.Go(func() {
			if err := f.lock.Lock(t.Context()); err != nil {
				t.Error(err)
				return
			}
			if err := f.lock.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all waiters wait", func() bool { return f.lock.Waiting() == n })
	f.awaitSubscriber()
	eventually(t, "the first waiter has tried twice", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == 2 })
	stays(t, "no other waiter asks Redis", func() bool { return f.proxy.Count(rlock.Runs("acquire")) == 2 })
	require.NoError(t, f.other.Unlock(t.Context()))
	wg.Wait()
	require.Less(t, f.proxy.Count(rlock.Runs("acquire")), 3*n)
}

func TestAnUnannouncedReleaseIsFoundByPolling(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(100*time.Millisecond))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	f.awaitSubscriber()
	require.NoError(t, f.direct.Del(t.Context(), f.lock.Name()).Err())
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.lock.Unlock(t.Context()))
	require.ErrorIs(t, f.other.Unlock(t.Context()), rlock.ErrLost)
}

func TestAWaitersContextDoesNotBreakTheSubscription(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	f.awaitSubscriber()
	opened := f.proxy.Count(redistest.Named("subscribe"))
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, f.client.NewLock(f.lock.Name()).Lock(ctx), context.DeadlineExceeded)
		cancel()
	}
	require.Equal(t, opened, f.proxy.Count(redistest.Named("subscribe")))
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.NoError(t, f.lock.Unlock(t.Context()))
}

func TestAServerThatRefusesConnectionsIsNotFlooded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	name := "u" + strings.ReplaceAll(newName(), ":", "")
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "on", ">old", "~*", "&*", "+@all").Err())
	lock := newClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, Username: name, Password: "old"})).NewLock(newName())
	require.NoError(t, lock.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := async(func() error { return lock.Lock(ctx) })
	eventually(t, "the waiter is subscribed", func() bool {
		return admin.PubSubNumSub(t.Context(), lock.Channel()).Val()[lock.Channel()] == 1
	})
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, "resetpass", ">new").Err())
	before := connections(t, admin)
	require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	<-time.After(2 * time.Second)
	require.Less(t, connections(t, admin)-before, 100)
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", name, ">old").Err())
	eventually(t, "the waiter is subscribed again", func() bool {
		return admin.PubSubNumSub(t.Context(), lock.Channel()).Val()[lock.Channel()] == 1
	})
	cancel()
	require.Error(t, within(t, "the wait ends", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestARefusedChannelAffectsNoOther(t *testing.T) {
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
	names := []string{"good"}
	for i := range 40 {
		names = append(names, fmt.Sprint("bad", i))
	}
	for _, name := range names {
		lock := client.NewLock(name)
		require.NoError(t, lock.Lock(t.Context()))
		wg.Go(func() { _ = lock.Lock(ctx) })
	}
	subscribed := func() bool { return len(admin.PubSubChannels(t.Context(), "*").Val()) == 1 }
	eventually(t, "the permitted channel is subscribed", subscribed)
	for range 2 {
		require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		eventually(t, "the permitted channel is subscribed again", subscribed)
	}
	require.Less(t, stats(t, admin)["subscribe"], 1000, "Redis is not flooded")
	cancel()
	wg.Wait()
}

func TestAWaiterWithoutASubscriptionPolls(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(300*time.Millisecond))
	f.proxy.SwallowReply(-1, redistest.Named("subscribe"))
	require.NoError(t, f.other.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	first := async(func() error { return f.lock.Lock(ctx) })
	eventually(t, "the first waiter waits", func() bool { return f.lock.Waiting() == 1 })
	next := async(func() error { return f.lock.Lock(t.Context()) })
	eventually(t, "the next waiter queues behind it", func() bool { return f.lock.Waiting() == 2 })
	cancel()
	require.Error(t, within(t, "the first waiter leaves", first))
	require.NoError(t, f.other.Unlock(t.Context()))
	require.NoError(t, within(t, "the next waiter finds the lock free", next))
	require.NoError(t, f.lock.Unlock(t.Context()))
}

func TestASubscriptionThatIsSilentFromTheStartIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, nil, rlock.WithPollInterval(never))
	require.NoError(t, f.other.Lock(t.Context(), rlock.Lease(never)))
	silent := f.proxy.SwallowReply(1, redistest.Named("subscribe"))
	waiting := async(func() error { return f.lock.Lock(t.Context()) })
	within(t, "the waiter subscribes", silent.Met())
	start := time.Now()
	require.NoError(t, f.other.Unlock(t.Context()))
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
			name := newName()
			_ = f.direct.HSet(context.Background(), name, "another owner", "data").Err()
			_, _ = f.client.NewLock(name).TryLock(context.Background(), rlock.Wait(50*time.Millisecond))
		}
	})
	require.NoError(t, within(t, "the waiter gets the lock", waiting))
	require.Less(t, time.Since(start), 8*time.Second)
	close(stop)
	wg.Wait()
	require.NoError(t, f.lock.Unlock(t.Context()))
}
