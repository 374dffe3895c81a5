// Package drivertest has the tests that every implementation of [driver.Driver] must pass, and calls for tests of its own.
package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// Server is what a driver is to send to. One of the fields is set.
type Server struct {
	Addr     string                 // a single server
	Cluster  *redis.ClusterOptions  // the nodes of a cluster
	Sentinel *redis.FailoverOptions // the Sentinels, and the name of the master
}

// Open returns a driver on a client of its own, which is closed with the test.
type Open func(tb testing.TB, s Server, cfg driver.Config) driver.Driver

const commandTimeout = 5 * time.Second

// OpenAlone returns a driver to a server of its own, in which nothing fails, and a function that sends that server a command on another way.
type OpenAlone func(t *testing.T) (d driver.Driver, do func(args ...any) error)

// RunAlone runs the tests in which nothing fails, for a driver whose servers are not real ones.
func RunAlone(t *testing.T, open OpenAlone) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, OpenAlone){
		"calls and their replies":              replies,
		"replies that may be short":            shortReplies,
		"replies that no script gives":         unexpectedReplies,
		"a pipeline":                           pipeline,
		"commands that are no script":          raw,
		"a subscription":                       subscription,
		"the caller's context ends no command": endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// Run runs all tests.
func Run(t *testing.T, open Open) {
	t.Helper()
	RunAlone(t, func(t *testing.T) (driver.Driver, func(args ...any) error) {
		t.Helper()
		rdb := redistest.Embedded(t)
		d := open(t, Server{Addr: rdb.Options().Addr}, driver.Config{CommandTimeout: commandTimeout})
		return d, func(args ...any) error { return rdb.Do(t.Context(), args...).Err() }
	})
	for name, test := range map[string]func(*testing.T, Open){
		"replicas acknowledge":                    acks,
		"a role":                                  role,
		"a subscription that breaks":              brokenSubscription,
		"a subscription that is refused":          refusedSubscription,
		"a subscription while Redis is busy":      busySubscription,
		"the end of one while Redis is busy":      busyUnsubscription,
		"a subscription to a silent server":       silentSubscription,
		"a subscription to a server in trouble":   troubledSubscription,
		"a subscription without an answer":        unansweredSubscription,
		"many channels that are not wanted":       unwantedChannels,
		"connections that the server has closed":  closedConnections,
		"a lost reply":                            lostReply,
		"a call that is sent without a reply":     silence,
		"a connection that is cut without a word": silentConnection,
		"renewals pass a silent connection":       silentRenewal,
		"a server that is loading":                loading,
		"no server":                               noServer,
		"a master that is demoted behind a name":  demoted,
		"a cluster":                               cluster,
		"a failover that nothing announces":       silentFailover,
		"Sentinel":                                sentinel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

func replies(t *testing.T, open OpenAlone) {
	d, do := open(t)
	ctx, name := t.Context(), NewName()
	require.True(t, d.Info() == driver.Info{Connections: d.Info().Connections, Slots: d.Info().Slots, Bounded: d.Info().Bounded})
	r := d.Run(ctx, nil, Acquire(wire.Plain, name, "a:1"))
	require.Nil(t, r.Err, "the server gets the script in full")
	require.True(t, r.Acquired())
	require.Positive(t, r.Took)
	r = d.Run(ctx, nil, Acquire(wire.Plain, name, "b:1"))
	require.Nil(t, r.Err)
	require.False(t, r.Acquired())
	require.InDelta(t, 30*time.Second, r.Hint(), float64(10*time.Second))
	r = d.Run(ctx, nil, Inspect(name, "a:1"))
	require.Nil(t, r.Err)
	require.Len(t, r.List, 3)
	require.Equal(t, []int64{1, 1}, r.List[1:])
	require.EqualValues(t, 1, d.Run(ctx, nil, Release(wire.Plain, name, "a:1")).N)
	require.NoError(t, do("set", name, "no lock"))
	require.True(t, d.Run(ctx, nil, Acquire(wire.Plain, name, "a:2")).Err.WrongType())
	at, err := d.Node(ctx, name)
	require.Nil(t, err)
	require.Nil(t, at)
	d.Refresh()
}

// shortReplies runs scripts that reply a list, or a single number, on all ways to Redis.
func shortReplies(t *testing.T, open OpenAlone) {
	d, _ := open(t)
	for way, run := range map[string]func(wire.Call) wire.Reply{
		"alone": func(c wire.Call) wire.Reply { return d.Run(t.Context(), nil, c) },
		"in a pipeline": func(c wire.Call) wire.Reply {
			out := make([]wire.Reply, 1)
			d.Pipe(t.Context(), nil, []wire.Call{c}, nil, out)
			return out[0]
		},
	} {
		n := wire.NewNames(wire.Plain, NewName(), "client")
		one, other := wire.NewHolder(wire.Plain, n, "client", 1), wire.NewHolder(wire.Plain, n, "client", 2)
		send := func(c wire.Call) wire.Reply {
			c.Args.Publish = wire.PublishPlain
			r := run(c)
			require.Nil(t, r.Err, way)
			return r
		}
		r := send(one.Stand(n, time.Minute, 0))
		require.True(t, r.Acquired(), way)
		require.Nil(t, r.List, way)
		r = send(other.Stand(n, time.Minute, time.Second))
		require.False(t, r.Acquired(), way)
		require.InDelta(t, time.Minute, r.Hint(), float64(time.Second), way)
		place, ok := r.Position()
		require.True(t, ok, way)
		require.Zero(t, place.Ahead, way)
		r = send(other.Give(n, 0, time.Second, nil))
		require.Equal(t, wire.Given{}, r.Gave(), way)
		r = send(one.Give(n, 0, 0, &wire.Next{Holder: &other, Lease: time.Minute, Term: time.Second}))
		require.EqualValues(t, 1, r.N, way)
		require.Equal(t, wire.ToNext, r.Gave().What, way)
	}
}

func unexpectedReplies(t *testing.T, open OpenAlone) {
	d, _ := open(t)
	script := *wire.Plain.Inspect // which replies a list
	for numbers, text := range map[int]string{0: "for a number", 2: "3 numbers, not 2"} {
		script.Numbers = numbers
		r := d.Run(t.Context(), nil, wire.Call{Script: &script, Keys: []any{NewName()}})
		require.Equal(t, fault.InDoubt, r.Err.Fate)
		require.False(t, r.Err.Transient)
		require.ErrorIs(t, r.Err, fault.ErrReply)
		require.ErrorContains(t, r.Err, text)
	}
}

func pipeline(t *testing.T, open OpenAlone) {
	d, do := open(t)
	ctx, one, other := t.Context(), NewName(), NewName()
	out := make([]wire.Reply, 2)
	d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Plain, one, "a:1"), Acquire(wire.Plain, other, "a:2")}, nil, out)
	require.Nil(t, out[0].Err)
	require.Nil(t, out[1].Err)
	require.NoError(t, do("script", "flush"))
	d.Pipe(ctx, nil, []wire.Call{Renew("a:1", one, other), Renew("a:2", other)}, nil, out)
	require.Nil(t, out[0].Err)
	require.Equal(t, []int64{1, 0}, out[0].List)
	require.Equal(t, []int64{1}, out[1].List)
	require.Positive(t, out[0].Took)
	require.NoError(t, do("set", one, "no lock"))
	d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Plain, one, "a:3"), Acquire(wire.Plain, NewName(), "a:4")}, nil, out)
	require.True(t, out[0].Err.WrongType())
	require.Nil(t, out[1].Err, "each has its own reply")
}

func acks(t *testing.T, open Open) {
	master := redistest.Start(t)
	d := open(t, Server{Addr: master.Addr}, driver.Config{CommandTimeout: commandTimeout, Acks: true})
	ctx, name := t.Context(), NewName()
	one := &driver.Acks{Replicas: 1, Timeout: time.Millisecond}
	out := make([]wire.Reply, 1)
	d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Fenced, name, "a:1")}, one, out)
	require.Equal(t, fault.Unreplicated, out[0].Err.Fate)
	require.Positive(t, out[0].N, "the number is valid")
	require.True(t, out[0].Acquired())
	require.ErrorContains(t, out[0].Err, "0 of 1 replicas within 1ms")
	d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Fenced, name, "b:1")}, one, out)
	require.Nil(t, out[0].Err, "a refusal waits for nothing")
	require.False(t, out[0].Acquired())
	redistest.Start(t, "--replicaof", "127.0.0.1 "+master.Addr[len("127.0.0.1:"):])
	some := &driver.Acks{Replicas: 1, Timeout: time.Second}
	redistest.Eventually(t, "the replica acknowledges", func() bool {
		d.Pipe(ctx, nil, []wire.Call{Acquire(wire.Fenced, NewName(), "a:1")}, some, out)
		return out[0].Err == nil
	})
}

func raw(t *testing.T, open OpenAlone) {
	d, _ := open(t)
	reply, err := d.Raw(t.Context(), nil, "ping")
	require.Nil(t, err)
	require.Equal(t, "PONG", reply)
	_, err = d.Raw(t.Context(), nil, "nonsense")
	require.Equal(t, "unknown", err.Code)
	require.True(t, err.Replied())
	require.False(t, err.Transient)
}

func role(t *testing.T, open Open) {
	server := redistest.Start(t)
	reply, err := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout}).Raw(t.Context(), nil, "role")
	require.Nil(t, err)
	require.Equal(t, "master", reply.([]any)[0])
}

// loading has a server refuse commands for a while: the refusal comes back, and nothing is sent again.
func loading(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	d := open(t, Server{Addr: proxy.Addr}, driver.Config{CommandTimeout: commandTimeout})
	require.Nil(t, d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1")).Err)
	busy := wire.Call{Script: refuses, Keys: []any{NewName()}, Args: wire.Args{Holder: "LOADING Redis is loading the dataset in memory"}}
	shas, scripts := proxy.Count(redistest.Named("evalsha")), proxy.Count(redistest.Named("eval"))
	r := d.Run(t.Context(), nil, busy)
	require.Equal(t, fault.Rejected, r.Err.Fate)
	require.Equal(t, "LOADING", r.Err.Code)
	require.True(t, r.Err.Transient)
	require.Equal(t, shas+1, proxy.Count(redistest.Named("evalsha")))
	require.Equal(t, scripts+1, proxy.Count(redistest.Named("eval")), "the server did not know the script")
}

// endedContext checks that a command goes on when its caller's context has ended.
func endedContext(t *testing.T, open OpenAlone) {
	d, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, d.Run(ctx, nil, Acquire(wire.Plain, NewName(), "a:1")).Err)
}

func noServer(t *testing.T, open Open) {
	server := redistest.Start(t)
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	require.Nil(t, d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1")).Err)
	server.Kill()
	redistest.Eventually(t, "it is known that there is no server", func() bool {
		r := d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:2"))
		require.NotNil(t, r.Err)
		require.True(t, r.Err.Transient)
		require.True(t, r.Err.Stale)
		return r.Err.Fate == fault.NotSent
	})
	s := d.Subscribe(t.Context(), nil, false)
	require.NotNil(t, s.Subscribe(t.Context(), "a"))
	require.NoError(t, s.Close())
	server.Run()
	redistest.Eventually(t, "the server is found again", func() bool {
		return d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:3")).Err == nil
	})
}

func isClosed(err *fault.Error) bool {
	return err != nil && errors.Is(err, driver.ErrSubscriptionClosed)
}
