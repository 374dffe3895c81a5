package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// Exit is one unlock, or one background release. The zero value is ready for [Table.Unlock] or [Table.Release]. An exit that
// [Table.Due] returns is ready for [Table.ResumeRelease]. It is used by one goroutine at a time.
type Exit struct {
	// The table's mutex guards what follows.

	phase      exitPhase
	grant      *Grant
	acq        *Acquisition // nil for a background release
	background bool
	start      clock.Instant // of the release, which is before the deadline
	sent       clock.Instant // when the latest command was sent
	doubt      bool          // because of what was sent before, Redis may not have the holder any more
	retries    int
	mark       yield.Mark // when it was sent

	parks  bool // the latest call keeps the lock taken, by nobody
	narrow bool // it touches as few keys as possible
	byLine bool // the latest call was that of the line
	denied bool // Redis refused that call, because the user lacks a right

	// caller is that of an export: an error means that it is gone. Nil means that the exit does not depend on it.
	caller Ender
	ticket *Grant // to which the lock is exported, if anything; it is in no index

	next      *Attempt // to which the lock is being handed over, or which the release names
	nextGrant *Grant
}

// exitPhase is the position of an exit.
type exitPhase uint8

const (
	turning   exitPhase = iota // waits until the owner's other operations on the grant are over
	showing                    // shows Redis one acquisition less
	handing                    // hands the lock over
	freeing                    // frees the lock
	exporting                  // hands the lock over to a ticket
	pausing                    // before it tries to free or to export the lock again
	released
)

// Unlock begins the unlock of the owner's latest acquisition, made through any handle. Without an owner, it is an
// acquisition made through this handle. It never is another caller's, even if that is the only one.
func (t *Table) Unlock(x *Exit, h *Handle, w Who, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	a, o := h.toUnlock(w, now)
	if a == nil {
		return x.finish(t.notHeld(h, o))
	}
	if o != nil {
		h.unlockedBy = o
	}
	return t.begin(x, a, now, n)
}

// Release begins the unlock of one acquisition.
func (t *Table) Release(x *Exit, a *Acquisition, now clock.Instant, n *Notices) Step {
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
func (t *Table) begin(x *Exit, a *Acquisition, now clock.Instant, n *Notices) Step {
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

// loseIfPast loses a grant that is past its deadline, so that its release goes out now.
func (t *Table) loseIfPast(g *Grant, now clock.Instant, n *Notices) {
	if (g.stage == held || g.stage == expired) && g.term.Past(now) {
		t.lose(g, errLeaseEnded, now, n)
	}
}

// over reports whether a grant that was held is over here.
func (g *Grant) over() bool { return g.stage == retiring || g.stage == retired }

// endLost ends the unlock of an acquisition whose grant is over, without a turn.
func (t *Table) endLost(x *Exit) Step {
	g, a := x.grant, x.acq
	g.drop(a)
	a.handle.unlocks.Forget(a)
	g.settleLost()
	g.table.settle(a)
	if why := a.ending.Err(); errors.Is(why, fault.ErrLost) {
		return x.finish(why)
	}
	return x.finish(lossOf(a.handle, g.whyLost())) // it was ended before: by Close, or by an unlock that waited for its turn
}

// ResumeRelease continues an exit after a Sleep, and begins an exit that [Table.Due] returned.
func (t *Table) ResumeRelease(x *Exit, now clock.Instant, n *Notices) Step {
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
func (t *Table) turn(x *Exit, now clock.Instant, n *Notices) Step {
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
	g.endLeaked(n)
	x.start = now
	next := t.nextHolder(g, now)
	if t.parks(g, now) {
		next = nil
	}
	inTurn := next != nil && g.stood() == 0 && (!g.streak.Over(t.cfg.HandOvers, t.cfg.HandOverTime, now) || t.uncontested(g, next))
	if inTurn && t.pass(x, next, now, n) {
		return t.endRelease(x, nil, now, n)
	}
	t.quit(g)
	switch {
	case inTurn && (!t.lined(g.handle) || !g.atEnd(next)):
		return t.handOver(x, next, now)
	case next != nil && t.lined(g.handle) && t.term(next) != wire.Woken:
		x.next = next
	}
	return t.free(x, now)
}

// quit ends a hold whose last unlock, or export, begins.
func (t *Table) quit(g *Grant) {
	t.counts.leave(g.stage)
	g.stage = releasing
	t.heap.Remove(g)
}

// left returns for how long the next command of an exit may take, if it tried something before. Zero means the command timeout.
func (t *Table) left(x *Exit, now clock.Instant) time.Duration {
	if spent := now.Sub(x.start); spent > 0 && !x.background {
		return max(t.cfg.CommandTimeout-spent, time.Millisecond)
	}
	return 0
}

// free returns the step that frees the lock. An unlock has one command timeout in all, also if it tried something before.
func (t *Table) free(x *Exit, now clock.Instant) Step {
	g := x.grant
	within := t.left(x, now)
	x.phase, x.sent = freeing, now
	left := g.parkedFor(now)
	if x.parks = left > 0; x.parks {
		x.byLine = false
		return Step{Do: Ask, Slot: x.background, Within: within, Call: g.rare.park.Park(g.handle.Names(), g.inRedis(), left)}
	}
	if x.byLine = t.inLine(x); x.byLine {
		return Step{Do: Ask, Slot: x.background, Within: within, Call: t.give(x, now)}
	}
	names := g.handle.Names()
	x.mark.Messages, x.mark.Subscribed = t.messages.Heard(names.Channel)
	call := g.inRedis().Release(names, g.tombstone())
	if g.rare != nil && g.rare.seat != nil {
		call = g.inRedis().Leave(names, g.tombstone(), g.rare.seat)
	}
	return Step{Do: Ask, Slot: x.background, Within: within, Call: call}
}

// SettleRelease takes the reply to the exit's call.
func (t *Table) SettleRelease(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	if r.Repeated && r.Err == nil && !x.doubt && (r.N < 0 || r.N == 0 && x.phase == freeing) { // an earlier run may have released it
		r = wire.Reply{N: -1, Err: &fault.Error{Fate: fault.InDoubt, Transient: true, Err: fault.ErrNoAnswer}}
	}
	switch {
	case x.phase == showing:
		return t.settlePart(x, r, now, n)
	case x.phase == handing:
		return t.settleHandOver(x, r, now, n)
	case x.phase == exporting:
		return t.settleExport(x, r, now, n)
	case x.phase == freeing && x.background:
		return t.settleCleanUp(x, r, now, n)
	case x.phase == freeing:
		return t.settleFree(x, r, now, n)
	}
	return x.finish(errUndefined)
}

// settlePart takes the reply of a partial release. The count that matters is that of this process, so a failure to show it
// does not concern the unlock. It does after the lease has ended, because only Redis then has the answer.
func (t *Table) settlePart(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	g := x.grant
	switch {
	case r.Err == nil && r.N == 0 && (g.stage == held || g.stage == expired):
		t.lose(g, errHolderGone, now, n)
	case r.Err == nil && r.N == 1, r.Err != nil && g.usable(now):
		return t.endPart(x, nil)
	}
	return t.endPart(x, lossOf(x.acq.handle, g.whyLost()))
}

// endPart ends an exit that leaves the grant as it is.
func (t *Table) endPart(x *Exit, err error) Step {
	x.grant.turns.End()
	t.settle(x.acq)
	return x.finish(err)
}

func (x *Exit) finish(err error) Step {
	x.phase = released
	return Step{Do: Done, Err: err}
}

func (t *Table) settleFree(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	pause := t.cfg.Retry(x.retries + 1)
	t.replied(x, r, now, n)
	x.repeats(r.Err)
	switch {
	case t.refusesLine(x.grant.handle, x.byLine, r.Err, now, n):
		x.denied, x.doubt = true, true // the lock may have been freed before the command that Redis refused
		return t.free(x, now)
	case r.Err == nil:
		t.noteRelease(x, r.N, now)
		switch lasting := x.grant.handle.Kind.Lasting; {
		case lasting && r.N == 0 && !x.grant.inDoubt:
			n.Log(x.grant.handle.Name, notice.LogNotKnown, nil)
			return t.endRelease(x, nil, now, n)
		case lasting || r.N > 0 || x.doubt && !x.parks:
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

// replied takes what the reply to a release says about others. If the lock is parked, it says nothing.
func (t *Table) replied(x *Exit, r wire.Reply, now clock.Instant, n *Notices) {
	if !x.parks {
		t.gave(x, r, now, n)
		t.followUp(x, r, n)
	}
}

// repeats notes a release that failed, and that a receipt must tell apart from its repetition.
func (x *Exit) repeats(err *fault.Error) {
	if err != nil && x.grant.handle.Kind.Lasting && (err.InDoubt() || err.Fate == fault.Partial) {
		x.grant.inDoubt = true
	}
}

// noteRelease remembers a release of which other processes got a message.
func (t *Table) noteRelease(x *Exit, freed int64, now clock.Instant) {
	g := x.grant
	others, own := x.mark.After(freed-1, g.handle.Kind.Messages)
	if freed > 0 && t.cfg.Cluster && g.handle.Kind.Channel != "" {
		others = max(others, 1) // Redis does not count the receivers at other nodes
	}
	if others > 0 && !x.parks && t.holder(g.handle.Key) == g {
		t.public.Set(g.handle.Key, yield.Release{At: now, Turn: now.Sub(g.streak.Since), Others: others, Own: own})
	}
}

// endRelease ends an exit and its grant, after a reply to the release.
func (t *Table) endRelease(x *Exit, err error, now clock.Instant, n *Notices) Step {
	if err != nil {
		t.counts.lost(x.grant)
	}
	t.over(x.grant, x.start, err, n)
	t.unregister(x.grant)
	if (x.parks || x.ticket != nil) && x.grant.leavesMore() {
		x.grant.rarely().park = nil
		t.cleanUp(x.grant, now, n)
	} else {
		t.finish(x.grant)
	}
	return t.endPart(x, err)
}

// endGone ends an exit whose release found that the lock was lost before.
func (t *Table) endGone(x *Exit, why error, now clock.Instant, n *Notices) Step {
	if x.acq.renewal > 0 {
		n.Report(notice.Lost, x.grant.handle.Name, notice.LogLost, lossOf(x.grant.handle, why))
	}
	x.grant.rarely().loss = x.grant.lostBy(x.sent) // the reply may come after the deadline, and yet it was gone before
	return t.endRelease(x, why, now, n)
}

// endSilent ends an exit whose release failed or had no reply. Its grant is over nevertheless, and the release goes on in
// the background.
func (t *Table) endSilent(x *Exit, err error, now clock.Instant, n *Notices) Step {
	t.over(x.grant, x.start, nil, n)
	t.unregister(x.grant)
	t.cleanUp(x.grant, now, n)
	return t.endPart(x, err)
}

// settleCleanUp takes the reply of a background release, and plans the next one if it failed.
func (t *Table) settleCleanUp(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	g := x.grant
	t.replied(x, r, now, n)
	x.repeats(r.Err)
	if t.refusesLine(g.handle, x.byLine, r.Err, now, n) {
		x.denied = true
		return t.free(x, now)
	}
	settled := r.Err == nil || r.Err.WrongType()
	if settled && x.parks && g.leavesMore() {
		g.rare.park = nil
		t.schedule(g, now, n)
		return x.finish(nil)
	}
	if !settled && now <= g.rarely().giveUpAt {
		t.schedule(g, now.Add(t.cfg.Retry(g.fail())), n)
		return x.finish(nil)
	}
	if !settled {
		message := notice.LogNotReleased
		if g.handle.Kind.Lasting {
			message = notice.LogNotGivenBack
		}
		n.Log(g.handle.Name, message, g.handle.Of(r.Err))
	}
	t.finish(g)
	t.tasks.End()
	return x.finish(nil)
}
