package pubsub

import (
	"github.com/go-rlock/rlock/internal/clock"
)

// A watched channel is one on which others announce that a lock is free, while the waiters of this client wait elsewhere.
// The watcher is subscribed only in order to look after such a message. A release must not mistake it for a listener, which
// would try to take the lock. So a mere watcher is subscribed to a second channel as well, the twin: as many clients listen
// as the channel has subscribers more than its twin. Once the client has a listener of its own, it is one of those who listen,
// and gives up the twin.
//
// The twin never has a subscriber who is not on the channel: that would hide a listener. So it goes out in the same command
// as the channel, or after the channel's confirmation.

// Watch has Config.OnFreed called whenever the lock of a channel may be free: after a message that says so, and after each
// confirmation. A first watcher gets at least one call. [Hub.Unwatch] must be called as often as Watch.
func (h *Hub) Watch(base, twin string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channel(base)
	if ch.watchers++; ch.watchers > 1 || ch.twin() != nil { // it is watched, or lingers
		return
	}
	if ch.confirmed {
		ch.confirmed, ch.sent = false, 0 // for one more confirmation, because OnFreed was not called so far
	}
	ch.other = h.channel(twin)
	ch.other.other, ch.other.isTwin = ch, true
	h.change(ch)
	ch.other.conn.ensure()
}

// Unwatch ends what [Hub.Watch] began. It does nothing if nobody watches the channel. As long as the channel stays subscribed,
// Redis counts this client as a watcher, so OnFreed is still called. [Config.OnUnwatched] tells when that is over.
func (h *Hub) Unwatch(base, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[base]
	if ch == nil || ch.watchers == 0 {
		return
	}
	if ch.watchers--; ch.watchers == 0 {
		ch.idleSince = clock.Now()
		h.plan(ch)
	}
}

// Spare says that no listener of a channel is expected soon, because the waiter of this client listens elsewhere now. Redis would
// count a client that lingers as one of those who listen, and a release would offer the lock to nobody. So the channel does not
// linger; if it is watched, or was and still is subscribed, its twin follows at once. It does nothing if there is a listener.
func (h *Hub) Spare(base string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[base]
	if ch == nil || ch.listeners != nil || ch.deserted == 0 {
		return
	}
	ch.deserted = 0
	if twin := ch.twin(); twin == nil {
		ch.idleSince = 0
		h.change(ch)
	} else {
		h.change(twin)
	}
}

// ends notes that a channel is being unsubscribed. Until Redis confirms that, it counts this client as a watcher by a twin, and a
// command on another connection may overtake the UNSUBSCRIBE. So Config.OnUnwatched, after which Redis is to ask somebody else, waits
// for that. Leave does not wait for a connection that was broken before. mu must be held.
func (h *Hub) ends(ch *channel, now clock.Instant) {
	if ch.confirmed || !h.leaves {
		ch.left = now
		h.leaving[ch.name] = ch
	}
	ch.confirmed, ch.sent = false, 0
}

// breaks notes that Redis has ended a connection, so that nothing is confirmed there. mu must be held.
func (h *Hub) breaks(c *connection) {
	for _, ch := range h.leaving {
		if ch.conn == c {
			ch.left = 0
		}
	}
}

// left takes out the channel that Redis has confirmed, and those of which no confirmation came: a connection that is silent has been
// given up since. It returns which are not watched any more. mu must be held.
func (h *Hub) left(confirmed string, now clock.Instant) (unwatched []string) {
	take := func(name string, ch *channel) {
		delete(h.leaving, name)
		if b := ch.other; ch.isTwin && (h.channels[b.name] == nil || h.channels[b.name].twin() == nil) {
			unwatched = append(unwatched, b.name)
		}
	}
	if ch := h.leaving[confirmed]; ch != nil {
		take(confirmed, ch)
	}
	if now.Sub(h.swept) >= keeperTick {
		h.swept = now
		for name, ch := range h.leaving {
			if ch.left == 0 || now.Sub(ch.left) >= retryRefused {
				take(name, ch)
			}
		}
	}
	h.telling += len(unwatched)
	return unwatched
}

// tellUnwatched calls Config.OnUnwatched. mu must not be held.
func (h *Hub) tellUnwatched(channels []string) {
	for _, name := range channels {
		h.cfg.OnUnwatched(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.telling -= len(channels)
	if h.leaves && !h.gone && h.telling+len(h.channels)+len(h.leaving) == 0 {
		h.gone = true
		h.tasks.End()
	}
}
