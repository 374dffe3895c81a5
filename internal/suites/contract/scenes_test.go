package contract

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// name is the name of the lock in every scene.
const name = "orders"

// stage is where a scene plays: a server of its own, with the client that the error comes from, and another process.
type stage struct {
	*testing.T
	server *redistest.Server
	admin  *redis.Client
	client *rlock.Client
	lock   *rlock.Lock // of client
	other  *rlock.Lock // of another process
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, server: redistest.Start(t)}
	s.admin = s.server.Client(t)
	s.client = s.connect(s.server.Addr)
	s.lock, s.other = s.client.NewLock(name), s.connect(s.server.Addr).NewLock(name)
	return s
}

// connect returns a connected client. A busy machine is no outage, so its command timeout is long. Dials are not repeated.
func (s *stage) connect(addr string, opts ...rlock.Option) *rlock.Client {
	s.Helper()
	rdb := redistest.Open(s, &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	opts = append([]rlock.Option{rlock.WithLogger(testkit.Discard), rlock.WithCommandTimeout(10 * time.Second)}, opts...)
	_ = rdb.Ping(context.Background()).Err() // the server may be down
	return testkit.NewClient(s.T, rdb, opts...)
}

// taken makes the other process hold the lock.
func (s *stage) taken() *stage {
	s.Helper()
	require.NoError(s, s.other.Lock(context.Background()))
	return s
}

// acquire returns a hold of the client.
func (s *stage) acquire(ctx context.Context, opts ...rlock.AcquireOption) *rlock.Hold {
	s.Helper()
	hold, err := s.lock.Acquire(ctx, opts...)
	require.NoError(s, err)
	return hold
}

// within returns a context that ends soon.
func (s *stage) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.Cleanup(cancel)
	return ctx
}

// soon returns a context that is canceled soon.
func (s *stage) soon(d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(d, cancel)
	s.Cleanup(func() { timer.Stop(); cancel() })
	return ctx
}

// scene provokes an error.
type scene struct {
	what string // what was done
	run  func(*stage) error
}

const moment = 50 * time.Millisecond

var bg = context.Background()

var refusals = []scene{
	{"`TryAcquire` of a lock that another process holds", func(s *stage) error {
		return testkit.Second(s.taken().lock.TryAcquire(bg))
	}},
	{"`Lock` with `Wait` of such a lock", func(s *stage) error { return s.taken().lock.Lock(bg, rlock.Wait(moment)) }},
	{"`Lock` with a deadline of such a lock", func(s *stage) error { return s.taken().lock.Lock(s.within(time.Second)) }},
	{"`Lock`, canceled, of such a lock", func(s *stage) error { return s.taken().lock.Lock(s.soon(time.Second)) }},
	{"`Do` of a fair lock with `Wait`", func(s *stage) error {
		require.NoError(s, s.connect(s.server.Addr).NewFairLock(name).Lock(bg))
		return s.client.NewFairLock(name).Do(bg, func(context.Context) error { return nil }, rlock.Wait(moment))
	}},
	{"`TryAcquire` of a multi lock with such a member", func(s *stage) error {
		s.taken()
		return testkit.Second(rlock.NewMultiLock(s.client.NewLock("users"), s.lock).TryAcquire(bg))
	}},
	{"`CountDownLatch.Await` with `Wait` of a closed latch", func(s *stage) error {
		latch := s.client.NewCountDownLatch(name)
		require.True(s, testkit.Must(latch.TrySetCount(bg, 1)))
		return latch.Await(bg, rlock.Wait(moment))
	}},
	{"`TryAcquire` of a semaphore without a free permit", func(s *stage) error {
		return testkit.Second(s.client.NewSemaphore(name, rlock.Total(0)).TryAcquire(bg))
	}},
	{"`Acquire` with `Wait` of a plain semaphore without a free permit", func(s *stage) error {
		return s.client.NewPlainSemaphore(name, rlock.Total(0)).Acquire(bg, rlock.Wait(moment))
	}},
	{"`Lock` with `Wait` of a lock that this process holds", func(s *stage) error {
		s.acquire(bg)
		return s.lock.Lock(bg, rlock.Wait(moment))
	}},
	{"`TryAcquire` of a red lock; another process holds two of three members", func(s *stage) error {
		other := s.connect(s.server.Addr)
		for _, member := range []string{"second", "third"} {
			require.NoError(s, other.NewLock(member).Lock(bg))
		}
		return testkit.Second(s.red(s.server.Addr).TryAcquire(bg))
	}},
}

var unset = []scene{
	{"`Acquire` with `Wait` of a semaphore that nobody has set up", func(s *stage) error {
		return testkit.Second(s.client.NewSemaphore(name).Acquire(bg, rlock.Wait(moment)))
	}},
}

var outages = []scene{
	{"`TryLock` while the server is down", func(s *stage) error {
		s.server.Kill()
		return testkit.Second(s.lock.TryLock(bg))
	}},
	{"`Lock` with `Wait` while the server hangs", func(s *stage) error {
		require.NoError(s, s.lock.Do(bg, func(context.Context) error { return nil }))
		s.server.Pause()
		s.Cleanup(s.server.Resume)
		return s.lock.Lock(bg, rlock.Wait(2*moment))
	}},
	{"`Lock` with a deadline while the server hangs", func(s *stage) error {
		require.NoError(s, s.lock.Do(bg, func(context.Context) error { return nil }))
		s.server.Pause()
		s.Cleanup(s.server.Resume)
		return s.lock.Lock(s.within(2 * moment))
	}},
	{"`Unlock` while the server hangs", func(s *stage) error {
		lock := s.connect(s.server.Addr, rlock.WithCommandTimeout(time.Second)).NewLock(name)
		require.NoError(s, lock.Lock(bg))
		s.server.Pause()
		s.Cleanup(s.server.Resume)
		return lock.Unlock(bg)
	}},
	{"`CountDown` while the server hangs", func(s *stage) error {
		latch := s.connect(s.server.Addr, rlock.WithCommandTimeout(time.Second)).NewCountDownLatch(name)
		require.NoError(s, latch.Await(bg))
		s.server.Pause()
		s.Cleanup(s.server.Resume)
		return testkit.Second(latch.CountDown(bg))
	}},
	{"`IsLocked` while the server is down", func(s *stage) error {
		s.server.Kill()
		return testkit.Second(s.lock.IsLocked(bg))
	}},
	{"`TryLock` at a read-only replica", func(s *stage) error {
		require.NoError(s, s.admin.Do(bg, "replicaof", "127.0.0.1", "1").Err())
		return testkit.Second(s.lock.TryLock(bg))
	}},
	{"`TryLock` by a client for one server, at a node of a cluster without slots", func(s *stage) error {
		node := redistest.Start(s, "--cluster-enabled", "yes")
		return testkit.Second(s.connect(node.Addr).NewLock(name).TryLock(bg))
	}},
	{"`TryAcquire` of a red lock; two of three members are down", func(s *stage) error {
		down := redistest.Start(s)
		down.Kill()
		return testkit.Second(s.red(down.Addr).TryAcquire(bg))
	}},
}

var unreplicated = []scene{
	{"`Lock` with `WithReplicaAcks(1, …)` while no replica is connected", func(s *stage) error {
		return s.connect(s.server.Addr, rlock.WithReplicaAcks(1, moment)).NewLock(name).Lock(bg)
	}},
}

var losses = []scene{
	{"`Hold.Unlock` after the lease", func(s *stage) error {
		hold := s.acquire(bg, rlock.Lease(2*moment))
		testkit.Within(s, "the lease ends", hold.Done())
		return hold.Unlock(bg)
	}},
	{"`Unlock` after the lease", func(s *stage) error {
		require.NoError(s, s.lock.Lock(bg, rlock.Lease(moment)))
		testkit.Eventually(s, "the lease ends", func() bool { return s.admin.Exists(bg, name).Val() == 0 })
		return s.lock.Unlock(bg)
	}},
	{"`Hold.Unlock` after another process has freed the lock by force", func(s *stage) error {
		hold := s.acquire(bg)
		require.True(s, testkit.Must(s.other.ForceUnlock(bg)))
		return hold.Unlock(bg)
	}},
	{"`Hold.Err` after `ForceUnlock` in this process", func(s *stage) error {
		hold := s.acquire(bg)
		require.True(s, testkit.Must(s.lock.ForceUnlock(bg)))
		return hold.Err()
	}},
	{"`context.Cause` of `Hold.Context` after the lease", func(s *stage) error {
		hold := s.acquire(bg, rlock.Lease(2*moment))
		testkit.Within(s, "the lease ends", hold.Context().Done())
		return context.Cause(hold.Context())
	}},
	{"`Do` whose function outlives the lease, and fails", func(s *stage) error {
		return s.lock.Do(bg, func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("disk full")
		}, rlock.Lease(2*moment))
	}},
}

var unheld = []scene{
	{"`Unlock` of a lock that was never locked", func(s *stage) error { return s.lock.Unlock(bg) }},
	{"`Unlock` twice", func(s *stage) error {
		require.NoError(s, s.lock.Lock(bg))
		require.NoError(s, s.lock.Unlock(bg))
		return s.lock.Unlock(bg)
	}},
	{"`Hold.Unlock` twice", func(s *stage) error {
		hold := s.acquire(bg)
		require.NoError(s, hold.Unlock(bg))
		return hold.Unlock(bg)
	}},
	{"`Unlock` of what `Acquire` has taken", func(s *stage) error {
		s.acquire(bg)
		return s.lock.Unlock(bg)
	}},
	{"`Hold.Unlock` of a hold that `HoldFrom` has returned", func(s *stage) error {
		hold, ok := rlock.HoldFrom(s.acquire(bg).Context(), s.lock)
		require.True(s, ok)
		return hold.Unlock(bg)
	}},
	{"`Unlock` through another handle, without an owner", func(s *stage) error {
		require.NoError(s, s.lock.Lock(bg))
		return s.client.NewLock(name).Unlock(bg)
	}},
}

var closed = []scene{
	{"`Lock` after `Client.Close`", func(s *stage) error {
		require.NoError(s, s.client.Close())
		return s.lock.Lock(bg)
	}},
	{"`context.Cause` of `Hold.Context` once `Client.Shutdown` has begun", func(s *stage) error {
		hold := s.acquire(bg)
		down := testkit.Async(func() error { return s.client.Shutdown(bg) })
		testkit.Within(s, "the context ends", hold.Context().Done())
		cause := context.Cause(hold.Context())
		require.NoError(s, hold.Unlock(bg))
		require.NoError(s, testkit.Within(s, "Shutdown returns", down))
		return cause
	}},
}

var reentered = []scene{
	{"`Lock` twice through a `NonReentrant` handle", func(s *stage) error {
		lock, owner := s.client.NewLock(name, rlock.NonReentrant()), rlock.WithOwner(bg)
		require.NoError(s, lock.Lock(owner))
		return lock.Lock(owner)
	}},
}

var upgraded = []scene{
	{"`Lock` of the write lock by a reader", func(s *stage) error {
		rw, owner := s.client.NewRWLock(name), rlock.WithOwner(bg)
		require.NoError(s, rw.Reader().Lock(owner))
		return rw.Writer().Lock(owner)
	}},
}

var invalidNames = []scene{
	{"`Lock` of an empty name", func(s *stage) error { return s.client.NewLock("").Lock(bg) }},
}

var invalidOptions = []scene{
	{"`Lock` with a lease of 0", func(s *stage) error { return s.lock.Lock(bg, rlock.Lease(0)) }},
	{"`New` with a command timeout of 0", func(s *stage) error {
		return testkit.Second(rlock.New(s.admin, rlock.WithCommandTimeout(0)))
	}},
	{"`Acquire` of a red lock without members", func(*stage) error { return testkit.Second(rlock.NewRedLock().Acquire(bg)) }},
}

// red returns a red lock whose second and third member are at another address.
func (s *stage) red(addr string) *rlock.RedLock {
	away := s.connect(addr)
	return rlock.NewRedLock(s.lock, away.NewLock("second"), away.NewLock("third"))
}

var ended = []scene{
	{"`Lock` with a context that was canceled before", func(s *stage) error {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		return s.lock.Lock(ctx)
	}},
	{"`CountDown`, canceled, while the server hangs", func(s *stage) error {
		latch := s.client.NewCountDownLatch(name)
		require.NoError(s, latch.Await(bg))
		s.server.Pause()
		s.Cleanup(s.server.Resume)
		return testkit.Second(latch.CountDown(s.soon(2 * moment)))
	}},
}

var late = []scene{
	{"`Lock` with a deadline that has passed", func(s *stage) error {
		ctx, cancel := context.WithDeadline(bg, time.Unix(0, 0))
		defer cancel()
		return s.lock.Lock(ctx)
	}},
}

var replies = []scene{
	{"`Lock` of a user without rights", func(s *stage) error {
		require.NoError(s, s.admin.ACLSetUser(bg, "app", "on", "nopass", "+hello", "+client", "+ping").Err())
		rdb := redistest.Open(s, &redis.Options{Addr: s.server.Addr, Username: "app", Password: "any"})
		return testkit.NewClient(s.T, rdb, rlock.WithLogger(testkit.Discard)).NewLock(name).Lock(bg)
	}},
	{"`Lock` of a name at which there is a string", func(s *stage) error {
		require.NoError(s, s.admin.Set(bg, name, "a string", 0).Err())
		return s.lock.Lock(bg)
	}},
	{"`CountDown` of a name at which there is a lock", func(s *stage) error {
		return testkit.Second(s.taken().client.NewCountDownLatch(name).CountDown(bg))
	}},
	{"`Count` of a name at which there is a text", func(s *stage) error {
		require.NoError(s, s.admin.Set(bg, name, "pencils", 0).Err())
		return testkit.Second(s.client.NewCountDownLatch(name).Count(bg))
	}},
	{"`TryAcquire` of a semaphore at whose name there is a text", func(s *stage) error {
		require.NoError(s, s.admin.Set(bg, name, "pencils", 0).Err())
		return testkit.Second(s.client.NewSemaphore(name).TryAcquire(bg))
	}},
	{"`Release` to a plain semaphore at whose name there is a text", func(s *stage) error {
		require.NoError(s, s.admin.Set(bg, name, "pencils", 0).Err())
		return s.client.NewPlainSemaphore(name).Release(bg, 1)
	}},
	{"`Lock` of a server without memory", func(s *stage) error {
		require.NoError(s, s.lock.Do(bg, func(context.Context) error { return nil }))
		require.NoError(s, s.admin.ConfigSet(bg, "maxmemory", "1").Err())
		return s.lock.Lock(bg)
	}},
	{"`Lock` by a client for one server, at a node of a cluster that does not have the name", func(s *stage) error {
		cluster := redistest.StartCluster(s)
		i := slices.IndexFunc(cluster.Nodes, func(node *redistest.Server) bool { return node != cluster.MasterOf(s, name) })
		return s.connect(cluster.Nodes[i].Addr).NewLock(name).Lock(bg)
	}},
	{"`Lock` without the password", func(s *stage) error {
		require.NoError(s, s.admin.ConfigSet(bg, "requirepass", "secret").Err())
		return s.connect(s.server.Addr).NewLock(name).Lock(bg)
	}},
}
