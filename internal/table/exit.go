package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
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
	start      clock.Instant // of the release
	inside     bool          // it began before the deadline
	doubt      bool          // because of what was sent before, Redis may not have the holder any more
	retries    int
	mark       yield.Mark // when it was sent

	next      *Attempt // to which the lock is being handed over
	nextGrant *Grant
}

// exitPhase is the position of an exit.
type exitPhase uint8

const (
	turning exitPhase = iota // waits until the owner's other operations on the grant are over
	showing                  // shows Redis one acquisition less
	handing                  // hands the lock over
	freeing                  // frees the lock
	pausing                  // before it tries to free the lock again
	released
)

// Unlock begins the unlock of the owner's latest acquisition, made through any handle. Without an owner, it is an
// acquisition made through this handle.
func (t *Table) Unlock(x *Exit, h *Handle, o *Owner, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	if o != nil {
		return t.begin(x, h.latest(o), now, n)
	}
	return t.begin(x, h.soonest(), now, n)
}

// Release begins the unlock of one acquisition.
func (t *Table) Release(x *Exit, a *Acquisition, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	return t.begin(x, a, now, n)
}

func (t *Table) begin(x *Exit, a *Acquisition, now clock.Instant, n *Notices) Step {
	if a == nil || a.closed {
		return x.finish(fault.ErrNotHeld)
	}
	a.closed = true
	a.ending.End(fault.ErrNotHeld, n)
	x.grant, x.acq = a.grant, a
	a.grant.turns.Announce()
	return t.turn(x, now, n)
}

// ResumeRelease continues an exit after a Sleep, and begins an exit that [Table.Due] returned.
func (t *Table) ResumeRelease(x *Exit, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	switch x.phase {
	case turning:
		return t.turn(x, now, n)
	case pausing:
		return t.free(x)
	default:
		return x.finish(errUndefined)
	}
}

// turn waits for its turn among the owner's operations, and then takes the next step of the unlock.
func (t *Table) turn(x *Exit, now clock.Instant, n *Notices) Step {
	g, a := x.grant, x.acq
	if !g.turns.BeginAnnounced() {
		return g.awaitTurn(-1)
	}
	g.drop(a)
	a.handle.unlocks.Forget(a)
	switch {
	case g.stage == retiring || g.stage == retired:
		g.settleLost()
		if why := a.ending.Err(); errors.Is(why, fault.ErrLost) {
			return t.endPart(x, why)
		}
		return t.endPart(x, fault.ErrLost)
	case len(g.acquisitions) > 0:
		t.plan(g, n)
		x.phase = showing
		remaining := max(g.term.Ends().Sub(now), time.Millisecond)
		return Step{Do: Ask, Call: g.holder.Count(g.handle.Names(), len(g.acquisitions), remaining)}
	}
	for _, leaked := range g.leaked() {
		leaked.ending.End(fault.ErrNotHeld, n)
	}
	x.start, x.inside = now, !g.term.Past(now)
	next := t.nextHolder(g, now)
	if next != nil && t.pass(x, next, now, n) {
		return t.endRelease(x, nil)
	}
	t.counts.leave(g.stage)
	g.stage = releasing
	t.heap.Remove(g)
	if next != nil {
		return t.handOver(x, next, now)
	}
	return t.free(x)
}

// free returns the step that frees the lock.
func (t *Table) free(x *Exit) Step {
	g := x.grant
	names := g.handle.Names()
	x.phase = freeing
	x.mark.Messages, x.mark.Subscribed = t.messages.Heard(names.Channel)
	return Step{Do: Ask, Slot: x.background, Call: g.holder.Release(names, g.tombstone(), t.cfg.FairWait)}
}

// SettleRelease takes the reply to the exit's call.
func (t *Table) SettleRelease(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	switch {
	case x.phase == showing:
		return t.settlePart(x, r, now, n)
	case x.phase == handing:
		return t.settleHandOver(x, r, now, n)
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
		t.lose(g, errHolderGone, true, now, n)
	case r.Err == nil && r.N == 1, r.Err != nil && g.usable(now):
		return t.endPart(x, nil)
	}
	return t.endPart(x, fault.ErrLost)
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
	switch {
	case r.Err == nil:
		t.noteRelease(x, r.N, now)
		if r.N > 0 || x.doubt && x.inside {
			return t.endRelease(x, nil)
		}
		return t.endRelease(x, errHolderGone)
	case r.Err.WrongType():
		return t.endRelease(x, fmt.Errorf("%w: %w", fault.ErrLost, r.Err))
	case !r.Err.Transient, now.Sub(x.start)+pause >= t.cfg.CommandTimeout:
		return t.endSilent(x, r.Err, now, n)
	}
	x.doubt = x.doubt || r.Err.InDoubt() || r.Err.Fate == fault.Partial
	x.retries++
	x.phase = pausing
	return Step{Do: Sleep, Pause: pause}
}

// noteRelease remembers a release of which other processes got a message.
func (t *Table) noteRelease(x *Exit, freed int64, now clock.Instant) {
	g := x.grant
	others, own := x.mark.After(freed-1, g.handle.Kind.Messages)
	if freed > 0 && t.cfg.Cluster && g.handle.Kind.Channel != "" {
		others = max(others, 1) // Redis does not count the receivers at other nodes
	}
	if others > 0 && t.holder(g.handle.Key) == g {
		t.public.Add(yield.Release[Key]{Key: g.handle.Key, At: now, Turn: now.Sub(g.streak.Since), Others: others, Own: own})
	}
}

// endRelease ends an exit and its grant, after a reply to the release.
func (t *Table) endRelease(x *Exit, err error) Step {
	if err != nil {
		t.counts.lost(x.grant)
	}
	t.unregister(x.grant)
	t.finish(x.grant)
	return t.endPart(x, err)
}

// endSilent ends an exit whose release failed or had no reply. Its grant is over nevertheless, and the release goes on in
// the background.
func (t *Table) endSilent(x *Exit, err error, now clock.Instant, n *Notices) Step {
	t.unregister(x.grant)
	t.cleanUp(x.grant, now, n)
	return t.endPart(x, err)
}

// settleCleanUp takes the reply of a background release, and plans the next one if it failed.
func (t *Table) settleCleanUp(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	g := x.grant
	settled := r.Err == nil || r.Err.WrongType()
	if !settled && now <= g.rarely().giveUpAt {
		g.failures++
		t.schedule(g, now.Add(t.cfg.Retry(int(g.failures))), n)
		return x.finish(nil)
	}
	if !settled {
		n.Warn(g.handle.Name, "lock could not be released; it is free when its lease ends", r.Err)
	}
	t.finish(g)
	t.tasks.End()
	return x.finish(nil)
}
