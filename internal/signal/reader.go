package signal

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
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
		case errors.Is(err, driver.ErrSubscriptionClosed):
			return
		case err.Replied() && (err.Code == "NOPERM" || err.Code == "unknown"):
			c.received(s, driver.Message{})
			c.wasRefused(err)
			continue // there may be as many errors as channels
		case c.sharded() && err.Replied() && err.Code != "CROSSSLOT":
			c.received(s, driver.Message{})
			c.misrouted(s, err)
			continue
		default: // this includes the errors of a server that does not want a new connection
			c.broken(s, err)
			if c.sharded() {
				return
			}
		}
		failures++
		pause := time.NewTimer(clock.Backoff(failures, time.Second, nil))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// received takes in a message of a session. A zero message only proves that the session is alive.
func (c *connection) received(s *session, m driver.Message) {
	if c.take(s, m) {
		c.hub.refresh()
	}
}

// take is received, and reports whether the slot of a channel has moved to another node.
func (c *connection) take(s *session, m driver.Message) (slotMoved bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.heard, s.spoke = clock.Now(), true
	switch ch := h.channels[m.Channel]; {
	case c.session != s || ch == nil:
	case m.Sort == driver.Published:
		ch.messages++
		ch.notifyAll()
	case ch.conn != c || ch.sent == 0:
	case m.Sort == driver.Subscribed:
		// Messages before this confirmation may have been missed, also when the driver renewed the subscription.
		ch.confirmed = true
		ch.notifyAll()
		if ch.moved {
			c.ensure()
		}
	case m.Sort == driver.Unsubscribed && ch.confirmed && c.sharded():
		h.sendBack(ch, false) // Redis ended the subscription by itself
		return true
	}
	return false
}

// broken takes in an error that ends the driver's connection.
func (c *connection) broken(s *session, err *fault.Error) {
	h := c.hub
	h.noteError(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.session != s:
	case c.sharded():
		c.lose(clock.Now().Sub(s.began) < time.Second) // a session that breaks at once would do so again
		c.drop()
	default:
		c.unconfirm()
		if c.oneByOne {
			c.askAgain() // the driver subscribes all channels in one command when it connects again
		}
	}
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

// askAgain has the keeper subscribe the channels that are not confirmed. hub.mu must be held.
func (c *connection) askAgain() {
	for _, ch := range c.hub.channels {
		if ch.conn == c && !ch.confirmed {
			ch.sent = 0
		}
	}
	c.ensure()
}

// wasRefused records that Redis refused a SUBSCRIBE. Redis refuses the whole command because of one channel, and does not
// name that channel. So from now on each channel has a command of its own, as on the connection of a shard anyway.
func (c *connection) wasRefused(err *fault.Error) {
	h := c.hub
	h.mu.Lock()
	if now := clock.Now(); !c.sharded() && (!c.oneByOne || now.Sub(c.refused) >= time.Second) {
		// The refused command may have had all channels, in a connection that the driver opened by itself. Then confirmed
		// channels are no longer subscribed.
		c.oneByOne, c.refused = true, now
		c.unconfirm()
		c.askAgain()
	}
	h.mu.Unlock()
	h.refused(err)
}
