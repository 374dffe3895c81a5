// Package driver is the interface through which rlock uses a Redis client library. internal/driver/goredis implements it for
// go-redis, and the module rlockrueidis for rueidis. Nothing above this package asks which one it has.
//
// # A driver for another library
//
// A driver is a module of its own below the root, so that nobody else depends on its library. It needs these things:
//
//   - Types that implement [Driver] and [Subscription]. [Replied], [Unexpected], [Failed], [Rejected], [Unreplicated] and
//     [UnknownScript] do the part that is the same for every library.
//   - A constructor that passes a function to [Attach], and returns the *rlock.Client.
//   - A test that passes its constructor to drivertest.Run, for each way in which the library can send commands.
//   - A file that stands in for internal/testkit/connect/connect.go. With it, `make test`, `make torture` and `make interop` test all of
//     rlock on the driver: see DRIVER in the Makefile.
//   - The module in MODULES of the Makefile, in .ci/run, in the rules of .golangci.yml, and rows in SECURITY.md.
//
// The library must let the driver do the following. drivertest checks each of them.
//
//   - Send a command once. A library that sends a command again after a lost reply lets an old release follow a new acquisition.
//     A redirection (MOVED, ASK) may be followed, because the first node has executed nothing.
//   - Say what became of a command. [fault.NotSent] is a promise that Redis never executes it. When in doubt, the fate is
//     [fault.InDoubt]. [fault.Left] is not a driver's: the transport uses it for callers that do not wait for the driver.
//   - End a command by itself within the command timeout: set Info.Bounded. Otherwise the transport leaves it behind, and it keeps a
//     connection for as long as the library likes.
//   - Within the command timeout, give up a connection that is silent, and use another one for the next command. Only then do locks
//     outlive a firewall that forgets a connection.
//   - Give each command, and each pipeline, a connection for itself while it is under way. Otherwise a reply that does not come holds
//     others up. Info.Slots leaves a connection for renewals. [Share] divides the connections.
//   - Subscribe, receive the confirmation of each channel as a message, and subscribe all channels again after a broken connection,
//     with new confirmations. Waiters ask Redis again at each confirmation, so a missing one costs up to a poll interval.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Driver sends commands for rlock. It is safe for concurrent use. It classifies every error where it happens, as a
// [fault.Error]. It sends a command again in two cases only, in which Redis has executed nothing: the server does not know the
// script's digest, and gets the whole script; or it redirects (MOVED, ASK).
type Driver interface {
	Info() Info

	// Node returns the master that has a key. It returns a nil Node outside clusters, where there is one server.
	Node(ctx context.Context, key string) (Node, *fault.Error)

	// Run sends a call once. A nil node means the node that has the call's first key. ctx has values for hooks, but does not end
	// the call: the command timeout does, from now on.
	Run(ctx context.Context, at Node, c wire.Call) wire.Reply

	// Pipe sends calls in one pipeline, and writes a reply for each to out. If at is a node, all go there on one connection, and a
	// redirection is an error. If at is nil, each goes to the node that has its key, and redirections are followed. If acks is not
	// nil, each call's WAIT is sent behind it, and a call that too few replicas acknowledge has the fate [fault.Unreplicated].
	Pipe(ctx context.Context, at Node, calls []wire.Call, acks *Acks, out []wire.Reply)

	// Raw sends a command that is not a script, such as ROLE or PUBSUB SHARDNUMSUB.
	Raw(ctx context.Context, at Node, cmd ...any) (any, *fault.Error)

	// Subscribe opens a subscription connection, to a node or, for nil, to the server or any node of the cluster. A
	// sharded one takes sharded channels of that node only. ctx ends it.
	Subscribe(ctx context.Context, at Node, sharded bool) Subscription

	// Refresh asks for the cluster's topology again, in the background. Outside clusters it does nothing.
	Refresh()

	// Close ends what the driver does in the background, and waits for that until ctx ends. Commands can still be sent, and the
	// client of the client library stays open.
	Close(ctx context.Context)
}

// Node is one server, comparable by ==. Nil stands for the only server, or for the node that has the key.
type Node interface {
	Addr() string
}

// Info is what a driver knows of the deployment and of its own limits.
type Info struct {
	Cluster  bool // a Redis Cluster: commands go to the master of a key's slot
	Sentinel bool // Sentinels name the master
	// Connections is how many connections to a node commands may use at once. Zero means no limit.
	Connections int
	// Slots is how many of those connections single calls may use: the others are for renewals and for Batches. Zero means no
	// limit.
	Slots int
	// Batches is how many of those connections pipelines of gathered calls may use. Zero means that calls cannot be gathered.
	Batches int
	// Spare is how many more pipelines of gathered calls may be under way while others get no answer. Each takes a connection of
	// Slots.
	Spare int
	// Bounded means that the driver itself ends every command within the command timeout.
	Bounded bool
}

// Acks is how many replicas must acknowledge a call, and within which time.
type Acks struct {
	Replicas int // zero sends no WAIT; negative means all, which is for the transport alone
	Timeout  time.Duration
}

// Subscription is one subscription connection. Its methods may be called by different goroutines, Receive by one.
type Subscription interface {
	// Subscribe and Unsubscribe send the command. They do not wait for the confirmation, or only for a moment. What is sent on another
	// connection may overtake the command. Only after [Unsubscribed] does Redis not count this subscription any more. If Redis refuses
	// UNSUBSCRIBE for now, it is sent again, a while later, or with the next call of Unsubscribe after that. No channel means no other command.
	Subscribe(ctx context.Context, channels ...string) *fault.Error
	Unsubscribe(ctx context.Context, channels ...string) *fault.Error
	Ping(ctx context.Context) *fault.Error

	// Receive waits for what arrives next. After an error, a connection that is not sharded connects again by itself at
	// the next Receive. After Close the error is one that matches [ErrSubscriptionClosed].
	Receive(ctx context.Context) (Message, *fault.Error)

	Close() error
}

// ErrSubscriptionClosed is matched by the error of a Receive from a closed subscription.
var ErrSubscriptionClosed = errors.New("the subscription is closed")

// Message is one message, confirmation or reply that a subscription receives.
type Message struct {
	Sort    MessageSort
	Channel string // empty for Other
	Payload string // of Published
}

// MessageSort distinguishes the messages that a subscription receives.
type MessageSort uint8

// The sorts of message.
const (
	Other        MessageSort = iota // such as the reply to a ping
	Published                       // a message on a channel
	Subscribed                      // the confirmation of a subscription, asked for now or renewed by the driver
	Unsubscribed                    // the end of a subscription, asked for or, on a sharded one, because the slot moved
)
