package pubsub

import (
	"context"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
)

// route finds the connections of the channels that have come to the main connection.
func (h *Hub) route(ctx context.Context, now clock.Instant) {
	if !h.sharded {
		return // channels are on their connection from the start
	}
	h.mu.Lock()
	var coming []string
	for _, ch := range h.main.agenda.Before(now + 1) {
		if !ch.routed && ch.after <= now && !h.leaves {
			coming = append(coming, ch.name)
		}
	}
	h.mu.Unlock()
	for _, name := range coming {
		asking, cancel := context.WithTimeout(ctx, routeWithin)
		node, err := h.driver.Node(asking, name)
		cancel()
		h.mu.Lock()
		ch := h.channels[name]
		switch {
		case ch == nil || ch.routed: // without a listener it is forgotten, by this goroutine alone
		case err != nil:
			ch.after = clock.Now().Add(keeperTick)
			h.plan(ch)
		default:
			ch.routed = true
			h.move(ch, h.shard(node))
		}
		h.mu.Unlock()
	}
}

// shard returns the connection of a node. mu must be held.
func (h *Hub) shard(node driver.Node) *connection {
	c := h.shards[node]
	if c == nil {
		c = newConnection(h, node)
		h.shards[node] = c
	}
	return c
}

// sendBack sends a channel back to the main connection, because its own connection cannot keep it subscribed. After a
// failure the keeper tries again a little later. mu must be held.
func (h *Hub) sendBack(ch *channel, failed bool) {
	ch.confirmed, ch.sent, ch.moved = false, 0, ch.conn.sharded()
	ch.routed = !h.sharded
	if failed {
		ch.after = clock.Now().Add(keeperTick)
	}
	h.move(ch, h.main)
}
