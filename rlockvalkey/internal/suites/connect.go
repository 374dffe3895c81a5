// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

// Package connect has the tests of the root module use valkey-go. The file stands in for internal/testkit/connect/connect.go there: see
// `make test DRIVER=valkey`.
package connect

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlockvalkey"
)

// Driver names the client library.
const Driver = "valkey"

// Open returns a client of rlock that uses the deployment of rdb, as rdb does. After the client was closed, finish ends what it
// needed besides.
func Open(rdb redis.UniversalClient, opts ...rlock.Option) (client *rlock.Client, finish func(), err error) {
	opt, known := options(rdb)
	if !known { // such as nil, of which rlock.New has something to say
		client, err = rlock.New(rdb, opts...)
		return client, func() {}, err
	}
	conn, err := valkey.NewClient(opt)
	if conn == nil { // for a single server, valkey-go returns a client although the server is not there
		return nil, func() {}, err
	}
	client, err = rlockvalkey.New(conn, opts...)
	return client, conn.Close, err
}

// options returns the options that correspond to those of a client of go-redis. Nothing corresponds to ReadTimeout.
func options(rdb redis.UniversalClient) (opt valkey.ClientOption, known bool) {
	opt = valkey.ClientOption{DisableCache: true, Dialer: net.Dialer{Timeout: 5 * time.Second}}
	dial := func(through func(context.Context, string, string) (net.Conn, error)) {
		opt.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return through(ctx, "tcp", addr)
		}
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := rdb.Options()
		opt.InitAddress, opt.ForceSingleClient = []string{o.Addr}, true
		opt.Username, opt.Password, opt.SelectDB, opt.TLSConfig = o.Username, o.Password, o.DB, o.TLSConfig
		opt.AlwaysRESP2 = o.Protocol == 2
		opt.BlockingPoolSize = poolFor(o.PoolSize, o.MaxActiveConns)
		if f, ok := redistest.FailoverOptions(rdb); ok {
			opt.InitAddress, opt.ForceSingleClient = f.SentinelAddrs, false
			opt.Sentinel = valkey.SentinelOption{
				MasterSet: f.MasterName, Username: f.SentinelUsername, Password: f.SentinelPassword, TLSConfig: f.TLSConfig,
			}
		} else {
			dial(o.Dialer)
		}
	case *redis.ClusterClient:
		o := rdb.Options()
		opt.InitAddress, opt.Username, opt.Password, opt.TLSConfig = o.Addrs, o.Username, o.Password, o.TLSConfig
		opt.BlockingPoolSize = poolFor(o.PoolSize, o.MaxActiveConns)
		if o.Dialer != nil {
			dial(o.Dialer)
		}
	default:
		return opt, false
	}
	return opt, true
}

// poolFor returns the size of a pool that leaves as many connections for commands as that of go-redis.
func poolFor(size, most int) int {
	if most > 0 {
		size = min(size, most)
	}
	return size + 2 // for subscriptions
}

// Leaks lists goroutines of the client library that end some time after its client was closed.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		// valkey-go closes connections to nodes that have left a cluster 5 s later, and asks for the topology after a delay.
		goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"),
	}
}

// Rows lists the rows of SECURITY.md that the client library needs in addition.
func Rows() []string { return []string{"rueidis, every kind", "rueidis with Sentinel"} }

// SentinelRows lists the rows of SECURITY.md that are about the user of the sentinels: also that for go-redis, with which the tests
// themselves connect.
func SentinelRows() []string {
	return []string{"the user of the sentinels", "the user of the sentinels with rueidis, instead of the row above"}
}

// Shared is how many connections a client of the client library has besides its pool.
const Shared = 1

// NeedsGoRedis skips a test that is about go-redis: its hooks, its pool, or what its options mean for rlock.
func NeedsGoRedis(tb testing.TB) {
	tb.Helper()
	tb.Skip("is about go-redis")
}
