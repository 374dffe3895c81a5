// Package driver is the interface through which rlock uses a Redis client library. internal/driver/goredis implements it.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Driver sends commands for rlock. It is safe for concurrent use. It classifies every error where it happens, as a
// [fault.Error]. It repeats nothing by itself, with one exception: if the server does not know a script's digest, it sends
// the whole script.
type Driver interface {
	Info() Info

	// Node returns the master that has a key. It returns a nil Node outside clusters, where there is one server.
	Node(ctx context.Context, key string) (Node, *fault.Error)

	// Run sends a call once. A nil node means the node that has the call's first key.
	Run(ctx context.Context, at Node, c wire.Call) wire.Reply

	// Pipe sends calls in one pipeline on one connection, and writes a reply for each to out. If acks is not nil, each
	// call's WAIT is sent behind it, and a call that too few replicas acknowledge has the fate [fault.Unreplicated].
	Pipe(ctx context.Context, at Node, calls []wire.Call, acks *Acks, out []wire.Reply)

	// Raw sends a command that is not a script, such as ROLE or PUBSUB SHARDNUMSUB.
	Raw(ctx context.Context, at Node, cmd ...any) (any, *fault.Error)

	// Subscribe opens a subscription connection, to a node or, for nil, to the server or any node of the cluster. A
	// sharded one takes sharded channels of that node only. ctx ends it.
	Subscribe(ctx context.Context, at Node, sharded bool) Subscription

	// Refresh asks for the cluster's topology again, in the background. Outside clusters it does nothing.
	Refresh()
}

// Gatherer is implemented by a driver that can gather calls of several goroutines into pipelines.
type Gatherer interface {
	// Gather queues a call for the pipeline of the node that has its key. It reports false if that is not possible now:
	// then the call has to be sent by itself. Its ctx does not end the call.
	Gather(ctx context.Context, c wire.Call) (Future, bool)

	// StopGathering ends the pipelines, and waits for that until ctx ends.
	StopGathering(ctx context.Context)
}

// Future is a call that was gathered.
type Future interface {
	// Wait waits for the reply until ctx ends. It reports false if ctx ended first: then Wait may be called again. An
	// error that matches [ErrNotGathered] means that the call has to be sent by itself.
	Wait(ctx context.Context) (wire.Reply, bool)
}

// ErrNotGathered is matched by the error of a gathered call that the pipeline could not run, and of which nothing was
// executed. The same call may succeed by itself, because then the driver follows a cluster's redirections.
var ErrNotGathered = errors.New("the pipeline could not run the call")

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
	// Slots is how many of those connections the calls of callers may use: the driver keeps the others for renewals and
	// for gathered calls. Zero means no limit.
	Slots int
	// Bounded means that the driver itself ends every command within the command timeout.
	Bounded bool
}

// Acks is how many replicas must acknowledge a call, and within which time.
type Acks struct {
	Replicas int
	Timeout  time.Duration
}

// Subscription is one subscription connection. Its methods may be called by different goroutines, Receive by one.
type Subscription interface {
	// Subscribe and Unsubscribe send the command and do not wait for the confirmation. No channel means no command.
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
