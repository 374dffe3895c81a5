package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// The ways of waiting.
type (
	pollWay    struct{}          // no message wakes it
	channelWay struct{ pollWay } // a release wakes all who listen to Redisson's channel
	lineWay    struct{}          // a release grants the lock to the first one in the line
	seatWay    struct{}          // in the queue of a fair lock, on a seat
)

// choose sets how an attempt waits. Where this client has done without the line for long enough, it tries the line again.
func (t *Table) choose(a *Attempt, now clock.Instant) {
	if t.hiddenUntil <= now {
		t.hiddenUntil = 0
	}
	a.way = t.wayOf(a)
}

// wayOf returns how an attempt waits now. One that is not in the local queue does not stand in the line: it waits for no turn, or only for
// its owner's other side of the name.
func (t *Table) wayOf(a *Attempt) way {
	switch k := a.Handle.Kind; {
	case k.Queues && !a.Single:
		return seatWay{}
	case k.Channel == "":
		return pollWay{}
	case a.queue == nil || !t.usesLine(a.Handle):
		return channelWay{}
	}
	return lineWay{}
}

// question asks for the lock without waiting in Redis.
func (pollWay) question(t *Table, a *Attempt, _ phase, now clock.Instant) (wire.Call, time.Duration) {
	t.forgetPlace(a) // it may have stood there before: the reply tells whether the lock was granted to it
	if t.usesLine(a.Handle) {
		return a.lineCall(a.Handle.Names(), 0), 0
	}
	var writer any
	if other := a.sibling(); other.usable(now) {
		writer = other.inRedis().Field
	}
	if a.Handle.Yields && t.lined(a.Handle) {
		waited := now.Sub(a.began)
		if a.Single {
			waited = -time.Microsecond
		}
		return a.grant.inRedis().Yield(a.Handle.Names(), a.Lease, waited, writer), 0
	}
	return a.grant.inRedis().Acquire(a.Handle.Names(), a.Lease, writer), 0
}

func (pollWay) channel(*Attempt) string                                   { return "" }
func (pollWay) leavesPlace() bool                                         { return false }
func (pollWay) idle(*Table, *Attempt, Cause, clock.Instant) time.Duration { return 0 } // no message wakes it

func (pollWay) pause(_ *Table, a *Attempt, _ *wire.Position, _ time.Duration, _ clock.Instant) time.Duration {
	a.pollDelay = min(max(a.pollDelay*2, a.Handle.FirstDelay), a.Handle.MaxDelay)
	return a.pollDelay
}

func (channelWay) channel(a *Attempt) string { return a.Handle.Names().Channel }

func (channelWay) pause(t *Table, _ *Attempt, _ *wire.Position, hint time.Duration, _ clock.Instant) time.Duration {
	return t.cfg.Rest(hint, false)
}

func (channelWay) idle(t *Table, a *Attempt, why Cause, now clock.Instant) time.Duration {
	if a.queue == nil || a.place.Stands { // it stands in a line that this client does without by now
		return 0
	}
	if g := t.rival(a.grant, now); g != nil {
		pause, soon := t.waitFor(a, g, now)
		if why == ByMessage && a.askAt == 0 {
			a.askAt = now.Add(soon)
		}
		if a.askAt != 0 {
			pause = min(pause, a.askAt.Sub(now))
		}
		return pause
	}
	last, ok := t.publicReleases.Of(a.Handle.Key)
	if !ok {
		return 0
	}
	heard, _ := t.messages.Received(a.Handle.Names().Channel)
	pause := last.Wait(heard, why == ByMessage, t.cfg.StandBack, now)
	if a.Ends != 0 && a.Ends < now.Add(pause) {
		return 0
	}
	return pause
}

// The line of a lock is a queue in Redis of the processes that wait for it. The head of a local queue stands there for its
// process. A release grants the lock to the first one in the line, and notifies that one alone.

func (lineWay) question(t *Table, a *Attempt, next phase, now clock.Instant) (wire.Call, time.Duration) {
	term, names := time.Duration(0), a.Handle.Names()
	if next == asking {
		term = t.firstTerm(a)
		t.notePlace(a, a.ownChannel(), term, now)
	}
	return a.lineCall(names, term), 0
}

func (lineWay) channel(a *Attempt) string { return a.ownChannel() }
func (lineWay) leavesPlace() bool         { return false }

// firstTerm returns the short lease with which a release grants the lock to an attempt. [wire.Woken] means that the release wakes it instead,
// because it wants permits, or because replicas could not acknowledge the grant.
func (t *Table) firstTerm(a *Attempt) time.Duration {
	if t.cfg.Acks {
		return wire.Woken
	}
	return min(a.Lease, wire.FirstTerm)
}

// idle lets the head stay out of the line while an owner of this process holds the lock. A message about an unlock by force reaches
// only the line. Others are first if they stand there already.
func (lineWay) idle(t *Table, a *Attempt, why Cause, now clock.Instant) time.Duration {
	if a.place.Stands {
		return t.restsInLine(a, why, now)
	}
	if g := t.rival(a.grant, now); g != nil {
		pause, _ := t.waitFor(a, g, now)
		return min(pause, aside)
	}
	return 0
}

// pause lets only the first ones watch the lease of the holder, each a little later than the one before it. The others ask ever
// more rarely, because a message may be lost.
//
// A process may be stopped when the lock is granted to it. The next one must ask within a first term after that, or it would not
// see when the lease ends. A release tells it to, if it has waited for so long that it need not have asked again.
func (lineWay) pause(t *Table, a *Attempt, p *wire.Position, hint time.Duration, now clock.Instant) time.Duration {
	const apart = 20 * time.Millisecond
	if p == nil {
		return t.cfg.Rest(hint, false)
	}
	if p.Ahead >= wire.Watching {
		if waited := now.Sub(a.place.Since); waited < wire.FirstTerm {
			return t.cfg.Rest(wire.FirstTerm-waited, false)
		}
		return t.cfg.Stretch(wire.FirstTerm, int(a.polls), len(t.placed)) + time.Duration(min(p.Ahead, 1000))*apart
	}
	return max(min(hint, t.cfg.Stretch(wire.FirstTerm, 0, len(t.placed))), time.Millisecond) + time.Duration(p.Ahead)*apart
}

// The attempts for a fair lock queue in Redis, each for itself, so that they have their turns in the order in which they came,
// in all processes. A release gives the lock to the first one. An attempt queues on a seat, and the next one has that seat after
// it: then its channel is subscribed already. A seat is free as soon as its attempt is done, because the scripts compare the
// numbers of those who have it.

// question queues if the lock is refused, and shows Redisson that the waiter lives.
func (seatWay) question(t *Table, a *Attempt, next phase, now clock.Instant) (wire.Call, time.Duration) {
	if a.seat == nil {
		t.sit(a)
	}
	again := a.place.May
	var term time.Duration
	if next == asking && !t.cfg.Acks && t.countsListeners() {
		term = t.firstTerm(a)
		t.notePlace(a, a.seat.Channel, term, now)
	} else {
		t.forgetPlace(a)
		a.place.Epoch = t.messages.Epoch(a.seat.Channel)
	}
	return a.grant.inRedis().Queue(a.Handle.Names(), a.Lease, t.cfg.FairWait, term, a.seat, again), t.cfg.Refresh()
}

func (seatWay) channel(a *Attempt) string { return a.seat.Channel }
func (seatWay) leavesPlace() bool         { return true }

func (seatWay) idle(t *Table, a *Attempt, why Cause, now clock.Instant) time.Duration {
	return t.restsInLine(a, why, now)
}

// pause is the same for all: only the first one watches the lease, and is told when it becomes that.
func (seatWay) pause(t *Table, _ *Attempt, _ *wire.Position, hint time.Duration, _ clock.Instant) time.Duration {
	return t.cfg.Rest(hint, true)
}
