package table

import (
	"errors"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/observe"
)

// ending is what an observer of an attempt is told.
type ending struct {
	world *world
	times int
	how   observe.End
}

// Ended implements [notice.Witness].
func (e *ending) Ended(at clock.Instant, how observe.End, why error) {
	e.times++
	e.how = how
	lost := how != observe.EndUnlocked && how != observe.EndClosed
	switch {
	case e.times > 1:
		e.world.failf("Observed: the end of a hold is told twice")
	case (how == observe.EndUnlocked) != (why == nil), lost != errors.Is(why, fault.ErrLost):
		e.world.failf("Observed: end %s because of %v", how, why)
	case at > e.world.now:
		e.world.failf("Observed: a hold ends in the future")
	}
}

// checkObserved checks that the end of each hold is told once, when it is over, and not before. A hold of a closed
// client is told before it is unlocked.
func (w *world) checkObserved() {
	for _, r := range w.records {
		g := r.acq.grant
		if r.acq.Reentered() {
			continue
		}
		over := g.stage == expired || g.over() || g.stage == held && r.proc.table.closed
		switch {
		case over && r.seen.times == 0:
			w.failf("Observed: nobody is told that #%d is over, at stage %d", g.holder.Number, g.stage)
		case !over && r.seen.times != 0 && r.seen.how != observe.EndClosed:
			w.failf("Observed: #%d is told to be over (%s), at stage %d", g.holder.Number, r.seen.how, g.stage)
		}
	}
}
