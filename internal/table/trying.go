package table

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// An attempt tries a lock that looks free: nobody of this process holds it, waits for it, or hears of it. Mostly Redis grants the lock, and
// no more need be kept of the attempt than which name it tries. It joins the local queue, with its place in the line, as soon as
// that can matter: with any other reply, with another attempt for the name, or with a message.

// queueOf returns the local queue of a name, which the attempt that tries the name joins before. Nil means that nobody is in it.
func (t *Table) queueOf(k Key) *localQueue {
	if a := t.trying[k]; a != nil {
		t.enqueue(a)
	}
	return t.queues.Of(k)
}

// enqueue has an attempt that tries go on as the head of the local queue. What happened since its question is as if it had been that
// all the time. It has no epoch: it asks again once it is subscribed, because it may have missed a message.
func (t *Table) enqueue(a *Attempt) {
	delete(t.trying, a.Handle.Key)
	if t.joined++; t.joined > 1000 && len(t.trying) == 0 { // a map keeps the size of its busiest moment
		t.trying, t.joined = make(map[Key]*Attempt), 0
	}
	a.phase = asking
	a.queue, _ = t.queues.Join(a.Handle.Key, a)
	a.known.Asked(a.question, a.sent)
	a.queue.Shared.known = a.known
	t.notePlace(a, a.ownChannel(), a.firstTerm, a.sent)
	a.place.Epoch = 0
}

// ownChannel returns the channel of this client's waiters for the lock of an attempt in a local queue, in a text of its own.
func (a *Attempt) ownChannel() string {
	s := &a.queue.Shared
	if s.own == "" {
		s.own = strings.Clone(a.Handle.Names().Own())
	}
	return s.own
}

// notePlace notes that a command is about to be sent that may put an attempt into the line. The lock may be granted to it before
// the reply comes.
func (t *Table) notePlace(a *Attempt, channel string, term time.Duration, now clock.Instant) {
	a.firstTerm = term
	t.placed[a.grant.holder.Number] = a
	t.noteOrigin(channel, a.Handle)
	a.place.Join(t.messages.Epoch(channel), now)
	a.sent = now
}

// noteOrigin remembers what a channel is about, in a handle of its own: the application's one, and its names, need not stay for as long.
func (t *Table) noteOrigin(channel string, h *Handle) {
	if o := t.origins.Of(channel); o == nil || o.Kind != h.Kind {
		t.origins.Note(channel, &Handle{Key: h.Key, Kind: h.Kind, Name: h.Name}, t.messages.Received)
	}
}
