package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/table/internal/place"
	"github.com/go-rlock/rlock/internal/wire"
)

// sit gives an attempt a seat that no other one has.
func (t *Table) sit(a *Attempt) {
	s := t.seats[a.Handle.Key]
	if s == nil {
		s = new(seats)
		t.seats[a.Handle.Key] = s
	}
	if last := len(s.spare) - 1; last >= 0 {
		a.seat, s.spare = s.spare[last], s.spare[:last]
		return
	}
	s.made++
	a.seat = wire.NewSeat(a.Handle.Names(), t.cfg.ClientID, s.made)
}

func (t *Table) rise(a *Attempt) {
	a.keepSeat()
	s := t.seats[a.Handle.Key]
	s.spare = append(s.spare, a.seat)
	a.seat = nil
	if len(s.spare) == s.made {
		delete(t.seats, a.Handle.Key)
	}
}

// keepSeat notes that a release must take the grant of an attempt out of the queue, unless no command can put it there any more.
func (a *Attempt) keepSeat() {
	if g := a.grant; a.seat != nil && (g.stage != held || g.inDoubt) {
		g.rarely().seat = a.seat
	}
}

// lineCall returns the call that asks for the lock, and puts the attempt into the line with a term if it is refused. Zero puts it nowhere.
func (a *Attempt) lineCall(names *wire.Names, term time.Duration) wire.Call {
	return a.grant.inRedis().Stand(names, a.Lease, term)
}

// forgetPlace notes that an attempt no longer waits for a grant. A release must take it out of the line in Redis.
func (t *Table) forgetPlace(a *Attempt) {
	if a.place.May {
		delete(t.placed, a.grant.holder.Number)
		t.notePast(a.grant)
		if a.seat == nil && (a.grant.stage == pending || a.grant.inDoubt) { // a question may still be executed, after a loss
			a.grant.rarely().lineTerm = a.firstTerm
		}
		a.place = place.Place{}
	}
}

// restsInLine returns for how long an attempt that stands in the line has nothing to do. A message on its channel that is no
// grant means that it has to ask.
func (t *Table) restsInLine(a *Attempt, why Cause, now clock.Instant) time.Duration {
	if why == ByMessage || !a.place.Stands || a.place.Unsure || !t.countsListeners() {
		return 0
	}
	return a.place.AskAt.Sub(now)
}

// waiterFor returns an attempt for a lock that may stand in its line. Nil means that none does.
func (t *Table) waiterFor(h *Handle) *Attempt {
	if l := t.queueOf(h.Key); l != nil {
		for _, a := range l.All() {
			if a.place.May {
				return a
			}
		}
	}
	return nil
}

// A failover that loses the latest writes, or a restore, may bring back waiters that have left, or had their turn. A script then gives
// the lock to one of them, and tells its client, which gives the lock back at once.
//
// The client need not remember such waiters. It draws each number once, and knows every number that may still be, or become, a
// holder: those of the attempts that stand in the line, and those of the grants that stood there and are not over. A grant that never
// stood there gets no message. So any other number is over for good, and its release takes nothing from anybody.

// notePast notes a grant that does not stand in the line any more, unless it is over.
func (t *Table) notePast(g *Grant) {
	if g.stage != retired {
		t.alive[g.holder.Number] = g
	}
}
