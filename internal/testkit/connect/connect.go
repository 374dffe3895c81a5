// Package connect decides which client library the tests use. `make test DRIVER=rueidis` runs them with
// rlockrueidis/internal/suites/connect.go in place of this file.
package connect

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
)

// Driver names the client library.
const Driver = "go-redis"

// Open returns a client of rlock that uses the deployment of rdb, as rdb does. After the client was closed, finish ends what it
// needed besides.
func Open(rdb redis.UniversalClient, opts ...rlock.Option) (client *rlock.Client, finish func(), err error) {
	client, err = rlock.New(rdb, opts...)
	return client, func() {}, err
}

// Leaks lists goroutines of the client library that end some time after its client was closed, or never.
func Leaks() []goleak.Option {
	const goRedis = "github.com/redis/go-redis/v9"
	return []goleak.Option{
		// The pool retries a dead server once a second, and only then notices that it was closed.
		goleak.IgnoreAnyFunction(goRedis + "/internal/pool.(*ConnPool).tryDial"),
		// To close a cluster client of NewFailoverClusterClient does not end its subscription to a sentinel.
		goleak.IgnoreAnyFunction(goRedis + ".(*sentinelFailover).listen"),
		goleak.IgnoreAnyFunction(goRedis + ".(*channel).initMsgChan.func1"),
		goleak.IgnoreAnyFunction(goRedis + ".(*channel).initHealthCheck.func1"),
	}
}

// Rows lists the rows of SECURITY.md that the client library needs in addition.
func Rows() []string { return nil }

// SentinelRows lists the rows of SECURITY.md that are about the user of the sentinels.
func SentinelRows() []string { return []string{"the user of the sentinels"} }

// Shared is how many connections a client of the client library has besides its pool.
const Shared = 0

// NeedsGoRedis skips a test that is about go-redis: its hooks, its pool, or what its options mean for rlock.
func NeedsGoRedis(tb testing.TB) {
	tb.Helper()
	if Driver != "go-redis" {
		tb.Skip("is about go-redis")
	}
}
