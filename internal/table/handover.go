package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A hand-over gives the lock from an owner that releases it to the head of the local queue: one command, which is not
// announced to other processes.
//
// It must not starve others. After a number of hand-overs, or some time after the lock was last free for all, it is freed. The
// first one in the line gets it then, and the head stands behind the others. Where there is no line, the lock is announced. If
// other processes listened to that announcement, the head leaves the lock to them for a moment.

// contestedHandOvers is how many hand-overs follow a grant by the line. Each costs half as much as a hand-off to another process,
// or less. So with three of them, a name that several processes take changes hands about as often as one that a single process
// takes, and it still moves between processes at every fourth turn.
const contestedHandOvers = 3

// atEnd reports whether a turn in the line is over, although a waiter of this process is next. Others that know of no line have
// the share of one waiter, so every release has to count.
func (g *Grant) atEnd(next *Attempt) bool {
	return next.queue.Shared.others || g.contested && g.streak.count >= contestedHandOvers
}

// nextHolder returns the head to which the lock of a grant is handed over when the grant is released. Nil means that the
// lock is freed for all processes.
func (t *Table) nextHolder(g *Grant, now clock.Instant) *Attempt {
	k := g.handle.Kind
	l := t.queueOf(g.handle.Key)
	if l == nil || k.HandOver == nil || t.stopping || !g.usable(now) || g.inDoubt || g.sibling() != nil {
		return nil
	}
	if k.Side == wire.MainSide && t.holder(g.handle.Key) != g {
		return nil
	}
	a := firstToServe(l)
	if a == nil || a.Handle.Kind != k || ended(a.Wait) || g.outlasts(a.Lease, now) {
		return nil
	}
	a.askAt = 0
	return a
}

// outlasts reports whether Redis may keep the grant for longer than a lease that is asked for now. A hand-over to such a
// lease would leave the other processes asleep: they sleep by the present lease, and hear of no release. A command that is
// still under way changes nothing once the lock has been handed over.
func (g *Grant) outlasts(lease time.Duration, now clock.Instant) bool {
	return (lease < g.term.Lease || g.lengthened) && now.Add(lease) < g.term.LatestExpiry
}

func (t *Table) handOver(x *Exit, next *Attempt, now clock.Instant) Step {
	g := next.grant
	next.handing, next.sent, next.forcings, next.question = true, now, t.forcings, t.sections
	next.knows().RefusedUntil(x.grant.term.Ends()).Asked(next.question, now)
	g.sending(next.Lease, now)
	x.phase, x.sent, x.next, x.nextGrant = handing, now, next, g
	call := g.inRedis().HandOver(g.handle.Names(), x.grant.inRedis(), next.Lease)
	return Step{Do: Ask, Acked: true, Call: call}
}

func (t *Table) onHandOverReply(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
	g := x.grant
	t.onHandedOver(x.next, x.nextGrant, r, now, n)
	switch {
	case r.Acquired():
		if x.nextGrant.stage == held {
			t.counts.HandOvers++
			x.next.Seen.HandedOver, x.next.Seen.Here = true, true
			x.nextGrant.follow(g, now)
		}
		return t.endRelease(x, nil, now, n)
	case r.Err == nil && r.N == wire.LastGone:
		return t.endGone(x, errHolderGone, now, n)
	}
	x.next, x.nextGrant = nil, nil // the release that follows is not about the next holder
	x.doubt = r.Err.InDoubt() || r.Err != nil && r.Err.Fate == fault.Partial
	if x.doubt && now.Sub(x.start) >= t.cfg.CommandTimeout {
		return t.endSilent(x, fault.Unavailable(fault.ErrNoAnswer), now, n)
	}
	return t.free(x, now)
}

// onHandedOver records the outcome of a hand-over for the next holder.
func (t *Table) onHandedOver(a *Attempt, g *Grant, r wire.Reply, now clock.Instant, n *notice.List) {
	a.handing = false
	switch {
	case a.phase == done: // it left, and a release of its own follows
		t.repliedLate(g, a.question, r, now)
		return
	case r.Acquired() && r.Err == nil:
		if a.got, a.failed = t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease}, now, n); a.failed != nil {
			a.knows().Failed(a.failed)
		}
	case r.Acquired(): // but replicas did not acknowledge it
		a.failed = r.Err
		a.knows().Failed(r.Err)
		g.needsCleanup = true
	case r.Err != nil:
		a.knows().Failed(r.Err)
		g.inDoubt = g.inDoubt || r.Err.InDoubt()
		g.needsCleanup = g.needsCleanup || r.Err.Fate == fault.Partial
		a.place.AskBy(now) // Redis may have made it the holder, and no message will say so
	case a.place.Stands: // and so does the refusal with which it came to stand there
		a.knows().Refused()
	default:
		a.knows().Answered()
	}
	a.bell.Ring()
}

func (g *Grant) follow(last *Grant, now clock.Instant) {
	g.streak, g.contested = streak{since: last.streak.since, count: last.streak.count + 1}, last.contested
	g.streak.begin(now)
}
