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
	w.checkObserved()
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
		if p.table.heap.Len() > 0 && (p.alarm == 0 || p.alarm > p.table.heap.All()[0].DueAt()) {
			w.failf("Alarm: at %v, due at %v", time.Duration(p.alarm), time.Duration(p.table.heap.All()[0].DueAt()))
		}
		w.checkRenewals(p)
		w.checkLeast(p)
	}
	for _, p := range w.procs {
		w.checkStop(p)
		w.checkCounts(p)
	}
	w.checkContenders()
	w.checkOrphans()
	w.checkLines()
	w.checkSeats()
	w.checkWakes()
}

// checkRenewals checks that every hold that is kept hears from Redis in time.
func (w *world) checkRenewals(p *process) {
	for _, g := range p.table.heap.All() {
		longest, shortest := w.renewals(g)
		if g.stage != held || g.inRound || g.failures > 0 || !g.renewing() {
			continue
		}
		latest := min(g.term.Confirmed.Add(shortest/3), g.term.Ends().Add(-2*longest/3))
		first := g.term.Ends().Sub(g.term.Confirmed) <= wire.FirstTerm
		if first && latest <= g.term.Confirmed { // a release gave it its first term, or a hand-over the rest of one, which is shorter than its lease
			latest = g.term.Confirmed.Add(100 * time.Millisecond)
		}
		if g.DueAt() > latest {
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
		field := text(g.inRedis().Field)
		if !s.sound(field) {
			continue
		}
		h := s.find(field)
		if h == nil || g.term.Ends() > s.expiry.Add(-s.skew) || h.expiry != 0 && g.term.Ends() > h.expiry.Add(-s.skew) {
			w.failf("Deadline: #%d of c%d is open until %v; Redis has %v until %v", g.holder.Number, r.proc.index,
				time.Duration(g.term.Deadline), s.holders, time.Duration(s.expiry))
		}
		for _, other := range w.records[:i] {
			if other.name == r.name && other.owner != r.owner && !other.ended && other.acq.ending.Err() == nil &&
				!other.acq.grant.term.Past(w.now) && s.sound(text(other.acq.grant.inRedis().Field)) &&
				(r.handle.Kind.Side == wire.MainSide || other.handle.Kind.Side == wire.MainSide) {
				w.failf("Exclusive: #%d of c%d and #%d of c%d hold %s", g.holder.Number, r.proc.index,
					other.acq.grant.holder.Number, other.proc.index, r.name.text)
			}
		}
	}
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
	s, field := r.name.server, text(r.acq.grant.inRedis().Field)
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
		if v.a.queue != nil && v.a.phase == asking && v.a.queue.Head() != v.a {
			w.failf("OneContender: %s asks behind the head", v)
		}
		if t := v.proc.table; v.a.phase == trying && (t.trying[v.a.Handle.Key] != v.a || t.queues.Of(v.a.Handle.Key) != nil) {
			w.failf("OneContender: %s asks beside others", v)
		}
	}
}

// checkOrphans checks that somebody will release every holder and leave every queue.
func (w *world) checkOrphans() {
	for _, n := range w.names {
		for _, h := range n.server.holders {
			w.checkOrphan(n, h.field)
		}
		for _, p := range n.server.queue {
			if p.epoch == n.server.epoch {
				w.checkOrphan(n, p.field)
			}
		}
		for _, m := range n.server.line.waiters {
			if m.epoch == n.server.epoch {
				w.checkOrphan(n, m.field)
			}
		}
	}
}

func (w *world) checkOrphan(n *name, field string) {
	g := w.grants[field]
	if g == nil || g.stage != retired || g.table.closed || w.procOf(g).gaveUp[n.index] {
		return
	}
	epoch, buried := n.server.dead[field]
	b, born := n.server.born[field]
	ghost := n.server.haunts(field)
	if !ghost && (buried && epoch != n.server.epoch || born && b.epoch != n.server.epoch) {
		return
	}
	for _, f := range w.bag {
		if !f.dead && (f.call.Args.Holder == field || f.call.Args.Channel == field || f.call.Args.Extra == field) {
			return
		}
	}
	if ghost {
		w.failf("NoGhost: nobody releases %s, which a failover brought back", field)
	}
	w.failf("NoOrphan: nobody releases %s", field)
}

// soon is the longest pause of a waiter after which nobody can say that it missed a message.
const soon = 1100 * time.Millisecond

// checkWakes checks that no lock is free while all who want it sleep.
func (w *world) checkWakes() {
	for _, n := range w.names {
		if n.server.quiet || w.busy(n) {
			continue
		}
		w.checkStall(n)
		for _, v := range w.verbs {
			if v.name != n || v.proc.stopped || v.step.Do != Sleep || w.believes(v) || n.server.hushed != 0 && n.server.hushed != v.proc.index+1 {
				continue
			}
			within := soon
			if g := v.a.grant; g != nil && g.inDoubt && n.server.find(text(g.inRedis().Field)) != nil {
				within = wire.FirstTerm + 100*time.Millisecond // a question without a reply got the lock, after a later one was refused
			}
			if wants, beside := w.wants(v); wants && (!beside || !w.wakes(v, within) && !w.repeats(v, within)) && (beside || !w.anyWakes(n, within)) {
				w.failf("NoMissedWake: %s is free for %s, which sleeps", n.text, v)
			}
		}
	}
}

// busy reports whether anything about a name is under way.
func (w *world) busy(n *name) bool {
	if w.pumping(n) {
		return true
	}
	for _, f := range w.bag {
		if f.name == n || f.name == nil {
			return true
		}
	}
	for _, p := range w.procs {
		if slices.ContainsFunc(p.mail, func(m message) bool { return m.name == n }) {
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
		return v.name.server.wouldGrant(a.Handle, text(a.grant.inRedis().Field), text(other.inRedis().Field)), true
	}
	if a.queue != nil && a.queue.Head() != a {
		return false, false
	}
	s, field := v.name.server, text(a.grant.inRedis().Field)
	switch {
	case (s.lined || a.seat != nil) && s.find(field) != nil: // it has the lock, and does not know
		return true, true
	case a.place.Stands && s.line.index(field) < 0 && s.stood[field] != s.lost: // Redis lost its place, which it learns when it asks
		return false, false
	}
	return s.wouldGrant(a.Handle, field, ""), false
}

// wakes reports whether something will wake an attempt soon.
func (w *world) wakes(v *verb, soon time.Duration) bool {
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
	return g.usable(w.now) && !v.name.server.sound(text(g.inRedis().Field))
}

// anyWakes reports whether something will wake one of the attempts for a name soon.
func (w *world) anyWakes(n *name, soon time.Duration) bool {
	horizon := w.now.Add(soon)
	for _, v := range w.verbs {
		if v.name == n && w.wakes(v, soon) {
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
	for _, p := range w.procs {
		p.stopped = false
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
	if w.silence() || w.noticeEnd() || w.resume() || w.send() || w.deliverMail() || w.wake() || w.due() || w.pump() || w.unlockAll() {
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
		for _, pump := range p.pumps {
			sooner(time.Duration(pump.at))
		}
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

// checkEnd checks that nothing is left.
func (w *world) checkEnd() {
	for _, p := range w.procs {
		s := p.table.Stats()
		switch {
		case len(w.verbs)+len(w.exits) > 0:
			w.failf("Ends: %d verbs and %d exits never end", len(w.verbs), len(w.exits))
		case slices.ContainsFunc(p.subs, func(s *subscription) bool { return !s.idle() }):
			w.failf("Empty: c%d listens", p.index)
		case s.Queues > 0 || p.tasks.Count() > 0:
			w.failf("Empty: c%d has %d queues and %d tasks", p.index, s.Queues, p.tasks.Count())
		case len(p.table.seats) > 0:
			w.failf("Empty: c%d has seats of %d names", p.index, len(p.table.seats))
		case len(p.table.placed)+len(p.table.watches)+len(p.table.trying) > 0:
			w.failf("Empty: c%d has %d in the line, and watches %d names", p.index, len(p.table.placed), len(p.table.watches))
		case p.closed:
		case s.Grants+s.Exclusive+s.Due+len(p.table.alive) > 0:
			w.failf("Empty: c%d has %d grants, %d exclusive holders, %d due, %d that stood in a line", p.index, s.Grants, s.Exclusive, s.Due, len(p.table.alive))
		}
		for _, handles := range p.handles {
			for _, h := range handles {
				if h.unlocks.Len() > 0 {
					w.failf("Empty: c%d has %d acquisitions of a handle", p.index, h.unlocks.Len())
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
		if !r.settled {
			w.failf("OneResult: an acquisition has no result")
		}
	}
}
