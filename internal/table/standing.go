package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/standing"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/wire"
)

// The line of a lock is a queue in Redis of the processes that wait for it. The head of a local queue stands there for its
// process. A release grants the lock to the first one in the line, and notifies that one alone.

// firstTerm is the lease with which a release grants a lock, at most. A process that was stopped, or that died unseen, blocks
// the lock for no longer than that.
const firstTerm = 3 * time.Second

// lineLife is for how long Redis keeps a line in which nobody registers. Until then, a waiter that has left may be granted the
// lock, if its client listens.
const lineLife = 5 * time.Minute

// firstRenewal is after how long such a hold is first renewed. Most holds are over by then.
const firstRenewal = 100 * time.Millisecond

// Lined reports whether the scripts of the line serve a handle.
func (t *Table) Lined(h *Handle) bool {
	defer t.lock().Unlock()
	return t.lined(h)
}

// term returns the lease with which a release grants the lock to an attempt. Replicas could not acknowledge that: then a release
// wakes the attempt, which asks. So does one that gives back permits.
func (t *Table) term(a *Attempt) time.Duration {
	if t.cfg.Acks || a.Handle.Kind.Counted() {
		return wire.Woken
	}
	return min(a.Lease, firstTerm)
}

// Least returns how much of a lease must be left when its caller gets the lock. A lease that is renewed may be a first term.
func Least(lease time.Duration, renewed bool) time.Duration {
	if renewed {
		lease = min(lease, firstTerm)
	}
	return term.Least(lease)
}

// least returns the shortest lease of a grant on which an attempt may rely. The watchdog soon lengthens that of a renewed hold. No
// one lengthens a fixed lease: the attempt asks again before its caller has the lock, and finds it its own. If it got the lock
// before that, an outage of a few seconds would end a hold that was to last for longer.
func (a *Attempt) least() time.Duration {
	if a.Renewed {
		return 0
	}
	return a.Lease
}

// mayStand reports whether the next question of an attempt puts it into the line.
func (a *Attempt) mayStand(next phase) bool {
	return next == asking && !a.Single && a.line != nil && a.Handle.Kind.Channel != ""
}

// stand returns the call that asks for the lock, and puts the attempt into the line if it is refused and waits.
func (t *Table) stand(a *Attempt, next phase, now clock.Instant) wire.Call {
	var wait time.Duration
	if a.mayStand(next) {
		wait = t.term(a)
		t.joins(a, now)
	}
	c := a.grant.inRedis().Stand(a.Handle.Names(), a.Lease, wait)
	if a.SetsUp {
		c.Args.Other = 1
	}
	return c
}

// channel returns the channel on which an attempt is notified. Empty means none: it polls.
func (t *Table) channel(a *Attempt) string {
	names := a.Handle.Names()
	switch {
	case a.seat != nil:
		return a.seat.Channel
	case a.line != nil && a.Handle.Kind.Channel != "" && t.standsFor(a.Handle):
		return names.Own()
	}
	return names.Channel
}

// joins notes that a command is about to be sent that may put an attempt into the line. The lock may be granted to it before
// the reply comes.
func (t *Table) joins(a *Attempt, now clock.Instant) {
	channel := t.channel(a)
	t.standing[a.grant.holder.Number] = a
	t.origins.Note(channel, a.Handle, func(old string) bool {
		_, subscribed := t.messages.Heard(old)
		return subscribed
	})
	a.place.Join(t.messages.Epoch(channel), now)
	a.sent = now
}

// stood goes on after a refusal with which an attempt stands in the line.
func (t *Table) stood(a *Attempt, p wire.Place, hint time.Duration, now clock.Instant, n *Notices) Step {
	pause := t.linePause(a, p, hint, now)
	if p.Missed && a.place.Stands() {
		n.Report(notice.PlaceLost, a.Handle.Name, notice.LogPlaceLost, nil)
	}
	t.stands(a, p.At, pause, now, n)
	if p.Watch {
		t.watch(a.Handle, a, n)
	}
	t.hears(a, p, now, n)
	switch {
	case a.got != nil: // the lock was granted to it meanwhile
		return t.succeed(a, a.got, n)
	case a.failed != nil:
		return t.takeFailure(a, now, n)
	case a.place.Unsure() || !t.counted(a.Handle):
		return t.ask(a, asking, now, n)
	}
	return t.rest(a, pause, n)
}

// stands notes that an attempt stands in the line, since Redis showed its clock in a reply.
func (t *Table) stands(a *Attempt, micros int64, pause time.Duration, now clock.Instant, n *Notices) {
	a.place.Stand(standing.Sight{Sent: a.sent, Micros: micros}, now.Add(pause))
	if _, ok := t.watches.Of(a.Handle.Names().Own()); ok { // this client watches still
		t.watch(a.Handle, a, n)
	}
	a.grant.needsCleanup = true // a release takes it out of the line
	t.heed(a, now, n)
}

// unanswered notes that the command had no useful reply. An attempt that stood in the line before still does.
func (t *Table) unanswered(a *Attempt, now clock.Instant, n *Notices) {
	if a.place.Unanswered() {
		t.heed(a, now, n)
	}
}

// leavesLine notes that an attempt no longer waits for a grant. A release must take it out of the line in Redis.
func (t *Table) leavesLine(a *Attempt) {
	if a.place.May() {
		delete(t.standing, a.grant.holder.Number)
		t.notePast(a.grant)
		if a.seat == nil && (a.grant.stage == pending || a.grant.inDoubt) { // a question may still be executed, after a loss
			a.grant.rarely().stood = t.term(a)
		}
		a.place = standing.Place{}
	}
}

// linePause returns for how long an attempt in the line sleeps, given the reply that refused it. Only the first ones watch the
// lease of the holder, each a little later than the one before it. The others ask now and then, because a message may be lost.
//
// A process may be stopped when the lock is granted to it. The next one must ask within a first term after that, or it would not
// see when the lease ends. A release tells it to, if it has waited for so long that it need not have asked again.
func (t *Table) linePause(a *Attempt, p wire.Place, hint time.Duration, now clock.Instant) time.Duration {
	const watching, apart = 4, 20 * time.Millisecond
	if a.seat != nil { // only the first one watches the lease, and is told when it becomes that
		return t.pauseAfter(a, hint)
	}
	hint = min(hint, firstTerm)
	if p.Ahead >= watching {
		if waited := a.place.Waited(now); waited < firstTerm {
			return t.cfg.Rest(firstTerm-waited, false)
		}
		hint = t.cfg.PollInterval
	}
	return t.cfg.Rest(hint, false) + time.Duration(min(p.Ahead, 1000))*apart
}

// restsInLine returns for how long an attempt that stands in the line has nothing to do. A message on its channel that is no
// grant means that it has to ask.
func (t *Table) restsInLine(a *Attempt, why Cause, now clock.Instant) time.Duration {
	if why == ByMessage || a.place.Unsure() || !t.counted(a.Handle) {
		return 0
	}
	return a.place.AskAt().Sub(now)
}

// Hear takes a message on a channel of this client. What it says of a number counts only for the lock whose waiters it tells there.
func (t *Table) Hear(channel string, m wire.Message, arrived clock.Instant, n *Notices) {
	defer t.lock().Unlock()
	its := func(h *Handle) bool { return h.Names().Tells(channel, t.cfg.ClientID) }
	switch m.Sort {
	case wire.Granted:
		t.learn(t.origins.Of(channel), m, its, arrived, n)
	case wire.EndsSoon:
		if next := t.standing[m.Number]; next != nil && its(next.Handle) {
			next.place.EndsAt(arrived.Add(m.Term))
			next.bell.Ring()
		}
	case wire.Watch:
		if h := t.origins.Of(channel); h != nil {
			t.watch(h, t.stander(channel), n)
		}
	default:
	}
}

// stander returns an attempt that may stand in the line about which a channel tells this client. Nil means that none does.
func (t *Table) stander(own string) *Attempt {
	for _, a := range t.standing {
		if a.Handle.Names().Own() == own {
			return a
		}
	}
	return nil
}

// learn takes the message that an attempt for one of its locks has that. h is one of them; nil means that it is not known. If the attempt
// does not wait any more, it has found the lock by asking, or its release is on its way, or it is over.
func (t *Table) learn(h *Handle, m wire.Message, its func(*Handle) bool, arrived clock.Instant, n *Notices) {
	if a := t.standing[m.Number]; a != nil {
		if !its(a.Handle) {
			return
		}
		a.place.Hear(standing.Grant{Micros: m.At, Term: m.Term, Token: m.Token, Heard: arrived})
		t.heed(a, arrived, n)
		a.bell.Ring()
		return
	}
	if h != nil {
		t.unknown(h, m.Number, 1, m.Term, arrived, n)
	}
}

// heed makes an attempt the holder if Redis has granted it the lock. If it cannot tell when that was, or too little of the lease
// is left, the attempt asks.
func (t *Table) heed(a *Attempt, now clock.Instant, n *Notices) {
	if g, at, ok := a.place.Take(a.least(), now); ok {
		t.granted(a, proof{token: g.Token, sent: at, lease: min(g.Term, a.Lease), micros: g.Micros}, now, n)
	}
}

// granted makes an attempt the holder that a release has chosen.
func (t *Table) granted(a *Attempt, p proof, now clock.Instant, n *Notices) {
	g := a.grant
	g.sending(p.lease, now)
	a.got, a.failed = t.grant(a, g, p, now, n)
	a.Seen.Granted = a.got != nil
	if a.got != nil {
		a.keep(now) // the moment of the proof is early on purpose, for the lease
	}
	switch {
	case a.failed != nil:
		a.knows().Failed(a.failed)
	case a.got != nil && p.lease < a.Lease:
		g.term.RenewAt = p.sent.Add(min(firstRenewal, p.lease/3))
		t.plan(g, n)
	}
	t.leavesLine(a)
}

// give returns the call that frees a lock, and the waiter of this process that it names.
func (t *Table) give(x *Exit, now clock.Instant) wire.Call {
	g, next := x.grant, x.next
	var to *wire.Next
	if next != nil {
		x.nextGrant = next.grant
		next.handing, next.forcings = true, t.forcings
		next.knows().RefusedUntil(g.term.Ends())
		next.knows().Asked(now)
		x.nextGrant.sending(next.Lease, now)
		t.joins(next, now)
		to = &wire.Next{Holder: x.nextGrant.inRedis(), Lease: next.Lease, Term: t.term(next)}
	}
	return g.inRedis().Give(g.handle.Names(), g.tombstone(), g.stood(), to)
}

// gave takes what a release did with the lock.
func (t *Table) gave(x *Exit, r wire.Reply, now clock.Instant, n *Notices) {
	if x.grant.handle.Kind.Queues {
		t.gaveSeat(x, r, now, n)
		return
	}
	given := r.Gave()
	if l := t.lines.Of(x.grant.handle.Key); l != nil && r.Err == nil {
		l.Shared.others = given.Others > 0
		if x.grant.handle.Kind.Counted() {
			asksNow(l)
		}
	}
	if given.What == wire.ToPublic {
		t.pump(x.grant.handle, t.cfg.StandBack, n)
	}
	if given.Watch {
		t.watch(x.grant.handle, x.next, n)
	}
	a, g := x.next, x.nextGrant
	if a == nil {
		return
	}
	x.next = nil
	a.handing = false
	switch {
	case a.phase == done: // it left, and a release of its own follows
		t.repliedLate(g, r, now)
		return
	case r.Err != nil:
		a.knows().Failed(r.Err)
		g.inDoubt = g.inDoubt || r.Err.InDoubt()
		g.needsCleanup = g.needsCleanup || r.Err.Fate == fault.Partial || r.Err.Denied() // it was, or may have been, given the lock
		t.unanswered(a, now, n)
	case given.What == wire.ToNext:
		t.granted(a, proof{token: given.Token, sent: a.sent, lease: a.Lease, micros: given.At}, now, n)
		if a.got != nil {
			a.Seen.HandedOver, a.Seen.Granted, a.Seen.Here = true, false, true
			t.counts.HandOvers++
		}
	case given.What == wire.ToWaiter, given.What == wire.ToPublic:
		a.knows().Refused() // by Redis: what was known of the hold before ends with that
		if epoch := a.place.Epoch(); t.messages.Epoch(a.Handle.Names().Own()) != epoch {
			a.place.Doubt() // it woke while the release was under way, and had nothing to do
		}
		t.stands(a, given.At, t.linePause(a, wire.Place{Ahead: 1}, t.term(a), now), now, n)
	default: // the next holder was left out, or the lock was not held
		a.knows().Answered()
		t.unanswered(a, now, n)
	}
	a.bell.Ring()
}
