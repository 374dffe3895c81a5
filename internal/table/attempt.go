package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/wire"
)

// finish ends the attempt without an acquisition. An err of nil means that Last is the outcome.
func (a *Attempt) finish(err error) Step {
	a.phase = done
	return Step{Do: Done, Err: err}
}

// awaitTurn returns the step that waits for the owner's other operations. The end of a short wait does not end it before anything is known.
func (a *Attempt) awaitTurn(pause time.Duration, now clock.Instant) Step {
	s := a.grant.awaitTurn(pause)
	s.Outlives, s.Within = a.outlives(now)
	return s
}

// knows returns the record of what is known about the lock of an attempt.
func (a *Attempt) knows() *outcome.Record {
	if a.phase == trying {
		a.grant.table.enqueue(a)
	}
	if a.queue != nil {
		return &a.queue.Shared.known
	}
	return &a.known
}

// concludes returns what an attempt would say if it ended now. A hold in this process that is inside its deadline is as good as a
// refusal by Redis now.
func (t *Table) concludes(a *Attempt, now clock.Instant) outcome.Result {
	known, g := a.knows(), a.grant
	if a.ahead != nil {
		known = a.ahead.knows()
	}
	if g != nil && a.Ticket == "" { // another owner's hold says nothing about a ticket
		if rival := t.rival(g, now); rival != nil && rival.stage == held {
			return outcome.Result{Refused: true}
		}
	}
	return known.At(now, t.cfg.Floor())
}

// sleep returns the step that sleeps until something changes, and without a limit if the pause is negative.
func (a *Attempt) sleep(pause time.Duration) Step {
	return Step{Do: Sleep, Pause: pause, Wait: a.bell.C()}
}

func (t *Table) newGrant(a *Attempt) {
	t.number++
	h := a.Handle
	g := &Grant{
		table: t, handle: h, owner: a.owner, holder: wire.NewHolder(h.Kind, h.Names(), t.cfg.ClientID, t.number),
		term: lease.Term{Lease: a.Lease}, shared: a.owner != nil,
	}
	a.grant = g
	if g.shared {
		g.turns.Begin() // nobody else knows a grant that is not shared
		g.attempt = a
		t.list(g)
	}
}

// sibling returns the grant of the other side of the name that the attempt shares, or nil: none if the hold is over that made it this owner's.
func (a *Attempt) sibling() *Grant {
	if a.owner == nil {
		return nil
	}
	if a.Now() != a.owner {
		return nil
	}
	return a.grant.sibling()
}

func (a *Attempt) overdue(now clock.Instant) bool { return a.Bound != 0 && now >= a.Bound }

// retryPause returns the pause before the next question after a failure.
func (t *Table) retryPause(a *Attempt) time.Duration {
	a.retries++
	return t.cfg.Retry(int(a.retries))
}

// keep notes from when the time counts for which the lock of an attempt stays taken.
func (a *Attempt) keep(from clock.Instant) {
	if a.AtLeast > 0 {
		a.grant.rarely().keep = from.Add(a.AtLeast)
	}
}

// asks notes that a question is sent. It returns whether the end of the wait does not end it, and how long it may take.
func (a *Attempt) asks(now clock.Instant) (outlives bool, within time.Duration) {
	a.Seen.Questions++
	if a.phase != trying { // its queue notes that, if it joins one
		a.knows().Asked(a.grant.table.sections, now)
	}
	outlives, within = a.outlives(now)
	a.asked = true
	return outlives, within
}

// outlives returns whether the next step outlives the wait, as the first question does, and how long it may take.
func (a *Attempt) outlives(now clock.Instant) (outlives bool, within time.Duration) {
	if a.asked {
		return false, 0
	}
	if a.Bound == 0 {
		return true, 0
	}
	return true, max(a.Bound.Sub(now), time.Nanosecond)
}

// unsent notes why a question was not sent, if it waited for a connection.
func (a *Attempt) unsent(err *fault.Error) {
	if errors.Is(err, fault.ErrNoConnection) {
		a.knows().Unsent()
	}
}

// bars reports whether an attempt must not acquire any more. While the client shuts down, only an owner that holds the lock, or the other side of
// its name, may go on. An acquisition does not count that was handed to the attempt itself and that no caller has yet.
func (t *Table) bars(a *Attempt, now clock.Instant) bool {
	if t.closed || !t.stopping {
		return t.closed
	}
	for _, side := range [2]wire.Side{wire.MainSide, wire.ReadSide} {
		g := t.grants.Of(HeldKey{a.Handle.Key, side}, a.owner)
		if !g.usable(now) {
			continue
		}
		open := g.open()
		if a.got != nil && g == a.grant {
			open--
		}
		if open > 0 {
			return false
		}
	}
	return true
}

// barred returns the error of an attempt that ends because the client closes or shuts down, and nil if it ends for another reason.
func (t *Table) barred(a *Attempt, now clock.Instant) error {
	if !ended(a.Caller) && t.bars(a, now) {
		return fault.ErrClosed
	}
	return nil
}

// after keeps account of an attempt that sleeps, and returns its next step.
func (t *Table) after(a *Attempt, s Step, now clock.Instant) Step {
	if s.Do != Done && t.stopping {
		s.Stays = !t.bars(a, now)
	}
	if s.Do == Done && a.seat != nil {
		t.rise(a)
	}
	switch {
	case s.Do == Sleep:
		if a.Seen.Slept == 0 {
			a.Seen.Slept = now
			t.counts.Waiting++
		}
	case s.Do == Done && a.Seen.Slept != 0:
		t.counts.Waiting--
	}
	return s
}
