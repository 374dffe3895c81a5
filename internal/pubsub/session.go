package pubsub

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock/internal/clock"
)

// connect opens a session and starts its reader. Only the keeper calls it, without hub.mu.
func (c *connection) connect(ctx context.Context) *session {
	h := c.hub
	ctx, cancel := context.WithCancel(ctx)
	now := clock.Now()
	s := &session{cancel: cancel, began: now, heard: now, pinged: now}
	s.subscription = h.driver.Subscribe(ctx, c.node, c.sharded())
	h.mu.Lock()
	c.session = s
	if c.reconnectAt < now {
		c.reconnectAt = 0
	}
	h.mu.Unlock()
	h.running.Go(func() { c.read(ctx, s) })
	return s
}

// scheduleReconnect has the connection open a new session a little later. After a failover, the driver leaves a
// subscription at the old master if that is up. It also opens a new one there, if it asks a Sentinel that has not heard of
// the new master. Until the Sentinels demote the old master, such a subscription misses all messages.
func (c *connection) scheduleReconnect() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.reconnectAt == 0 {
		c.reconnectAt = clock.Now().Add(switchWithin)
	}
}

// Unheard notes that a server which ran a script knew of no subscriber of a channel, although the channel had that epoch when the command was
// sent. Then the subscription is at another server: a driver does not follow a failover behind a proxy or a DNS name, and a replica takes
// subscriptions, too. The channel's connection gets a new session. If that leads to the wrong server again, the next one follows a while later.
func (h *Hub) Unheard(name string, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil || !ch.confirmed || ch.epoch != epoch {
		return // it is known already
	}
	c, at := ch.conn, clock.Now()
	if c.reconnected != 0 {
		at = max(at, c.reconnected.Add(switchWithin))
	}
	if c.reconnectAt == 0 || at < c.reconnectAt {
		c.reconnectAt = at
	}
	c.ensure()
}

// verifyMaster makes sure that the channels of a shard's connection are at the master of the shard. A replica accepts them too, when our
// topology is older than a failover. But the scripts at the master do not count a replica's subscribers, and pass over a waiter there. They say
// so to one that listens on a channel of its own, see [Hub.Unheard]. They cannot tell it to a reader, whose channel may have other subscribers:
// while writers stand in the line, they would never leave it the lock. A replica that has just been the master also misses the messages of the new
// master for a while. So the node is asked for its role now and then: at once in a new session, and when a channel has come from another connection.
func (c *connection) verifyMaster(ctx context.Context) {
	h := c.hub
	h.mu.Lock()
	s, moved := c.toVerify(clock.Now())
	h.mu.Unlock()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, routeWithin)
	defer cancel()
	reply, err := h.driver.Raw(ctx, c.node, "role")
	role, _ := reply.([]any)
	isReplica := err == nil && len(role) > 0 && role[0] != "master"
	if isReplica {
		h.refresh()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.session != s:
	case isReplica:
		c.lose(true)
		c.drop()
	case err == nil || err.Replied():
		s.secretive, c.arrived = err != nil && !err.Transient, false
		for _, ch := range moved {
			if ch.conn == c {
				ch.moved = false
			}
		}
	}
}

// toVerify returns the session whose node has to be asked for its role now, or nil, and the confirmed channels that came from
// another connection. hub.mu must be held.
func (c *connection) toVerify(now clock.Instant) (s *session, moved []*channel) {
	s = c.session
	due := s != nil && !s.secretive && (s.asked == 0 || now.Sub(s.asked) >= roleAfter)
	if s == nil || !due && !c.arrived {
		return nil, nil
	}
	confirmed := false
	for _, ch := range c.hub.channels {
		if ch.conn == c && ch.confirmed {
			confirmed = true
			if ch.moved {
				moved = append(moved, ch)
			}
		}
	}
	if !confirmed || !due && len(moved) == 0 {
		return nil, nil
	}
	s.asked = now
	return s, moved
}

// The reasons for replacing a session that did not break.
var (
	errSilent      = errors.New("the subscription connection is silent")
	errWrongServer = errors.New("the subscription connection may lead to a server on which the scripts do not run")
)

// checkPulse pings a silent session. It replaces a session that stays silent, or whose reconnect is due.
func (c *connection) checkPulse(ctx context.Context, now clock.Instant) {
	h := c.hub
	h.mu.Lock()
	s := c.session
	if s == nil {
		h.mu.Unlock()
		return
	}
	silence, limit := now.Sub(s.heard), deadAfter
	if !s.spoke {
		limit = connectWithin
	}
	dead := silence >= limit
	reconnect := !dead && c.reconnectAt != 0 && now >= c.reconnectAt
	ping := !dead && s.spoke && silence >= pingAfter && now.Sub(s.pinged) >= pingAfter
	if ping {
		s.pinged = now
	}
	first := false
	if dead || reconnect {
		c.reconnectAt = 0
		if reconnect {
			c.reconnected = now
		}
		first, h.replaces = !h.replaces, true
		c.drop()
		c.ensure()
	}
	h.mu.Unlock()
	switch {
	case first && dead:
		h.cfg.OnLost(errSilent)
	case first:
		h.cfg.OnLost(errWrongServer)
	}
	switch {
	case dead:
		h.refresh()
	case reconnect:
		h.driver.Refresh() // the next session need not lead to the same node
	case ping:
		ctx, cancel := context.WithTimeout(ctx, pingAfter)
		defer cancel()
		_ = s.subscription.Ping(ctx) // only the silence that follows a failure counts
	}
}

// drop gives the session up. The next one subscribes the channels that still have listeners. hub.mu must be held.
func (c *connection) drop() {
	s := c.session
	c.session = nil
	c.lose(false)
	if s == nil {
		return
	}
	s.cancel()
	// Close waits while the driver dials, which may take any time.
	c.hub.running.Go(func() { _ = s.subscription.Close() })
}

// lose records that the channels of the connection are no longer subscribed, and must be subscribed again. hub.mu must be held.
func (c *connection) lose(failed bool) {
	c.each(func(ch *channel) {
		if ch.confirmed, ch.sent = false, 0; c.sharded() {
			c.hub.sendBack(ch, failed)
		}
	})
}

// each changes each channel of the connection, and plans it. hub.mu must be held.
func (c *connection) each(change func(ch *channel)) {
	for _, ch := range c.hub.channels {
		if ch.conn == c {
			change(ch)
			c.hub.plan(ch)
		}
	}
}
