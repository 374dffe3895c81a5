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
// pipelines. Commands use at most 16 connections to a node at a time, of which acquisitions leave one for renewals. A subscription has
// one more, for as long as somebody waits. A command without a reply ends after three
// fifths of the command timeout (rlock.WithCommandTimeout), so that a call can be tried again within it, and its connection is closed.
//
// rueidis does not look whether a connection of its pool is still open before it uses it, but sends a PING on it after Dialer.KeepAlive.
// When a server closes connections, one or two calls may get rlock.ErrUnavailable before that; calls that wait try again.
//
// # Options of the client
//
// [New] refuses these:
//
//   - ConnLifetime, and Standalone.EnableRedirect: rueidis may then send a script twice.
//   - ReplicaOnly: replicas run no scripts that write. SendToReplicas must not choose EVALSHA and EVAL, which New cannot see.
//   - BlockingPoolCleanup: while a server is silent, rueidis waits for a second per idle connection, and all commands wait with it.
//   - DisableAutoPipelining: rueidis then sends no PING on idle connections, and does not notice that Redis has closed one.
//   - AlwaysRESP2, and servers without RESP3: rueidis may panic when a channel is unsubscribed, which rlock prevents only with RESP3.
//   - BlockingPoolSize below 4. The pool is the application's, too: if its own blocking commands, such as BLPOP, take all connections,
//     locks and renewals wait for one. The default of 1024 is plenty.
//
// These need a look:
//
//   - Dialer.KeepAlive, ConnWriteTimeout: not negative, see above.
//   - Dialer.Timeout bounds how long a call may have to wait for a new connection. It is 5 s by default, as rlock's command timeout is.
//   - Sentinel.TopologyRefreshInterval: set it, to a few seconds. Without it, rueidis stays at the old master if it misses the one message
//     that names the new one.
//   - ClusterOption.MaxMovedRedirections: 3 to 5. Without it, rueidis follows redirections without a pause until the call is over.
//   - ReadBufferEachConn, WriteBufferEachConn, RingScaleEachConn: a connection has two buffers of 512 KB by default.
//   - DisableCache: without it, the user needs the right to CLIENT TRACKING. Locks do not need the cache.
//
// These do not matter to locks: DisableRetry, RetryDelay, PipelineMultiplex, MaxFlushDelay, AlwaysPipelining,
// ForceSingleClient, ClusterOption.ShardsRefreshInterval. rueidis repeats no command of rlock that changes anything, and rlock has it ask
// for the topology when something points to a new one.
//
// rlock sees these options only if the client comes straight from rueidis.NewClient, or from rueidishook or rueidisotel on top of it.
package rlockrueidis

import (
	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/redis/rueidis"
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
