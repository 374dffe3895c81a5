package trouble

import (
	"context"
	"errors"
	"io"
	"net"
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
	"github.com/go-rlock/rlock/observe"
)

// The wrappers that applications make.
type (
	embeds   struct{ redis.UniversalClient }
	unwraps  struct{ redis.UniversalClient } // has Unwrap, which counts more than what it embeds
	inner    struct{ redis.UniversalClient }
	deep     struct{ *inner } // the field of a type that is not exported
	concrete struct{ *redis.Client }
	cluster  struct{ *redis.ClusterClient }
	ofRing   struct{ *redis.Ring }
	hides    struct{ redis.UniversalClient } // has an Unwrap that gives nothing away
)

func (u unwraps) Unwrap() redis.UniversalClient { return u.UniversalClient }

func (hides) Unwrap() redis.UniversalClient { return opaque{} }

// opaque is a client in which nobody finds another one.
type opaque struct{ redis.UniversalClient }

// wrapped returns a client as it is, and in each wrapper.
func wrapped(rdb redis.UniversalClient) map[string]redis.UniversalClient {
	all := map[string]redis.UniversalClient{
		"plain": rdb, "embedded": &embeds{rdb}, "unwrapped": unwraps{rdb}, "twice": &embeds{&unwraps{rdb}}, "deep": deep{&inner{rdb}},
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		all["pointer"] = &concrete{rdb}
	case *redis.ClusterClient:
		all["pointer"] = cluster{rdb}
	case *redis.Ring:
		all["pointer"] = ofRing{rdb}
	}
	return all
}

// handsOffByMessage checks that a waiter gets the locks of another client by messages: its poll interval is too long for the test. There
// are several names, because a client that does not know that it is one of a cluster hears some nodes by chance.
func handsOffByMessage(t *testing.T, open func() redis.UniversalClient) {
	t.Helper()
	seen, observer := testkit.Observe(t)
	holder := testkit.NewClient(t, open(), tune.PollInterval(time.Hour))
	waiter := testkit.NewClient(t, open(), tune.PollInterval(time.Hour), observer)
	for range 8 {
		name, remote := testkit.NewName(), false
		for tries := 0; tries < 5 && !remote; tries++ { // the waiter may be asking at that very moment
			handOff(t, holder.NewLock(name), waiter.NewLock(name))
			remote = seen.Last().End.Via == observe.ViaRemote
		}
		require.True(t, remote, "the release chooses the waiter")
	}
}

// handOff has a waiter get a lock from its holder.
func handOff(t *testing.T, holder, waiter *rlock.Lock) {
	t.Helper()
	hold := testkit.Must(holder.Acquire(t.Context()))
	got := testkit.Async(func() error {
		hold, err := waiter.Acquire(context.Background())
		if err != nil {
			return err
		}
		return hold.Unlock(context.Background())
	})
	testkit.Eventually(t, "the waiter sleeps and listens", func() bool { return testkit.Rests(waiter) && testkit.Listens(waiter) })
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the waiter has had the lock", got))
}

func TestEveryClientHandsOffByMessages(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server, sentinel, nodes := redistest.Start(t), redistest.StartSentinel(t), redistest.StartCluster(t)
	ofCluster := func(change func(*redis.ClusterOptions)) func() redis.UniversalClient {
		return func() redis.UniversalClient {
			opt := nodes.Options()
			change(opt)
			return closed(t, redis.NewClusterClient(opt))
		}
	}
	for name, open := range map[string]func() redis.UniversalClient{
		"single":   func() redis.UniversalClient { return server.Client(t) },
		"tunnel":   func() redis.UniversalClient { return undated(t, server.Addr, -2, -2) },
		"sentinel": func() redis.UniversalClient { return sentinel.Client(t) },
		"cluster":  ofCluster(func(*redis.ClusterOptions) {}),
		"ReadOnly": ofCluster(func(opt *redis.ClusterOptions) { opt.ReadOnly = true }),
		"latency":  ofCluster(func(opt *redis.ClusterOptions) { opt.RouteByLatency = true }),
		"random":   ofCluster(func(opt *redis.ClusterOptions) { opt.RouteRandomly = true }),
		"sentinel's cluster client": func() redis.UniversalClient {
			return closed(t, redis.NewFailoverClusterClient(sentinel.Options()))
		},
		"sentinel's cluster client for replicas": func() redis.UniversalClient {
			opt := sentinel.Options()
			opt.ReplicaOnly = true
			return closed(t, redis.NewFailoverClusterClient(opt))
		},
	} {
		for how := range wrapped(nil) {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				handsOffByMessage(t, func() redis.UniversalClient { return wrapped(open())[how] })
			})
		}
	}
}

// closed has a redis client be closed at the end of the test, after the clients of rlock that are made from it later. A client whose
// connections are gone would wait for its last releases.
func closed[C interface {
	redis.UniversalClient
	io.Closer
}](t *testing.T, rdb C) C {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// undatedConn is a connection that takes no deadline, as one of golang.org/x/crypto/ssh.
type undatedConn struct{ net.Conn }

var errUndated = errors.New("ssh: tcpChan: deadline not supported")

func (undatedConn) SetDeadline(time.Time) error      { return errUndated }
func (undatedConn) SetReadDeadline(time.Time) error  { return errUndated }
func (undatedConn) SetWriteDeadline(time.Time) error { return errUndated }

// undated returns a client whose connections take no deadline.
func undated(t *testing.T, addr string, read, write time.Duration) *redis.Client {
	t.Helper()
	return redistest.Open(t, &redis.Options{
		Addr: addr, ReadTimeout: read, WriteTimeout: write, PoolSize: 20, MaxActiveConns: 20,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := host.Dial(ctx, network, addr)
			return undatedConn{conn}, err
		},
	})
}

// The connections that the application has made before [rlock.New] have no deadlines.
func TestATunnelThatWasInUseBefore(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	server := redistest.Start(t)
	for _, opt := range []rlock.Option{rlock.WithoutAutoPipeline(), tune.Crowd(0)} {
		rdb := undated(t, server.Addr, -2, -2)
		for range 3 {
			require.NoError(t, rdb.Ping(t.Context()).Err())
		}
		client := testkit.NewClient(t, rdb, opt, rlock.WithWatchdogTimeout(1500*time.Millisecond))
		lock := client.NewLock(testkit.NewName())
		hold, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		before := hold.Deadline()
		testkit.Eventually(t, "it is renewed", func() bool { return hold.Deadline().After(before) })
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, rdb.Ping(t.Context()).Err(), "the application's own commands work")
	}
}

func TestClientsThatAreRefused(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	ring := closed(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:1"}}))
	nodes := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}))
	pipeliner := testkit.Must(redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"}).AutoPipeline())
	for _, test := range []struct {
		text string
		all  map[string]redis.UniversalClient
	}{
		{"redis.Ring", wrapped(ring)},
		{"redis.Ring", map[string]redis.UniversalClient{"hidden": hides{ring}}},
		{"give it a method Unwrap", map[string]redis.UniversalClient{"hidden": hides{nodes}}},
		{"redis.AutoPipeliner", wrapped(pipeliner)},
		{"is nil", map[string]redis.UniversalClient{
			"nil": nil, "client": (*redis.Client)(nil), "in a wrapper": &concrete{}, "unwrapped": unwraps{},
		}},
	} {
		for how, rdb := range test.all {
			client, err := rlock.New(rdb)
			require.ErrorIs(t, err, rlock.ErrInvalidOption, how)
			require.ErrorContains(t, err, test.text, how)
			require.Nil(t, client, how)
		}
	}
	_, err := rlock.New(hides{redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"})})
	require.NoError(t, err, "one server needs no more than commands, and New sends nothing")
}

// A client that reaches only replicas may be one of a failover: internal/client tests for how long. Redis's own refusal counts, and a
// server that becomes a master serves at once.
func TestAClientOfReplicasIsToldSo(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	sentinel := redistest.StartSentinel(t)
	opt := sentinel.Options()
	opt.ReplicaOnly = true
	ofReplica := sentinel.Replicas[0].Client(t)
	all := map[string]redis.UniversalClient{"ReplicaOnly": redistest.NewFailover(opt), "the address of a replica": &embeds{ofReplica}}
	for _, name := range []string{"ReplicaOnly", "the address of a replica"} { // in this order: the second one makes its replica a master
		t.Run(name, func(t *testing.T) {
			rdb := closed(t, all[name])
			client := testkit.NewClient(t, rdb, rlock.WithLogger(testkit.Discard))
			lock := client.NewLock(testkit.NewName())
			_, err := lock.TryLock(t.Context())
			require.ErrorIs(t, err, rlock.ErrUnavailable, "it may be a failover")
			require.ErrorContains(t, err, "READONLY", "by this, internal/driver knows a replica")
			if name != "ReplicaOnly" {
				got := testkit.Async(func() error { return lock.Lock(context.Background()) })
				require.NoError(t, ofReplica.Do(t.Context(), "replicaof", "no", "one").Err())
				require.NoError(t, testkit.Within(t, "it is a master now", got))
				require.NoError(t, lock.Unlock(t.Context()))
			}
		})
	}
}
