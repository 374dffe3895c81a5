package table

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/wire"
)

// A hold is exported to a holder that nobody is, which only a ticket names, and adopted from there, perhaps by another process. So
// the lock is taken all the time in between. Each of the two steps is one hand-over in Redis, so that a repeated command changes
// nothing.

var (
	errOpen     = fmt.Errorf("%w: another acquisition of the owner is open", fault.ErrReentered)
	errOwnReads = fmt.Errorf("%w: the owner also reads, and would still do so after the export", fault.ErrInvalidOption)
	errKept     = fmt.Errorf("%w: a hold with AtLeast is not exported", fault.ErrInvalidOption)

	// errAsking is the error of an adoption while another call of the owner acquires the lock, which is the ticket's.
	errAsking = fmt.Errorf("%w, or about to be: another call of it waits for the lock", fault.ErrReentered)

	// ErrCallerGone is the error of an export whose caller left before anything was sent. The hold goes on.
	ErrCallerGone = errors.New("rlock: the caller is gone")

	// errTicket is the error of an adoption for which Redis does not have the holder that the ticket names.
	errTicket = fmt.Errorf("%w: the ticket was used already, its lease ended, the lock was unlocked by force, or this is another Redis", fault.ErrNotHeld)
)

// Export begins to hand the lock of an acquisition over to the holder of a ticket, with a lease. Zero is the lease with which the
// acquisition is renewed, or else that of the watchdog. If the acquisition cannot be exported, nothing is sent, and it goes on.
func (t *Table) Export(x *Exit, a *Acquisition, lease time.Duration, caller Ender, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	x.grant, x.acq, x.caller = a.grant, a, caller
	if lease == 0 {
		lease = cmp.Or(a.renewal, t.cfg.WatchdogTimeout)
	}
	t.number++
	h := a.grant.handle
	x.ticket = &Grant{
		table: t, handle: h, holder: wire.NewHolder(h.Kind, h.Names(), t.cfg.ClientID, t.number), term: term.Term{Lease: lease},
	}
	a.grant.turns.Announce()
	return t.exportTurn(x, now, n)
}

// Ticket returns the ticket of an export that has succeeded.
func (x *Exit) Ticket() string {
	g := x.ticket
	defer g.table.lock().Unlock()
	return g.inRedis().Ticket(g.handle.Key.Name)
}

// exportTurn waits for its turn among the owner's operations, and then takes the hold from its user.
func (t *Table) exportTurn(x *Exit, now clock.Instant, n *Notices) Step {
	g, a := x.grant, x.acq
	err := a.mayNotExport(now)
	if err == nil && ended(x.caller) {
		err = ErrCallerGone
	}
	if err != nil {
		g.turns.Withdraw()
		return x.finish(err)
	}
	if !g.turns.BeginAnnounced() {
		return g.awaitTurn(-1)
	}
	a.closed.Store(true)
	a.ending.End(fault.ErrExported, n)
	g.drop(a)
	g.endLeaked(n)
	x.start = now
	t.quit(g)
	return t.export(x, now)
}

// mayNotExport returns why an acquisition cannot be exported, or nil.
func (a *Acquisition) mayNotExport(now clock.Instant) error {
	g := a.grant
	if err := a.over(now); err != nil {
		return err
	}
	switch {
	case g.open() > 1:
		return errOpen
	case g.sibling() != nil:
		return errOwnReads
	case g.rare != nil && g.rare.keep != 0:
		return errKept
	}
	return nil
}

// export returns the step that hands the lock over to the holder of the ticket.
func (t *Table) export(x *Exit, now clock.Instant) Step {
	x.phase, x.sent = exporting, now
	lease := x.ticket.term.Lease
	x.ticket.sending(lease, now)
	call := x.ticket.inRedis().Export(x.grant.handle.Names(), x.grant.inRedis(), lease)
	return Step{Do: Ask, Acked: true, Within: t.left(x, now), Call: call}
}

// settleExport takes the reply of an export. Without one, the ticket is worth nothing: nobody gets it, and the lock is freed.
func (t *Table) settleExport(x *Exit, r wire.Reply, now clock.Instant, n *Notices) Step {
	ticket, err := x.ticket, r.Err
	if err == nil && r.Acquired() {
		return t.endRelease(x, nil, now, n)
	}
	x.doubt = x.doubt || err.InDoubt() || err != nil && err.Fate == fault.Partial
	pause := t.cfg.Retry(x.retries + 1)
	if err != nil && err.Transient && err.Fate != fault.Left && err.Fate != fault.Unreplicated && !ended(x.caller) && now.Sub(x.start)+pause < t.cfg.CommandTimeout {
		x.retries++
		x.phase = pausing
		return Step{Do: Sleep, Pause: pause}
	}
	ticket.inDoubt = x.doubt
	ticket.needsCleanup = r.Acquired() // but too few replicas acknowledged it
	t.retire(ticket, now, n)
	switch {
	case err == nil && r.N == wire.LastGone && !x.doubt:
		return t.endGone(x, errHolderGone, now, n)
	case err == nil: // a command without a reply may have exported it, for a lease that is over
		return t.endSilent(x, fault.Unavailable(fault.ErrNoAnswer), now, n)
	case err.WrongType():
		return t.endGone(x, fmt.Errorf("%w (%w)", errOverwritten, err), now, n)
	}
	return t.endSilent(x, err, now, n)
}

// adopt returns the step that asks for the lock of a ticket.
func (t *Table) adopt(a *Attempt, now clock.Instant) Step {
	g := a.grant
	g.sending(a.Lease, now)
	a.phase, a.sent, a.forcings = adopting, now, t.forcings
	s := Step{Do: Ask, Slot: true, Acked: true, Late: g, Call: g.inRedis().Adopt(a.Handle.Names(), a.Ticket, a.Lease)}
	s.Free, _ = a.asks(now)
	s.Within = max(a.Bound.Sub(now), time.Nanosecond)
	return s
}

// settleAdopt takes the reply of an adoption. Without one, it asks again with the same number, so that it cannot be refused because
// of itself.
func (t *Table) settleAdopt(a *Attempt, r wire.Reply, now clock.Instant, n *Notices) Step {
	g, err := a.grant, r.Err
	if err == nil && r.Acquired() {
		got, late := t.grant(a, g, proof{token: uint64(r.N), sent: a.sent, lease: a.Lease}, now, n)
		if got == nil {
			return t.giveUp(a, late, now, n)
		}
		return t.succeed(a, got, n)
	}
	g.needsCleanup = g.needsCleanup || r.Acquired() // but too few replicas acknowledged it
	g.inDoubt = g.inDoubt || err.InDoubt() || err != nil && err.Fate == fault.Partial
	switch {
	case err == nil:
		a.known.Answered()
		return t.giveUp(a, errTicket, now, n)
	case errors.Is(err, fault.ErrNotSent), err.Fate == fault.Left && !err.TimedOut():
		a.unsent(err)
		return t.giveUp(a, nil, now, n) // nothing was tried, or the caller is gone
	}
	a.known.Failed(err)
	switch pause := t.retryPause(a); {
	case !err.Transient, err.Fate == fault.Unreplicated:
		return t.giveUp(a, err, now, n)
	case t.bars(a, now), ended(a.Caller), now.Add(pause) >= a.Bound:
		return t.giveUp(a, nil, now, n)
	default:
		return Step{Do: Sleep, Pause: pause}
	}
}
