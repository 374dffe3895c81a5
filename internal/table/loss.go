package table

import (
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
)

// The reasons for losing a lock.
var (
	errLeaseEnded = fmt.Errorf("%w: its lease ended", fault.ErrLost)
	errHolderGone = fmt.Errorf("%w: its holder is gone from Redis", fault.ErrLost)
	errForced     = fmt.Errorf("%w: it was unlocked by force", fault.ErrLost)
	errStillLost  = fmt.Errorf("%w before, and its owner has to unlock it first", fault.ErrLost)
	errMaxHold    = fmt.Errorf("%w: it was held longer than WithMaxHold allows", fault.ErrLost)

	errOverwritten = fmt.Errorf("%w: a key of it has a value that is not a lock's", fault.ErrLost)
)

// expire ends the grant for its users at its local deadline. Redis may have the holder a little longer, so an unlock may
// still find it.
func (t *Table) expire(g *Grant, n *notice.List) {
	g.endAcquisitions(errLeaseEnded, n)
	t.over(g, g.term.Deadline, errLeaseEnded, n)
	t.settleOver(g)
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
	g.rarely().loss.Final = errors.Is(why, errMaxHold) || errors.Is(why, errForced)
	g.rarely().lost = why
	g.endAcquisitions(why, n)
	at := now
	if errors.Is(why, errLeaseEnded) {
		at = min(now, g.term.Deadline)
	}
	t.over(g, at, why, n)
	t.settleOver(g)
	t.counts.lost(g)
	for i := range g.open() {
		a := g.at(i)
		switch {
		case a.closed.Load():
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
func (g *Grant) endAcquisitions(why error, n *notice.List) {
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
		n.Report(notice.Lost, g.handle.Name, notice.LogLost, lossOf(g.handle, why))
	}
}

// over tells the one who observes a grant, if anybody does and has not been told, that the hold has been over since a moment. A
// nil err means that it was unlocked.
func (t *Table) over(g *Grant, at clock.Instant, why error, n *notice.List) {
	if g.rare == nil || g.rare.watcher == nil {
		return
	}
	how := EndOf(why)
	if why != nil {
		why = lossOf(g.handle, why)
	}
	n.Ended(g.rare.watcher, at, how, why)
	g.rare.watcher = nil
}

// EndOf returns how a hold ended for a reason. Nil means that it was unlocked.
func EndOf(why error) notice.End {
	switch {
	case why == nil:
		return notice.Unlocked
	case errors.Is(why, fault.ErrClosed):
		return notice.Closed
	case errors.Is(why, fault.ErrUnlockedAlready):
		return notice.Abandoned
	case errors.Is(why, errLeaseEnded):
		return notice.LeaseEnded
	case errors.Is(why, errForced):
		return notice.Forced
	case errors.Is(why, errMaxHold):
		return notice.TooLong
	case errors.Is(why, errOverwritten):
		return notice.Overwritten
	}
	return notice.Gone
}

// whyLost returns why a grant was lost.
func (g *Grant) whyLost() error {
	if g.rare == nil || g.rare.lost == nil {
		return errLeaseEnded
	}
	return g.rare.lost
}
