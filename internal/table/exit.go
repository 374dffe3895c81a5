package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// Unlock begins the unlock of the owner's latest acquisition, made through any handle. Without an owner, it is an
// acquisition made through this handle. It never is another caller's, even if that is the only one.
func (t *Table) Unlock(x *Exit, h *Handle, w owner.Who, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	a := h.toUnlock(w, now)
	if a == nil {
		return x.finish(fault.ErrNotLocked)
	}
	return t.begin(x, a, now, n)
}

// Release begins the unlock of this acquisition, for its hold. Background releases come from [Table.Due].
func (t *Table) Release(x *Exit, a *Acquisition, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	if a.closed.Load() {
		if why := a.ending.Err(); errors.Is(why, fault.ErrExported) {
			return x.finish(why)
		}
		return x.finish(fault.ErrUnlockedAlready)
	}
	return t.begin(x, a, now, n)
}

// begin begins an unlock. An unlock past the deadline has no question for Redis: the hold is lost, and nobody can say since
// when. It does not wait for its turn either, behind an operation that Redis does not answer.
func (t *Table) begin(x *Exit, a *Acquisition, now clock.Instant, n *notice.List) Step {
	g := a.grant
	x.grant, x.acq = g, a
	t.loseIfPast(g, now, n)
	a.closed.Store(true)
	if g.over() {
		return t.endLost(x)
	}
	a.ending.End(fault.ErrUnlockedAlready, n)
	g.turns.Announce()
	return t.turn(x, now, n)
}

// ResumeRelease continues an exit after a Sleep, and begins an exit that [Table.Due] returned.
func (t *Table) ResumeRelease(x *Exit, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	switch {
	case x.phase == turning && x.ticket != nil:
		return t.exportTurn(x, now, n)
	case x.phase == turning:
		return t.turn(x, now, n)
	case x.phase == pausing && x.ticket != nil:
		return t.export(x, now)
	case x.phase == pausing:
		return t.free(x, now)
	default:
		return x.finish(errUndefined)
	}
}

// turn waits for its turn among the owner's operations, and then takes the next step of the unlock.
func (t *Table) turn(x *Exit, now clock.Instant, n *notice.List) Step {
	g, a := x.grant, x.acq
	t.loseIfPast(g, now, n)
	switch {
	case g.over():
		g.turns.Withdraw()
		return t.endLost(x)
	case !g.turns.BeginAnnounced():
		return g.awaitTurn(-1)
	}
	g.drop(a)
	a.handle.unlocks.Forget(a)
	if g.open() > 0 {
		t.plan(g, n)
		x.phase = showing
		remaining := max(g.term.Ends().Sub(now), time.Millisecond)
		return Step{Do: Ask, Call: g.inRedis().Count(g.handle.Names(), g.open(), remaining)}
	}
	x.start = now
	next := t.nextHolder(g, now)
	if t.parks(g, now) {
		next = nil
	}
	inTurn := next != nil && g.lineTerm() == 0 && !g.streak.over(t.cfg.HandOvers, t.cfg.HandOverTime, now)
	t.quit(g)
	switch {
	case inTurn && (!t.lined(g.handle) || !g.atEnd(next)):
		return t.handOver(x, next, now)
	case next != nil && t.lined(g.handle) && t.firstTerm(next) != wire.Woken:
		x.next = next
	}
	return t.free(x, now)
}

// SettleRelease takes the reply to the exit's call.
func (t *Table) SettleRelease(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	switch {
	case x.phase == showing:
		return t.onPartReply(x, r, now, n)
	case x.phase == handing:
		return t.onHandOverReply(x, r, now, n)
	case x.phase == exporting:
		return t.onExportReply(x, r, now, n)
	case x.phase == freeing && x.background:
		return t.onCleanUpReply(x, r, now, n)
	case x.phase == freeing:
		return t.onReleaseReply(x, r, now, n)
	}
	return x.finish(errUndefined)
}

// onPartReply takes the reply of a partial release. The count that matters is that of this process, so a failure to show it
// does not concern the unlock. It does after the lease has ended, because only Redis then has the answer.
func (t *Table) onPartReply(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := x.grant
	switch {
	case r.Err == nil && r.N == 0 && (g.stage == held || g.stage == expired):
		t.lose(g, errHolderGone, now, n)
	case r.Err == nil && r.N == 1, r.Err != nil && g.usable(now):
		return t.endPart(x, nil)
	}
	return t.endPart(x, lossOf(x.acq.handle, g.whyLost()))
}

func (t *Table) onReleaseReply(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
	pause := t.cfg.Retry(x.retries + 1)
	t.replied(x, r, now, n)
	switch {
	case r.Err == nil:
		t.noteRelease(x, r.N, now)
		switch {
		case r.N > 0 || x.doubt && !x.parks:
			return t.endRelease(x, nil, now, n)
		case x.doubt: // it was not parked, or is not any more
			return t.endSilent(x, fault.Unavailable(fault.ErrNoAnswer), now, n)
		}
		return t.endGone(x, errHolderGone, now, n)
	case r.Err.WrongType():
		return t.endGone(x, fmt.Errorf("%w (%w)", errOverwritten, r.Err), now, n)
	case !r.Err.Transient, now.Sub(x.start)+pause >= t.cfg.CommandTimeout:
		return t.endSilent(x, r.Err, now, n)
	}
	x.doubt = x.doubt || r.Err.InDoubt() || r.Err.Fate == fault.Partial
	x.narrow = r.Err.Code == "TRYAGAIN" // while a slot moves, a script with one key may still run
	x.retries++
	x.phase = pausing
	return Step{Do: Sleep, Pause: pause}
}

// onCleanUpReply takes the reply of a background release, and plans the next one if it failed.
func (t *Table) onCleanUpReply(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := x.grant
	t.replied(x, r, now, n)
	answered := r.Err == nil || r.Err.WrongType()
	if answered && x.parks && g.leavesMore() {
		g.rare.park = nil
		t.schedule(g, now, n)
		return x.finish(nil)
	}
	if !answered && now <= g.rarely().giveUpAt {
		t.schedule(g, now.Add(t.cfg.Retry(g.fail())), n)
		return x.finish(nil)
	}
	if !answered {
		n.Log(g.handle.Name, notice.LogNotReleased, g.handle.Of(r.Err))
	}
	t.finish(g)
	t.tasks.End()
	return x.finish(nil)
}

// parks decides whether the last unlock of a grant parks the lock, which has to stay taken for some time: its holder in Redis becomes a
// number that nobody has. Nothing renews that, and no owner can lose it, so the lock is free when the time is over.
func (t *Table) parks(g *Grant, now clock.Instant) bool {
	if g.rare == nil || g.rare.keep <= now {
		return false
	}
	t.number++
	park := wire.NewHolder(g.handle.Kind, g.handle.Names(), t.cfg.ClientID, t.number)
	g.rare.park = &park
	return true
}
