package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// free returns the step that frees the lock. An unlock has one command timeout in all, also if it tried something before.
func (t *Table) free(x *Exit, now clock.Instant) Step {
	g := x.grant
	s := Step{Do: Ask, Slot: x.background, Within: t.left(x, now)}
	x.phase, x.sent, x.byLine = freeing, now, t.inLine(x)
	x.parks = g.rare != nil && g.rare.park != nil && g.rare.keep > now // the release has to keep the lock taken
	switch names := g.handle.Names(); {
	case x.parks:
		s.Call = g.rare.park.Park(names, g.inRedis(), g.rare.keep.Sub(now), x.byLine || g.handle.Kind.Queues && !x.narrow)
	case x.byLine:
		s.Call = t.give(x, now)
	default:
		x.snapshot.Messages, x.snapshot.Subscribed = t.messages.Received(names.Channel)
		s.Call = g.inRedis().Release(names, g.tombstone())
		if g.rare != nil && g.rare.seat != nil {
			s.Call = g.inRedis().Leave(names, g.tombstone(), g.rare.seat)
		}
	}
	return s
}

// replied takes what the reply to a release says about others. If the lock is parked, it says nothing. A release that knows of no line
// is followed by a command that grants the lock.
func (t *Table) replied(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) {
	if x.parks {
		return
	}
	t.onFreed(x, r, now, n)
	if r.Err == nil && !x.byLine && t.lined(x.grant.handle) {
		t.pump(x.grant.handle, 0, n)
	}
}

// repliedLate notes, for the attempts that queue now, a reply whose caller had left. Otherwise waiters whose calls are short would take their
// abandoned questions for silence. The number is that of a question of the local queue, or zero.
func (t *Table) repliedLate(g *Grant, number uint64, r wire.Reply, now clock.Instant) {
	if l := t.queueOf(g.handle.Key); l != nil && (r.Err == nil || r.Err.Replied()) {
		l.Shared.known.Late(number, now)
	}
}

// Late takes the reply of an acquire, or of an adoption, whose caller had left. It delivers its notices itself.
func (g *Grant) Late(number uint64, r wire.Reply, now clock.Instant) {
	t := g.table
	var n notice.List
	defer func() { n.Deliver(t.receiver) }() // after the unlock
	defer t.lock().Unlock()
	t.repliedLate(g, number, r, now)
	switch {
	case r.Acquired():
		g.needsCleanup = true
	case r.Err.InDoubt():
		g.inDoubt = true
	default:
		return
	}
	if g.stage == retired {
		t.cleanUp(g, now, &n)
	}
}

// inLine reports whether an exit runs the release of the line. It does even without the line if its grant stood there: only
// that release takes it out.
func (t *Table) inLine(x *Exit) bool {
	return !x.narrow && (t.lined(x.grant.handle) || x.grant.lineTerm() != 0)
}

// onSeatFreed takes what the release of a fair lock did with it: a waiter of this client may have the lock. Without a reply, nobody
// tells which one, if any. So all of them ask: now, and again when there is a reply, because the release may have been carried
// out in between.
func (t *Table) onSeatFreed(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) {
	if m, ok := r.GaveHere(); ok {
		t.onGrantMessage(x.grant.handle, m, func(h *Handle) bool { return h.Key == x.grant.handle.Key }, now, n)
	}
	if r.Err == nil && x.retries == 0 && (!x.background || x.grant.failures == 0) {
		return
	}
	for _, a := range t.placed {
		if a.Handle.Key == x.grant.handle.Key {
			a.place.Unsure = true
			a.bell.Ring()
		}
	}
}

// give returns the call that frees a lock, and the waiter of this process that it names.
func (t *Table) give(x *Exit, now clock.Instant) wire.Call {
	g, next := x.grant, x.next
	var to *wire.Next
	if next != nil {
		x.nextGrant = next.grant
		next.handing, next.forcings, next.question = true, t.forcings, t.sections
		next.knows().RefusedUntil(g.term.Ends()).Asked(next.question, now)
		x.nextGrant.sending(next.Lease, now)
		next.way = lineWay{}
		t.notePlace(next, next.way.channel(next), t.firstTerm(next), now)
		to = &wire.Next{Holder: x.nextGrant.inRedis(), Lease: next.Lease, Term: next.firstTerm}
	}
	return g.inRedis().Give(g.handle.Names(), g.tombstone(), g.lineTerm(), to)
}

func (t *Table) onFreed(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) {
	if x.grant.handle.Kind.Queues {
		t.onSeatFreed(x, r, now, n)
		return
	}
	given := r.Gave()
	if l := t.queueOf(x.grant.handle.Key); l != nil && r.Err == nil {
		l.Shared.others = given.Others > 0
	}
	if given.What == wire.ToPublic {
		t.pump(x.grant.handle, t.cfg.StandBack, n)
	}
	if given.Watch {
		t.watch(x.grant.handle, x.next, n)
	}
	a, g := x.next, x.nextGrant
	if a == nil {
		return
	}
	x.next = nil
	a.handing = false
	switch {
	case a.phase == done: // it left, and a release of its own follows
		t.repliedLate(g, a.question, r, now)
		return
	case r.Err != nil:
		a.knows().Failed(r.Err)
		g.inDoubt = g.inDoubt || r.Err.InDoubt()
		g.needsCleanup = g.needsCleanup || r.Err.Fate == fault.Partial // it may have been given the lock
		t.onNoAnswer(a, now, n)
	case given.What == wire.ToNext:
		t.onGranted(a, proof{token: given.Token, sent: a.sent, lease: a.Lease, micros: given.At}, now, n)
		if a.got != nil {
			a.Seen.HandedOver, a.Seen.Granted, a.Seen.Here = true, false, true
			t.counts.HandOvers++
		}
	case given.What == wire.ToWaiter, given.What == wire.ToPublic:
		a.knows().Refused() // by Redis: what was known of the hold before ends with that
		if epoch := a.place.Epoch; t.messages.Epoch(a.Handle.Names().Own()) != epoch {
			a.place.Unsure = true // it woke while the release was under way, and had nothing to do
		}
		t.onPlaced(a, given.At, lineWay{}.pause(t, a, &wire.Position{Ahead: 1}, a.firstTerm, now), now, n)
	default: // the next holder was left out, or the lock was not held
		a.knows().Answered()
		t.onNoAnswer(a, now, n)
	}
	a.bell.Ring()
}
