package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A client watches a name if Redis asked it to: it gives a lock that is freed on Redisson's channel to the first one in the line.

// watch makes the client watch a name for an attempt. If none is in the local queue any more, somebody else has to watch.
func (t *Table) watch(h *Handle, a *Attempt, n *notice.List) {
	switch {
	case a == nil || a.queue == nil:
		t.pump(h, passOn, n)
	case !a.queue.Shared.watched:
		own, twin := a.ownChannel(), a.Handle.Names().Twin()
		if t.watches[own] == nil {
			t.watches[own] = &watched{handle: a.Handle}
		}
		t.watches[own].queues++
		a.queue.Shared.watched = true
		n.Watch(twin[:len(a.Handle.Names().Base())], twin) // a text without the other names, because it lasts
	}
}

func (t *Table) unwatch(a *Attempt, l *localQueue, n *notice.List) {
	t.watches[l.Shared.own].queues--
	n.Unwatch(a.Handle.Names().Base(), a.Handle.Names().Twin())
	l.Shared.watched = false
}

// Unwatched notes that the client is not subscribed to a channel any more. If nobody else watches, a pump asks somebody to do so.
func (t *Table) Unwatched(channel string, n *notice.List) { t.freed(channel, true, n) }

// Freed takes the message that a lock is free, on a channel that this client watches, or the confirmation that it watches: it may have missed
// a message before.
func (t *Table) Freed(channel string, n *notice.List) { t.freed(channel, false, n) }

func (t *Table) freed(channel string, unwatched bool, n *notice.List) {
	defer t.lock().Unlock()
	for _, own := range wire.OwnChannels(channel, t.cfg.ClientID) {
		w := t.watches[own]
		if w == nil || unwatched && w.queues > 0 && !t.closed { // an attempt may have yet to leave a table that is closed
			continue
		}
		if unwatched && w.queues == 0 {
			delete(t.watches, own)
		}
		t.pump(w.handle, 0, n)
	}
}

// pump has the client grant a free lock to the first one in the line, after a pause in which others may take it. One such
// command is under way for a name, which the channel of this client's waiters stands for: no other name has it.
func (t *Table) pump(h *Handle, pause time.Duration, n *notice.List) {
	own := h.Names().Own()
	if p := t.pumps[own]; p != nil {
		p.again = p.again || p.sent
		return
	}
	t.pumps[own] = &pump{handle: h}
	n.Pump(own, pause)
}

// PumpCall returns the call that a [notice.Receiver] was asked for. Nobody of this client is asked to watch, unless an attempt waits here.
func (t *Table) PumpCall(own string) wire.Call {
	defer t.lock().Unlock()
	p, but := t.pumps[own], ""
	p.sent = true
	if t.closed || t.waiterFor(p.handle) == nil {
		but = t.cfg.ClientID
	}
	return p.handle.Kind.PumpCall(p.handle.Names(), but)
}

// Pumped takes the reply of such a call. It asks for another one if others may still take the lock, or if there was no reply.
func (t *Table) Pumped(own string, r wire.Reply, now clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	p := t.pumps[own]
	delete(t.pumps, own)
	switch {
	case t.tasks.Retired():
	case r.Err != nil && r.Err.Transient && p.failures < maxPumps:
		t.pumps[own] = &pump{handle: p.handle, failures: p.failures + 1}
		n.Pump(own, t.cfg.Retry(p.failures+1))
	case r.Err == nil && r.N < 0:
		t.pump(p.handle, time.Duration(-1-r.N)*time.Millisecond, n)
	case p.again:
		t.pump(p.handle, 0, n)
	}
}

// passOn is after how long a request to watch is passed on. Sooner, clients with a release under way would ask each other in vain.
const passOn = 20 * time.Millisecond

// maxPumps is how often a pump without a reply is repeated. After that, the polls of the waiters find the lock.
const maxPumps = 5
