package pubsub

import (
	"slices"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
)

// Audience listens to several channels of one slot, to all of them or to none: on a connection that is not sharded, one command
// subscribes to them. The hub calls its functions on the goroutine that reads the connection, in the order of what it reads, and
// without its mutex. They must not wait. The caller fills in the exported fields before [Hub.Join], and changes nothing later.
type Audience struct {
	Channels []string
	// Heard takes in a message.
	Heard func(channel, payload string, at clock.Instant)
	// Ready says that Redis has confirmed all channels. It is called again when messages may have been missed.
	Ready func()
	// Changed gets a token when Redis refuses a channel, and when the client library ends the connection for good. It must have a capacity of 1.
	Changed chan struct{}
}

// Join has an audience listen, until [Hub.Part]. If Redis has confirmed all of its channels before, Ready is not called for that.
func (h *Hub) Join(a *Audience) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range a.Channels {
		ch := h.channel(name)
		*ch.listener(nil) = &listener{wake: a.Changed, audience: a}
		h.plan(ch)
		if ch.refusal != nil {
			notify(a.Changed)
		}
		if !ch.confirmed {
			ch.conn.ensure()
		}
	}
}

// Part ends what [Hub.Join] began.
func (h *Hub) Part(a *Audience) {
	for _, name := range a.Channels {
		h.Unlisten(name, a.Changed)
	}
}

// Hears reports whether Redis has confirmed all of these channels, and the connection has not broken since.
func (h *Hub) Hears(channels []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hears(channels)
}

func (h *Hub) hears(channels []string) bool {
	return !slices.ContainsFunc(channels, func(name string) bool {
		ch := h.channels[name]
		return ch == nil || !ch.confirmed
	})
}

// audiences returns those who have to be told of what came on a channel: of a message, or that they are ready. mu must be held.
func (h *Hub) audiences(ch *channel, m driver.Message) (all []*Audience) {
	if ch == nil || m.Sort != driver.Published && m.Sort != driver.Subscribed {
		return nil
	}
	for l := ch.listeners; l != nil; l = l.next {
		if l.audience != nil && (m.Sort == driver.Published || h.hears(l.audience.Channels)) {
			all = append(all, l.audience)
		}
	}
	return all
}
