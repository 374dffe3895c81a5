package pubsub

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
)

// connection is a subscription connection. It opens a session when it needs one, and a new session when that fails.
//
// Two goroutines serve a connection while it has channels, and a while longer. The reader of each session takes in the messages. The keeper
// subscribes and unsubscribes. It pings an idle connection, and replaces one that does not answer: a client library may not notice that.
//
// On the connection of a shard a client library cannot subscribe again by itself. It asks for all channels at once, which a cluster
// refuses as CROSSSLOT, and it does not follow a slot that moves. So the keeper gives up a session that breaks there. Its channels go
// back to the main connection, whose keeper finds where they belong now.
type connection struct {
	hub  *Hub
	node driver.Node   // nil for the main connection
	kick chan struct{} // has a token when the keeper has something to do

	// Guarded by hub.mu.
	agenda      queue.Heap[*channel, clock.Instant]
	session     *session      // the present one, or nil
	keeping     bool          // whether the keeper runs
	oneByOne    bool          // whether each channel has a SUBSCRIBE of its own, because Redis refuses some
	refused     clock.Instant // when confirmed channels were last subscribed again, because Redis refused something
	denied      clock.Instant // when Redis last refused a SUBSCRIBE
	refusal     *fault.Error  // why
	again       clock.Instant // when to order again what Redis has not confirmed by then; zero means never
	reconnectAt clock.Instant // when to reconnect, because the session may lead to the old master; zero means never
	reconnected clock.Instant // when that was last done; zero means never
	arrived     bool          // a channel that was on the connection of a shard before is confirmed since the node told its role
}

// session is one subscription of the driver. On the main connection the driver connects again by itself when it breaks.
type session struct {
	subscription driver.Subscription
	cancel       context.CancelFunc
	began        clock.Instant
	heard        clock.Instant // when anything was last received; the beginning until then
	pinged       clock.Instant // when it was last pinged; the beginning until then
	spoke        bool          // whether anything was received
	connected    bool          // whether anything was sent or received since it broke last
	refusals     int           // how many there were since it was last noted when to order again
	asked        clock.Instant // when the node of a shard was last asked for its role; zero means never
	secretive    bool          // whether Redis does not let us ask
}

func newConnection(h *Hub, node driver.Node) *connection {
	return &connection{hub: h, node: node, kick: make(chan struct{}, 1)}
}

func (c *connection) sharded() bool { return c.node != nil }

// ensure starts the keeper if it does not run, and makes it look for work. hub.mu must be held.
func (c *connection) ensure() {
	if !c.keeping && !c.hub.stopped {
		c.keeping = true
		c.hub.start(c.keep)
	}
	notify(c.kick)
}

// keep is the keeper. It ends with the hub, or when the connection has had no channel for a while.
func (c *connection) keep(ctx context.Context) {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	idleSince, over := clock.Now(), false
	defer func() {
		if !over {
			c.keepAgain()
		}
	}()
	for {
		select {
		case <-c.kick:
		case <-tick.C:
		case <-ctx.Done():
			over = true
			c.hub.mu.Lock()
			c.drop()
			c.hub.mu.Unlock()
			return
		}
		if c.sharded() {
			c.verifyMaster(ctx)
		} else {
			c.hub.route(ctx, clock.Now())
		}
		now := clock.Now()
		coming, going, unwatched := c.wanted(now)
		if len(coming)+len(going) > 0 {
			idleSince = now
		}
		c.noteRefused(now)
		c.hub.tellUnwatched(unwatched)
		c.order(ctx, coming, going)
		c.checkPulse(ctx, now)
		if c.idle(now.Sub(idleSince)) {
			over = true
			return
		}
	}
}

// keepAgain starts another keeper, after one that a hook of the user has ended. Whatever that had sent, it sends again.
func (c *connection) keepAgain() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.keeping = false
	c.drop()
	c.ensure()
}

// wanted returns the channels to subscribe and to unsubscribe now, and those that are not watched any more.
func (c *connection) wanted(now clock.Instant) (coming, going, unwatched []string) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	unwatched = h.left("", now)
	if c.again != 0 && now >= c.again {
		c.again = 0
		c.each(func(ch *channel) { ch.renew = !ch.confirmed })
	}
	due := c.agenda.Before(now + 1)
	for i := 0; i < len(due); i++ { // a twin may join
		ch := due[i]
		h.looked++
		together := ch.isTwin && ch.other.sent == now && ch.other.conn == c && !c.oneByOne && !c.sharded()
		do, at := h.next(ch, together, now)
		switch {
		case at > now || h.channels[ch.name] != ch: // or forgotten just now
		case do == subscribe:
			ch.sent, ch.renew = now, false
			coming = append(coming, ch.name)
			if twin := ch.twin(); twin != nil && twin.conn == c {
				due = append(due, twin)
			}
		case do == unsubscribe:
			going = append(going, ch.name)
			h.ends(ch, now)
		case do == forget:
			if ch.sent != 0 {
				going = append(going, ch.name)
			}
			if c.forget(ch, now) {
				unwatched = append(unwatched, ch.other.name)
				h.telling++
			}
		}
	}
	for _, ch := range due {
		if h.channels[ch.name] == ch {
			h.plan(ch)
		}
	}
	return coming, going, unwatched
}

// forget forgets a channel that nobody wants any more. It reports whether it was a twin that was never subscribed, so that no
// confirmation will tell that its channel is not watched. hub.mu must be held.
func (c *connection) forget(ch *channel, now clock.Instant) (unwatched bool) {
	h := c.hub
	delete(h.channels, ch.name)
	c.agenda.Remove(ch)
	if ch.sent != 0 {
		h.ends(ch, now)
	}
	if !ch.isTwin || ch.other.other != ch {
		return false
	}
	ch.other.other = nil
	return h.leaving[ch.name] == nil
}

// order sends the commands that wanted found, in a session that it opens if there is none.
func (c *connection) order(ctx context.Context, subscribe, unsubscribe []string) {
	h := c.hub
	h.mu.Lock()
	s, oneByOne := c.session, c.oneByOne
	h.mu.Unlock()
	if s == nil && len(subscribe) > 0 {
		s = c.connect(ctx)
	}
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	err := send(ctx, s.subscription, subscribe, unsubscribe, oneByOne)
	if len(subscribe) > 0 {
		c.ordered(s, err)
		h.noteError(err)
	}
}

// ordered records the outcome of SUBSCRIBE commands.
func (c *connection) ordered(s *session, err *fault.Error) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		if !s.connected {
			s.heard, s.spoke, s.connected = clock.Now(), true, true // the server answered the handshake
		}
		return
	}
	c.again, s.connected = clock.Now(), false // at the next tick; the driver may have connected again, and Redis refuse what it asked for
	if c.sharded() {
		c.lose(true)
		if c.session == s {
			c.drop() // the session itself failed, and its reader would dial without end
		}
	}
}

// send returns the error of subscribing. If unsubscribing fails, so does the session, and the next one does not have the channels.
func send(ctx context.Context, s driver.Subscription, subscribe, unsubscribe []string, oneByOne bool) *fault.Error {
	_ = s.Unsubscribe(ctx, unsubscribe...)
	if !oneByOne {
		return s.Subscribe(ctx, subscribe...)
	}
	// Otherwise the driver subscribes all of them in one command when it connects again.
	_ = s.Unsubscribe(ctx, subscribe...)
	var first *fault.Error
	for _, name := range subscribe {
		if err := s.Subscribe(ctx, name); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// idle ends the keeper and the session if there has been no channel for a while.
func (c *connection) idle(quiet time.Duration) bool {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if quiet < connectionLinger {
		return false
	}
	for _, ch := range h.channels {
		if ch.conn == c {
			return false
		}
	}
	c.keeping = false
	c.drop()
	if c.sharded() {
		delete(h.shards, c.node)
	}
	return true
}
