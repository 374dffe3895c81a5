package pubsub

import (
	"math"

	"github.com/go-rlock/rlock/internal/clock"
)

// A connection has an agenda: the channels for which its keeper has something to do, and when. The keeper looks at no other
// channel, so those that rest cost it nothing. Whoever changes a channel plans it again.

// action is what a keeper does for a channel.
type action uint8

const (
	rest  action = iota
	route        // see [Hub.route]
	subscribe
	unsubscribe
	forget // and unsubscribe
)

// plan notes when the keeper has something to do for a channel, and for its twin. It does not wake the keeper:
// [connection.ensure] does. mu must be held.
func (h *Hub) plan(ch *channel) {
	if do, at := h.next(ch, false, 0); do != rest {
		ch.conn.agenda.Set(ch, at)
	} else {
		ch.conn.agenda.Remove(ch)
	}
	if twin := ch.twin(); twin != nil {
		h.plan(twin)
	}
}

// change plans a channel, and wakes its keeper. mu must be held.
func (h *Hub) change(ch *channel) {
	h.plan(ch)
	ch.conn.ensure()
}

// move has another connection keep a channel. mu must be held.
func (h *Hub) move(ch *channel, to *connection) {
	ch.conn.agenda.Remove(ch)
	ch.conn = to
	h.change(ch)
}

// next returns what is to be done for a channel next if nothing changes before, and when. together means that it is a twin whose channel is
// subscribed by the same command. What is to be forgotten by now is not subscribed first: a twin alone would hide a listener. mu must be held.
func (h *Hub) next(ch *channel, together bool, now clock.Instant) (do action, at clock.Instant) {
	b := ch
	if ch.isTwin {
		b = ch.other
	}
	isTwin, heard, at := ch.isTwin, b.listeners != nil, clock.Instant(math.MaxInt64)
	switch {
	case h.leaves, isTwin && heard && b.watchers == 0:
		return forget, 0
	case !heard && b.watchers == 0:
		do, at = forget, b.idleSince.Add(channelLinger)
	case isTwin && heard && ch.sent != 0:
		return unsubscribe, 0
	}
	next, from := subscribe, ch.sent.Add(retryRefused)
	switch {
	case !ch.routed:
		next, from = route, ch.after
	case isTwin && (heard || !b.confirmed && !together): // until the last listener leaves, or the channel is confirmed
		return do, at
	case ch.sent == 0 || ch.renew:
		from = 0
	case ch.confirmed:
		return do, at
	}
	if next == subscribe && isTwin {
		from = max(from, b.deserted.Add(channelLinger)) // there soon is another listener
	}
	if from < at && now < at {
		return next, from
	}
	return do, at
}
