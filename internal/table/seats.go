package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// The attempts for a fair lock queue in Redis, each for itself, so that they have their turns in the order in which they came,
// in all processes. A release gives the lock to the first one. An attempt queues on a seat, and the next one has that seat after
// it: then its channel is subscribed already. A seat is free as soon as its attempt is done, because the scripts compare the
// numbers of those who have it.

// seats are those of a name.
type seats struct {
	free []*wire.Seat // the latest one comes last: its channel is the most likely to be subscribed
	made int
}

// queue returns the call that asks for the lock, and queues if the lock is refused.
func (t *Table) queue(a *Attempt, next phase, now clock.Instant) wire.Call {
	if a.seat == nil {
		t.sit(a)
	}
	again := a.place.May()
	var term time.Duration
	if next == asking && !t.cfg.Acks && t.counted(a.Handle) {
		term = t.term(a)
		t.joins(a, now)
	} else {
		t.leavesLine(a)
		a.place.Listens(t.messages.Epoch(a.seat.Channel))
	}
	return a.grant.inRedis().Queue(a.Handle.Names(), a.Lease, t.cfg.FairWait, term, a.seat, again)
}

// sit gives an attempt a seat that no other one has.
func (t *Table) sit(a *Attempt) {
	s := t.seats[a.Handle.Key]
	if s == nil {
		s = new(seats)
		t.seats[a.Handle.Key] = s
	}
	if last := len(s.free) - 1; last >= 0 {
		a.seat, s.free = s.free[last], s.free[:last]
		return
	}
	s.made++
	a.seat = wire.NewSeat(a.Handle.Names(), t.cfg.ClientID, s.made)
}

// rise frees the seat of an attempt that is done.
func (t *Table) rise(a *Attempt) {
	a.leavesSeat()
	s := t.seats[a.Handle.Key]
	s.free = append(s.free, a.seat)
	a.seat = nil
	if len(s.free) == s.made {
		delete(t.seats, a.Handle.Key)
	}
}

// leavesSeat notes that a release must take the grant of an attempt out of the queue, unless no command can put it there any more.
func (a *Attempt) leavesSeat() {
	if g := a.grant; a.seat != nil && (g.stage != held || g.inDoubt) {
		g.rarely().seat = a.seat
	}
}

// gaveSeat takes what the release of a fair lock did with it: a waiter of this client may have the lock. Without a reply, nobody
// tells which one, if any. So all of them ask: now, and again when there is a reply, because the release may have been carried
// out in between.
func (t *Table) gaveSeat(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) {
	if m, ok := r.GaveHere(); ok {
		t.learn(x.grant.handle, m, func(h *Handle) bool { return h.Key == x.grant.handle.Key }, now, n)
	}
	if r.Err == nil && x.retries == 0 && (!x.background || x.grant.failures == 0) {
		return
	}
	for _, a := range t.standing {
		if a.Handle.Key == x.grant.handle.Key {
			a.place.Doubt()
			a.bell.Ring()
		}
	}
}
