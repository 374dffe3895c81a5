package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table/internal/place"
	"github.com/go-rlock/rlock/internal/wire"
)

// onPlaced notes that an attempt stands in the line, since Redis showed its clock in a reply.
func (t *Table) onPlaced(a *Attempt, micros int64, pause time.Duration, now clock.Instant, n *notice.List) {
	a.place.Stand(place.Reading{Sent: a.sent, Micros: micros}, now.Add(pause))
	if t.watches[a.Handle.Names().Own()] != nil { // this client watches still
		t.watch(a.Handle, a, n)
	}
	a.grant.needsCleanup = true // a release takes it out of the line
	t.takeMessage(a, now, n)
}

// onNoAnswer notes that the command had no useful reply. An attempt that stood in the line before still does.
func (t *Table) onNoAnswer(a *Attempt, now clock.Instant, n *notice.List) {
	if a.place.Unanswered() {
		t.takeMessage(a, now, n)
	}
}

// Hear takes a message on a channel of this client. What it says of a number counts only for the lock whose waiters it tells there.
func (t *Table) Hear(channel string, m wire.Message, arrived clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	h := t.origins.Of(channel)
	if h != nil {
		t.queueOf(h.Key) // the message may be about the attempt that tries
	}
	its := func(h *Handle) bool { return h.Names().Tells(channel, t.cfg.ClientID) }
	switch m.Subject {
	case wire.Granted:
		t.onGrantMessage(h, m, its, arrived, n)
	case wire.EndsSoon:
		if next := t.placed[m.Number]; next != nil && its(next.Handle) {
			next.place.EndsAt(arrived.Add(m.Term))
			next.bell.Ring()
		}
	case wire.Watch:
		if h != nil {
			t.watch(h, t.waiterFor(h), n)
		}
	default:
	}
}

// onGrantMessage takes the message that an attempt has been granted its lock. h is a lock of the channel; nil means that none is known.
// If the attempt does not wait any more, it has found the lock by asking, or its release is on its way, or it is over.
func (t *Table) onGrantMessage(h *Handle, m wire.Message, its func(*Handle) bool, arrived clock.Instant, n *notice.List) {
	if a := t.placed[m.Number]; a != nil {
		if !its(a.Handle) {
			return
		}
		a.place.OnGranted(place.GrantMessage{Micros: m.At, Term: m.Term, Token: m.Token, Heard: arrived})
		t.takeMessage(a, arrived, n)
		a.bell.Ring()
		return
	}
	if h != nil {
		t.unknown(h, m.Number, m.Term, arrived, n)
	}
}

// takeMessage makes an attempt the holder if Redis has granted it the lock. If it cannot tell when that was, or too little of the lease
// is left, the attempt asks.
func (t *Table) takeMessage(a *Attempt, now clock.Instant, n *notice.List) {
	if g, at, ok := a.place.Take(a.least(), now); ok {
		t.onGranted(a, proof{token: g.Token, sent: at, lease: min(g.Term, a.Lease), micros: g.Micros}, now, n)
	}
}

func (t *Table) onGranted(a *Attempt, p proof, now clock.Instant, n *notice.List) {
	g := a.grant
	g.sending(p.lease, now)
	a.got, a.failed = t.grant(a, g, p, now, n)
	a.Seen.Granted = a.got != nil
	if a.got != nil {
		a.keep(now) // the moment of the proof is early on purpose, for the lease
	}
	switch {
	case a.failed != nil:
		a.knows().Failed(a.failed)
	case a.got != nil && p.lease < a.Lease:
		g.term.RenewAt = p.sent.Add(min(firstRenewal, p.lease/3))
		t.plan(g, n)
	}
	t.forgetPlace(a)
}
