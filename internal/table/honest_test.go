package table

import (
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// The model knows by itself what the questions of each attempt have shown. So it can tell whether an attempt that ends without
// the lock says the truth: refused, or nobody could say.

// evidence is what the questions of one attempt, or of one local queue, have shown.
type evidence struct {
	refused, failed int           // the latest step in which that happened
	open            []unanswered  // the questions since then that have had no outcome, by age
	late            clock.Instant // when the latest reply came whose caller had left
	until           clock.Instant // of a refusal by a holder that hands over: its deadline
}

// unanswered is when a question was sent. Several may be sent at a moment, but not in a step.
type unanswered struct {
	step int
	at   clock.Instant
}

func (e *evidence) ask(w *world) { e.open = append(slices.Clip(e.open), unanswered{w.step, w.now}) }

// drop forgets the question that was sent in a step.
func (e *evidence) drop(step int) {
	if i := slices.IndexFunc(e.open, func(q unanswered) bool { return q.step == step }); i >= 0 {
		e.open = slices.Delete(slices.Clone(e.open), i, i+1) // an attempt that left has the same ones
	}
}

// silence returns for how long Redis has not replied, although a question was sent after a moment. A late reply says that Redis answers:
// the silence of the other questions counts from then.
func (e *evidence) silence(w *world, after clock.Instant) time.Duration {
	for _, q := range e.open {
		if q.at > after {
			return w.now.Sub(max(q.at, e.late))
		}
	}
	return 0
}

// stands reports whether a refusal stands.
func (e *evidence) stands(w *world) bool {
	return e.refused > e.failed && e.silence(w, 0) < w.cfg.Floor() && (e.until == 0 || w.now.Sub(e.until) < w.cfg.Floor())
}

// sight is the latest hold of a name in a process. It refuses the attempts of other owners.
type sight struct {
	step int
	at   clock.Instant
	ends clock.Instant // when the next question is due at the latest
}

// see notes the holds of this step.
func (w *world) see(g *Grant) {
	if g.usable(w.now) {
		seen := &w.procOf(g).seen[w.nameOf(g.handle.Name).index]
		*seen = sight{w.step, w.now, max(seen.ends, g.term.Ends())}
	}
}

// checkLeast checks that enough is left of the lease of every hold when it begins.
func (w *world) checkLeast(p *process) {
	for _, g := range p.table.heap.All() {
		if g.stage != held || w.begun[g] {
			continue
		}
		w.begun[g] = true
		lease, left := g.term.Ends().Sub(g.term.Confirmed), g.term.Deadline.Sub(w.now)
		if left < lease/4 {
			w.failf("Least: #%d begins with %v of %v", g.holder.Number, left, lease)
		}
	}
}

// rivalOf reports whether another owner of the process holds the lock exclusively, inside its deadline.
func (w *world) rivalOf(v *verb) bool {
	g := v.proc.table.holder(v.a.Handle.Key)
	return g.usable(w.now) && v.a.grant != nil && !g.sameOwner(v.a.grant)
}

// evidenceOf returns the evidence on which an attempt may rely.
func (w *world) evidenceOf(a *Attempt) *evidence {
	w.joins()
	v := w.byAttempt[a]
	switch {
	case a.ahead != nil:
		return w.evidenceOf(a.ahead)
	case a.queue == nil:
		return v.told
	case w.lines[a.queue] == nil:
		w.lines[a.queue] = new(evidence)
	}
	return w.lines[a.queue]
}

// joins gives a local queue what the attempt knows that has tried, and is in the queue by now: its head.
func (w *world) joins() {
	for _, v := range w.verbs {
		if l := v.a.queue; v.tries && l != nil {
			w.places++
			v.tries, v.place, v.line = false, w.places, l
			known := *v.told
			w.lines[l] = &known
		}
	}
}

// leaves keeps what an attempt knows when it leaves its local queue.
func (w *world) leaves(v *verb) {
	if v.line != nil && v.a.queue == nil && w.lines[v.line] != nil {
		*v.told = *w.lines[v.line]
		v.line = nil
	}
}

// learns notes a reply to a question of an attempt, before the table sees it.
func (w *world) learns(v *verb, f *flight, r wire.Reply) {
	e := w.evidenceOf(v.a)
	switch {
	case v.ticket != nil && r.Err == nil: // the reply is about the ticket
	case r.Err == nil && f.late != nil && !r.Acquired():
		*e = evidence{refused: w.step}
	case r.Err == nil, r.Err.Fate == fault.Left && !r.Err.TimedOut(), errors.Is(r.Err, fault.ErrNotSent):
	default:
		*e = evidence{failed: w.step}
	}
}

// learnsLate notes a reply whose caller has left. It reaches the local queue that is there now.
func (w *world) learnsLate(g *Grant, r wire.Reply, step int) {
	w.joins()
	e := w.lines[g.table.queues.Of(g.handle.Key)]
	if a := g.table.trying[g.handle.Key]; a != nil {
		e = w.byAttempt[a].told
	}
	if e == nil || r.Err != nil && !r.Err.Replied() {
		return
	}
	e.drop(step)
	e.late = w.now
}

// learnsMore notes what only the table can tell: that a lock which was granted is not to be relied on, or that it is held.
func (w *world) learnsMore(v *verb, before *localQueue, r wire.Reply, s Step) {
	e := v.told
	if before != nil {
		e = w.lines[before]
	}
	switch {
	case e == nil:
	case s.Got != nil: // perhaps by a message that came before the reply
		*e = evidence{refused: w.step}
	case r.Err != nil || !r.Acquired():
	case s.Do != Done || errors.Is(s.Err, fault.ErrLate):
		*e = evidence{failed: w.step}
	}
}

// learnsOfHandOver notes the reply to a hand-over.
func (w *world) learnsOfHandOver(next *Attempt, r wire.Reply, step int) {
	if next.phase == done {
		w.learnsLate(next.grant, r, step)
		return
	}
	e := w.evidenceOf(next)
	switch {
	case r.Err != nil:
		*e = evidence{failed: w.step}
	case r.Gave().What == wire.ToWaiter, r.Gave().What == wire.ToPublic: // the lock is for others now
		*e = evidence{refused: w.step}
	case !r.Acquired():
		e.open = nil
	default:
		if next.failed != nil {
			*e = evidence{failed: w.step}
		}
	}
}

// checkRefusal checks an attempt that says that another owner has the lock.
func (w *world) checkRefusal(v *verb) {
	since := v.began
	if !v.a.Single || v.a.Owner != nil || v.holds != nil {
		since = v.proc.since[v.name.index]
	}
	if v.proc.refused[v.name.index] < since {
		w.failf("HonestRefusal: nobody refused %s since step %d", v, since)
	}
	e, seen := w.evidenceOf(v.a), v.proc.seen[v.name.index]
	switch {
	case w.rivalOf(v):
	case e.stands(w):
	case seen.step > e.failed && e.silence(w, seen.at) < w.cfg.Floor() && w.now.Sub(seen.ends) < w.cfg.Floor():
	default:
		w.failf("HonestRefusal: %s is refused; refused in step %d, failed in step %d, silence for %v, held here in step %d", v,
			e.refused, e.failed, e.silence(w, 0), seen.step)
	}
}

// checkOutage checks an attempt that says that nobody could tell whether another owner has the lock.
func (w *world) checkOutage(v *verb) {
	if v.proc.closed {
		return
	}
	if v.a.Last.Err == nil && !v.canceled && v.a.Owner == nil && v.holds == nil && !v.unsent && !v.a.overdue(w.now) {
		w.failf("OneResult: %s ends, and nobody knows why", v)
	}
	if v.ticket != nil {
		return
	}
	e, seen := w.evidenceOf(v.a), v.proc.seen[v.name.index]
	if w.rivalOf(v) {
		w.failf("HonestOutage: %s reports %v, but another owner of its process holds the lock", v, v.a.Last.Err)
	}
	if e.stands(w) && seen.step < e.refused {
		w.failf("HonestOutage: %s reports %v; refused in step %d, failed in step %d, silence for %v", v, v.a.Last.Err, e.refused,
			e.failed, e.silence(w, 0))
	}
}
