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
func (t *Table) Wake(a *Attempt, why Cause, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	if why == Closed && !t.bars(a, now) {
		why = ByNews // it slept when the client began to shut down
	}
	return t.after(a, t.wake(a, why, now, n), now)
}

func (t *Table) wake(a *Attempt, why Cause, now clock.Instant, n *notice.List) Step {
	t.stir(a)
	switch {
	case a.phase == claiming && why >= Ended:
		t.conclude(a, now)
		return a.finish(t.barred(a, now))
	case a.phase == claiming:
		return t.claim(a, now, n)
	case a.phase == adopting && why >= Ended:
		return t.giveUp(a, nil, now, n)
	case a.phase == adopting:
		return t.adopt(a, now)
	case (a.phase == queued || a.phase == resting) && why >= Ended:
		return t.leave(a, now, n)
	case a.phase == queued || a.phase == resting:
		return t.look(a, why, now, n)
	}
	return a.finish(errUndefined)
}

// claim takes the grant that the owner has of the lock, to re-enter it, or makes a new one. Meanwhile the hold may be over that made the
// attempt one of that owner: then it is no more. If another goroutine of the owner is busy with the grant, it waits. A single attempt does not wait while others wait. It uses what is known by their questions.
func (t *Table) claim(a *Attempt, now clock.Instant, n *notice.List) Step {
	if t.closed {
		return a.finish(fault.ErrClosed)
	}
	if a.owner, a.by = a.Now(); a.owner != nil {
		if err := t.mayNot(a.Handle, a.owner, a.AtLeast > 0 || a.Ticket != "", now); err != nil {
			return a.finish(err)
		}
	}
	if t.bars(a, now) {
		return a.finish(fault.ErrClosed)
	}
	g := t.grants.Of(a.Handle.sideKey(), a.owner)
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
	if t.conclude(a, now); !a.Last.Known() {
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
	l, first := t.queues.Join(a.Handle.Key, a)
	if a.queue = l; first || contender(l) == a {
		return t.begins(a, ByNews, now, n)
	}
	a.phase = queued
	a.asked = true // the head does, on its behalf
	t.suspect(a)
	return a.sleep(-1)
}

// Settle takes the reply to the attempt's call.
func (t *Table) Settle(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) (s Step) {
	defer t.lock().Unlock()
	switch a.phase {
	case counting:
		s = t.onCountReply(a, r, now, n)
	case adopting:
		s = t.onAdoptReply(a, r, now, n)
	case asking, parting:
		s = t.onAcquireReply(a, r, now, n)
	default:
		s = a.finish(errUndefined)
	}
	return t.after(a, s, now)
}
