package table

import (
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
)

// The reasons for losing a lock.
var (
	errLeaseEnded = fmt.Errorf("%w: its lease ended", fault.ErrLost)
	errHolderGone = fmt.Errorf("%w: its holder is gone from Redis", fault.ErrLost)
	errForced     = fmt.Errorf("%w: it was unlocked by force", fault.ErrLost)
	errMaxHold    = fmt.Errorf("%w: it was held longer than WithMaxHold allows", fault.ErrLost)

	errOverwritten = fmt.Errorf("%w: a key of it has a value that is not a lock's", fault.ErrLost)
)

// expire ends the grant for its users at its local deadline. Redis may have the holder a little longer, so an unlock may
// still find it.
func (t *Table) expire(g *Grant, n *Notices) {
	g.endAcquisitions(errLeaseEnded, n)
	t.settleOver(g)
	t.counts.lost(g)
	t.counts.leave(g.stage)
	g.stage = expired
	t.plan(g, n)
	g.turns.Notify() // an unlock that waits for its turn returns now
}

// lose ends the grant for its users and here.
func (t *Table) lose(g *Grant, why error, now clock.Instant, n *Notices) {
	g.rarely().loss = Loss{Early: !g.term.Past(now), Since: g.term.Confirmed, Final: errors.Is(why, errMaxHold) || errors.Is(why, errForced)}
	g.rarely().lost = why
	g.endAcquisitions(why, n)
	t.settleOver(g)
	t.counts.lost(g)
	for i := range g.open() {
		a := g.at(i)
		switch {
		case a.closed:
			a.handle.unlocks.Forget(a)
		case !a.byHold:
			a.handle.unlocks.Lose(a)
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
// lease need not be logged, because Lease asked for it. A group logs its own loss instead of that of a member.
func (g *Grant) endAcquisitions(why error, n *Notices) {
	loud := false
	end := func(a *Acquisition) {
		ended := a.ending.End(lossOf(a.handle, why), n)
		loud = loud || ended && !a.quiet
	}
	for i := range g.open() {
		end(g.at(i))
	}
	for _, a := range g.leaked() {
		end(a)
	}
	if loud && g.renewing() && errors.Is(why, fault.ErrLost) {
		n.Warn(g.handle.Name, LogLost, lossOf(g.handle, why))
	}
}

// whyLost returns why a grant was lost.
func (g *Grant) whyLost() error {
	if g.rare == nil || g.rare.lost == nil {
		return errLeaseEnded
	}
	return g.rare.lost
}
