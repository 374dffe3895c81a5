package table

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A hold is exported to a holder that nobody is, which only a ticket names, and adopted from there, perhaps by another process: the lock is
// taken all the time. Each of the two steps is one hand-over in Redis, so that a repeated command changes nothing.

// Export begins to hand the lock of an acquisition over to the holder of a ticket, with a lease. Zero is the lease with which the
// acquisition is renewed, or else that of the watchdog. If the acquisition cannot be exported, nothing is sent, and it goes on.
func (t *Table) Export(x *Exit, a *Acquisition, given time.Duration, caller Ender, now clock.Instant, n *notice.List) Step {
	defer t.lock().Unlock()
	x.grant, x.acq, x.caller = a.grant, a, caller
	if given == 0 {
		given = cmp.Or(a.renewal, t.cfg.WatchdogTimeout)
	}
	t.number++
	h := a.grant.handle
	x.ticket = &Grant{
		table: t, handle: h, holder: wire.NewHolder(h.Kind, h.Names(), t.cfg.ClientID, t.number), term: lease.Term{Lease: given},
	}
	a.grant.turns.Announce()
	return t.exportTurn(x, now, n)
}

// Ticket returns the ticket of an export that has succeeded.
func (x *Exit) Ticket() string {
	g := x.ticket
	defer g.table.lock().Unlock()
	field, _ := g.inRedis().Field.(string)
	return g.handle.Kind.Ticket(field, g.handle.Key.Name)
}

// exportTurn waits for its turn among the owner's operations, and then takes the hold from its user.
func (t *Table) exportTurn(x *Exit, now clock.Instant, n *notice.List) Step {
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
	x.start = now
	t.quit(g)
	return t.export(x, now)
}

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

func (t *Table) export(x *Exit, now clock.Instant) Step {
	x.phase, x.sent = exporting, now
	x.ticket.sending(x.ticket.term.Lease, now)
	c := x.ticket.inRedis().Export(x.grant.handle.Names(), x.grant.inRedis(), x.ticket.term.Lease, t.lined(x.grant.handle) || x.grant.handle.Kind.Queues)
	return Step{Do: Ask, Acked: true, Within: t.left(x, now), Call: c}
}

// onExportReply takes the reply of an export. Without one, the ticket is worth nothing: nobody gets it, and the lock is freed.
func (t *Table) onExportReply(x *Exit, r wire.Reply, now clock.Instant, n *notice.List) Step {
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
