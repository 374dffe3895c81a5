// Package rlockrueidis makes rlock's clients on [github.com/redis/rueidis] instead of go-redis. Everything behind [New] is the same:
// all kinds of lock, semaphores and latches, their options and their errors.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	...
//	locks, err := rlockrueidis.New(client)
//	...
//	defer locks.Close()
//	err = locks.NewLock("invoice:7").Do(ctx, func(ctx context.Context) error { ... })
//
// # Connections
//
// Each command of the locks has a connection for itself while it is under way, of the client's pool for blocking commands. So no other
// traffic, and no reply that does not come, holds up a lock. When many goroutines call at the same time, rlock gathers their calls into
// pipelines: the locks use at most ten connections for each processor (GOMAXPROCS), and mostly far fewer. One of these is left for
// renewals. Each subscription has one more. A command without a reply ends after the command timeout (rlock.WithCommandTimeout), and its
// connection is closed.
//
// # Options of the client
//
//   - ConnLifetime must be zero: rueidis sends what is under way on a connection that is too old again, so a script could run twice.
//     [New] refuses it.
//   - ReplicaOnly must be false: replicas run no scripts that write. [New] refuses it. SendToReplicas must not choose EVALSHA and EVAL.
//   - BlockingPoolSize: the pool is the application's, too. If its own blocking commands, such as BLPOP, take all connections, locks
//     and renewals wait for one. The default of 1024 is plenty. With a smaller pool, the locks use fewer connections.
//   - BlockingPoolCleanup, BlockingPoolMinSize: as the application needs them.
//   - Dialer.Timeout bounds how long a call may have to wait for a new connection. It is 5 s by default, as rlock's command timeout is.
//   - ConnWriteTimeout, Dialer.KeepAlive: as the application needs them. rueidis sends PING on connections that are idle for
//     KeepAlive, so Redis closes none of them for being idle.
//   - DisableRetry, RetryDelay: without effect. rueidis repeats only commands that are marked as repeatable, and rlock marks none.
//   - PipelineMultiplex, RingScaleEachConn, MaxFlushDelay, DisableAutoPipelining, AlwaysPipelining: without effect on how commands of
//     locks are sent. AlwaysPipelining costs them time.
//   - AlwaysRESP2, and servers that know no RESP3: fine, with DisableCache, which rueidis asks for then.
//   - DisableCache, client-side caching: not needed, and not in the way. Without DisableCache, the user needs the right to
//     CLIENT TRACKING.
//   - ForceSingleClient: not needed. rueidis asks the server whether it belongs to a cluster.
//   - ClusterOption.ShardsRefreshInterval: not needed. rlock has the client ask for the topology when something points to a new one.
//
// rlock sees these options only if the client comes straight from rueidis.NewClient, or from rueidishook or rueidisotel on top of it.
package rlockrueidis

import (
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
)

// New returns a client that locks through client, which may be of a single server, of Sentinel or of a cluster, with TLS or without.
// It sends nothing. The options are those of [rlock.New].
//
// The error is [rlock.ErrInvalidOption] for an option that cannot work, for a nil client, and for a client with one of the options
// that the package documentation rules out.
//
// client stays the caller's: [rlock.Client.Close] does not close it. Close rlock's client first.
func New(client rueidis.Client, opts ...rlock.Option) (*rlock.Client, error) {
	made, err := driver.Attach(func(cfg driver.Config) (driver.Driver, error) { return open(client, cfg) }, opts)
	locks, _ := made.(*rlock.Client)
	return locks, err
}
