package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// ask returns the step that asks Redis for the lock.
func (t *Table) ask(a *Attempt, next phase, now clock.Instant, n *Notices) Step {
	g := a.grant
	var writer any
	if other := a.sibling(); other.usable(now) {
		if a.Handle.Kind.NoUpgrade {
			return t.giveUp(a, fault.ErrUpgrade, now, n)
		}
		writer = other.inRedis().Field
	}
	g.sending(a.Lease, now)
	a.phase, a.sent, a.forcings = next, now, t.forcings
	s := Step{Do: Ask, Slot: true, Acked: true, Late: g}
	t.unlined.Expire(func(until clock.Instant) bool { return until <= now })
	if a.line != nil {
		a.confident, a.line.Shared.free = a.line.Shared.free, false // the reply will tell
	}
	a.byLine = t.standsFor(a.Handle)
	switch {
	case a.byLine:
		s.Call = t.stand(a, next, now)
	case a.Handle.Kind.Queues && !a.Single:
		s.Call = t.queue(a, next, now)
	default:
		t.leavesLine(a) // it may have stood there before: the reply tells whether the lock was granted to it
		s.Call = g.inRedis().Acquire(a.Handle.Names(), a.Lease, writer)
	}
	s.Free, s.Within = a.asks(now)
	if a.Handle.Kind.Queues && !a.Single && (s.Within == 0 || s.Within > t.cfg.Refresh()) {
		s.Within = t.cfg.Refresh() // the next attempt shows Redisson that the waiter lives
	}
	return s
}

// asks notes that a question is sent. It returns whether the end of the wait does not end it, and how long it may take.
func (a *Attempt) asks(now clock.Instant) (free bool, within time.Duration) {
	a.knows().Asked(now)
	a.Seen.Questions++
	free, within = a.free(now)
	a.asked = true
	return free, within
}

// free returns whether the next step is a free one, as the first question is, and how long it may take.
func (a *Attempt) free(now clock.Instant) (free bool, within time.Duration) {
	if a.asked {
		return false, 0
	}
	if a.Bound == 0 {
		return true, 0
	}
	return true, max(a.Bound.Sub(now), time.Nanosecond)
}

// Settle takes the reply to the attempt's call.
func (t *Table) Settle(a *Attempt, r wire.Reply, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	return t.after(a, t.settleStep(a, r, now, n), now)
}

func (t *Table) settleStep(a *Attempt, r wire.Reply, now clock.Instant, n *Notices) Step {
	switch a.phase {
	case counting:
		return t.settleCount(a, r, now, n)
	case adopting:
		return t.settleAdopt(a, r, now, n)
	case asking, parting:
		return t.settleAcquire(a, r, now, n)
	default:
		return a.finish(errUndefined)
	}
}

func (t *Table) settleAcquire(a *Attempt, r wire.Reply, now clock.Instant, n *Notices) Step {
	g := a.grant
	g.inDoubt = g.inDoubt || r.Repeated // the earlier run may come late
	if r.Err != nil && r.Acquired() {
		g.needsCleanup = true
	}
	switch {
	case t.spared(a, r, now):
		a.asked = false
		return t.ask(a, a.phase, now, n)
	case r.Err != nil && r.Err.Fate == fault.Left && !r.Err.TimedOut():
		if a.Handle.Kind.Queues && !a.Single || a.place.Asks() || g.needsCleanup {
			g.inDoubt = true // it may queue, or acquire, after the release that follows
		}
		s := t.leave(a, now, n)
		if s.Do == Ask {
			g.inDoubt = true // the reply may come when the grant is over, and its holder in Redis another grant's
		}
		return s
	case r.Err != nil && errors.Is(r.Err, fault.ErrNotSent) && (ended(a.Wait) || ended(a.Caller) || t.bars(a, now)):
		a.unsent(r.Err)
		return t.leave(a, now, n) // nothing was tried; a connection that fails is an outcome
	case t.refusesLine(a.Handle, a.byLine, r.Err, now, n):
		t.leavesLine(a)
		if a.overdue(now) {
			return t.giveUp(a, nil, now, n)
		}
		a.asked = false // by no command that Redis carried out
		return t.ask(a, a.phase, now, n)
	case r.Err != nil:
		return t.inTrouble(a, r.Err, now, n)
	case !r.Acquired():
		a.retries = 0
		a.refused(&r)
		if a.phase == parting || a.SetsUp && r.NotSetUp() {
			return t.giveUp(a, nil, now, n)
		}
		if place, ok := r.Stood(); ok && a.place.Asks() && place.Ahead >= 0 {
			return t.stood(a, place, r.Hint(), now, n)
		}
		t.unanswered(a, now, n)
		return t.rest(a, t.pauseAfter(a, r.Hint()), n)
	}
	if a.line != nil {
		a.line.Shared.free = a.Handle.Kind.Counted() && r.N > 0 // the next one asks, too
	}
	given := a.place.Given()
	a.Seen.Granted = given != 0
	got, err := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease, micros: given}, now, n)
	switch {
	case got != nil:
		return t.succeed(a, got, n)
	case errors.Is(err, fault.ErrLate) && a.phase != parting:
		return t.replace(a, now, n)
	}
	return t.giveUp(a, err, now, n)
}

// unsent notes why a question was not sent, if it waited for a connection.
func (a *Attempt) unsent(err *fault.Error) {
	if errors.Is(err, fault.ErrNoConnection) {
		a.knows().Unsent()
	}
}

// ended reports whether a context has ended. One that panics has, too: it may be another caller's than that whose goroutine asks.
func ended(e Ender) (over bool) {
	defer func() { over = recover() != nil || over }()
	return e != nil && e.Err() != nil
}

// spared reports whether Stop ended the wait for a slot of an attempt that may go on, because its owner holds the lock. Nothing
// was sent, so the attempt asks again.
func (t *Table) spared(a *Attempt, r wire.Reply, now clock.Instant) bool {
	return r.Err != nil && r.Err.Fate == fault.NotSent && errors.Is(r.Err, fault.ErrClosed) && t.stopping && !t.bars(a, now)
}

// inTrouble goes on after a question without a reply, or with an error as the reply.
func (t *Table) inTrouble(a *Attempt, err *fault.Error, now clock.Instant, n *Notices) Step {
	if err.InDoubt() {
		a.grant.inDoubt = true
	}
	a.knows().Failed(err)
	a.grant.turns.Notify()
	switch {
	case t.bars(a, now):
		return t.giveUp(a, nil, now, n)
	case a.Single || !err.Transient:
		return t.giveUp(a, err, now, n)
	case a.phase == parting, a.overdue(now):
		return t.giveUp(a, nil, now, n)
	}
	pause := t.retryPause(a)
	a.place.AskBy(now.Add(pause)) // also if something wakes it before
	t.unanswered(a, now, n)
	return t.rest(a, pause, n)
}

// pauseAfter returns the longest pause after a refusal that came with a hint.
func (t *Table) pauseAfter(a *Attempt, hint time.Duration) time.Duration {
	k := a.Handle.Kind
	if k.Channel == "" {
		a.pollDelay = min(max(a.pollDelay*2, a.Handle.FirstDelay), a.Handle.MaxDelay)
		return a.pollDelay
	}
	return t.cfg.Rest(hint, k.Queues)
}

// refused notes a refusal, also for the attempts behind this one and for other goroutines of the owner.
func (a *Attempt) refused(r *wire.Reply) {
	a.knows().Refused()
	if a.line != nil {
		a.line.Shared.free = false
	}
	if r.NotSetUp() {
		a.knows().NotSetUp()
		a.tellUnset()
	}
	if a.Handle.Kind.Queues && !a.Single {
		a.grant.needsCleanup = true
	}
	a.grant.turns.Notify()
}

// proof is what shows that Redis made an attempt the holder.
type proof struct {
	token uint64
	sent  clock.Instant // not after Redis did it
	lease time.Duration // from then
	// micros is when Redis did it, or before that, by its own clock in Unix µs. Zero means that this is not known.
	micros int64
}

// grant makes a pending grant held, with its first acquisition. It fails if the lock cannot be relied on: then Redis has a
// holder that needs cleanup.
func (t *Table) grant(a *Attempt, g *Grant, p proof, now clock.Instant, n *Notices) (*Acquisition, error) {
	switch {
	case t.bars(a, now):
		g.needsCleanup = true
		return nil, nil
	case term.Late(p.sent, p.lease, now), t.forcedSince(a.Handle.Key, a.forcings, p.micros):
		g.needsCleanup = true
		return nil, fault.ErrLate
	}
	g.stage, g.micros, g.attempt = held, p.micros, nil
	if a.Handle.Kind.Tokens {
		g.token = p.token
	}
	if a.Watcher != nil {
		g.rarely().watcher = a.Watcher
	}
	a.keep(p.sent)
	t.counts.Held++
	t.counts.Acquired++
	g.needsCleanup = false // the holder in Redis is that of this grant
	g.streak = yield.Streak{Since: p.sent}
	g.streak.Begin(now)
	g.contested = a.place.Stands()
	if t.cfg.MaxHold > 0 {
		g.term.MaxHold = p.sent.Add(t.cfg.MaxHold)
	}
	t.list(g)
	if a.Handle.Kind.Side == wire.MainSide {
		t.exclusive[a.Handle.Key.Family].Add(a.Handle.Key.Name, g)
	}
	t.compareSorts(a.Handle, n)
	got := g.acquired(a)
	g.waited = a.knows().At(now, t.cfg.Floor()).Refused
	g.confirm(p.sent, p.lease, n)
	if a.line != nil && a.Handle.Kind.Side == wire.MainSide {
		a.line.Shared.known.RefusedUntil(g.term.Ends()) // for the attempts behind it
	} else if a.line != nil {
		a.line.Shared.known.Answered()
	}
	g.turns.End()
	if other := g.sibling(); other != nil && other.attempt != nil {
		other.attempt.bell.Ring() // it need not queue any more
	}
	return got, nil
}

// compareSorts warns if a name is granted without a token although it was granted with one before. Readers write nothing, so
// they need no token.
func (t *Table) compareSorts(h *Handle, n *Notices) {
	switch k := h.Kind; {
	case k.Tokens:
		if _, ok := t.fenced.Of(h.Key); !ok {
			t.fenced.Set(h.Key, false)
		}
	case k.Side == wire.MainSide:
		if logged, ok := t.fenced.Of(h.Key); ok && !logged {
			t.fenced.Set(h.Key, true)
			n.Log(h.Name, notice.LogUnfenced, nil)
		}
	}
}

// reenter returns the step that shows Redis one more acquisition of a grant.
func (t *Table) reenter(a *Attempt, now clock.Instant) Step {
	g := a.grant
	g.sending(a.Lease, now)
	a.phase, a.sent = counting, now
	s := Step{Do: Ask, Slot: true, Call: g.inRedis().Count(g.handle.Names(), g.open()+1, a.Lease)}
	s.Free, s.Within = a.asks(now)
	return s
}

// settleCount takes the reply of a re-entry.
func (t *Table) settleCount(a *Attempt, r wire.Reply, now clock.Instant, n *Notices) Step {
	g := a.grant
	if t.spared(a, r, now) {
		a.asked = false
		return t.reenter(a, now)
	}
	defer g.turns.End()
	if r.Err == nil && r.N != 0 && g.usable(now) && term.Late(a.sent, a.Lease, now) && g.term.Deadline.Sub(now) < term.Least(a.Lease) {
		r.Err = errLateCount
	}
	switch {
	case t.closed:
		return a.finish(fault.ErrClosed)
	case r.Err != nil && (r.Err.Fate == fault.Left && !r.Err.TimedOut() || errors.Is(r.Err, fault.ErrNotSent) && ended(a.Wait)):
		a.unsent(r.Err)
		t.conclude(a, now) // nobody answered, or nothing was tried
		return a.finish(nil)
	case r.Err != nil && !a.Single && r.Err.Transient:
		a.known.Failed(r.Err)
		if ended(a.Wait) || a.overdue(now) {
			t.conclude(a, now)
			return a.finish(nil)
		}
		a.phase, a.grant = claiming, nil
		return Step{Do: Sleep, Pause: t.retryPause(a)}
	case r.Err != nil:
		return a.finish(r.Err)
	case r.N == 0 && g.stage == held:
		t.lose(g, errHolderGone, now, n)
	case g.usable(now) && t.bars(a, now): // the others have leaked meanwhile
		return a.finish(fault.ErrClosed)
	case g.usable(now):
		got := g.acquired(a)
		g.confirm(a.sent, a.Lease, n)
		return t.succeed(a, got, n)
	}
	return a.finish(fault.ErrLost)
}

// errLateCount is the error of a re-entry that Redis replied to when little of the lease was left. It is repeated, as after no
// reply: that changes nothing but the lease.
var errLateCount = &fault.Error{Transient: true, Err: fault.ErrLate}

// tellUnset wakes the attempts in the local queue whose callers set the semaphore up, so that they do. The caller of this one does
// not, and they would wait behind it in vain.
func (a *Attempt) tellUnset() {
	if a.SetsUp || a.line == nil {
		return
	}
	for _, other := range a.line.All() {
		if other.SetsUp {
			other.unset = true
			other.bell.Ring()
		}
	}
}

// Known returns what an attempt under way would say if it ended now.
func (t *Table) Known(a *Attempt, now clock.Instant) outcome.Result {
	defer t.lock().Unlock()
	if a.phase == done {
		return a.Last
	}
	return t.concludes(a, now)
}
