package signal

import (
	"context"

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

// verifyMaster makes sure that channels which came from another connection are at the master of the shard. A replica accepts
// them too. But a replica that has just been the master does not get the messages of the new master for a while.
func (c *connection) verifyMaster(ctx context.Context) {
	h := c.hub
	h.mu.Lock()
	var moved []*channel
	for _, ch := range h.channels {
		if ch.conn == c && ch.confirmed && ch.moved {
			moved = append(moved, ch)
		}
	}
	h.mu.Unlock()
	if len(moved) == 0 {
		return
	}
	reply, err := h.driver.Raw(ctx, c.node, "role")
	role, _ := reply.([]any)
	isReplica := err == nil && len(role) > 0 && role[0] != "master"
	if isReplica {
		h.refresh()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range moved {
		switch {
		case ch.conn != c:
		case isReplica:
			h.sendBack(ch, true)
		case err == nil || err.Replied():
			ch.moved = false
		}
	}
}

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
	reconnect := !dead && c.reconnectAt != 0 && now > c.reconnectAt
	ping := !dead && s.spoke && silence >= pingAfter && now.Sub(s.pinged) >= pingAfter
	if ping {
		s.pinged = now
	}
	if dead || reconnect {
		c.reconnectAt = 0
		c.drop()
		c.ensure()
	}
	h.mu.Unlock()
	switch {
	case dead:
		h.refresh()
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

// lose records that the channels of the connection are no longer subscribed, and must be subscribed again. hub.mu must be
// held.
func (c *connection) lose(failed bool) {
	for _, ch := range c.hub.channels {
		switch {
		case ch.conn != c:
		case c.sharded():
			c.hub.sendBack(ch, failed)
		default:
			ch.confirmed, ch.sent = false, 0
		}
	}
}

// unconfirm records that messages may be missed until a new confirmation comes. hub.mu must be held.
func (c *connection) unconfirm() {
	for _, ch := range c.hub.channels {
		if ch.conn == c {
			ch.confirmed = false
		}
	}
}
