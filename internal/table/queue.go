package table

import (
	"slices"
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
	a.counted(0)
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

// handedSoon returns for how long the first attempt of a semaphore's local queue rests after a hand-over.
func (a *Attempt) handedSoon(why Cause, now clock.Instant) time.Duration {
	s := &a.queue.Shared
	if s.handedAt == 0 || s.free > 0 || why == ByMessage {
		return 0
	}
	return s.handedAt.Add(handOverSoon).Sub(now)
}

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

// Permits have several holders at a time, and these may release together. So several hand-overs may be under way, each to the first
// attempt that has been given nothing yet. It may stand in the line: the script takes it out of there. The reply says how many permits
// are free, and who else waits. While nobody else does, permits stay in the process for as long as they are wanted there.

// contender returns the attempt of a local queue that contends. Nil means that none does. An attempt for permits that is handed some
// does so no more, though it is still in the queue: other permits may be free.
func contender(l *localQueue) *Attempt {
	for _, a := range l.All() {
		if !a.Handle.Kind.HasPermits() || !a.handing && a.got == nil {
			return a
		}
	}
	return nil
}

// firstToServe returns the attempt of a local queue to which a lock, or so many permits, can be handed over: the head of a lock's
// queue if it rests outside the line; for permits, the first one that has been given none, if it rests and wants as many. One that
// asks for as many that are free may be passed. Nil means that there is none.
func firstToServe(l *localQueue, permits int) *Attempt {
	asks := contender(l)
	for _, a := range l.All() {
		rests := (a.phase == queued || a.phase == resting) && a.failed == nil
		switch {
		case !a.Handle.Kind.HasPermits():
			if rests && !a.handing && a.got == nil && !a.place.May {
				return a
			}
			return nil
		case a.handing, a.got != nil:
		case a.grant.holder.Permits() != permits:
			return nil
		case a == asks && rests && l.Shared.free > 0, a.phase == asking && a.seek != alone:
		case rests:
			return a
		default:
			return nil
		}
	}
	return nil
}

// handOverSoon is for how long after a hand-over of permits the next one does not ask, because there may soon be another one. If it
// asked each time, a turn would cost two commands.
const handOverSoon = 5 * time.Millisecond

// While permits are free, as far as is known, as many attempts ask at once. Only the one that contends stands in the line if it is
// refused; those beside it wait behind it then.

// asksNow notes how many permits are free, and wakes as many of those who wait for them. One that stands in the line is told there.
// Soon after a hand-over, those behind the first one may get the next one, which costs less.
func asksNow(l *localQueue, free int, now clock.Instant) {
	first := contender(l)
	if first != nil && first.place.Stands && first.phase != asking {
		return
	}
	l.Shared.free = max(free, 0)
	for _, a := range l.All() {
		switch {
		case a.phase == asking, a.handing, a.got != nil:
			continue
		case free <= 0, a.place.Stands, a != first && (free < a.grant.holder.Permits() || l.Shared.soon(now)):
			return
		}
		free -= a.grant.holder.Permits()
		a.bell.Ring()
	}
}

// freedHere has the first one ask, because this process has given permits back. Those behind it wait for what its reply says: an earlier
// reply may have counted the same permits, and then they would pass it.
func freedHere(l *localQueue, now clock.Instant) {
	switch a := contender(l); {
	case a == nil:
	case a.phase != asking:
		asksNow(l, max(l.Shared.free, 1), now)
	case !a.place.Stands:
		a.bell.Ring()
	}
}

// soon reports whether permits were handed over so lately that there may soon be another hand-over.
func (s *shared) soon(now clock.Instant) bool {
	return s.handedAt != 0 && now.Sub(s.handedAt) < handOverSoon
}

// mayAsk reports whether an attempt that does not contend may ask, because enough permits are free.
func (a *Attempt) mayAsk(now clock.Instant) bool {
	s := &a.queue.Shared
	if a.place.May || a.handing || s.soon(now) {
		return false
	}
	return s.free >= a.grant.holder.Permits()
}

// follows reports whether an attempt that comes may ask, because all before it do.
func (a *Attempt) follows(now clock.Instant) bool {
	return a.mayAsk(now) && !slices.ContainsFunc(a.queue.All(), func(other *Attempt) bool {
		return other != a && other.phase != asking && !other.handing && other.got == nil
	})
}

// counted notes for how many permits an attempt of a local queue asks from now on: for none once it has a reply.
func (a *Attempt) counted(permits int) {
	if a.queue == nil {
		return
	}
	s := &a.queue.Shared
	switch {
	case permits == 0, a.seek == beside:
	case s.free > 0:
		a.seek = hopeful
	default:
		a.seek = alone
	}
	s.free, s.asked, a.seeks = max(s.free-permits, 0), s.asked+int32(permits)-a.seeks, int32(permits)
}
