package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// read is the reader of one session. It never gives Receive a deadline: that would break a message that arrives in parts.
func (c *connection) read(ctx context.Context, s *session) {
	for failures := 0; ; {
		message, err := s.subscription.Receive(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			c.received(s, message)
			continue
		case errors.Is(err, driver.ErrSubscriptionClosed), errors.Is(err, fault.ErrClosed):
			c.gone(s)
			return
		case err.Replied() && (err.Code == "NOPERM" || err.Code == "unknown"):
			c.received(s, driver.Message{})
			c.wasRefused(err)
			continue // there may be as many errors as channels
		case c.sharded() && err.Replied() && err.Code != "CROSSSLOT":
			c.received(s, driver.Message{})
			c.misrouted(s, err)
			continue
		case !c.sharded() && err.Replied() && c.postponed(s):
			c.received(s, driver.Message{})
			c.hub.noteError(err)
			continue
		default: // this includes the errors of a server that does not want a new connection
			c.broken(s, err)
			if c.sharded() {
				return
			}
		}
		failures++
		select {
		case <-time.After(clock.Backoff(failures, time.Second, nil)):
		case <-ctx.Done():
			return
		}
	}
}

// gone gives up a session that has ended by itself: code of the user has closed the client. The keeper opens another one at its next
// tick. At once would be without end if the client stays closed. The listeners ask, and so learn of that.
func (c *connection) gone(s *session) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.session == s {
		c.drop()
		c.each((*channel).alarm)
	}
}

// received takes in a message of a session. A zero message only proves that the session is alive.
func (c *connection) received(s *session, m driver.Message) {
	h := c.hub
	now := clock.Now()
	next, replaced, told := c.take(s, m, now)
	if replaced {
		h.cfg.OnReplaced()
	}
	for _, a := range told {
		if m.Sort == driver.Published {
			a.Heard(m.Channel, m.Payload, now)
		} else {
			a.Ready()
		}
	}
	if m.Sort == driver.Unsubscribed {
		h.mu.Lock()
		unwatched := h.left(m.Channel, now)
		h.mu.Unlock()
		h.tellUnwatched(unwatched)
	}
	switch next {
	case nothing:
	case slotMoved:
		h.refresh()
	case toBeHeard:
		h.cfg.OnMessage(m.Channel, m.Payload, now)
	case maybeFreed:
		h.cfg.OnFreed(m.Channel)
	}
}

// sequel is what a message leaves to be done without hub.mu.
type sequel uint8

const (
	nothing    sequel = iota
	slotMoved         // the slot of the channel has moved to another node
	toBeHeard         // the message is for Config.OnMessage
	maybeFreed        // the lock of a watched channel may be free
)

// take is the part of received that needs hub.mu. replaced means that it is the first confirmation after a loss. told are those who have to be
// told of it.
func (c *connection) take(s *session, m driver.Message, now clock.Instant) (next sequel, replaced bool, told []*Audience) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.heard, s.spoke, s.connected = now, true, true
	if c.session != s {
		return nothing, false, nil
	}
	ch := h.channels[m.Channel]
	if m.Sort == driver.Published {
		told = h.audiences(ch, m)
		if next = h.published(ch, m, now); told != nil && next == toBeHeard {
			next = nothing
		}
		return next, false, told
	}
	switch {
	case ch == nil || ch.conn != c || ch.sent == 0:
	case m.Sort == driver.Subscribed:
		// Messages before this confirmation may have been missed, also when the driver renewed the subscription.
		ch.confirmed, ch.refusal = true, nil
		h.plan(ch)
		replaced, h.replaces = h.replaces, false
		ch.public = 0 // the message that it announced may be among them
		h.newEpoch(ch)
		ch.notifyAll()
		if ch.moved || c.sharded() && s.asked == 0 {
			c.arrived = c.arrived || ch.moved
			c.ensure()
		}
		if twin := ch.twin(); twin != nil {
			twin.conn.ensure() // it may follow
			return maybeFreed, replaced, nil
		}
		told = h.audiences(ch, m)
	case m.Sort == driver.Unsubscribed && ch.confirmed && c.sharded():
		h.sendBack(ch, false) // Redis ended the subscription by itself
		return slotMoved, false, nil
	}
	return nothing, replaced, told
}

// publicPayload announces on a twin that the lock is left to others, by the next message of the channel. The process that
// does so looks after it. If a watcher did so at once, others who are no faster than the network would never get the lock.
const publicPayload = wire.Own

// publicWithin is how long after publicPayload that message comes at most.
const publicWithin = 100 * time.Millisecond

// published takes in a message on a channel, which is nil if nobody wants it any more. mu must be held.
func (h *Hub) published(ch *channel, m driver.Message, now clock.Instant) sequel {
	if ch != nil {
		ch.messages++
	}
	payload := m.Payload
	if (ch == nil || !ch.isTwin) && wire.Signals(m.Channel, h.cfg.ClientID) {
		payload = wire.Free
	}
	switch payload {
	case wire.Free, wire.WriterLeft:
		if ch != nil {
			h.newEpoch(ch) // for a waiter that asks meanwhile, and does not listen yet
		}
		return h.tryAgain(ch, now)
	case publicPayload:
		if ch != nil && ch.isTwin {
			ch.other.public = now
		}
	case wire.Ask:
		if ch != nil {
			h.newEpoch(ch)
			ch.notifyAll()
		}
	default:
		return toBeHeard
	}
	return nothing
}

// tryAgain takes in a message of a channel, nil for one that nobody wants any more, that is a reason for its listeners to try
// again. mu must be held.
func (*Hub) tryAgain(ch *channel, now clock.Instant) sequel {
	if ch == nil {
		return nothing
	}
	ch.notifyAll()
	public := ch.public != 0 && now.Sub(ch.public) < publicWithin
	ch.public = 0
	if ch.twin() != nil && !public {
		return maybeFreed
	}
	return nothing
}

// newEpoch has every later listener try once. mu must be held.
func (h *Hub) newEpoch(ch *channel) {
	h.epochs++
	ch.epoch = h.epochs
}

// broken takes in an error that ends the driver's connection.
func (c *connection) broken(s *session, err *fault.Error) {
	h := c.hub
	h.noteError(err)
	h.mu.Lock()
	first := c.session == s && !h.replaces // which is to be told
	h.replaces = h.replaces || first
	switch {
	case c.session != s:
	case c.sharded():
		h.breaks(c)
		c.lose(clock.Now().Sub(s.began) < time.Second) // a session that breaks at once would do so again
		c.drop()
	default:
		h.breaks(c)
		s.connected = false
		if c.each(func(ch *channel) { ch.confirmed = false }); c.oneByOne {
			c.lose(false) // the driver subscribes all channels in one command when it connects again
			c.ensure()
		}
	}
	h.mu.Unlock()
	if first {
		h.cfg.OnLost(err)
	}
}

// postponed records that Redis refuses something for now, as while a script runs for long. It reports whether that may be the reply to a command of
// the keeper, which sends two for a channel at most until it orders again: a message may be behind it. Otherwise the server wants no new connection.
func (c *connection) postponed(s *session) bool {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if s.refusals++; c.again == 0 {
		c.again, s.refusals = clock.Now().Add(retryBusy), 0
	}
	return s.connected && s.refusals <= 2*len(c.hub.channels)
}

// misrouted sends channels that the node of this connection refuses back to the main connection. Redis does not name the
// channel that it refused, so these are all channels that are not confirmed.
func (c *connection) misrouted(s *session, err *fault.Error) {
	h := c.hub
	h.noteError(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.session != s {
		return
	}
	for _, ch := range h.channels {
		if ch.conn == c && !ch.confirmed && ch.sent != 0 {
			h.sendBack(ch, true)
		}
	}
}

// wasRefused records that Redis refused a SUBSCRIBE: the whole command, because of one channel that it does not name. So from now on each
// channel has a command of its own, as on the connection of a shard anyway.
func (c *connection) wasRefused(err *fault.Error) {
	h := c.hub
	now := clock.Now()
	h.mu.Lock()
	c.denied, c.refusal = now, err
	if !c.sharded() && (!c.oneByOne || now.Sub(c.refused) >= time.Second) {
		// The refused command may have had all channels, in a connection that the driver opened by itself. Then confirmed
		// channels are no longer subscribed.
		c.oneByOne, c.refused = true, now
		c.lose(false)
		c.ensure()
	}
	h.mu.Unlock()
}

// noteRefused notes which channels Redis has refused, and wakes their listeners. Redis does not say which one it refused. But it answers at
// once, and in order. So these are the channels that are not confirmed a moment after a command of their own, when something was refused.
func (c *connection) noteRefused(now clock.Instant) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.denied == 0 {
		return
	}
	for _, ch := range c.agenda.All() {
		waits := ch.sent != 0 && !ch.confirmed && (c.oneByOne || c.sharded())
		if waits && c.denied >= ch.sent && now.Sub(ch.sent) >= keeperTick && ch.refusal == nil {
			ch.refusal = ch.refusedBy(c.refusal, c.sharded())
			ch.alarm()
		}
	}
}

// refusedBy adds to the error of a SUBSCRIBE which channels it is about, without what follows the name of the lock: that may be a holder's field.
func (ch *channel) refusedBy(err *fault.Error, sharded bool) *fault.Error {
	refusal, name, hint := *err, ch.name, ""
	if sharded && err.Code == "unknown" {
		hint = " (a cluster without sharded pub/sub needs the option WithClassicPubSub)"
	}
	if of, _, ok := strings.Cut(name, "}"); ok {
		name = of + "}*"
	}
	refusal.Err = fmt.Errorf("subscribe to %s%s: %w", fault.Quote(name), hint, err.Err)
	return &refusal
}
