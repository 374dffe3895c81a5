package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
)

// leaveQueue takes the attempt out of the local queue, and makes way for the next one. An attempt that is in none stops listening.
func (t *Table) leaveQueue(a *Attempt, n *notice.List) {
	t.forgetPlace(a)
	l := a.queue
	if l == nil {
		n.Unlisten(&a.heard)
		return
	}
	a.queue, a.known = nil, l.Shared.known
	if l.Len() == 1 {
		if l.Shared.watched {
			t.unwatch(a, l, n)
		}
		n.Unlisten(&l.Shared.heard)
		t.queues.Leave(a.Handle.Key, a)
		return
	}
	contended := contender(l) == a
	if t.queues.Leave(a.Handle.Key, a) == nil && !contended {
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

// waitFor returns for how long the head rests while another owner of this process holds the lock, or releases it, and after how
// much of that a message makes it ask.
func (t *Table) waitFor(a *Attempt, rival *Grant, now clock.Instant) (pause, soon time.Duration) {
	if rival.stage == held {
		a.refuse(rival)
		return min(t.cfg.PollInterval, rival.term.Ends().Sub(now)), grace // no reply says so after that, so the question is due
	}
	return t.cfg.PollInterval, t.cfg.StandBack // a message mostly means that the release has succeeded
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

// contender returns the attempt of a local queue that contends: the first one.
func contender(l *localQueue) *Attempt { return l.Head() }

// firstToServe returns the head of a local queue, if it rests outside the line and the lock can be handed over to it. Nil means that it cannot.
func firstToServe(l *localQueue) *Attempt {
	a := l.Head()
	if (a.phase == queued || a.phase == resting) && a.failed == nil && !a.handing && a.got == nil && !a.place.May {
		return a
	}
	return nil
}
