package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/queue"
)

// line is the local queue of a name. One attempt at a time contends, its head; the others cost Redis nothing. The holder is
// not in it: the head leaves when it is granted the lock, and the next one takes over, from its next wake-up on.
type line = queue.Line[*Attempt, shared]

// shared is the data that the attempts of a local queue share.
type shared struct {
	known outcome.Record // by the questions of the heads: a waiter that never asked Redis ends with it
	// heard gets the messages for the heads, since one of them had to sleep. Kinds that poll share queues with kinds that
	// listen, so the last attempt to leave may not know the channel.
	heard notice.Listener
	// watched is the channel that this client watches for these attempts. Empty means none.
	watched string
	// others means that somebody listened who knows of no line when this process last released the lock.
	others bool
	// free means that permits are free, as far as is known, and that the one that contends is about to ask for some.
	free bool
	// handedAt is when permits were last handed over. Zero means that none were.
	handedAt clock.Instant
}

// leaveLine takes the attempt out of the local queue, and makes way for the next one. An attempt that is in none stops listening.
func (t *Table) leaveLine(a *Attempt, n *Notices) {
	t.leavesLine(a)
	l := a.line
	if l == nil {
		n.Unlisten(&a.heard)
		return
	}
	a.line, a.known = nil, l.Shared.known
	if l.Len() == 1 {
		t.unwatch(a, l, n)
		n.Unlisten(&l.Shared.heard)
	}
	contended := contender(l) == a
	if t.lines.Leave(a.Handle.Key, a) == nil && !contended {
		return
	}
	if next := contender(l); next != nil {
		next.bell.Ring()
		if a.grant.stage == pending {
			queue.PutToken(l.Shared.heard.Heard) // a message that this attempt got, but on which it did not act
		}
	}
}

// While an owner of this process holds a lock, the head of the local queue does not ask Redis: it waits until the lock is
// handed over to it, or until the hold has ended.

// grace is when the head asks Redis after a message that came while an owner of this process holds the lock. Mostly the
// message is about an earlier release of this process, and the lock has been handed over by then.
const grace = 5 * time.Millisecond

// aside is for how long the head stays out of the line while an owner of this process holds the lock. A release of that owner
// names the head.
const aside = 100 * time.Millisecond

// decide returns for how long the head of a local queue, or an attempt in none, has nothing to do, because asking Redis would be
// in vain. Zero or less means that it should ask.
func (t *Table) decide(a *Attempt, why Cause, now clock.Instant) time.Duration {
	if why == ByTime || a.Handle.Kind.Channel == "" { // a polling waiter always asks: no message wakes it
		return 0
	}
	if a.place.Stands() {
		return t.restsInLine(a, why, now)
	}
	if a.line == nil {
		return 0
	}
	if s := &a.line.Shared; s.handedAt != 0 && !s.free && why != ByMessage {
		if pause := s.handedAt.Add(handOverSoon).Sub(now); pause > 0 {
			return pause
		}
	}
	if g := t.rival(a.grant, now); g != nil {
		return t.waitFor(a, g, why, now)
	}
	if t.standsFor(a.Handle) { // others are first if they stand in the line already
		return 0
	}
	last, ok := t.public.Of(a.Handle.Key)
	if !ok {
		return 0
	}
	heard, _ := t.messages.Heard(a.Handle.Names().Channel)
	pause := last.Wait(heard, why == ByMessage, t.cfg.StandBack, now)
	if a.Ends != 0 && a.Ends < now.Add(pause) {
		return 0
	}
	return pause
}

// waitFor returns for how long the head rests while another owner of this process holds the lock, or releases it.
func (t *Table) waitFor(a *Attempt, rival *Grant, why Cause, now clock.Instant) time.Duration {
	pause, soon := t.cfg.PollInterval, t.cfg.StandBack // a message mostly means that the release has succeeded
	if rival.stage == held {
		a.refuse(rival)
		pause, soon = min(pause, rival.term.Ends().Sub(now)), grace // no reply says so after that, so the question is due
	}
	if t.standsFor(a.Handle) {
		return min(pause, aside) // a message about an unlock by force reaches only the line
	}
	if why == ByMessage && a.askAt == 0 {
		a.askAt = now.Add(soon)
	}
	if a.askAt != 0 {
		pause = min(pause, a.askAt.Sub(now))
	}
	return pause
}

// refuse notes that the lock was refused without asking Redis, because another owner of this process holds it.
func (a *Attempt) refuse(rival *Grant) {
	a.asked = true // in effect: an attempt whose wait is over has been refused
	a.knows().RefusedUntil(rival.term.Ends())
	a.grant.turns.Notify()
}

// refusedHere reports whether another owner of this process holds the lock, so that a single attempt need not ask.
func (t *Table) refusedHere(a *Attempt, now clock.Instant) bool {
	g := t.rival(a.grant, now)
	if g == nil || g.stage != held || a.sibling().usable(now) {
		return false
	}
	if !g.renewing() && now.Sub(g.term.Confirmed) > min(g.term.Lease, t.cfg.WatchdogTimeout)/3 {
		return false // no renewal would show that the lock was taken away
	}
	a.refuse(g)
	return true
}
