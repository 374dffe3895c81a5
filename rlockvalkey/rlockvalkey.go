// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

// Package rlockvalkey makes rlock's clients on [github.com/valkey-io/valkey-go] instead of go-redis. Everything behind [New] is the same:
// all kinds of lock, semaphores and latches, their options and their errors.
//
//	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	...
//	locks, err := rlockvalkey.New(client)
//	...
//	defer locks.Close()
//	err = locks.NewLock("invoice:7").Do(ctx, func(ctx context.Context) error { ... })
//
// # Connections
//
// While a command of a lock is under way, it has a connection to itself, taken from the client's pool for blocking commands
// (BlockingPoolSize). So no other traffic, and no reply that does not come, holds up a lock. When many goroutines call at the same time,
// rlock gathers their calls into pipelines. Calls use at most 16 connections to a node at a time, of which acquisitions leave one for
// renewals. A subscription has one more for as long as somebody waits, and questions such as ROLE and CLUSTER SLOTS take one for a moment.
//
// A command without a reply ends after three fifths of the command timeout (rlock.WithCommandTimeout), so that a call can be tried again
// within it. Its connection is closed.
//
// valkey-go does not check whether a connection of its pool is still open before it uses it, but sends a PING on an idle one after
// Dialer.KeepAlive, which is 1 s by default. When a server closes connections, one or two calls may get rlock.ErrUnavailable until then;
// calls that wait try again.
//
// # Options of the client
//
// [New] refuses these:
//
//   - ConnLifetime, and Standalone.EnableRedirect: valkey-go may then send a script twice.
//   - ReplicaOnly: replicas run no scripts that write. SendToReplicas must return false for EVALSHA and EVAL; New cannot check that.
//   - BlockingPoolCleanup: while a server is silent, valkey-go waits for a second per idle connection, and all commands wait with it.
//   - DisableAutoPipelining: valkey-go then sends no PING on idle connections, and does not notice that Redis has closed one.
//   - AlwaysRESP2, and a single server without RESP3: valkey-go may panic when a channel is unsubscribed, which rlock prevents only with
//     RESP3. New cannot see this of a cluster or behind Sentinel: do not use such servers or proxies there.
//   - BlockingPoolSize below 4. The pool is the application's, too: if its own blocking commands, such as BLPOP, take all connections,
//     locks and renewals wait for one. The default of 1024 for each node is plenty.
//
// Check these:
//
//   - Dialer.KeepAlive, ConnWriteTimeout: not negative, or valkey-go sends no PING on idle connections. ConnWriteTimeout is how long it waits
//     for the reply to one. A large KeepAlive lengthens the time in which calls may fail after a restart of Redis.
//   - DialCtxFn instead of DialFn: a command waits for a new connection for as long as it waits for a reply, which DialFn is not told.
//   - Sentinel.TopologyRefreshInterval: set it, to a few seconds. Without it, valkey-go stays at the old master if it misses the one message
//     that names the new one.
//   - ClusterOption.MaxMovedRedirections: 3 to 5. Without it, valkey-go follows redirections without a pause until the command's deadline.
//   - ReadBufferEachConn, WriteBufferEachConn, RingScaleEachConn: a connection has two buffers of 512 KB by default, and stays open until
//     the client is closed.
//   - DisableCache: without it, the user needs the right to CLIENT TRACKING. Locks do not need the cache.
//   - ClientSetInfo: valkey-go sends CLIENT SETINFO on each connection. Redis 7.2 and newer refuse it to a user with only the rights that
//     locks need, which does no harm, but leaves an entry in the ACL log. Set valkey.DisableClientSetInfo, or grant the right.
//
// These do not matter to locks: DisableRetry, RetryDelay, PipelineMultiplex, MaxFlushDelay, AlwaysPipelining, ForceSingleClient,
// ClusterOption.ShardsRefreshInterval. valkey-go repeats no command of rlock that changes anything, and rlock has it ask for the topology
// when something points to a new one.
//
// New reads the options from unexported fields of valkey-go v1.0.79, with which the module is tested. It finds them in the client that
// valkey.NewClient returns, and in wrappers that have a method Unwrap() valkey.Client, that embed the client, or that have it in a
// field of that name, as valkeyhook and valkeyotel do. With any other wrapper, or with a version of valkey-go that has renamed a field,
// New refuses nothing, and takes the pool for one of 1024 connections: check the list above.
package rlockvalkey

import (
	"github.com/valkey-io/valkey-go"

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
func New(client valkey.Client, opts ...rlock.Option) (*rlock.Client, error) {
	made, err := driver.Attach(func(cfg driver.Config) (driver.Driver, error) { return open(client, cfg) }, opts)
	locks, _ := made.(*rlock.Client)
	return locks, err
}
