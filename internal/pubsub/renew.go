package pubsub

// A message may have been published long before it arrives. Whoever needs to know whether that was after some moment compares the number of
// subscriptions that had been ordered until then with the number of the order that brings the message. Messages after a confirmation were
// published after the subscription was ordered: one that is asked for again, before it is confirmed, keeps its number. Only on a cluster whose
// channels are not sharded may they be a moment older, because the nodes pass them on.

// Orders returns how many subscriptions the hub has ordered so far.
func (h *Hub) Orders() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.orders
}

// Since returns the number of the order whose confirmation of a channel came last: the one that brings messages. The driver may have ordered
// again by itself since. Zero means that the channel was never confirmed.
func (h *Hub) Since(name string) uint64 { return h.seen(name).since }

// Renew orders the subscription of a channel once more, unless that was done since a number of orders. Messages are received
// all the while, and the confirmation wakes the listeners. If the channel is not confirmed now, there is one to come that does so,
// too: then Renew does nothing.
func (h *Hub) Renew(name string, orders uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil || !ch.confirmed || ch.order != ch.since || ch.since > orders {
		return
	}
	ch.renew = true
	h.change(ch)
}
