// Package pubsub wakes the waiters of a client. It keeps the listeners of each channel, and the connection on which Redis
// sends the messages of that channel.
package pubsub

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// Config configures a hub.
type Config struct {
	// ClientID ends the names of the client's own channels.
	ClientID string
	// Classic says that the channels of a cluster are not sharded. Outside a cluster none is.
	Classic bool
	// OnLost says that a subscription connection broke, was silent for too long or may lead to the wrong server, and OnReplaced that one is
	// subscribed again. They take turns, however many connections break. The hub calls them without its mutex. They must not wait.
	OnLost     func(err error)
	OnReplaced func()
	// OnMessage takes in a published message that is more than a reason to try again, with the moment of its arrival. OnFreed says that the lock of a watched channel may be free: see [Hub.Watch]. told says that a
	// message said so. The goroutine that reads a connection calls both, without the hub's mutex, in the order of its messages. OnUnwatched says that
	// OnFreed will not be called for a channel any more, and that Redis does not count this client as a watcher. None of them may wait.
	OnMessage   func(channel, payload string, at clock.Instant)
	OnFreed     func(channel string)
	OnUnwatched func(channel string)
}

// Hub has the listeners of a client. It is safe for concurrent use, and only its Stop waits.
//
// A channel is on the main connection, the one subscription connection of a client. A sharded channel is on the connection of the node
// that has its slot. No context of a user reaches a connection: its deadline would end the connection for every listener.
type Hub struct {
	cfg     Config
	driver  driver.Driver
	tasks   *task.Group
	info    driver.Info
	sharded bool // whether channels are sharded

	// mu is a leaf: while the hub holds it, it takes no other mutex and does nothing that may block.
	mu       sync.Mutex
	channels map[string]*channel // guarded by mu, as is everything in them and in the connections
	leaving  map[string]*channel // see [Hub.ends]
	swept    clock.Instant       // when all of these were last looked at
	looked   int                 // how many channels the keepers have looked at, for a test
	telling  int                 // how many calls of Config.OnUnwatched are due, or under way
	leaves   bool                // whether Leave was called
	gone     bool                // whether what it began is over
	main     *connection
	shards   map[driver.Node]*connection // a driver may make a new node for the same address
	epochs   uint64                      // the last epoch of any channel
	stopped  bool
	replaces bool // whether Config.OnLost was called last, and not Config.OnReplaced

	// start runs a job on a goroutine. The job's context ends with the hub.
	start   func(job func(ctx context.Context))
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// channel is one channel, shared by all its listeners. A client may have three for each of many waiters, so small fields stand together.
type channel struct {
	queue.Timed[clock.Instant] // on the agenda of its connection

	name      string
	conn      *connection
	listeners *listener     // in the order in which they came
	sent      clock.Instant // when SUBSCRIBE was last sent in the present session; zero means not yet
	after     clock.Instant // the earliest moment to find its connection; zero means at once
	idleSince clock.Instant // when the last listener or watcher left
	messages  uint64
	epoch     uint64        // of the last confirmation
	left      clock.Instant // when UNSUBSCRIBE was sent; zero means that its connection is broken since
	routed    bool          // whether conn is known to be the right connection
	confirmed bool          // whether Redis has confirmed the subscription in the present session
	moved     bool          // whether it was on the connection of a shard before
	renew     bool          // whether to order it once more, after a refusal
	isTwin    bool          // whether it is the twin of other
	watchers  int16         // how many calls of Watch had no Unwatch yet
	refusal   *fault.Error  // why Redis does not let the user subscribe; nil means that it is not known to refuse

	// Of a channel that is watched, and of its twin: see [Hub.Watch].
	deserted clock.Instant // when the last listener left; zero means that there was none
	other    *channel      // the twin, of a channel that is watched, or was and is still subscribed; or the channel whose twin this one is, or was
	public   clock.Instant // when publicPayload came, since the last message; zero means that it did not
}

// listener is one of the listeners of a channel. Most channels have one at most.
type listener struct {
	wake     chan struct{}
	audience *Audience // nil for one that is only woken
	next     *listener
}

const (
	// channelLinger is how long a channel stays subscribed after its last listener: for this long, because a busy lock soon has another listener.
	channelLinger    = time.Second
	connectionLinger = 10 * time.Second // a connection stays open for this long after its last channel
	keeperTick       = 250 * time.Millisecond
	pingAfter        = 2 * time.Second // of silence
	deadAfter        = 3 * time.Second
	connectWithin    = 10 * time.Second // instead of deadAfter, for a session that has received nothing yet
	roleAfter        = 2 * time.Second  // after which a node of a cluster is asked for its role again
	retryRefused     = 5 * time.Second  // after which a channel that was not confirmed is subscribed again
	retryBusy        = time.Second      // the same, if Redis refuses that only for now
	routeWithin      = time.Second      // for questions about where a channel belongs
	switchWithin     = 3 * time.Second  // after which all Sentinels know a new master: they inform each other every 2 s
)

// New returns a hub that has no connection yet. [Hub.Stop] stops it.
func New(cfg Config, d driver.Driver, tasks *task.Group) *Hub {
	h := &Hub{
		cfg: cfg, driver: d, tasks: tasks, info: d.Info(), sharded: d.Info().Cluster && !cfg.Classic,
		channels: make(map[string]*channel), leaving: make(map[string]*channel), shards: make(map[driver.Node]*connection),
	}
	h.main = newConnection(h, nil)
	ctx, cancel := context.WithCancel(context.Background())
	h.start = func(job func(ctx context.Context)) { h.running.Go(func() { job(ctx) }) }
	h.cancel = cancel
	return h
}

// Listen adds a listener: wake, which must have a capacity of 1, gets a token whenever there is a reason to try again.
// That is a message, a refusal, or a confirmation that messages can no longer be missed. If the channel is confirmed already, wake
// gets a token at once, unless epoch is what [Hub.Epoch] returned before the caller's latest attempt, and still is. A token
// is only a hint, and may come without a reason. Several channels may share a wake.
func (h *Hub) Listen(name string, wake chan struct{}, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channel(name)
	*ch.listener(nil) = &listener{wake: wake}
	h.plan(ch)
	if twin := ch.twin(); twin != nil && twin.sent != 0 {
		twin.conn.ensure() // it must go
	}
	switch {
	case ch.refusal != nil:
		notify(wake)
	case !ch.confirmed:
		ch.conn.ensure()
	case ch.epoch != epoch:
		notify(wake)
	}
}

// channel returns the channel of a name, which it makes if there is none. mu must be held.
func (h *Hub) channel(name string) *channel {
	ch := h.channels[name]
	if ch == nil {
		ch = &channel{name: name, conn: h.main, routed: !h.sharded}
		h.channels[name] = ch
	}
	return ch
}

// Unlisten removes a listener that [Hub.Listen] added. It does nothing if there is no such listener.
func (h *Hub) Unlisten(name string, wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil {
		return
	}
	l := ch.listener(wake)
	if *l == nil {
		return
	}
	if *l = (*l).next; ch.listeners == nil {
		ch.idleSince = clock.Now()
		ch.deserted = ch.idleSince
		h.plan(ch)
	}
}

// Received returns how many messages of a channel have arrived, and reports whether this client receives them now.
func (h *Hub) Received(name string) (messages uint64, subscribed bool) {
	ch := h.seen(name)
	return ch.messages, ch.confirmed
}

// seen returns a channel as it is at this moment, which is the zero channel if there is none.
func (h *Hub) seen(name string) (now channel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch := h.channels[name]; ch != nil {
		now = *ch
	}
	return now
}

// Refused returns why Redis does not let the user subscribe to a channel, or nil if it is not known to refuse. The listeners of a channel
// that it refuses are woken.
func (h *Hub) Refused(name string) *fault.Error { return h.seen(name).refusal }

// Epoch returns a number that no other confirmation of any channel has, and that changes whenever messages of this channel
// may have been missed. Zero means that they may be missed now.
func (h *Hub) Epoch(name string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch := h.channels[name]; ch != nil && ch.confirmed {
		return ch.epoch
	}
	return 0
}

// Publish returns how a script has to announce a release.
func (h *Hub) Publish() wire.Publish {
	if h.sharded {
		return wire.PublishSharded
	}
	return wire.PublishPlain
}

// How says the same to a script of internal/core, which judges waiters by who listens.
func (h *Hub) How() string {
	switch {
	case h.sharded:
		return "s"
	case h.info.Cluster:
		return "n"
	}
	return ""
}

// Counts reports whether the reply to PUBLISH or SPUBLISH in a script counts all receivers of a message. On a cluster whose channels are
// not sharded it does not: each node knows only its own subscribers.
func (h *Hub) Counts() bool { return h.sharded || !h.info.Cluster }

// Topology takes notice of an error that a stale topology could explain. With Sentinel, the main connection may lead to the old master.
func (h *Hub) Topology(*fault.Error) {
	if h.info.Sentinel {
		h.main.scheduleReconnect()
	}
}

// refresh refreshes the topology. mu must not be held.
func (h *Hub) refresh() {
	h.driver.Refresh()
	h.Topology(nil)
}

// noteError refreshes the topology after an error that a stale one could explain. mu must not be held.
func (h *Hub) noteError(err *fault.Error) {
	if err != nil && err.Stale {
		h.refresh()
	}
}

// Leave unsubscribes all channels for good. It waits for nothing: that is an operation of the task group, which ends when Redis has
// confirmed it, and Config.OnUnwatched was called for all that were watched. The group must be open.
func (h *Hub) Leave() {
	h.tasks.Begin()
	h.mu.Lock()
	h.leaves = true
	for _, ch := range h.channels {
		h.change(ch)
	}
	h.mu.Unlock()
	h.tellUnwatched(nil) // there may be no channel
}

// Stop ends all goroutines and connections, and waits for that until ctx ends: a driver that dials may not end at once.
func (h *Hub) Stop(ctx context.Context) {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.cancel()
	task.Await(ctx, &h.running)
}

// Stats counts the contents of a hub at one moment.
type Stats struct {
	Channels int  // with a listener or watcher, or not long without one
	Shards   int  // nodes with a subscription connection of their own, now or not long ago
	Moves    bool // whether the main connection is about to be replaced, as some time after a failover
}

// Stats counts the hub's contents.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{Channels: len(h.channels), Shards: len(h.shards), Moves: h.main.reconnectAt != 0}
}

// Listeners returns how many listeners the channels have whose names begin with a prefix.
func (h *Hub) Listeners(prefix string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for name, ch := range h.channels {
		if strings.HasPrefix(name, prefix) {
			for l := ch.listeners; l != nil; l = l.next {
				n++
			}
		}
	}
	return n
}

// listener returns where the channel has the listener with a wake, or where the next one belongs if there is none.
func (ch *channel) listener(wake chan struct{}) **listener {
	l := &ch.listeners
	for *l != nil && (*l).wake != wake {
		l = &(*l).next
	}
	return l
}

// notifyAll wakes the listeners that are no audience: those hear what has come.
func (ch *channel) notifyAll() {
	for l := ch.listeners; l != nil; l = l.next {
		if l.audience == nil {
			notify(l.wake)
		}
	}
}

// alarm wakes all listeners, because nothing will come.
func (ch *channel) alarm() {
	for l := ch.listeners; l != nil; l = l.next {
		notify(l.wake)
	}
}

// twin returns the twin of a channel that is watched, or was and is still subscribed, and nil for any other.
func (ch *channel) twin() *channel {
	if ch.isTwin {
		return nil
	}
	return ch.other
}

func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
