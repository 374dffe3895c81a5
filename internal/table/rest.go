package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
)

// rest returns the step that sleeps until there is a reason to ask again. The first one listens: its confirmation wakes
// the attempt, so that it asks once more, when no release can be missed any longer.
func (t *Table) rest(a *Attempt, pause time.Duration, n *notice.List) Step {
	if a.got != nil { // the lock was granted to it meanwhile
		return t.succeed(a, a.got, n)
	}
	a.phase = resting
	t.noteHere(a)
	s := a.sleep(pause)
	a.way = t.wayOf(a)
	channel := a.way.channel(a)
	if channel == "" { // a polling waiter keeps its pace
		s.Wait = nil
		return s
	}
	heard := &a.heard
	if a.queue != nil {
		heard = &a.queue.Shared.heard
	}
	if heard.Channel != channel {
		n.Unlisten(heard)
	}
	if heard.On(channel) {
		s.Listen, s.Since = channel, a.place.Epoch
		if names := a.Handle.Names(); channel == names.Own() {
			s.Spares = names.Base()
			t.noteOrigin(channel, a.Handle)
		}
	}
	s.Heard = heard.Heard
	return s
}

// noteHere notes, for those who observe an attempt that begins to wait, whether another owner of this process has the lock.
func (t *Table) noteHere(a *Attempt) {
	h := t.holder(a.Handle.Key)
	a.Seen.Here = a.Seen.Here || h != nil && !h.sameOwner(a.grant)
}

// succeed ends an attempt with what was acquired, or handed over.
func (t *Table) succeed(a *Attempt, got *Acquisition, n *notice.List) Step {
	t.leaveQueue(a, n)
	a.phase = done
	return Step{Do: Done, Got: got}
}

// giveUp ends an attempt and its grant. If a command of the attempt may have taken the lock, or may still take it, a
// background release follows.
func (t *Table) giveUp(a *Attempt, err error, now clock.Instant, n *notice.List) Step {
	g := a.grant
	if h := t.rival(g, now); h != nil && h.stage == held {
		a.Seen.Here = true
		a.HeldFor = now.Sub(h.streak.began())
	}
	if err == nil {
		err = t.barred(a, now)
	}
	t.leaveQueue(a, n)
	a.Last = t.concludes(a, now)
	t.retire(g, now, n)
	g.turns.End()
	return a.finish(err)
}

// replace gives up a grant that was made too late to rely on, and goes on with a new one.
func (t *Table) replace(a *Attempt, why error, now clock.Instant, n *notice.List) Step {
	a.knows().Failed(why)
	t.forgetPlace(a)
	old := a.grant
	a.keepSeat()
	t.retire(old, now, n)
	old.turns.End()
	t.newGrant(a)
	return t.rest(a, t.retryPause(a), n)
}

func (t *Table) ask(a *Attempt, next phase, now clock.Instant, n *notice.List) Step {
	t.choose(a, now)
	return t.question(a, next, now, n)
}

func (t *Table) question(a *Attempt, next phase, now clock.Instant, n *notice.List) Step {
	g := a.grant
	if a.Handle.Kind.NoUpgrade && a.owner != nil && a.sibling().usable(now) {
		return t.giveUp(a, fault.ErrUpgrade, now, n)
	}
	g.sending(a.Lease, now)
	a.phase, a.sent, a.forcings = next, now, t.forcings
	s := Step{Do: Ask, Slot: true, Acked: true, Late: g}
	s.Outlives, s.Within = a.asks(now)
	if a.queue != nil {
		a.question, s.Number = t.sections, t.sections
	}
	var most time.Duration
	if s.Call, most = a.way.question(t, a, next, now); most > 0 && (s.Within == 0 || s.Within > most) {
		s.Within = most
	}
	return s
}

// giveBack ends an attempt that must not have the lock any more that was handed to it. A background release follows.
func (t *Table) giveBack(a *Attempt, now clock.Instant, n *notice.List) Step {
	got, g := a.got, a.grant
	a.got = nil
	got.closed.Store(true)
	got.handle.unlocks.Forget(got)
	got.ending.End(fault.ErrClosed, n)
	t.unlocked(got)
	t.loseIfPast(g, now, n) // another call of the owner may have re-entered it
	g.forgetLost()
	if g.stage != held && g.stage != expired {
		t.leaveQueue(a, n)
		a.Last = t.concludes(a, now)
		return a.finish(t.barred(a, now))
	}
	for g.open() > 0 {
		g.close(g.at(0))
	}
	g.needsCleanup = true
	return t.giveUp(a, nil, now, n)
}
