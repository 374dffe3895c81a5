package table

import (
	"errors"
	"slices"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/observe"
)

// Forced ends every grant that this client has of a name, after an unlock by force. A grant that Redis made between that
// unlock and this moment is ended with the others, and released. An acquisition whose reply is still on its way is not
// relied on, because Redis may have granted it before. micros is when Redis unlocked it, by its clock in Unix µs: what it is
// known to have granted since is not concerned. Zero means that this is not known.
func (t *Table) Forced(k Key, micros int64, now clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	t.noteForced(k, micros)
	for _, g := range slices.Clone(t.heap.All()) { // it has every grant that is held
		if g.handle.Key == k && (g.stage == held || g.stage == expired) && (micros == 0 || g.micros < micros) {
			t.lose(g, errForced, now, n)
		}
	}
}

func (t *Table) noteForced(k Key, micros int64) {
	t.forcings++
	switch last, ok := t.forced.Of(k); {
	case ok && (last.micros == 0 || micros == 0):
		micros = 0
	case ok:
		micros = max(micros, last.micros)
	}
	t.forced.Set(k, lastForce{t.forcings, micros})
}

// forcedSince reports whether a name may have been unlocked by force since there were so many unlocks by force, and later than a moment
// of Redis. Zero means any moment.
func (t *Table) forcedSince(k Key, forcings int, micros int64) bool {
	if t.forcings == forcings {
		return false
	}
	last, ok := t.forced.Of(k)
	return t.forced.Forgotten().count > forcings ||
		ok && last.count > forcings && (micros == 0 || last.micros == 0 || last.micros > micros)
}

// loseIfPast loses a grant that is past its deadline, so that its release goes out now.
func (t *Table) loseIfPast(g *Grant, now clock.Instant, n *notice.List) {
	if (g.stage == held || g.stage == expired) && g.term.Past(now) {
		t.lose(g, errLeaseEnded, now, n)
	}
}

// expire ends the grant for its users at its local deadline. Redis may have the holder a little longer, so an unlock may
// still find it.
func (t *Table) expire(g *Grant, n *notice.List) {
	g.endAcquisitions(errLeaseEnded, n)
	t.over(g, g.term.Deadline, errLeaseEnded, n)
	t.allUnlocked(g)
	t.counts.lost(g)
	t.counts.leave(g.stage)
	g.stage = expired
	t.plan(g, n)
	g.turns.Notify() // an unlock that waits for its turn returns now
}

// lostBy returns the loss of the grant that is found at a moment.
func (g *Grant) lostBy(now clock.Instant) lease.Loss {
	return lease.Loss{Early: !g.term.Past(now), Since: g.term.Confirmed}
}

// lose ends the grant for its users and here.
func (t *Table) lose(g *Grant, why error, now clock.Instant, n *notice.List) {
	g.rarely().loss = g.lostBy(now)
	g.rarely().lost = why
	g.endAcquisitions(why, n)
	at := now
	if errors.Is(why, errLeaseEnded) {
		at = min(now, g.term.Deadline)
	}
	t.over(g, at, why, n)
	t.allUnlocked(g)
	t.counts.lost(g)
	for i := range g.open() {
		if a := g.at(i); a.closed.Load() {
			a.handle.unlocks.Forget(a)
		}
	}
	g.attach()
	// Redis may still have a part of the holder: the field of a read hold, or some of several permits.
	if !errors.Is(why, errHolderGone) || g.handle.Kind.Remnants {
		g.needsCleanup = true
	}
	t.retire(g, now, n)
}

// endAcquisitions ends all acquisitions for their users. It logs a loss once, even if the users are told. The end of a fixed
// lease need not be logged, because Lease asked for it.
func (g *Grant) endAcquisitions(why error, n *notice.List) {
	loud := false
	end := func(a *Acquisition) {
		ended := a.ending.End(lossOf(a.handle, why), n)
		loud = loud || ended
	}
	for i := range g.open() {
		end(g.at(i))
	}
	if loud && g.renewing() && errors.Is(why, fault.ErrLost) {
		n.Report(observe.EventLost, g.handle.Name, notice.LogLost, lossOf(g.handle, why))
	}
}

// over tells the one who observes a grant, if anybody does and has not been told, that the hold has been over since a moment. A
// nil err means that it was unlocked.
func (t *Table) over(g *Grant, at clock.Instant, why error, n *notice.List) {
	if g.rare == nil || g.rare.witness == nil {
		return
	}
	how := EndOf(why)
	if why != nil {
		why = lossOf(g.handle, why)
	}
	n.Ended(g.rare.witness, at, how, why)
	g.rare.witness = nil
}

// EndOf returns how a hold ended for a reason. Nil means that it was unlocked.
func EndOf(why error) observe.End {
	switch {
	case why == nil, errors.Is(why, fault.ErrUnlockedAlready):
		return observe.EndUnlocked
	case errors.Is(why, fault.ErrClosed):
		return observe.EndClosed
	case errors.Is(why, errLeaseEnded):
		return observe.EndLeaseEnded
	case errors.Is(why, errForced):
		return observe.EndForced
	case errors.Is(why, errMaxHold):
		return observe.EndTooLong
	case errors.Is(why, errOverwritten):
		return observe.EndOverwritten
	}
	return observe.EndGone
}

// whyLost returns why a grant was lost.
func (g *Grant) whyLost() error {
	if g.rare == nil || g.rare.lost == nil {
		return errLeaseEnded
	}
	return g.rare.lost
}

// lost counts a grant that was lost, once.
func (c *Counts) lost(g *Grant) {
	if !g.lost {
		g.lost = true
		c.Losses++
	}
}
