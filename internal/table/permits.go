package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// Permits have several holders at a time, and these may release together. So several hand-overs may be under way, each to the first
// attempt that has been given nothing yet. It may stand in the line: the script takes it out of there. The reply says how many permits
// are free, and who else waits. While nobody else does, permits stay in the process for as long as they are wanted there.

// contender returns the attempt of a local queue that contends. Nil means that none does. An attempt for permits that is handed some
// does so no more, though it is still in the queue: other permits may be free.
func contender(l *line) *Attempt {
	for _, a := range l.All() {
		if !a.Handle.Kind.Counted() || !a.handing && a.got == nil {
			return a
		}
	}
	return nil
}

// firstToServe returns the attempt of a local queue to which a lock, or so many permits, can be handed over: the head of a lock's
// queue if it rests outside the line; for permits, the first one that has been given none, if it rests and wants as many. One that
// asks for as many that are free may be passed. Nil means that there is none.
func firstToServe(l *line, permits int) *Attempt {
	asks := contender(l)
	for _, a := range l.All() {
		rests := (a.phase == queued || a.phase == resting) && a.failed == nil
		switch {
		case !a.Handle.Kind.Counted():
			if rests && !a.handing && a.got == nil && !a.place.May() {
				return a
			}
			return nil
		case a.handing, a.got != nil:
		case a.grant.holder.Permits() != permits:
			return nil
		case a == asks && (rests && l.Shared.free || a.phase == asking && a.confident):
		case rests:
			return a
		default:
			return nil
		}
	}
	return nil
}

// uncontested reports whether nobody else waited for the permits of a grant when they were handed over to it.
func (t *Table) uncontested(g *Grant, next *Attempt) bool {
	return g.handle.Kind.Counted() && g.streak.Count > 0 && !g.contested && !next.line.Shared.others && t.lined(g.handle)
}

// handOverSoon is for how long after a hand-over of permits the next one does not ask, because there may soon be another one. If it
// asked each time, a turn would cost two commands.
const handOverSoon = 5 * time.Millisecond

// keptWithin takes what Redis said after a hand-over of permits: whether more are free, and who else waits.
func (t *Table) keptWithin(x *Exit, r wire.Reply, now clock.Instant) {
	free, stand, listen := r.KeptWithin()
	x.nextGrant.contested = stand
	if l := t.lines.Of(x.grant.handle.Key); l != nil {
		l.Shared.others, l.Shared.handedAt = listen, now
		if free > 0 {
			asksNow(l)
		}
	}
}

// asksNow has the attempt of a local queue that contends ask, because permits are free. One that stands in the line is told there.
func asksNow(l *line) {
	if a := contender(l); a != nil && !a.place.Stands() {
		l.Shared.free = true
		a.bell.Ring()
	}
}
