package rlock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pubsub knows who listens on which channel. A channel is on the trunk, the one subscription connection of a client; or,
// on a cluster with sharded pub/sub, on the line of the node that has its slot. No context of a user reaches a
// connection: its deadline would end it for everybody.
type pubsub struct {
	client *Client

	mu       sync.Mutex
	channels map[string]*subscription // guarded by mu, as is everything in them and in the lines
	trunk    *line
	shards   map[*redis.Client]*line // by node: go-redis may make a new one for the same address
	turns    int                     // how often all channels were rerouted
	stopped  bool
	warned   bool // that Redis refuses to subscribe

	ctx     context.Context //nolint:containedctx // of the connections: it is nobody's call
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// subscription is one channel, shared by all who listen on it.
type subscription struct {
	line      *line
	routed    bool // whether it is known that this is its line
	listeners []*listener
	sent      time.Time // when SUBSCRIBE was last sent on the present connection; zero: not yet
	after     time.Time // when to send it, if not at once
	confirmed bool      // whether the present connection has confirmed it
	moved     bool      // whether it was on the line of a shard before
	idleSince time.Time // when the last listener left
	messages  uint64
}

const (
	channelLinger = time.Second      // a channel stays subscribed after its last listener: a busy lock has another soon
	lineLinger    = 10 * time.Second // and a connection after its last channel
	keeperTick    = 250 * time.Millisecond
	pingAfter     = time.Second // of silence
	deadAfter     = 3 * time.Second
	connectWithin = 10 * time.Second // instead, for a connection that has not said anything yet
	retryRefused  = 5 * time.Second  // when to ask again for a channel that was not confirmed
	routeWithin   = time.Second      // for questions about where a channel belongs
	switchWithin  = 3 * time.Second  // all Sentinels know a new master: they tell each other every 2 s
)

func newPubSub(c *Client) *pubsub {
	ps := &pubsub{client: c, channels: make(map[string]*subscription), shards: make(map[*redis.Client]*line)}
	ps.trunk = newLine(ps, nil)
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

// heard counts the messages of a channel, and tells whether this client receives them now.
func (ps *pubsub) heard(channel string) (messages uint64, now bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if s := ps.channels[channel]; s != nil {
		return s.messages, s.confirmed
	}
	return 0, false
}

func (s *subscription) notifyAll() {
	for _, l := range s.listeners {
		l.notify()
	}
}

// stop ends all goroutines and connections, and waits for that until ctx ends: go-redis cannot be hurried when it dials.
func (ps *pubsub) stop(ctx context.Context) {
	ps.mu.Lock()
	ps.stopped = true
	ps.mu.Unlock()
	ps.cancel()
	await(ctx, &ps.running)
}

// route finds the lines of the channels that came to the trunk since.
func (ps *pubsub) route(now time.Time) {
	c := ps.client
	if c.cluster == nil {
		return // they were on their line from the start
	}
	ps.mu.Lock()
	var coming []string
	turns := ps.turns
	for channel, s := range ps.channels {
		if !s.routed && !s.after.After(now) {
			coming = append(coming, channel)
		}
	}
	ps.mu.Unlock()
	for _, channel := range coming {
		ctx, cancel := context.WithTimeout(ps.ctx, routeWithin)
		var node *redis.Client
		var err error
		switch c.sharded(channel) {
		case isSharded:
			node, err = c.cluster.MasterForKey(ctx, channel)
		case notAsked:
			err = errNoAnswer
		}
		cancel()
		ps.mu.Lock()
		s := ps.channels[channel]
		switch {
		case ps.turns != turns: // what was found is of a cluster that has changed since; the keeper was told
		case s == nil || s.routed: // nobody listens any more; only this goroutine forgets those
		case err != nil:
			s.after = time.Now().Add(keeperTick)
		default:
			s.routed = true
			if node != nil {
				s.line = ps.shard(node)
				s.line.ensure()
			}
		}
		ps.mu.Unlock()
	}
}

// shard returns the line of a node. It requires mu.
func (ps *pubsub) shard(node *redis.Client) *line {
	l := ps.shards[node]
	if l == nil {
		l = newLine(ps, node)
		ps.shards[node] = l
	}
	return l
}

// reroute finds the line of every channel again: the cluster's pub/sub has become sharded, or no longer is.
func (ps *pubsub) reroute() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.turns++
	ps.trunk.drop()
	for _, l := range ps.shards {
		l.drop()
	}
	for _, s := range ps.channels {
		s.routed, s.after = false, time.Time{}
	}
	if len(ps.channels) > 0 {
		ps.trunk.ensure()
	}
}

// leave sends a channel back to the trunk: it is no longer, or cannot be, subscribed on the line where it is. What
// failed is tried again a little later. It requires mu.
func (ps *pubsub) leave(s *subscription, failed bool) {
	s.confirmed, s.sent, s.moved = false, time.Time{}, s.line.sharded()
	s.line, s.routed = ps.trunk, ps.client.cluster == nil
	if failed {
		s.after = time.Now().Add(keeperTick)
	}
	ps.trunk.ensure()
}

// refused says once that waiters have to poll.
func (ps *pubsub) refused(err error) {
	ps.mu.Lock()
	first := !ps.warned
	ps.warned = true
	ps.mu.Unlock()
	if first {
		ps.client.warn("Redis refuses to subscribe; waiters try again every poll interval instead of being woken", err)
	}
}
