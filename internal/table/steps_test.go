package table

import (
	"errors"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// noteGrant keeps which grant a field belongs to.
func (w *world) noteGrant(g *Grant) {
	if g == nil || g.stage == retired { // another one may give back what Redis gave to its number
		return
	}
	field := text(g.inRedis().Field)
	if old := w.grants[field]; old != nil && old != g {
		w.failf("OneGrant: two grants have %s", field)
	}
	w.grants[field] = g
}

// noteLease keeps which lease a command asks for.
func (w *world) noteLease(field any, lease int64) {
	w.asked[text(field)] = max(w.asked[text(field)], lease)
}

// next carries out the step that a verb got.
func (w *world) next(v *verb, s Step) {
	p := v.proc
	v.step, v.over = s, 0
	w.noteGrant(v.a.grant)
	w.leaves(v)
	w.joins()
	if v.a.queue != nil && v.line == nil {
		w.places++
		v.place = w.places
		if v.a.queue.Len() == 1 { // it may have the memory of another one
			w.lines[v.a.queue] = new(evidence)
		}
	}
	switch s.Do {
	case Ask:
		v.line, v.tries = v.a.queue, v.a.phase == trying
		w.checkShares(v, s)
		if v.asks++; v.ended && v.asks > 1 {
			w.failf("Ends: asks again after the end of its wait")
		}
		w.noteLease(s.Call.Args.Holder, s.Call.Args.Millis)
		if v.ended && v.a.overdue(w.now) {
			w.failf("Bound: asks when it has to return")
		}
		f := &flight{
			call: s.Call, proc: p, name: v.name, verb: v, late: s.Late, number: s.Number, slot: s.Slot, acked: s.Acked,
			step: w.step, sent: w.now, until: w.now.Add(modelCommand), within: w.now.Add(modelCommand),
		}
		if s.Within > 0 {
			f.within = w.now.Add(s.Within)
		}
		w.bag = append(w.bag, f)
		w.evidenceOf(v.a).ask(w)
	case Sleep:
		v.line, v.slept = v.a.queue, true
		if v.ended {
			w.failf("Ends: sleeps after the end of its wait")
		}
		if s.Outlives && v.a.Bound != 0 && s.Within <= 0 {
			w.failf("Bound: sleeps without a limit")
		}
		if s.Pause >= 0 {
			v.over = w.now.Add(s.Pause)
		}
		if s.Listen != "" {
			p.listen(s.Listen, s.Heard, s.Since)
		}
	case Done:
		w.verbs = queue.Without(w.verbs, v)
		p.tasks.End()
		w.finished(v, s)
	}
	w.logf("%s: %s", v, s)
}

// finished checks the result of a verb.
func (w *world) finished(v *verb, s Step) {
	a := v.a
	if v.ticket != nil {
		w.adopted(v, s)
	}
	switch {
	case a.phase != done:
		w.failf("OneResult: done in phase %d", a.phase)
	case errors.Is(s.Err, errUndefined):
		w.failf("Undefined: %s", v)
	case s.Got != nil && s.Err != nil:
		w.failf("OneResult: an acquisition and the error %v", s.Err)
	case s.Got != nil:
		w.got(v, s.Got)
	case a.got != nil:
		w.failf("OneResult: a lock that was handed over belongs to nobody")
	case s.Err == nil && a.Last.Refused && a.Last.Err != nil:
		w.failf("NeverBoth: %s is refused, and nobody can say: %v", v, a.Last.Err)
	case s.Err == nil && !a.Last.Refused:
		w.checkOutage(v)
	case s.Err == nil:
		w.checkRefusal(v)
	}
}

// got takes in an acquisition.
func (w *world) got(v *verb, acq *Acquisition) {
	for _, r := range w.records {
		if r.acq == acq {
			w.failf("OneResult: two callers got the same acquisition")
		}
	}
	if v.line != nil {
		for _, other := range w.verbs {
			if other.line == v.line && other.a.queue == v.line && other.place < v.place {
				w.failf("Order: %s overtook %s", v, other)
			}
		}
	}
	if v.proc.drained != nil && !w.mayReenter(v, acq) {
		w.failf("Stopped: %s is granted", v)
	}
	r := &record{
		acq: acq, proc: v.proc, name: v.name, handle: v.a.Handle, owner: acq.Owner(), base: v.a.Owner, holds: v.holds, byHold: v.a.ByHold, seen: v.seen,
	}
	if w.rand(2) == 0 {
		r.done = acq.Done()
	}
	if why := acq.Notify(func(why error) { r.told = why }); why != nil {
		r.told = why
	}
	w.records = append(w.records, r)
	field := text(acq.grant.inRedis().Field)
	b := v.name.server.born[field]
	if b.chain > w.cfg.HandOvers {
		w.failf("Budget: %d hand-overs in a row", b.chain)
	}
	if !v.name.server.sound(field) {
		return
	}
	switch kind := acq.grant.handle.Kind; {
	case kind.Tokens && acq.Token() != uint64(b.token): // positive
		w.failf("Token: %d instead of %d", acq.Token(), b.token)
	case !kind.Tokens && acq.Token() != 0:
		w.failf("Token: %d of a kind without tokens", acq.Token())
	case v.a.Handle.Kind.Tokens && acq.Token() == 0:
		w.failf("Token: an acquisition through a fenced handle has none")
	}
}

// names reports whether the exit sends, or has sent, a release that names the next holder.
func (e *exit) names() bool {
	line := e.x.grant.handle.Kind.Line
	return e.x.phase == freeing && e.x.next != nil && line != nil && e.step.Call.Script == line.Release
}

// nextExit carries out the step that an exit got.
func (w *world) nextExit(e *exit, s Step) {
	e.step, e.over = s, 0
	if e.exports && e.x.start != 0 {
		e.rec.unlocked = true
	}
	switch s.Do {
	case Ask:
		f := &flight{
			call: s.Call, proc: e.proc, name: e.name, exit: e, slot: s.Slot, acked: s.Acked,
			step: w.step, sent: w.now, until: w.now.Add(modelCommand),
		}
		w.bag = append(w.bag, f)
		if e.x.phase == showing || e.x.phase == handing || e.x.phase == exporting {
			w.noteLease(s.Call.Args.Holder, s.Call.Args.Millis)
		}
		if next := text(s.Call.Args.Other); next != "" && e.x.phase == freeing { // the release names it
			w.noteLease(strings.Split(next, "|")[0], s.Call.Args.NextMillis)
		}
		if e.names() {
			if w.noteGrant(e.x.nextGrant); e.proc.drained != nil {
				w.failf("Stopped: %s names the next holder", e)
			}
			*w.evidenceOf(e.x.next) = evidence{refused: w.step, open: []unanswered{{w.step, w.now}}, until: e.x.grant.term.Ends()}
		}
		if s.Call.Script == e.x.grant.handle.Kind.HandOver {
			if w.noteGrant(e.x.nextGrant); e.proc.drained != nil {
				w.failf("Stopped: %s hands over", e)
			}
			*w.evidenceOf(e.x.next) = evidence{refused: w.step, open: []unanswered{{w.step, w.now}}, until: e.x.grant.term.Ends()}
			b := e.name.server.born[text(s.Call.Args.Other)]
			if b.lastly != 0 && w.now.Sub(b.lastly) >= w.cfg.HandOverTime {
				w.failf("Budget: handed over %v after it was free", w.now.Sub(b.lastly))
			}
		}
	case Sleep:
		if s.Pause >= 0 {
			e.over = w.now.Add(s.Pause)
		}
	case Done:
		w.exits = queue.Without(w.exits, e)
		if errors.Is(s.Err, errUndefined) {
			w.failf("Undefined: %s", e)
		}
		switch {
		case e.exports:
			w.exported(e, s.Err)
		case e.rec != nil:
			w.unlocked(e, s.Err)
		}
	}
	w.logf("%s: %s", e, s)
}

// unlocked checks the result of an unlock.
func (w *world) unlocked(e *exit, err error) {
	r, g := e.rec, e.x.grant
	if r.settled {
		w.failf("OneResult: two results of one acquisition")
	}
	r.settled = true
	field := text(g.inRedis().Field)
	s := e.name.server
	inside, freed := e.x.start < g.term.Deadline, s.gone[field] == "released" || s.gone[field] == "handed over"
	switch {
	case e.x.start == 0: // it was not the last one, or the grant was over
	case !s.sound(field) || w.grants[field] != g:
	case err == nil && !inside && !freed:
		w.failf("OneResult: unlocked, but nothing was freed and the lease was over: %s", s.gone[field])
	case errors.Is(err, fault.ErrLost) && e.before == nil && inside && freed:
		w.failf("OneResult: lost, but it was freed by its own release")
	case err == nil && inside && g.rare != nil && g.rare.keep > w.now && s.kept[field] < g.rare.keep:
		w.failf("Kept: until %v instead of %v", time.Duration(s.kept[field]), time.Duration(g.rare.keep))
	}
}

// execute runs a call at the server.
func (w *world) execute(f *flight) {
	w.advance(w.now.Add(time.Microsecond)) // no two scripts see the same time
	f.executed, f.at = true, w.now
	c := &f.call
	if f.renewal != nil || f.extend != nil {
		for i, field := range c.Argv[1:] {
			keys := c.Keys[i*c.Script.Keys : (i+1)*c.Script.Keys]
			renewed := w.nameOf(text(keys[0])).server.renew(&wire.Call{Script: c.Script, Keys: keys, Argv: []any{c.Argv[0], field}})
			f.reply.List = append(f.reply.List, renewed)
		}
		w.logf("Redis: renew %v: %v", c.Argv[1:], f.reply.List)
		return
	}
	w.checkCount(f)
	w.run(f)
	w.logf("Redis: %s: %d", f, f.reply.N)
	switch s := f.name.server; {
	case s.back != "":
		w.failf("NoReturn: %s, which has a tombstone", s.back)
	case s.cut:
		w.failf("NoShorterLease: a hand-over to %v ends the lease earlier", f.call.Args.Holder)
	}
}

// checkCount checks that a count script shows what is open.
func (w *world) checkCount(f *flight) {
	if f.left || f.dead || f.call.Script != wire.Plain.Count && f.call.Script != wire.Read.Count {
		return
	}
	var g *Grant
	more := 0
	if f.verb != nil {
		g, more = f.verb.a.grant, 1
	} else {
		g = f.exit.x.grant
	}
	if !g.over() && f.call.Args.Extra != g.open()+more {
		w.failf("Count: shows %v instead of %d", f.call.Args.Extra, g.open()+more)
	}
}

// answer gives the reply of a call to its caller, or to Late if the caller left.
func (w *world) answer(f *flight, r wire.Reply) {
	p, n := f.proc, &f.proc.notices
	if f.executed || r.Err != nil && r.Err.Fate != fault.Left && !r.Err.InDoubt() {
		w.bag = queue.Without(w.bag, f)
	}
	w.logf("reply to %s: %d %v", f, r.N, r.Err)
	switch {
	case f.extend != nil:
		w.extended(f, r)
	case f.left:
		if f.late != nil {
			w.learnsLate(f.late, r, f.step)
			f.late.Late(f.number, r, w.now)
		}
	case f.verb != nil:
		v := f.verb
		v.lag, v.unsent = 0, r.Err == errNotSent
		if f.executed {
			v.lag = w.now.Sub(f.at)
		}
		v.missed = r.Err == nil && r.N == wire.LastGone
		if r.Err == nil && f.late != nil && !r.Acquired() && v.ticket == nil {
			p.refused[f.name.index] = w.step
		}
		w.learns(v, f, r)
		given := v.a.grant
		before, spared := v.a.queue, r.Err == errStopped && !v.proc.closed && w.mayReenter(v, v.a.got)
		s := p.table.Settle(v.a, r, w.now, n)
		if spared && s.Do == Done && errors.Is(s.Err, fault.ErrClosed) {
			w.failf("Stopped: the shutdown ends %s, which re-enters", v)
		}
		w.learnsMore(v, before, r, s)
		if v.a.grant != given && r.Err == nil && !r.Acquired() { // a grant that came before this refusal is too old
			*w.evidenceOf(v.a) = evidence{failed: w.step}
		}
		if s.Got != nil && s.Got.Err(w.now) != nil {
			w.failf("Deadline: the lock is over when it is got: %v", s.Got.Err(w.now))
		}
		if s.Got != nil && f.late == nil && r.N == 0 {
			w.failf("LostSticky: re-entered a lock that Redis does not have")
		}
		if s.Got != nil && f.late == nil && s.Got.grant.term.Deadline.Sub(w.now) < v.a.Lease/4 {
			w.failf("Least: re-entered with %v of %v", s.Got.grant.term.Deadline.Sub(w.now), v.a.Lease)
		}
		p.deliver()
		w.next(v, s)
		if place, ok := r.Position(); ok && r.Err == nil && place.Watch && v.a.place.Stands {
			if sub := p.sub(w.base(f.name)); sub == nil || sub.watches == 0 {
				w.failf("Watch: c%d was asked to watch %s", p.index, f.name.text)
			}
		}
	case f.exit != nil:
		e := f.exit
		next := e.x.next
		if e.x.phase != handing && !e.names() {
			next = nil
		}
		if m, ok := r.GaveHere(); ok && r.Err == nil {
			w.hearsOf(p, f.name, m)
		}
		s := p.table.SettleRelease(e.x, r, w.now, n)
		if m, ok := r.GaveHere(); ok && r.Err == nil {
			w.givesBack(p, f.name, m)
		}
		over := s.Do == Done && e.x.grant.stage == retired && f.name.server.owes(text(e.x.grant.inRedis().Field))
		if r.Err == nil && (r.Gave().What == wire.ToPublic || over) {
			w.checkPump(p, f.name, "the public release")
		}
		if next != nil {
			w.learnsOfHandOver(next, r, f.step)
		}
		for _, v := range w.verbs { // the release of a fair lock may give it to a waiter that it did not name
			if v.proc == p && v.a != next && errors.Is(v.a.failed, fault.ErrLate) {
				*w.evidenceOf(v.a) = evidence{failed: w.step}
			}
		}
		p.deliver()
		w.nextExit(e, s)
	case f.renewal != nil:
		p.table.Renewed(f.renewal.b, f.renewal.sent, r, w.now, n)
		p.deliver()
	case f.pump != nil:
		p.table.Pumped(f.pump.own, r, w.now, n)
		if r.Err == nil {
			p.pumpFails = 0
		} else if p.pumpFails++; !r.Err.Transient || p.pumpFails > 5 { // then the polls find the lock
			f.name.server.quiet = true
		}
		if r.Err == nil && r.N < 0 || r.Err != nil && r.Err.Transient && p.pumpFails <= 5 {
			w.checkPump(p, f.name, "the pump")
		}
		p.deliver()
	default:
		micros := int64(0)
		if len(r.List) > 1 {
			micros = r.List[1]
		}
		p.table.Forced(f.force.key, micros, w.now, n)
		p.deliver()
	}
}
