package pubsub

import (
	"context"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// route finds the connections of the channels that have come to the main connection.
func (h *Hub) route(ctx context.Context, now clock.Instant) {
	if !h.info.Cluster {
		return // channels are on their connection from the start
	}
	h.mu.Lock()
	var coming []string
	reroutes := h.reroutes
	for _, ch := range h.main.agenda.Before(now + 1) {
		if !ch.routed && ch.after <= now && !h.leaves {
			coming = append(coming, ch.name)
		}
	}
	h.mu.Unlock()
	for _, name := range coming {
		node, err := h.place(ctx, name)
		h.mu.Lock()
		ch := h.channels[name]
		switch {
		case h.reroutes != reroutes: // the answer is about a cluster that has changed since; the keeper was notified
		case ch == nil || ch.routed: // without a listener it is forgotten, by this goroutine alone
		case err != nil:
			ch.after = clock.Now().Add(keeperTick)
			h.plan(ch)
		case node != nil:
			ch.routed = true
			h.move(ch, h.shard(node))
		default:
			ch.routed = true
			h.plan(ch)
		}
		h.mu.Unlock()
		if node == nil && err == nil && h.informed.CompareAndSwap(false, true) { // no waiter stands in the line of a lock
			h.cfg.OnClassic()
		}
	}
}

// place returns the node on whose connection a channel belongs. Nil means the main connection.
func (h *Hub) place(ctx context.Context, name string) (driver.Node, *fault.Error) {
	ctx, cancel := context.WithTimeout(ctx, routeWithin)
	defer cancel()
	switch h.sharded(name) {
	case isSharded:
		return h.driver.Node(ctx, name)
	case unknown:
		return nil, &fault.Error{Fate: fault.NotSent, Transient: true, Err: fault.ErrNoAnswer}
	default:
		return nil, nil
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

// reroute finds the connection of every channel again: the cluster's pub/sub has become sharded, or is no longer sharded.
func (h *Hub) reroute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reroutes++
	h.main.drop()
	for _, c := range h.shards {
		c.drop()
	}
	for _, ch := range h.channels {
		ch.routed, ch.after = false, 0
		h.plan(ch)
	}
	if len(h.channels) > 0 {
		h.main.ensure()
	}
}

// sendBack sends a channel back to the main connection, because its own connection cannot keep it subscribed. After a
// failure the keeper tries again a little later. mu must be held.
func (h *Hub) sendBack(ch *channel, failed bool) {
	ch.confirmed, ch.sent, ch.moved = false, 0, ch.conn.sharded()
	ch.routed = !h.info.Cluster
	if failed {
		ch.after = clock.Now().Add(keeperTick)
	}
	h.move(ch, h.main)
}
