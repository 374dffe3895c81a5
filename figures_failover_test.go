package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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
)

// What failures of Redis cost: the figures of docs/reliability.md. They run by `make figures` alone.

const failureRounds = 5

// spread tells how long things took.
func spread(took []time.Duration) string {
	if len(took) == 0 {
		return "-"
	}
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(10 * time.Microsecond) }
	if len(took) < 100 {
		return fmt.Sprintf("p50 %v, max %v", at(50), at(100))
	}
	return fmt.Sprintf("p50 %v, p99 %v, max %v", at(50), at(99), at(100))
}

// TestFigureFailover measures how soon after a failure a hold is renewed again and waiters go on. Sentinel calls a master
// down after 1 s, the cluster after 2 s.
func TestFigureFailover(t *testing.T) {
	figure(t)
	sentinel := func(fail func(*redistest.Server)) func(*testing.T) breakdown {
		return func(t *testing.T) breakdown {
			t.Helper()
			s := redistest.StartSentinel(t)
			return sentinelBreakdown(t, s, func() { fail(s.Master) })
		}
	}
	cluster := func(fail func(*redistest.Server)) func(*testing.T) breakdown {
		return func(t *testing.T) breakdown {
			t.Helper()
			return clusterBreakdown(t, redistest.StartCluster(t), fail)
		}
	}
	for _, c := range []struct {
		what string
		make func(*testing.T) breakdown
	}{
		{"Sentinel, SIGKILL of the master", sentinel((*redistest.Server).Kill)},
		{"Sentinel, SIGSTOP of the master", sentinel((*redistest.Server).Pause)},
		{"cluster, SIGKILL of the master", cluster((*redistest.Server).Kill)},
		{"cluster, SIGSTOP of the master", cluster((*redistest.Server).Pause)},
		{"single, CLIENT KILL of all connections", killedConnections},
		{"single, restart with an AOF", restarted},
		{"single, every connection silent, new ones work", silentConnections},
	} {
		var renewed, woken []time.Duration
		for round := range failureRounds {
			t.Run(fmt.Sprint(c.what, " ", round+1), func(t *testing.T) {
				took := c.make(t).outlive(t)
				renewed, woken = append(renewed, took.renewed), append(woken, took.woken)
			})
		}
		if len(renewed) > 0 {
			t.Logf("%s: %d of %d outlived; hold renewed again after %s; waiter woken after %s",
				c.what, len(renewed), failureRounds, spread(renewed), spread(woken))
		}
	}
}

// alone is a breakdown of one server.
func alone(server *redistest.Server, dial func(context.Context, string, string) (net.Conn, error), fail func()) breakdown {
	return breakdown{
		open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return redistest.Open(tb, &redis.Options{Addr: server.Addr, Dialer: dial})
		},
		ready: func(string) bool { return true },
		fail:  func(string) { fail() },
	}
}

func killedConnections(t *testing.T) breakdown {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	return alone(server, nil, func() {
		for _, kind := range []string{"pubsub", "normal"} {
			require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", kind).Err())
		}
	})
}

func restarted(t *testing.T) breakdown {
	t.Helper()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return alone(server, nil, func() {
		server.Kill()
		server.Run()
	})
}

// forgetful is a way to a server that forgets, as a firewall does, the connections that it had: they stay open and silent.
type forgetful struct {
	proxies [2]*redistest.Proxy
	now     atomic.Int32
}

func newForgetful(t *testing.T, server *redistest.Server) *forgetful {
	t.Helper()
	return &forgetful{proxies: [2]*redistest.Proxy{redistest.NewProxy(t, server.Addr), redistest.NewProxy(t, server.Addr)}}
}

func (f *forgetful) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, f.proxies[f.now.Load()].Addr)
}

// forget can be called once.
func (f *forgetful) forget() {
	f.now.Store(1)
	f.proxies[0].Freeze()
}

func silentConnections(t *testing.T) breakdown {
	t.Helper()
	server := redistest.Start(t)
	way := newForgetful(t, server)
	return alone(server, way.dial, way.forget)
}

// TestFigureSilentSubscription measures how long a message is missed that went into a black hole. Where the connections for
// commands are silent too, go-redis has to give one up before the waiter can ask for the lock.
func TestFigureSilentSubscription(t *testing.T) {
	figure(t)
	for what, idle := range map[string]time.Duration{
		"the subscription silent": time.Millisecond, // commands have a new connection each
		"every connection silent": 0,
	} {
		var took []time.Duration
		for range 10 {
			took = append(took, missedMessage(t, idle))
		}
		t.Logf("%s, lock released: waiter has it after %s", what, spread(took))
	}
}

func missedMessage(t *testing.T, idle time.Duration) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	way := newForgetful(t, server)
	logger, _ := recording()
	rdb := redistest.Open(t, &redis.Options{Dialer: way.dial, ConnMaxIdleTime: idle})
	lock := newClient(t, rdb, logger, rlock.WithPollInterval(never)).NewLock(newName())
	held := newClient(t, server.Client(t)).NewLock(lock.Name())
	require.NoError(t, held.Lock(t.Context(), rlock.Lease(never)))
	waiting := async(func() error { return lock.Lock(t.Context()) })
	awaitSleepers(t, server.Client(t), 3, lock) // it asks again after it subscribed
	way.forget()
	start := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, within(t, "it gets the lock", waiting))
	took := time.Since(start)
	require.NoError(t, lock.Unlock(t.Context()))
	return took
}

// TestFigureLossyFailover breaks the link to the replica and then ends the master. A hold that the replica has not heard of
// is then another's too, until its holder is told.
func TestFigureLossyFailover(t *testing.T) {
	figure(t)
	const rounds = 20
	for _, c := range []struct {
		what  string
		acks  int
		early bool          // acquired before the link breaks
		apart time.Duration // for how long the link is broken before the failover
	}{
		{"acquired with the link broken, 0 acks", 0, false, 0},
		{"acquired with the link broken, 1 ack", 1, false, 0},
		{"acquired before, link broken for half a lease, 1 ack", 1, true, lossyLease / 2},
		{"acquired before, link broken for 1.5 leases, 1 ack", 1, true, lossyLease * 3 / 2},
	} {
		var total lossyFailover
		var dual []time.Duration
		for range rounds {
			t.Run(c.what, func(t *testing.T) {
				r := loseByFailover(t, c.acks, c.early, c.apart)
				total.refused += r.refused
				total.unfenced += r.unfenced
				total.fenced += r.fenced
				if r.dual > 0 {
					dual = append(dual, r.dual)
				}
			})
		}
		t.Logf("%s: %d failovers, %d acquisitions refused, %d times two holders, for %s; stale writes accepted: unfenced %d, fenced %d",
			c.what, rounds, total.refused, len(dual), spread(dual), total.unfenced, total.fenced)
	}
}

const lossyLease = 3 * time.Second

// lossyFailover is what came of one: whether the acquisition was refused, for how long there were two holders, and how many
// writes of the old one were accepted after the first of the new one.
type lossyFailover struct {
	refused          int
	dual             time.Duration
	unfenced, fenced int
}

func loseByFailover(t *testing.T, acks int, early bool, apart time.Duration) (r lossyFailover) {
	t.Helper()
	p := newPair(t)
	opts := []rlock.Option{rlock.WithWatchdogTimeout(lossyLease)}
	if acks > 0 {
		opts = append(opts, rlock.WithReplicaAcks(acks, time.Second))
	}
	lock, rival := p.client(opts...).NewFencedLock(newName()), p.client()
	if !early {
		p.link.Freeze()
	}
	hold, err := lock.Acquire(t.Context())
	if errors.Is(err, rlock.ErrNotReplicated) {
		r.refused, hold = 1, new(rlock.Hold)
	} else {
		require.NoError(t, err)
		defer func() { _ = hold.Unlock(t.Context()) }()
	}
	p.link.Freeze()
	<-time.After(apart)
	p.failOver()
	other, err := rival.NewFencedLock(lock.Name()).TryAcquire(t.Context())
	if errors.Is(err, rlock.ErrNotAcquired) {
		return r
	}
	require.NoError(t, err)
	start := time.Now()
	latest := other.Token() // the new holder writes first, and the resource takes note of its token
	for hold.Err() == nil {
		r.dual = time.Since(start)
		r.unfenced++
		if hold.Token() >= latest {
			r.fenced++
		}
		<-time.After(time.Millisecond)
	}
	require.NoError(t, other.Unlock(t.Context()))
	return r
}

// TestFigureHandOff measures from the call of Unlock to the acquisition by a waiter of another client, quiet and while the
// subscriptions are killed.
func TestFigureHandOff(t *testing.T) {
	figure(t)
	rdb := redistest.Start(t).Client(t)
	t.Logf("hand-off to another client, quiet: %s", spread(handOffs(t, rdb, 3000)))
	ctx, cancel := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			_ = rdb.Do(context.Background(), "client", "kill", "type", "pubsub").Err()
			<-time.After(50 * time.Millisecond)
		}
	})
	took := handOffs(t, rdb, 3000)
	cancel()
	killer.Wait()
	t.Logf("hand-off to another client, CLIENT KILL TYPE pubsub every 50 ms: %s", spread(took))
}

// handOffs has two clients give a lock to each other.
func handOffs(t *testing.T, rdb *redis.Client, times int) (took []time.Duration) {
	t.Helper()
	logger, _ := recording()
	name := newName()
	locks := []*rlock.Lock{newClient(t, rdb, logger).NewLock(name), newClient(t, rdb, logger).NewLock(name)}
	require.NoError(t, locks[0].Lock(t.Context()))
	for i := range times {
		holder, waiter := locks[i%2], locks[(i+1)%2]
		waiting := async(func() error { return waiter.Lock(t.Context()) })
		eventually(t, "it waits", waiter.Rests)
		start := time.Now()
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, within(t, "the other gets it", waiting))
		took = append(took, time.Since(start))
	}
	require.NoError(t, locks[times%2].Unlock(t.Context()))
	return took
}

// TestFigureLostReleaseReplies counts the unlocks that call a lock lost though it was theirs.
func TestFigureLostReleaseReplies(t *testing.T) {
	figure(t)
	for how, lose := range lossy {
		f := newFaulty(t, &redis.Options{ReadTimeout: 20 * time.Millisecond})
		const n = 1000
		lost, wrong, failed := 0, 0, 0
		for range n {
			require.NoError(t, f.lock.Lock(t.Context()))
			fault := lose(f.proxy, 1, rlock.Runs("release"))
			switch err := f.lock.Unlock(t.Context()); {
			case errors.Is(err, rlock.ErrNotHeld):
				wrong++
			case err != nil:
				failed++
			}
			lost += len(fault.Met())
		}
		t.Logf("connection %s: %d release replies lost; unlocks that said not held: %d, that failed otherwise: %d", how, lost, wrong, failed)
	}
}

// TestFigureOrphans measures for how long Redis holds locks that nobody has: their acquisitions ended while it stalled.
func TestFigureOrphans(t *testing.T) {
	figure(t)
	server := redistest.Start(t, "--notify-keyspace-events", "KA")
	admin := server.Client(t)
	logger, _ := recording()
	client := newClient(t, server.Client(t), logger)
	warm := client.NewLock(newName()) // so that the scripts are known
	require.NoError(t, warm.Lock(t.Context()))
	require.NoError(t, warm.Unlock(t.Context()))
	events := admin.PSubscribe(t.Context(), "__keyspace@0__:orphan:*")
	defer events.Close()
	require.NoError(t, second(events.Receive(t.Context())))
	news := events.Channel(redis.WithChannelSize(10000))
	const rounds, each = 20, 20
	var took []time.Duration
	for round := range rounds {
		var wg sync.WaitGroup
		server.Pause()
		resume := time.After(1500 * time.Millisecond)
		for i := range each {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := client.NewLock(fmt.Sprintf("orphan:%d:%d", round, i)).Lock(ctx); err == nil {
					t.Error("acquired while Redis stalls")
				}
			})
		}
		wg.Wait()
		<-resume
		server.Resume()
		eventually(t, "nothing is left", func() bool {
			return client.Remains() == 0 && len(admin.Keys(t.Context(), "orphan:*").Val()) == 0
		})
		require.NoError(t, admin.HSet(t.Context(), "orphan:end", "no", "lock").Err())
		require.NoError(t, admin.Del(t.Context(), "orphan:end").Err())
		took = append(took, orphaned(news)...)
	}
	t.Logf("of %d acquisitions that ended while Redis stalled for 1.5 s %d were granted; orphans for %s",
		rounds*each, len(took), spread(took))
}

// orphaned reads, up to the end of a round, for how long keys were there.
func orphaned(news <-chan *redis.Message) (took []time.Duration) {
	since := make(map[string]time.Time)
	for m := range news {
		key := strings.TrimPrefix(m.Channel, "__keyspace@0__:")
		switch {
		case m.Payload == "hset":
			since[key] = time.Now()
		case m.Payload == "del" && key == "orphan:end":
			return took
		case m.Payload == "del":
			took = append(took, time.Since(since[key]))
		}
	}
	return took
}
