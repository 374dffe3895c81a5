package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// Admit begins an attempt.
func (t *Table) Admit(a *Attempt, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	a.began = now
	return t.after(a, t.claim(a, now, n), now)
}

// Wake continues an attempt after a Sleep.
func (t *Table) Wake(a *Attempt, why Cause, now clock.Instant, n *notice.List) (s Step) {
	defer t.lock().Unlock()
	if why == Closed && !t.bars(a, now) {
		why = ByNews // it slept when the client began to shut down
	}
	switch waits := a.phase == queued || a.phase == resting; {
	case a.phase == claiming && why >= Ended:
		a.Last = t.concludes(a, now)
		s = a.finish(t.barred(a, now))
	case a.phase == claiming:
		s = t.claim(a, now, n)
	case a.phase == adopting && why >= Ended:
		s = t.giveUp(a, nil, now, n)
	case a.phase == adopting:
		s = t.adopt(a, now)
	case waits && why >= Ended:
		s = t.leave(a, now, n)
	case waits:
		s = t.look(a, why, now, n)
	default:
		s = a.finish(errUndefined)
	}
	return t.after(a, s, now)
}

// claim takes the grant that the owner has of the lock, to re-enter it, or makes a new one. Meanwhile the hold may be over that made the
// attempt one of that owner: then it is no more. If another goroutine of the owner is busy with the grant, it waits. A single attempt does not wait while others wait. It uses what is known by their questions.
func (t *Table) claim(a *Attempt, now clock.Instant, n *notice.List) Step {
	if t.closed {
		return a.finish(fault.ErrClosed)
	}
	if a.owner = a.Now(); a.owner != nil {
		if err := t.mayNot(a.Handle, a.owner, a.AtLeast > 0 || a.Ticket != "", now); err != nil {
			return a.finish(err)
		}
	}
	if t.stopping && t.bars(a, now) {
		return a.finish(fault.ErrClosed)
	}
	var g *Grant
	if a.owner != nil {
		g = t.grants.Of(a.Handle.sideKey(), a.owner)
	}
	a.phase, a.grant, a.ahead = claiming, g, nil
	switch {
	case g == nil:
		t.newGrant(a)
		return t.contend(a, now, n)
	case g.turns.Begin():
		return t.reenter(a, now)
	case g.stage != pending:
		return a.awaitTurn(-1, now)
	}
	if a.Ticket != "" {
		return a.finish(errAsking)
	}
	a.ahead = g.attempt
	if a.Bound == 0 {
		return g.awaitTurn(-1)
	}
	if a.Last = t.concludes(a, now); !a.Last.Known() {
		// The first question is under way. If the question is another owner's, its reply does not wake this attempt.
		return a.awaitTurn(5*time.Millisecond, now)
	}
	if a.Single {
		return a.finish(nil)
	}
	return g.awaitTurn(-1)
}

// contend begins to acquire for a pending grant. An attempt of an owner that holds the other side of the name does not
// queue: the attempts in the queue wait for that side.
func (t *Table) contend(a *Attempt, now clock.Instant, n *notice.List) Step {
	switch {
	case a.Ticket != "":
		return t.adopt(a, now)
	case a.Single && t.refusedHere(a, now):
		return t.giveUp(a, nil, now, n)
	case a.Single:
		return t.ask(a, parting, now, n)
	case a.Handle.Kind.Queues, a.owner != nil && a.sibling().usable(now):
		return t.ask(a, asking, now, n)
	}
	if s, ok := t.try(a, now); ok {
		return s
	}
	t.queueOf(a.Handle.Key)
	l, first := t.queues.Join(a.Handle.Key, a)
	if a.queue = l; first || contender(l) == a {
		return t.begins(a, ByNews, now, n)
	}
	a.phase = queued
	a.asked = true // the head does, on its behalf
	t.noteHere(a)
	return a.sleep(-1)
}

// try asks for a lock that looks free: nobody of this process holds it, asks or waits for it, or hears of it. It reports false for any other
// lock, and for one that the line does not serve.
func (t *Table) try(a *Attempt, now clock.Instant) (s Step, ok bool) {
	h, k, g, names := a.Handle, a.Handle.Key, a.grant, a.Handle.Names()
	if h.Kind.Side != wire.MainSide || h.Kind.Channel == "" || t.stopping || t.trying[k] != nil ||
		t.exclusive[k.Family][k.Name] != nil || t.queues.Of(k) != nil || !t.usesLine(h) || t.messages.Epoch(names.Own()) != 0 {
		return Step{}, false
	}
	t.trying[k] = a
	a.way = lineWay{}
	a.phase, a.sent, a.question, a.forcings, a.firstTerm = trying, now, t.sections, t.forcings, t.firstTerm(a)
	g.term.Sending(a.Lease, t.cfg.CommandTimeout, now)
	s = Step{Do: Ask, Slot: true, Acked: true, Late: g, Number: a.question, Call: g.holder.Stand(names, a.Lease, a.firstTerm)}
	s.Outlives, s.Within = a.asks(now)
	return s, true
}

// Settle takes the reply to the attempt's call.
func (t *Table) Settle(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) (s Step) {
	defer t.lock().Unlock()
	switch a.phase {
	case counting:
		s = t.onCountReply(a, r, now, n)
	case adopting:
		s = t.onAdoptReply(a, r, now, n)
	case trying, asking, parting:
		s = t.onAcquireReply(a, r, now, n)
	default:
		s = a.finish(errUndefined)
	}
	return t.after(a, s, now)
}
