package rlock

import (
	"slices"
	"time"
)

// gate lets one waiter of this process at a time contend for a name, in order of arrival: its head. The others cost
// Redis nothing. A gate exists while somebody is in it. Whoever holds the lock is not: the head leaves when it is
// granted, and the next one takes over, with whatever wake-up comes.
type gate struct {
	queue    []*waiter
	last     outcome   // of the latest attempt of a head: what a waiter reports who never got to try
	listener *listener // of its heads, since one of them had to sleep; nil: none had
}

// maxSpareGates is how many gates a client keeps for the names that are locked next, and the length of their queues.
const maxSpareGates = 16

type waiter struct {
	id   nameKey
	head chan struct{} // closed when it is this waiter's turn; nil: it was at once

	// The rest is for a head to which the lock may be handed, see handover.go. Guarded by client.mu.

	request    *request    // nil: the lock cannot be handed to this waiter
	possession *possession // the one it is for
	stage      turn
	news       chan struct{} // has a token when there is reason to consult again; nil: it has not slept yet
	alerted    bool          // before that
	askAt      time.Time     // when to ask Redis though an owner of this process has the lock; zero: not planned
	entry      *entry        // what was handed to it
	failed     error         // or why nothing was
}

// turn is what the head of a gate is doing.
type turn uint8

const (
	idle    turn = iota // it sleeps, or is about to look
	asking              // an attempt of its own is under way
	handing             // the lock is being handed to it
	handed              // that is settled, and the waiter has not seen it yet
	gone                // it left while the lock was being handed to it
)

// enter queues for a name.
func (c *Client) enter(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[w.id]
	if g == nil {
		if n := len(c.spareGates); n > 0 {
			g = c.spareGates[n-1]
			c.spareGates = c.spareGates[:n-1]
		} else {
			g = &gate{}
		}
		c.gates[w.id] = g
	}
	if len(g.queue) > 0 {
		w.head = make(chan struct{})
	}
	g.queue = append(g.queue, w)
}

// leave makes way for the next waiter. It returns what was handed to this one and not seen yet, and how the latest
// attempt of a head went.
func (c *Client) leave(w *waiter) (*entry, outcome) {
	c.mu.Lock()
	g := c.gates[w.id]
	e := w.entry
	if w.stage == handing {
		w.stage = gone
		w.possession.unanswered = true // the hand-over may have been carried out, or may yet be
	}
	i := slices.Index(g.queue, w)
	g.queue = slices.Delete(g.queue, i, i+1)
	last := g.last
	var unused *listener
	switch {
	case len(g.queue) == 0:
		delete(c.gates, w.id)
		unused = g.listener
		if len(c.spareGates) < maxSpareGates && cap(g.queue) <= maxSpareGates {
			*g = gate{queue: g.queue}
			c.spareGates = append(c.spareGates, g)
		}
	case i == 0:
		close(g.queue[0].head)
		if g.listener != nil && (w.possession == nil || w.possession.stage == pending) {
			g.listener.notify() // what this one had heard, and did not follow
		}
	}
	c.mu.Unlock()
	unused.close()
	return e, last
}

// report notes how an attempt of the head went. One that was granted refuses whoever comes next. Who is in no gate (nil)
// has nobody to tell.
func (c *Client) report(w *waiter, last outcome) {
	if w == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last.known() {
		c.gates[w.id].last = last
	}
	if w.stage == asking {
		w.stage = idle
	}
	if w.possession != nil && w.possession.stage == pending {
		w.mayRest()
	}
}

// mayRest is called before the waiter sleeps, so that no alert is missed. It requires client.mu.
func (w *waiter) mayRest() {
	if w.news == nil {
		w.news = make(chan struct{}, 1)
		if w.alerted {
			w.news <- struct{}{}
		}
	}
}

// listenFor returns what wakes the head of a gate when its channel has a message.
func (c *Client) listenFor(w *waiter, channel string) <-chan struct{} {
	c.mu.Lock()
	g := c.gates[w.id]
	l := g.listener
	c.mu.Unlock()
	if l == nil {
		l = c.pubsub.listen(channel)
		c.mu.Lock()
		g.listener = l
		c.mu.Unlock()
	}
	return l.wake
}

// alert has the head of a gate consult again. It requires mu.
func (c *Client) alert(id nameKey) {
	if g := c.gates[id]; g != nil {
		g.queue[0].alert()
	}
}

// alert requires client.mu.
func (w *waiter) alert() {
	w.alerted = true
	select {
	case w.news <- struct{}{}:
	default:
	}
}
