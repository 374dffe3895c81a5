package table

import (
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

func (w *world) deliverMail() bool {
	p, ok := pick(w, w.procs, func(p *process) bool { return len(p.mail) > 0 && !p.stopped })
	if ok {
		w.deliverTo(p)
	}
	return ok
}

// deliverTo delivers the oldest message on a connection.
func (w *world) deliverTo(p *process) {
	m := p.mail[0]
	p.mail = p.mail[1:]
	switch s := p.sub(m.channel); {
	case s == nil:
	case m.confirms == s:
		w.logf("c%d is subscribed to %s", p.index, s.channel)
		p.confirm(s)
	case m.confirms == nil && s.confirmed:
		w.logf("c%d hears %q on %s", p.index, m.payload, m.channel)
		w.hears(p, s, m)
	}
}

// cut cuts the subscriptions of a process. What was sent to it is lost.
func (w *world) cut() bool {
	p := w.procs[w.rand(len(w.procs))]
	if len(p.subs) == 0 {
		return false
	}
	p.subs = slices.DeleteFunc(p.subs, func(s *subscription) bool { return s.idle() && w.rand(2) == 0 })
	for _, s := range p.subs {
		s.subscribed, s.confirmed = false, false
	}
	for _, m := range p.mail {
		if m.payload == "0" && m.name != nil {
			m.name.server.quiet = true // a process that watches for others has missed it
		}
	}
	p.mail = nil
	w.logf("c%d is deaf", p.index)
	return true
}

func (w *world) confirm() bool {
	for _, p := range w.procs {
		if s, ok := pick(w, p.subs, func(s *subscription) bool { return !s.subscribed }); ok && !p.stopped {
			s.subscribed = true
			w.logf("Redis: c%d subscribes to %s", p.index, s.channel)
			if p.mail = append(p.mail, message{channel: s.channel, confirms: s}); len(p.mail) == 1 && w.rand(2) == 0 {
				w.deliverTo(p)
			}
			return true
		}
	}
	return false
}

// unsubscribe ends a subscription to which nobody listens any more.
func (w *world) unsubscribe() bool {
	for _, p := range w.procs {
		if s, ok := pick(w, p.subs, (*subscription).idle); ok {
			p.subs = queue.Without(p.subs, s)
			w.logf("c%d unsubscribes from %s", p.index, s.channel)
			return true
		}
	}
	return false
}

// pause stops a process: it takes no step, but Redis executes what it has sent, and its messages wait.
func (w *world) pause() bool {
	p := w.someone()
	if p.stopped = w.someoneBeside(p); p.stopped {
		w.logf("c%d is stopped", p.index)
	}
	return p.stopped
}

func (w *world) someoneBeside(p *process) bool {
	return slices.ContainsFunc(w.procs, func(other *process) bool { return other != p && !other.stopped })
}

// goOn lets a stopped process continue, often after a while.
func (w *world) goOn() bool {
	p, ok := pick(w, w.procs, func(p *process) bool { return p.stopped })
	if ok {
		if w.rand(2) == 0 {
			w.advance(w.now.Add(oneOf(w, 15*time.Millisecond, 100*time.Millisecond, time.Second, 3*time.Second)))
		}
		p.stopped = false
		w.logf("c%d goes on", p.index)
	}
	return ok
}

// advance moves the time, and drops the calls that can no longer be executed.
func (w *world) advance(to clock.Instant) {
	w.now = to
	for _, n := range w.names {
		n.server.tick(to)
	}
	kept := w.bag[:0]
	for _, f := range w.bag {
		if !f.dead || f.executed || w.now < f.until {
			kept = append(kept, f)
		}
	}
	w.bag = kept
}

func (w *world) advanceLittle() bool {
	w.advance(w.now.Add(time.Duration(w.rand(5000)) * time.Microsecond))
	return true
}

func (w *world) advanceLease() bool {
	w.advance(w.now.Add(oneOf(w, 100*time.Millisecond, 250*time.Millisecond, time.Second, 4*time.Second)))
	return true
}

// advanceToEvent moves the time to the moment at which something of a sort happens.
func (w *world) advanceToEvent() bool {
	var next clock.Instant
	sooner := func(at clock.Instant) {
		if at > w.now && (next == 0 || at < next) {
			next = at
		}
	}
	switch w.rand(4) {
	case 0:
		for _, v := range w.verbs {
			sooner(v.over)
			sooner(v.a.Ends)
		}
	case 1:
		for _, p := range w.procs {
			sooner(p.alarm)
		}
	case 2:
		for _, n := range w.names {
			if len(n.server.holders) > 0 {
				sooner(n.server.expiry.Add(-n.server.skew))
			}
		}
	default:
		for _, e := range w.exits {
			sooner(e.over)
		}
		for _, f := range w.bag {
			sooner(f.until)
		}
	}
	if next == 0 {
		return false
	}
	w.advance(next)
	return true
}

func (w *world) due() bool {
	p, ok := pick(w, w.procs, func(p *process) bool { return p.alarm != 0 && p.alarm <= w.now && !p.stopped })
	if !ok {
		return false
	}
	p.alarm = 0
	renew, release := p.table.Due(w.now, w.rand(2) == 0, &p.notices)
	p.deliver()
	for i := range renew {
		w.batches = append(w.batches, &renewal{proc: p, b: &renew[i]})
		for _, g := range renew[i].grants {
			if _, shortest := w.renewals(g); renew[i].Shortest() > shortest {
				w.failf("RenewInTime: #%d has %v, its batch %v", g.holder.Number, shortest, renew[i].Shortest())
			}
		}
	}
	w.logf("due at c%d: %d batches, %d releases", p.index, len(renew), len(release))
	for _, x := range release {
		e := &exit{proc: p, name: w.nameOf(x.grant.handle.Key.Name), x: x}
		w.exits = append(w.exits, e)
		s := p.table.ResumeRelease(x, w.now, &p.notices)
		p.deliver()
		w.nextExit(e, s)
	}
	return true
}

// send sends a batch of renewals.
func (w *world) send() bool {
	r, ok := pick(w, w.batches, func(r *renewal) bool { return !r.proc.stopped })
	if !ok {
		return false
	}
	w.batches = queue.Without(w.batches, r)
	p := r.proc
	r.step, r.sent = w.step, w.now
	c := p.table.Wanted(r.b, w.now, &p.notices)
	p.deliver()
	if len(c.Keys) == 0 {
		return true
	}
	if len(c.Argv)-1 != len(r.b.grants) || len(r.b.grants) > modelBatch {
		w.failf("RenewHeld: %d fields for %d grants", len(c.Argv)-1, len(r.b.grants))
	}
	for _, g := range r.b.grants {
		longest, _ := w.renewals(g)
		w.noteLease(g.inRedis().Field, wire.Millis(longest))
		switch {
		case g.stage != held || g.term.Past(w.now) || longest == 0:
			w.failf("RenewHeld: renews #%d in stage %d", g.holder.Number, g.stage)
		case c.Argv[0] != wire.Millis(longest):
			w.failf("RenewLongest: renews #%d by %v ms instead of %v", g.holder.Number, c.Argv[0], longest)
		}
	}
	w.bag = append(w.bag, &flight{call: c, proc: p, renewal: r, until: w.now.Add(modelCommand)})
	w.logf("c%d renews %v", p.index, c.Argv[1:])
	return true
}

// renewals returns the longest and the shortest of the leases that the open acquisitions of a grant have renewed. Zero means
// that there is none.
func (w *world) renewals(g *Grant) (longest, shortest time.Duration) {
	note := func(a *Acquisition) {
		if a.renewal > 0 {
			longest = max(longest, a.renewal)
			shortest = min(shortest, a.renewal)
		}
	}
	shortest = 1 << 62
	for i := range g.open() {
		a := g.at(i)
		if a.ending.Err() == nil {
			note(a)
		}
	}
	for _, e := range w.exits { // an unlock that waits for its turn
		if e.x.grant == g && e.x.phase == turning && e.step.Do == Sleep && !e.exports {
			note(e.x.acq)
		}
	}
	return longest, shortest
}

// sendAgain sends a batch on another connection, while the reply may still come.
func (w *world) sendAgain() bool {
	f, ok := pick(w, w.bag, func(f *flight) bool { return f.renewal != nil && !f.dead && !f.proc.stopped })
	if ok {
		b := *f.renewal.b
		w.batches = append(w.batches, &renewal{proc: f.proc, b: &b})
	}
	return ok
}

// unlock unlocks by handle, by owner or by hold.
func (w *world) unlock() bool {
	r, ok := pick(w, w.records, (*record).open)
	if !ok {
		return false
	}
	p := r.proc
	x := new(Exit)
	var s Step
	switch how := w.rand(4); {
	case r.byHold || how == 0 || w.handedOver(r.handle):
		s = p.table.Release(x, r.acq, w.now, &p.notices)
	case how == 1:
		s = p.table.Unlock(x, r.handle, owner.Who{}, w.now, &p.notices)
	case how == 2:
		late := errors.Is(r.acq.Err(w.now), fault.ErrLost)
		s = p.table.Unlock(x, w.handleFor(r), owner.Who{Holds: claims(r.holds), Owner: r.base}, w.now, &p.notices)
		w.checkChosen(r, x, late)
	default:
		s = p.table.Unlock(x, r.handle, owner.Who{Owner: r.owner}, w.now, &p.notices)
	}
	w.unlockedOne(p, r, x, s)
	return true
}

// handedOver reports whether an acquisition through a handle was handed over, and its caller has not seen it yet. An unlock
// without an owner may choose it, because it was made through the same handle.
func (w *world) handedOver(h *Handle) bool {
	return slices.ContainsFunc(w.verbs, func(v *verb) bool { return v.a.got != nil && v.a.Handle == h })
}

// unlockedOne takes in which acquisition the table chose to unlock.
func (w *world) unlockedOne(p *process, r *record, x *Exit, s Step) {
	p.deliver()
	if x.acq == nil {
		w.failf("OneResult: nothing to unlock: %v", s.Err)
	}
	chosen, ok := pick(w, w.records, func(r *record) bool { return r.acq == x.acq })
	switch {
	case !ok:
		w.failf("OneResult: an unlock chose an acquisition that nobody got")
	case chosen.unlocked:
		w.failf("OneResult: an unlock chose an acquisition for the second time")
	case chosen.byHold && chosen != r:
		w.failf("OneResult: an unlock chose the acquisition of a hold")
	}
	w.checkPastUnlock(x, s)
	chosen.unlocked = true
	e := &exit{proc: p, name: r.name, x: x, rec: chosen}
	if why := chosen.acq.ending.Err(); !errors.Is(why, fault.ErrLost) {
		chosen.ended = true
	} else {
		e.before, chosen.over = why, true
	}
	w.exits = append(w.exits, e)
	w.nextExit(e, s)
}

// checkPastUnlock checks that an unlock past the deadline returns the loss at once, and that the release goes out now.
func (w *world) checkPastUnlock(x *Exit, s Step) {
	g := x.grant
	switch {
	case !g.term.Past(w.now):
	case s.Do != Done || !errors.Is(s.Err, fault.ErrLost):
		w.failf("LostAtOnce: an unlock past the deadline gets %s", s)
	case g.stage == held, g.stage == expired, g.stage == retiring && g.failures == 0 && g.DueAt() > w.now:
		w.failf("LostAtOnce: #%d is past its deadline and unlocked, and in stage %d", g.holder.Number, g.stage)
	}
}

func (w *world) unlockAgain() bool {
	r, ok := pick(w, w.records, func(r *record) bool { return r.unlocked && !r.proc.stopped })
	if !ok {
		return false
	}
	s := r.proc.table.Release(new(Exit), r.acq, w.now, &r.proc.notices)
	r.proc.deliver()
	if s.Do != Done || s.Err != fault.ErrUnlockedAlready && s.Err != fault.ErrExported { // the very error
		w.failf("OneResult: the second unlock gets %s", s)
	}
	return true
}

func (w *world) unlockAll() bool {
	r, ok := pick(w, w.records, (*record).open)
	if !ok {
		return false
	}
	x := new(Exit)
	w.unlockedOne(r.proc, r, x, r.proc.table.Release(x, r.acq, w.now, &r.proc.notices))
	return true
}

func (w *world) resumable(e *exit) bool {
	return e.step.Do == Sleep && !e.proc.stopped && (ready(e.step.Wait, false) || e.over != 0 && w.now >= e.over)
}

func (w *world) resume() bool {
	e, ok := pick(w, w.exits, w.resumable)
	if ok {
		s := e.proc.table.ResumeRelease(e.x, w.now, &e.proc.notices)
		e.proc.deliver()
		w.nextExit(e, s)
	}
	return ok
}
