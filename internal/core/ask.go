package core

import (
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// next is what to do after a question.
type next byte

const (
	over  next = iota // nothing
	again             // ask at once: the clock was wrong, or the place is lost
	later             // ask after a pause: nobody could say
	wait              // it is refused
)

// said is what Redis said when it refused.
type said struct {
	ttl   time.Duration // of the lease in the way; negative means that it is not known
	place int64
	deaf  bool // the server that decides does not hear this client
}

// ask asks once, and is the one place that classifies a reply. A hold means that the lock was acquired.
func (a *attempt) ask(mode string) (*Hold, next) {
	c := a.client
	until := a.until()
	q := transport.Question{Call: a.acquireCall(mode, until), Slot: transport.WaitSlot, Stop: c.Stopping, Acked: true, Number: uint64(a.number)}
	if !a.told && a.t.Bound != 0 {
		q.Within = max(a.t.Bound.Sub(clock.Now()), time.Millisecond)
	}
	a.out.Seen.Questions++
	var forced int64
	a.note(func() {
		a.known.Asked(q.Number, clock.Now())
		forced = a.forced
	})
	r, sent := a.send(a.limit(), q, a)
	if r.Err != nil {
		return nil, a.failed(r.Err, mode, until)
	}
	if r.List == nil {
		at := a.takenAt(&r)
		if now := a.forcedAt(); now != forced && at < now { // it was freed by force, maybe after that
			return nil, again
		}
		return a.take(clock.Of(sent), a.t.Lease, r.N, at, true)
	}
	if r.List[1] > a.open {
		a.open = 0 // nothing of its earlier commands can come any more
	}
	switch r.List[0] {
	case 0:
		a.told = true
		return nil, a.onRefused(r.List, mode)
	case lateReply:
		return nil, again
	}
	a.told, a.stood, a.first = true, false, false
	if a.t.Ticket != "" {
		a.out.Err = errTicket
		return nil, over
	}
	return nil, again
}

// lateReply is what a script replies to a command that came too late.
const lateReply = -2

// Late takes the reply to a question that came after its caller had left: Redis answers, so the silence of others counts from now.
func (a *attempt) Late(number uint64, r wire.Reply, now clock.Instant) {
	if r.Err != nil && !r.Err.Replied() {
		return
	}
	a.note(func() {
		if n := a.client.names[a.key]; n != nil {
			for _, other := range n.live {
				other.known.Late(number, now)
			}
		}
	})
}

// onRefused takes the reply of a refusal.
func (a *attempt) onRefused(reply []int64, mode string) next {
	unset := a.kind == Permits && reply[5] < 0
	a.note(func() {
		if a.known.Refused(); unset {
			a.known.NotSetUp()
			a.tellUnset()
		}
	})
	if ghost := reply[5]; ghost > 0 {
		a.client.exorcise(a, ghost)
	}
	a.stood, a.first = reply[3] >= 0, reply[3] == 0
	a.said = said{time.Duration(reply[2]) * time.Millisecond, reply[3], reply[4] == 0 && mode != "try"}
	if unset && a.t.SetsUp {
		return over
	}
	return wait
}

// tellUnset has those who wait behind this attempt, and whose callers set the semaphore up, do so. The client's mutex must be held.
func (a *attempt) tellUnset() {
	a.queue = slices.DeleteFunc(a.queue, func(other *attempt) bool {
		if a.asks != a || !other.t.SetsUp {
			return false
		}
		other.known.NotSetUp()
		other.turn <- turn{unset: true}
		return true
	})
}

// failed takes the error of a question.
func (a *attempt) failed(err *fault.Error, mode string, until int64) next {
	switch left := a.limit().Err() != nil || isClosed(a.client.Stopping); {
	case err.InDoubt():
		a.open = max(a.open, until)
		a.stood = a.stood || mode == "new" // perhaps; it asks whether it does
		if left && !err.TimedOut() {
			return over
		}
	case errors.Is(err, fault.ErrNotSent) && left:
		if errors.Is(err, fault.ErrNoConnection) {
			a.note(a.known.Unsent)
		}
		return over // nothing was tried
	case err.Fate == fault.Partial, err.Fate == fault.Unreplicated:
		a.stood = true // its release is not to be forgotten
	}
	a.told = true
	a.note(func() { a.known.Failed(err) })
	if a.t.Single && a.t.Ticket == "" || !err.Transient {
		a.out.Err = a.t.Denied(err)
		return over
	}
	return later
}

// take makes the attempt a hold, which Redis has had since a moment for a term, unless little is left of that. told means that Redis said so in
// a reply.
func (a *attempt) take(from clock.Instant, term time.Duration, token, at int64, told bool) (*Hold, next) {
	if lease.Late(from, term, clock.Now()) {
		a.stood = true // its release is not to be forgotten
		err := fault.LeaseTooShort(term, clock.Now().Sub(from))
		a.note(func() { a.known.Failed(err) })
		if a.t.Single {
			a.out.Err = err
			return nil, over
		}
		return nil, later
	}
	h := a.newHold(from, term, token, at)
	if h == nil { // the client shuts down
		a.stood, a.out.Err = true, fault.ErrClosed
		return nil, over
	}
	a.out.Seen.Granted = !told
	return h, over
}
