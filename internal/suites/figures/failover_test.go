package figures

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
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// These tests measure what failures of Redis cost, for docs/reliability.md. Only `make figures` runs them.

const failureRounds = 5

// percentiles formats the percentiles of the durations.
func percentiles(took []time.Duration) string {
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

// TestFigureFailover measures the time from a failure until a hold is renewed again, and until a waiter acquires. Sentinel
// considers a master down after 1 s, the cluster after 2 s.
func TestFigureFailover(t *testing.T) {
	figure(t)
	sentinel := func(fail func(*redistest.Server)) func(*testing.T) testkit.Breakdown {
		return func(t *testing.T) testkit.Breakdown {
			t.Helper()
			s := redistest.StartSentinel(t)
			return testkit.SentinelBreakdown(t, s, func() { fail(s.Master) })
		}
	}
	cluster := func(fail func(*redistest.Server)) func(*testing.T) testkit.Breakdown {
		return func(t *testing.T) testkit.Breakdown {
			t.Helper()
			return testkit.ClusterBreakdown(t, redistest.StartCluster(t), fail)
		}
	}
	for _, c := range []struct {
		what string
		make func(*testing.T) testkit.Breakdown
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
				took := c.make(t).Outlive(t)
				renewed, woken = append(renewed, took.Renewed), append(woken, took.Woken)
			})
		}
		if len(renewed) > 0 {
			t.Logf("%s: %d of %d outlived; hold renewed again after %s; waiter woken after %s",
				c.what, len(renewed), failureRounds, percentiles(renewed), percentiles(woken))
		}
	}
}

// singleServer returns a breakdown of one server.
func singleServer(server *redistest.Server, dial func(context.Context, string, string) (net.Conn, error), fail func()) testkit.Breakdown {
	return testkit.Breakdown{
		Open: func(tb testing.TB) redis.UniversalClient {
			tb.Helper()
			return redistest.Open(tb, &redis.Options{Addr: server.Addr, Dialer: dial})
		},
		Ready: func(string) bool { return true },
		Fail:  func(string) { fail() },
	}
}

func killedConnections(t *testing.T) testkit.Breakdown {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	return singleServer(server, nil, func() {
		for _, kind := range []string{"pubsub", "normal"} {
			require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", kind).Err())
		}
	})
}

func restarted(t *testing.T) testkit.Breakdown {
	t.Helper()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return singleServer(server, nil, func() {
		server.Kill()
		server.Run()
	})
}

// forgetful is a route to a server that forgets its connections, as a firewall may. The connections stay open and silent.
type forgetful struct {
	proxies [2]*redistest.Proxy
	current atomic.Int32
}

func newForgetful(t *testing.T, server *redistest.Server) *forgetful {
	t.Helper()
	return &forgetful{proxies: [2]*redistest.Proxy{redistest.NewProxy(t, server.Addr), redistest.NewProxy(t, server.Addr)}}
}

func (f *forgetful) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, f.proxies[f.current.Load()].Addr)
}

// forget silences all present connections. Only the first call has an effect.
func (f *forgetful) forget() {
	f.current.Store(1)
	f.proxies[0].Freeze()
}

func silentConnections(t *testing.T) testkit.Breakdown {
	t.Helper()
	server := redistest.Start(t)
	route := newForgetful(t, server)
	return singleServer(server, route.dial, route.forget)
}

// TestFigureSilentSubscription measures how long a waiter misses a message that was lost on a silent connection. If the
// command connections are silent too, go-redis must give one up before the waiter can ask for the lock.
func TestFigureSilentSubscription(t *testing.T) {
	figure(t)
	for what, idle := range map[string]time.Duration{
		"the subscription silent": time.Millisecond, // each command uses a new connection
		"every connection silent": 0,
	} {
		var took []time.Duration
		for range 10 {
			took = append(took, missedMessage(t, idle))
		}
		t.Logf("%s, lock released: waiter acquires after %s", what, percentiles(took))
	}
}

func missedMessage(t *testing.T, idle time.Duration) time.Duration {
	t.Helper()
	server := redistest.Start(t)
	route := newForgetful(t, server)
	logger, _ := testkit.Recording()
	rdb := redistest.Open(t, &redis.Options{Dialer: route.dial, ConnMaxIdleTime: idle})
	lock := testkit.NewClient(t, rdb, logger, tune.PollInterval(testkit.Never)).NewLock(testkit.NewName())
	held := testkit.NewClient(t, server.Client(t)).NewLock(lock.Name())
	require.NoError(t, held.Lock(t.Context(), rlock.Lease(testkit.Never)))
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.AwaitSleepers(t, server.Client(t), 3, lock) // it asks again after it subscribed
	route.forget()
	start := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it gets the lock", waiting))
	took := time.Since(start)
	require.NoError(t, lock.Unlock(t.Context()))
	return took
}

// TestFigureLossyFailover breaks the link to the replica and then kills the master. If the replica lacks a hold, a second
// owner can acquire the lock. There are then two holders until the first one learns of the loss.
func TestFigureLossyFailover(t *testing.T) {
	figure(t)
	const rounds = 20
	for _, c := range []struct {
		what  string
		acks  int
		early bool          // the hold is acquired before the link breaks
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
		t.Logf("%s: %d failovers, %d acquisitions refused, two holders %d times, for %s; stale writes accepted: unfenced %d, fenced %d",
			c.what, rounds, total.refused, len(dual), percentiles(dual), total.unfenced, total.fenced)
	}
}

const lossyLease = 3 * time.Second

// lossyFailover is the result of one failover: whether the acquisition was refused, how long there were two holders, and how
// many writes of the old holder were accepted after the first write of the new one.
type lossyFailover struct {
	refused          int
	dual             time.Duration
	unfenced, fenced int
}

func loseByFailover(t *testing.T, acks int, early bool, apart time.Duration) (r lossyFailover) {
	t.Helper()
	p := testkit.NewPair(t)
	opts := []rlock.Option{rlock.WithWatchdogTimeout(lossyLease)}
	if acks > 0 {
		opts = append(opts, rlock.WithReplicaAcks(rlock.Replicas(acks), time.Second))
	}
	lock, rival := p.Client(opts...).NewLock(testkit.NewName(), rlock.Fenced()), p.Client()
	if !early {
		p.Link.Freeze()
	}
	hold, err := lock.Acquire(t.Context())
	if errors.Is(err, rlock.ErrNotReplicated) {
		r.refused, hold = 1, new(rlock.Hold)
	} else {
		require.NoError(t, err)
		defer func() { _ = hold.Unlock(t.Context()) }()
	}
	p.Link.Freeze()
	<-time.After(apart)
	p.FailOver()
	other, err := rival.NewLock(lock.Name(), rlock.Fenced()).TryAcquire(t.Context())
	if errors.Is(err, rlock.ErrNotAcquired) {
		return r
	}
	require.NoError(t, err)
	start := time.Now()
	latest := other.Token() // the new holder writes first, and the resource remembers its token
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

// TestFigureHandOff measures the time from the call of Unlock to the acquisition by a waiter of another client. It measures
// undisturbed, and while the subscription connections are killed.
func TestFigureHandOff(t *testing.T) {
	figure(t)
	rdb := redistest.Start(t).Client(t)
	t.Logf("hand-off to another client, undisturbed: %s", percentiles(handOffs(t, rdb, 3000)))
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
	t.Logf("hand-off to another client, CLIENT KILL TYPE pubsub every 50 ms: %s", percentiles(took))
}

// handOffs has two clients pass a lock back and forth, and returns how long each hand-off took.
func handOffs(t *testing.T, rdb *redis.Client, times int) (took []time.Duration) {
	t.Helper()
	logger, _ := testkit.Recording()
	name := testkit.NewName()
	locks := []*rlock.Lock{testkit.NewClient(t, rdb, logger).NewLock(name), testkit.NewClient(t, rdb, logger).NewLock(name)}
	require.NoError(t, locks[0].Lock(t.Context()))
	for i := range times {
		holder, waiter := locks[i%2], locks[(i+1)%2]
		waiting := testkit.Async(func() error { return waiter.Lock(t.Context()) })
		testkit.Eventually(t, "it waits", func() bool { return testkit.Rests(waiter) })
		start := time.Now()
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, testkit.Within(t, "the other client acquires the lock", waiting))
		took = append(took, time.Since(start))
	}
	require.NoError(t, locks[times%2].Unlock(t.Context()))
	return took
}

// TestFigureLostReleaseReplies counts the unlocks that report a loss although they released the lock.
func TestFigureLostReleaseReplies(t *testing.T) {
	figure(t)
	for how, lose := range testkit.Lossy {
		f := testkit.NewFaulty(t, &redis.Options{ReadTimeout: 20 * time.Millisecond})
		const n = 1000
		lost, wrong, failed := 0, 0, 0
		for range n {
			require.NoError(t, f.Lock.Lock(t.Context()))
			fault := lose(f.Proxy, 1, testkit.Runs("release"))
			switch err := f.Lock.Unlock(t.Context()); {
			case errors.Is(err, rlock.ErrNotHeld):
				wrong++
			case err != nil:
				failed++
			}
			lost += len(fault.Met())
		}
		t.Logf("connection %s: %d release replies lost; unlocks with ErrNotHeld: %d, with other errors: %d", how, lost, wrong, failed)
	}
}

// TestFigureLeftoverLocks measures how long Redis holds locks without an owner. Their acquisitions were cancelled while Redis
// stalled, and Redis granted them afterwards.
func TestFigureLeftoverLocks(t *testing.T) {
	figure(t)
	server := redistest.Start(t, "--notify-keyspace-events", "KA")
	admin := server.Client(t)
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, server.Client(t), logger)
	warm := client.NewLock(testkit.NewName()) // loads the scripts
	require.NoError(t, warm.Lock(t.Context()))
	require.NoError(t, warm.Unlock(t.Context()))
	events := admin.PSubscribe(t.Context(), "__keyspace@0__:leftover:*")
	defer events.Close()
	require.NoError(t, testkit.Second(events.Receive(t.Context())))
	messages := events.Channel(redis.WithChannelSize(10000))
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
				if err := client.NewLock(fmt.Sprintf("leftover:%d:%d", round, i)).Lock(ctx); err == nil {
					t.Error("acquired while Redis stalls")
				}
			})
		}
		wg.Wait()
		<-resume
		server.Resume()
		testkit.Eventually(t, "nothing is left", func() bool {
			return testkit.Remains(client) == 0 && len(admin.Keys(t.Context(), "leftover:*").Val()) == 0
		})
		require.NoError(t, admin.HSet(t.Context(), "leftover:end", "no", "lock").Err())
		require.NoError(t, admin.Del(t.Context(), "leftover:end").Err())
		took = append(took, leftoverTimes(messages)...)
	}
	t.Logf("%d acquisitions were cancelled while Redis stalled for 1.5 s, %d of them were granted; leftover locks for %s",
		rounds*each, len(took), percentiles(took))
}

// leftoverTimes reads keyspace events up to the end of a round, and returns how long each key existed.
func leftoverTimes(messages <-chan *redis.Message) (took []time.Duration) {
	since := make(map[string]time.Time)
	for m := range messages {
		key := strings.TrimPrefix(m.Channel, "__keyspace@0__:")
		switch {
		case m.Payload == "hset":
			since[key] = time.Now()
		case m.Payload == "del" && key == "leftover:end":
			return took
		case m.Payload == "del":
			took = append(took, time.Since(since[key]))
		}
	}
	return took
}
