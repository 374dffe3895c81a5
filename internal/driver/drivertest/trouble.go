package drivertest

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// refuses is a script that replies its argument as an error, and changes nothing.
var refuses = func() *wire.Script {
	const source = "return redis.error_reply(ARGV[1])"
	digest := sha1.Sum([]byte(source))
	return &wire.Script{Source: source, Digest: hex.EncodeToString(digest[:]), Keys: 1, Argv: 1}
}()

// behind returns a driver to a server behind a proxy. The driver has sent every script that the tests use.
func behind(t *testing.T, open Open, timeout time.Duration) (driver.Driver, *redistest.Proxy) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	d := open(t, Server{Addr: proxy.Addr}, driver.Config{CommandTimeout: timeout})
	name, out := NewName(), make([]wire.Reply, 1)
	require.Nil(t, d.Run(t.Context(), nil, Acquire(wire.Plain, name, "a:1")).Err)
	d.Pipe(t.Context(), nil, []wire.Call{Renew("a:1", name)}, nil, out)
	require.Nil(t, out[0].Err)
	return d, proxy
}

// lostReply breaks the connection behind a command. It may have been executed, so it must not be sent again.
func lostReply(t *testing.T, open Open) {
	d, proxy := behind(t, open, commandTimeout)
	for what, run := range map[string]func() wire.Reply{
		"a call": func() wire.Reply { return d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1")) },
		"a pipeline": func() wire.Reply {
			out := make([]wire.Reply, 1)
			d.Pipe(t.Context(), nil, []wire.Call{Acquire(wire.Plain, NewName(), "a:1")}, nil, out)
			return out[0]
		},
	} {
		before := proxy.Count(redistest.Named("evalsha"))
		broken := proxy.DropReply(1, redistest.Named("evalsha"))
		r := run()
		require.NotNil(t, r.Err, what)
		require.Equal(t, fault.InDoubt, r.Err.Fate, what)
		require.True(t, r.Err.Transient, what)
		require.True(t, r.Err.Stale, what)
		require.Equal(t, before+1, proxy.Count(redistest.Named("evalsha")), "%s: it is sent once", what)
		broken.Release()
		redistest.Eventually(t, "there is a connection again", func() bool { return run().Err == nil })
	}
}

// silence has the server go quiet. A driver that says so ends each command within the command timeout.
func silence(t *testing.T, open Open) {
	const timeout = time.Second
	d, proxy := behind(t, open, timeout)
	if !d.Info().Bounded {
		t.Skip("the driver does not bound commands")
	}
	proxy.Freeze()
	passed := redistest.Stopwatch(t)
	for range 3 {
		r := d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1"))
		require.NotNil(t, r.Err)
		require.NotEqual(t, fault.Rejected, r.Err.Fate)
		require.True(t, r.Err.Transient)
	}
	require.Less(t, passed(), 20*timeout)
	proxy.Thaw()
	redistest.Eventually(t, "the server answers again", func() bool {
		return d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1")).Err == nil
	})
}

// silentConnection cuts one connection without a word: what is sent there gets no reply, and no error. The driver must find another
// one within a few command timeouts, however long the client library takes to notice.
func silentConnection(t *testing.T, open Open) {
	const timeout = time.Second
	d, proxy := behind(t, open, timeout)
	if !d.Info().Bounded {
		t.Skip("the driver does not bound commands")
	}
	proxy.SwallowReply(1, redistest.Named("evalsha"))
	r := d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1"))
	require.NotNil(t, r.Err)
	require.Equal(t, fault.InDoubt, r.Err.Fate)
	r = d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1"))
	require.Nil(t, r.Err, "another connection serves the next one")
}

// silentRenewal has a connection go silent while a call is under way. Renewals go on.
func silentRenewal(t *testing.T, open Open) {
	d, proxy := behind(t, open, commandTimeout)
	name := NewName()
	require.Nil(t, d.Run(t.Context(), nil, Acquire(wire.Plain, name, "a:1")).Err)
	silent := proxy.SwallowReply(1, redistest.Named("evalsha"))
	ended := make(chan wire.Reply, 1)
	go func() { ended <- d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:2")) }()
	<-silent.Met()
	out := make([]wire.Reply, 1)
	d.Pipe(t.Context(), nil, []wire.Call{Renew("a:1", name)}, nil, out)
	require.Nil(t, out[0].Err)
	require.Equal(t, []int64{1}, out[0].List)
	proxy.CloseAll()
	<-ended
}

// closedConnections has the server close many idle connections. Nearly all calls after that succeed: a client that does not notice
// closed connections fails once for each.
func closedConnections(t *testing.T, open Open) {
	server := redistest.Start(t)
	d := open(t, Server{Addr: server.Addr}, driver.Config{CommandTimeout: commandTimeout})
	for range 3 {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.Nil(t, d.Run(t.Context(), nil, Inspect(NewName(), "a:1")).Err) })
		}
		all.Wait()
		require.NoError(t, server.Client(t).ClientKillByFilter(t.Context(), "type", "normal", "skipme", "yes").Err())
		failed := 0
		for range 20 {
			if d.Run(t.Context(), nil, Inspect(NewName(), "a:1")).Err != nil {
				failed++
			}
			<-time.After(5 * time.Millisecond)
		}
		require.LessOrEqual(t, failed, 3)
	}
}

// demoted has a replica become the master, and the master its replica. A name leads new connections to the new master, and nothing breaks
// the others.
func demoted(t *testing.T, open Open) {
	old := redistest.Start(t)
	host, port, err := net.SplitHostPort(old.Addr)
	require.NoError(t, err)
	replica := redistest.Start(t, "--replicaof", host, port)
	redistest.Eventually(t, "the replica has its master", func() bool {
		return strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	name := redistest.NewProxy(t, old.Addr)
	d := open(t, Server{Addr: name.Addr}, driver.Config{CommandTimeout: commandTimeout})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { require.Nil(t, d.Run(t.Context(), nil, Inspect(NewName(), "a:1")).Err) })
	}
	all.Wait()
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
	name.LeadTo(replica.Addr)
	host, port, err = net.SplitHostPort(replica.Addr)
	require.NoError(t, err)
	require.NoError(t, old.Client(t).ReplicaOf(t.Context(), host, port).Err())
	redistest.Eventually(t, "calls reach the new master", func() bool {
		return d.Run(t.Context(), nil, Acquire(wire.Plain, NewName(), "a:1")).Err == nil
	})
}
