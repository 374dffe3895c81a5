package rlock_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// breakdown is a Redis deployment, together with a way to make it fail.
type breakdown struct {
	open  func(testing.TB) redis.UniversalClient
	ready func(key string) bool // reports whether all writes so far survive the failure
	fail  func(key string)      // makes the server of a key fail
}

// recovery holds two times since the failure: until a hold was renewed again, and until a waiter acquired a lock that was
// unlocked at the moment of the failure.
type recovery struct{ renewed, woken time.Duration }

// outlived is the lease of the hold that must outlive the failure.
const outlived = 15 * time.Second

// outlive requires that a hold is renewed within its lease, and that waiters are woken, although Redis fails. The waiters never
// poll.
func (b breakdown) outlive(t *testing.T) recovery {
	t.Helper()
	logger, _ := recording()
	opts := []rlock.Option{logger, rlock.WithWatchdogTimeout(outlived), rlock.WithPollInterval(never)}
	holder, waiter := newClient(t, b.open(t), opts...), newClient(t, b.open(t), opts...)
	tag := newName() // puts all locks on one server
	var held, wanted []*rlock.Lock
	var waiting []<-chan error
	for _, what := range []string{"unlocked at once", "unlocked later"} {
		lock := waiter.NewLock(what + "{" + tag + "}")
		held, wanted = append(held, holder.NewLock(lock.Name())), append(wanted, lock)
		require.NoError(t, held[len(held)-1].Lock(t.Context(), rlock.Lease(never)))
		waiting = append(waiting, async(func() error { return lock.Lock(t.Context()) }))
		eventually(t, "it waits", lock.Rests)
		eventually(t, "it is subscribed", lock.Listens)
	}
	hold, err := holder.NewLock("kept{" + tag + "}").Acquire(t.Context())
	require.NoError(t, err)
	eventually(t, "all writes survive", func() bool { return b.ready(tag) })
	<-time.After(time.Until(hold.Deadline().Add(-outlived*2/3 - 100*time.Millisecond))) // until just before its renewal

	before, start := hold.Deadline(), time.Now()
	b.fail(tag)
	unlocking := async(func() error { return held[0].Unlock(t.Context()) })
	var took recovery
	woken := async(func() error {
		err := <-waiting[0]
		took.woken = time.Since(start)
		return err
	})
	redistest.EventuallyWithin(t, outlived, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	took.renewed = time.Since(start)
	<-unlocking // it may have failed; the release then continues in the background
	require.NoError(t, within(t, "the waiter during the failure gets the lock", woken))
	eventually(t, "the other waiter is subscribed again", wanted[1].Listens)
	require.NoError(t, held[1].Unlock(t.Context()))
	require.NoError(t, within(t, "the other waiter is woken", waiting[1]))
	for _, lock := range wanted {
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.NoError(t, hold.Unlock(t.Context()))
	t.Logf("after the failure: renewed again in %v, woken in %v", took.renewed, took.woken)
	return took
}

func TestSentinelWithAHangingMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	sentinelBreakdown(t, sentinel, sentinel.Master.Pause).outlive(t)
}

func sentinelBreakdown(t *testing.T, sentinel *redistest.Sentinel, fail func()) breakdown {
	t.Helper()
	return breakdown{
		open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return sentinel.Client(tb)
		},
		ready: func(key string) bool { return replicated(t, sentinel.Master.Client(t), key, 2) },
		fail:  func(string) { fail() },
	}
}

func clusterDyingMaster(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	clusterBreakdown(t, cluster, (*redistest.Server).Kill).outlive(t)
}

func clusterHangingMaster(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	var hung *redistest.Server
	clusterBreakdown(t, cluster, func(s *redistest.Server) {
		hung = s
		s.Pause()
	}).outlive(t)
	hung.Resume()
	admin := hung.Client(t)
	eventually(t, "the old master follows the new one", func() bool {
		return strings.Contains(admin.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

func clusterBreakdown(t *testing.T, cluster *redistest.Cluster, fail func(*redistest.Server)) breakdown {
	t.Helper()
	var master *redistest.Server // set by ready, because looking it up would delay fail
	return breakdown{
		open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return cluster.Client(tb)
		},
		ready: func(key string) bool {
			master = cluster.MasterOf(t, key)
			return replicated(t, master.Client(t), key, 1)
		},
		fail: func(string) { fail(master) },
	}
}

// pair is a master and a replica, the link between them, and an address that moves from one to the other. A DNS name or a
// virtual IP address behaves like that.
type pair struct {
	*testing.T
	master, replica *redistest.Server
	link            *redistest.Proxy
	addr            atomic.Pointer[string]
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{T: t, master: redistest.Start(t)}
	p.link = redistest.NewProxy(t, p.master.Addr)
	_, port, err := net.SplitHostPort(p.link.Addr)
	require.NoError(t, err)
	p.replica = redistest.Start(t, "--replicaof", "127.0.0.1", port)
	p.addr.Store(&p.master.Addr)
	p.catchUp()
	return p
}

// catchUp waits until the replica has all writes of the master.
func (p *pair) catchUp() {
	p.Helper()
	admin := p.master.Client(p)
	eventually(p, "the replica has caught up", func() bool { return replicated(p.T, admin, "any", 1) })
}

// client returns a new client, which stands for another process.
func (p *pair) client(opts ...rlock.Option) *rlock.Client {
	p.Helper()
	logger, _ := recording()
	return newClient(p, redistest.Open(p.T, &redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *p.addr.Load())
	}}), append(opts, logger)...)
}

// failOver kills the master and makes the replica the master. Writes that have not reached the replica are lost.
func (p *pair) failOver() {
	p.Helper()
	p.master.Kill()
	require.NoError(p, p.replica.Client(p).Do(p.Context(), "replicaof", "no", "one").Err())
	p.addr.Store(&p.replica.Addr)
}

func TestALossyFailoverIsReported(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	lock := p.client(rlock.WithWatchdogTimeout(2 * time.Second)).NewFencedLock(newName())
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))
	p.catchUp()
	p.link.Freeze()
	for range 3 { // a replica that only counted on would issue these tokens again
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	ctx := hold.Context()

	p.failOver()
	other, err := p.client().NewFencedLock(lock.Name()).TryAcquire(t.Context())
	require.NoError(t, err, "the new master has no holder")
	require.Greater(t, other.Token(), hold.Token(), "a fenced resource refuses the old holder")
	within(t, "the old holder learns of the loss", hold.Done())
	require.ErrorIs(t, hold.Err(), rlock.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
	require.Len(t, holders(t, p.replica.Client(t), lock.Name()), 1, "its unlock does not release the new holder")
	require.NoError(t, other.Err())
	require.NoError(t, other.Unlock(t.Context()))
}

func TestAnAcknowledgedLockSurvivesALossyFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	client, other := p.client(rlock.WithReplicaAcks(1, time.Second)), p.client()
	name := newName()
	hold, err := client.NewLock(name).Acquire(t.Context())
	require.NoError(t, err)
	p.link.Freeze()
	late := newName()
	require.ErrorIs(t, second(client.NewLock(late).TryAcquire(t.Context())), rlock.ErrNotReplicated)

	p.failOver()
	require.False(t, must(other.NewLock(name).TryLock(t.Context())), "the acknowledged lock is still held")
	free := other.NewLock(late)
	require.True(t, must(free.TryLock(t.Context())), "the refused lock is free")
	require.NoError(t, free.Unlock(t.Context()))
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}

// TestRenewalsFollowAMovedSlot makes a node hang for less time than go-redis would wait for it.
func TestRenewalsFollowAMovedSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var master atomic.Pointer[string]
	master.Store(&proxy.Addr)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: time.Minute,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
		},
	})
	defer rdb.Close()
	hold, err := newClient(t, rdb, rlock.WithWatchdogTimeout(5*time.Second)).NewLock(newName()).Acquire(t.Context())
	require.NoError(t, err)
	proxy.Freeze()
	defer proxy.Thaw()
	before := hold.Deadline()
	master.Store(&server.Addr)
	eventually(t, "the hold is renewed at the new node, or lost", func() bool { return hold.Deadline().After(before) || hold.Err() != nil })
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(t.Context()))
}
