package table

import (
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// check checks what holds after every action.
func (w *world) check() {
	w.checkHolds()
	for _, v := range w.verbs {
		if v.a.got == nil {
			continue
		}
		w.noteGrant(v.a.got.grant) // it may have the field of another by now
		w.see(v.a.got.grant)
		if v.a.got.grant.usable(w.now) {
			v.proc.refused[v.name.index] = w.step
		}
	}
	for _, p := range w.procs {
		if p.table.heap.Len() > 0 && (p.alarm == 0 || p.alarm > p.table.heap.Head().DueAt()) {
			w.failf("Alarm: at %v, due at %v", time.Duration(p.alarm), time.Duration(p.table.heap.Head().DueAt()))
		}
		w.checkRenewals(p)
	}
	for _, p := range w.procs {
		w.checkStop(p)
		w.checkCounts(p)
	}
	w.checkContenders()
	w.checkOrphans()
	w.checkWakes()
}

// checkRenewals checks that every hold that is kept hears from Redis in time.
func (w *world) checkRenewals(p *process) {
	for _, g := range p.table.heap.All() {
		longest, shortest := w.renewals(g)
		if g.stage != held || g.inRound || g.failures > 0 || !g.renewing() {
			continue
		}
		if latest := min(g.term.Confirmed.Add(shortest/3), g.term.Ends().Add(-2*longest/3)); g.DueAt() > latest {
			w.failf("RenewInTime: #%d was confirmed at %v, and is due at %v", g.holder.Number,
				time.Duration(g.term.Confirmed), time.Duration(g.DueAt()))
		}
	}
}

// checkHolds checks every acquisition that is not over.
func (w *world) checkHolds() {
	for i, r := range w.records {
		g := r.acq.grant
		w.see(g)
		if g.usable(w.now) { // also while its unlock waits for its turn
			r.proc.refused[r.name.index] = w.step
		}
		if r.ended {
			continue
		}
		if r.acq.ending.Err() != nil || g.term.Past(w.now) {
			w.checkLoss(r)
			continue
		}
		s := r.name.server
		field := text(g.holder.Field)
		if !s.sound(field) {
			continue
		}
		h := s.find(field)
		if h == nil || g.term.Ends() > s.expiry || h.expiry != 0 && g.term.Ends() > h.expiry {
			w.failf("Deadline: #%d of c%d is open until %v; Redis has %v until %v", g.holder.Number, r.proc.index,
				time.Duration(g.term.Deadline), s.holders, time.Duration(s.expiry))
		}
		for _, other := range w.records[:i] {
			if other.name == r.name && other.owner != r.owner && !other.ended && other.acq.ending.Err() == nil &&
				!other.acq.grant.term.Past(w.now) && s.sound(text(other.acq.grant.holder.Field)) &&
				(r.handle.Kind.Side == wire.MainSide || other.handle.Kind.Side == wire.MainSide) {
				w.failf("Exclusive: #%d of c%d and #%d of c%d hold %s", g.holder.Number, r.proc.index,
					other.acq.grant.holder.Number, other.proc.index, r.name.text)
			}
		}
	}
}

// holdsWithoutToken reports whether an owner holds a name, not only to read, without a token.
func (w *world) holdsWithoutToken(p *process, n *name, o *Owner) bool {
	return slices.ContainsFunc(w.records, func(r *record) bool {
		k := r.acq.grant.handle.Kind
		return r.proc == p && r.name == n && r.owner == o && !r.unlocked && !r.leaked && r.acq.Err(w.now) == nil &&
			k.Side == wire.MainSide && !k.Tokens
	})
}

// checkLoss checks an acquisition that is over.
func (w *world) checkLoss(r *record) {
	why := r.acq.ending.Err()
	if why == nil { // only its clock says so
		return
	}
	r.ended = true
	if r.done != nil && !ready(r.done, true) {
		w.failf("OneResult: Done is open after the end")
	}
	if !errors.Is(why, errHolderGone) {
		return
	}
	s, field := r.name.server, text(r.acq.grant.holder.Field)
	switch {
	case !s.sound(field):
	case s.live(field) != nil:
		w.failf("NoFalseLoss: Redis has the holder #%d", r.acq.grant.holder.Number)
	case s.gone[field] == "released", s.gone[field] == "handed over":
		w.failf("NoFalseLoss: #%d was %s by its own process", r.acq.grant.holder.Number, s.gone[field])
	}
}

// checkContenders checks that only the head of a local queue asks.
func (w *world) checkContenders() {
	for _, v := range w.verbs {
		if v.a.line != nil && v.a.phase == asking && v.a.line.Head() != v.a {
			w.failf("OneContender: %s asks behind the head", v)
		}
	}
}

// checkOrphans checks that somebody will release every holder and leave every queue.
func (w *world) checkOrphans() {
	for _, n := range w.names {
		for _, h := range n.server.holders {
			w.checkOrphan(n, h.field)
		}
		for _, place := range n.server.queue {
			w.checkOrphan(n, place.field)
		}
	}
}

func (w *world) checkOrphan(n *name, field string) {
	g := w.grants[field]
	if g == nil || g.stage != retired || g.table.closed || w.procOf(g).gaveUp[n.index] {
		return
	}
	if epoch, ok := n.server.dead[field]; ok && epoch != n.server.epoch {
		return
	}
	if b, ok := n.server.born[field]; ok && b.epoch != n.server.epoch {
		return
	}
	for _, f := range w.bag {
		if !f.dead && (f.call.Args.Holder == field || f.call.Args.Other == field) {
			return
		}
	}
	w.failf("NoOrphan: nobody releases %s", field)
}

func (w *world) procOf(g *Grant) *process {
	if g.table == w.procs[0].table {
		return w.procs[0]
	}
	return w.procs[1]
}

// soon is the longest pause of a waiter after which nobody can say that it missed a message.
const soon = 1100 * time.Millisecond

// checkWakes checks that no lock is free while all who want it sleep.
func (w *world) checkWakes() {
	for _, n := range w.names {
		if n.server.quiet || w.busy(n) {
			continue
		}
		for _, v := range w.verbs {
			if v.name != n || v.step.Do != Sleep || w.believes(v) || n.server.hushed != 0 && n.server.hushed != v.proc.index+1 {
				continue
			}
			if wants, beside := w.wants(v); wants && (!beside || !w.wakes(v)) && (beside || !w.anyWakes(n)) {
				w.failf("NoMissedWake: %s is free for %s, which sleeps", n.text, v)
			}
		}
	}
}

// busy reports whether anything about a name is under way.
func (w *world) busy(n *name) bool {
	for _, f := range w.bag {
		if f.name == n || f.name == nil {
			return true
		}
	}
	for _, m := range w.mail {
		if m.name == n {
			return true
		}
	}
	for _, e := range w.exits {
		if e.name == n {
			return true
		}
	}
	return false
}

// wants reports whether a sleeping attempt would be granted the lock, and no other attempt comes before it. beside means
// that its owner holds the other side, so that it need not wait for any other attempt.
func (w *world) wants(v *verb) (wants, beside bool) {
	a := v.a
	if a.phase != queued && a.phase != resting || a.handing || a.got != nil {
		return false, false
	}
	if other := a.grant.sibling(); other.usable(w.now) {
		return v.name.server.wouldGrant(a.Handle.Kind, text(a.grant.holder.Field), text(other.holder.Field)), true
	}
	if a.line != nil && a.line.Head() != a {
		return false, false
	}
	return v.name.server.wouldGrant(a.Handle.Kind, text(a.grant.holder.Field), ""), false
}

// wakes reports whether something will wake an attempt soon.
func (w *world) wakes(v *verb) bool {
	if v.step.Do == Ask || ready(v.step.Wait, false) || v.over != 0 && v.over <= w.now.Add(soon+v.lag) || w.endOf(v) >= Ended {
		return true
	}
	heard := v.step.Heard
	return heard != nil && (len(heard) > 0 || w.unconfirmed(v))
}

// believes reports whether the process of an attempt still believes in a hold that Redis lost. It hears of that at the next
// renewal at the latest.
func (w *world) believes(v *verb) bool {
	g := v.proc.table.holder(v.a.Handle.Key)
	return g.usable(w.now) && !v.name.server.sound(text(g.holder.Field))
}

// anyWakes reports whether something will wake one of the attempts for a name soon.
func (w *world) anyWakes(n *name) bool {
	horizon := w.now.Add(soon)
	for _, v := range w.verbs {
		if v.name == n && w.wakes(v) {
			return true
		}
	}
	for _, p := range w.procs {
		for _, g := range p.table.heap.All() {
			if g.handle.Key.Name == n.text && g.DueAt() <= horizon {
				return true
			}
		}
	}
	return false
}

func (w *world) unconfirmed(v *verb) bool {
	for _, s := range v.proc.subs {
		if !s.confirmed {
			if slices.Contains(s.listeners, v.step.Heard) {
				return true
			}
		}
	}
	return false
}

// finish ends everything, and checks that nothing is left.
func (w *world) finish() {
	for _, v := range w.verbs {
		v.canceled = true
	}
	for range 3000 {
		w.step++
		if !w.finishOne() {
			w.checkEnd()
			return
		}
		w.check()
	}
	w.failf("Ends: something goes on forever: %d verbs, %d exits, %d calls", len(w.verbs), len(w.exits), len(w.bag))
}

// finishOne carries out one action of the end.
func (w *world) finishOne() bool {
	for _, f := range w.bag {
		switch {
		case f.dead:
		case f.executed:
			w.answer(f, f.reply)
			return true
		case w.now < f.until:
			w.execute(f)
			return true
		}
	}
	if w.silence() || w.noticeEnd() || w.resume() || w.send() || w.deliverMail() || w.wake() || w.due() || w.unlockAll() {
		return true
	}
	if len(w.bag) > 0 { // nobody waits for these any more
		f := w.bag[0]
		if w.now < f.until {
			w.execute(f)
		}
		w.bag = queue.Without(w.bag, f)
		return true
	}
	next := w.now
	sooner := func(at time.Duration) {
		if at > time.Duration(w.now) && (next == w.now || at < time.Duration(next)) {
			next = w.now.Add(at - time.Duration(w.now))
		}
	}
	for _, p := range w.procs {
		sooner(time.Duration(p.alarm))
	}
	for _, e := range w.exits {
		sooner(time.Duration(e.over))
	}
	if next == w.now {
		return false
	}
	w.advance(next)
	return true
}

func (w *world) unlockAll() bool {
	r, ok := pick(w, w.records, func(r *record) bool { return !r.unlocked && !r.leaked })
	if !ok {
		return false
	}
	x := new(Exit)
	w.unlockedOne(r.proc, r, x, r.proc.table.Release(x, r.acq, w.now, &r.proc.notices))
	return true
}

// checkEnd checks that nothing is left.
func (w *world) checkEnd() {
	for _, p := range w.procs {
		s := p.table.Stats()
		switch {
		case len(w.verbs)+len(w.exits) > 0:
			w.failf("Ends: %d verbs and %d exits never end", len(w.verbs), len(w.exits))
		case len(p.subs) > 0:
			w.failf("Empty: c%d listens", p.index)
		case s.Queues > 0 || p.tasks.Count() > 0:
			w.failf("Empty: c%d has %d queues and %d tasks", p.index, s.Queues, p.tasks.Count())
		case p.closed:
		case s.Grants+s.Exclusive+s.Due > 0:
			w.failf("Empty: c%d has %d grants, %d exclusive holders, %d due", p.index, s.Grants, s.Exclusive, s.Due)
		}
		for _, handles := range p.handles {
			for _, h := range handles {
				if h.unlocks.Open()+len(h.unlocks.Lost()) > 0 {
					w.failf("Empty: c%d has %d open and %d lost acquisitions of a handle", p.index, h.unlocks.Open(), len(h.unlocks.Lost()))
				}
			}
		}
	}
	for _, o := range w.owners {
		if o.Len() > 0 {
			w.failf("Empty: an owner has %d lost grants", o.Len())
		}
	}
	for _, r := range w.records {
		if !r.settled && !r.leaked {
			w.failf("OneResult: an acquisition has no result")
		}
	}
}
