package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

func (t *Table) onAcquireReply(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := a.grant
	if a.phase == trying {
		if r.Err == nil && r.Acquired() {
			if got, _ := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease}, now, n); got != nil {
				delete(t.trying, a.Handle.Key)
				a.phase = done
				return Step{Do: Done, Got: got}
			}
		}
		t.enqueue(a) // it may stand in the line, or have a lock on which it cannot rely
	}
	if r.Err != nil && r.Acquired() {
		g.needsCleanup = true
	}
	switch {
	case t.spared(a, r, now):
		a.asked = false
		return t.ask(a, a.phase, now, n)
	case r.Err != nil && r.Err.Fate == fault.Left && !r.Err.TimedOut():
		if a.way.leavesPlace() || a.place.Asks || g.needsCleanup {
			g.inDoubt = true // it may queue, or acquire, after the release that follows
		}
		s := t.leave(a, now, n)
		if s.Do == Ask {
			g.inDoubt = true // the first question may be executed after the release
		}
		return s
	case r.Err != nil && errors.Is(r.Err, fault.ErrNotSent) && (ended(a.Wait) || ended(a.Caller) || t.bars(a, now)):
		a.unsent(r.Err)
		return t.leave(a, now, n) // nothing was tried; a connection that fails is an outcome
	case r.Err != nil:
		return t.onFailure(a, r.Err, now, n)
	case !r.Acquired():
		a.retries = 0
		a.onRefused()
		if a.phase == parting {
			return t.giveUp(a, nil, now, n)
		}
		if at, ok := r.Position(); ok && a.place.Asks && at.Ahead >= 0 {
			return t.onQueued(a, at, r.Hint(), now, n)
		}
		t.onNoAnswer(a, now, n)
		return t.rest(a, a.way.pause(t, a, nil, r.Hint(), now), n)
	}
	return t.takeGrant(a, r, now, n)
}

// takeGrant makes an attempt the holder whose question Redis granted.
func (t *Table) takeGrant(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := a.grant
	a.Seen.Granted = a.place.Given != 0
	got, err := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease, micros: a.place.Given}, now, n)
	switch {
	case got != nil:
		return t.succeed(a, got, n)
	case errors.Is(err, fault.ErrLate) && a.phase != parting:
		return t.replace(a, err, now, n)
	}
	return t.giveUp(a, err, now, n)
}

// spared reports whether Stop ended the wait for a slot of an attempt that may go on, because its owner holds the lock. Nothing
// was sent, so the attempt asks again.
func (t *Table) spared(a *Attempt, r wire.Reply, now clock.Instant) bool {
	return r.Err != nil && r.Err.Fate == fault.NotSent && errors.Is(r.Err, fault.ErrClosed) && t.stopping && !t.bars(a, now)
}

// onRefused notes a refusal, also for the attempts behind this one and for other goroutines of the owner.
func (a *Attempt) onRefused() {
	a.knows().Refused()
	if a.way.leavesPlace() {
		a.grant.needsCleanup = true
	}
	a.grant.turns.Notify()
}

func (t *Table) reenter(a *Attempt, now clock.Instant) Step {
	g := a.grant
	g.sending(a.Lease, now)
	a.phase, a.sent = counting, now
	s := Step{Do: Ask, Slot: true, Call: g.inRedis().Count(g.handle.Names(), g.open()+1, a.Lease)}
	s.Outlives, s.Within = a.asks(now)
	return s
}

func (t *Table) onCountReply(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := a.grant
	if t.spared(a, r, now) {
		a.asked = false
		return t.reenter(a, now)
	}
	defer g.turns.End()
	if r.Err == nil && r.N != 0 && g.usable(now) && lease.Late(a.sent, a.Lease, now) && g.term.Deadline.Sub(now) < lease.Least(a.Lease) {
		r.Err = errLateCount
	}
	switch {
	case t.closed:
		return a.finish(fault.ErrClosed)
	case r.Err != nil && (r.Err.Fate == fault.Left && !r.Err.TimedOut() || errors.Is(r.Err, fault.ErrNotSent) && ended(a.Wait)):
		a.unsent(r.Err)
		a.Last = t.concludes(a, now) // nobody answered, or nothing was tried
		return a.finish(nil)
	case r.Err != nil && !a.Single && r.Err.Transient:
		a.known.Failed(r.Err)
		if ended(a.Wait) || a.overdue(now) {
			a.Last = t.concludes(a, now)
			return a.finish(nil)
		}
		a.phase, a.grant = claiming, nil
		return Step{Do: Sleep, Pause: t.retryPause(a)}
	case r.Err != nil:
		return a.finish(r.Err)
	case r.N == 0 && g.stage == held:
		t.lose(g, errHolderGone, now, n)
	case g.usable(now) && t.bars(a, now): // the others were unlocked meanwhile
		return a.finish(fault.ErrClosed)
	case g.usable(now):
		got := g.acquired(a)
		g.confirm(a.sent, a.Lease, n)
		return t.succeed(a, got, n)
	}
	return a.finish(fault.ErrLost)
}

func (t *Table) adopt(a *Attempt, now clock.Instant) Step {
	g := a.grant
	g.sending(a.Lease, now)
	a.phase, a.sent, a.forcings = adopting, now, t.forcings
	s := Step{Do: Ask, Slot: true, Acked: true, Late: g, Call: g.inRedis().Adopt(a.Handle.Names(), a.Ticket, a.Lease, t.lined(a.Handle) || a.Handle.Kind.Queues)}
	s.Outlives, _ = a.asks(now)
	s.Within = max(a.Bound.Sub(now), time.Nanosecond)
	return s
}

// onAdoptReply takes the reply of an adoption. Without one, it asks again with the same number, so that it cannot be refused because
// of itself.
func (t *Table) onAdoptReply(a *Attempt, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g, err := a.grant, r.Err
	if err == nil && r.Acquired() {
		got, late := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease}, now, n)
		if got == nil {
			return t.giveUp(a, late, now, n)
		}
		return t.succeed(a, got, n)
	}
	g.needsCleanup = g.needsCleanup || r.Acquired() // but too few replicas acknowledged it
	g.inDoubt = g.inDoubt || err.InDoubt() || err != nil && err.Fate == fault.Partial
	switch {
	case err == nil:
		a.known.Answered()
		return t.giveUp(a, errTicket, now, n)
	case errors.Is(err, fault.ErrNotSent), err.Fate == fault.Left && !err.TimedOut():
		a.unsent(err)
		return t.giveUp(a, nil, now, n) // nothing was tried, or the caller is gone
	}
	a.known.Failed(err)
	switch pause := t.retryPause(a); {
	case !err.Transient, err.Fate == fault.Unreplicated:
		return t.giveUp(a, err, now, n)
	case t.bars(a, now), ended(a.Caller), now.Add(pause) >= a.Bound:
		return t.giveUp(a, nil, now, n)
	default:
		return Step{Do: Sleep, Pause: pause}
	}
}
