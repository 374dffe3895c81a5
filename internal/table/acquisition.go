package table

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// Owner returns the owner that holds the lock, and makes it if the caller had none.
func (a *Acquisition) Owner() *owner.Owner {
	g, t := a.grant, a.grant.table
	defer t.lock().Unlock()
	if g.owner == nil {
		g.owner = new(owner.Owner)
		switch {
		case g.listed:
			t.list(g)
		case g.rare != nil && g.rare.lost != nil:
			g.attach()
		}
	}
	return g.owner
}

// Closed returns the flag that says whether it is unlocked or exported.
func (a *Acquisition) Closed() *atomic.Bool { return &a.closed }

// Token returns the fencing token, or 0 for a kind without tokens.
func (a *Acquisition) Token() uint64 { return a.grant.token } // set before there is an acquisition

// Err returns nil while the lock is held, and then why it is not. It compares the clock itself, so it is never late.
func (a *Acquisition) Err(now clock.Instant) error {
	defer a.grant.table.lock().Unlock()
	if a.ending.Err() == nil && a.grant.term.Past(now) {
		return lossOf(a.handle, errLeaseEnded)
	}
	return a.ending.Err()
}

// Done returns a channel that is closed when the acquisition is over.
func (a *Acquisition) Done() <-chan struct{} {
	defer a.grant.table.lock().Unlock()
	return a.ending.Done()
}

// Deadline returns the moment from which the lock is no longer guaranteed, unless it is renewed before. Zero means that there is none.
func (a *Acquisition) Deadline() clock.Instant {
	defer a.grant.table.lock().Unlock()
	return a.grant.term.Deadline
}

// Reentered reports whether its owner had the lock already.
func (a *Acquisition) Reentered() bool { return a != &a.grant.first }

// Notify sets the function to which the end is reported, without the table's mutex. It returns why the acquisition is over, if it
// is already. It returns [fault.ErrClosed] while the client shuts down, because that is told only once; the end is still reported.
func (a *Acquisition) Notify(tell context.CancelCauseFunc) error {
	t := a.grant.table
	defer t.lock().Unlock()
	why := a.ending.Notify(tell)
	if why == nil && t.stopping {
		return fault.ErrClosed
	}
	return why
}

// Loss returns how the lock was lost, once it is, for the group that it is a member of.
func (a *Acquisition) Loss() lease.Loss {
	defer a.grant.table.lock().Unlock()
	if a.grant.rare == nil {
		return lease.Loss{}
	}
	return a.grant.rare.loss
}

// Extend begins to lengthen the lease, and returns the call that makes it end no earlier than d from now. It is the renewal
// of this one lock, so it creates nothing, whenever it arrives. It takes no turn among the owner's operations, because it does
// not change the count. The error says why the acquisition is over: then nothing is to be sent.
func (a *Acquisition) Extend(d time.Duration, now clock.Instant) (wire.Call, error) {
	g := a.grant
	defer g.table.lock().Unlock()
	if err := a.over(now); err != nil {
		return wire.Call{}, err
	}
	g.sending(d, now)
	c := wire.NewRenewal(g.handle.Kind.Renew, d, 1)
	c.Renew(g.inRedis(), g.handle.Key.Name)
	return c, nil
}

// Extended takes the reply to a call of [Acquisition.Extend] that was sent at that moment, also after its caller has left. It
// counts only while the grant is held, and for all of its acquisitions. Without a reply, the deadline stays as it is.
// Extended returns why the acquisition is over, or nil if it is not.
func (a *Acquisition) Extended(d time.Duration, sent clock.Instant, r wire.Reply, now clock.Instant, n *notice.List) error {
	g, t := a.grant, a.grant.table
	defer t.lock().Unlock()
	switch {
	case !g.usable(now) || r.Err != nil:
	case r.List[0] == 1:
		g.confirm(sent, d, n)
	default:
		t.lose(g, errHolderGone, now, n)
	}
	return a.over(now)
}

// over returns why the acquisition is over for its user, or nil if it is not. It compares the clock itself.
func (a *Acquisition) over(now clock.Instant) error {
	switch why := a.ending.Err(); {
	case why != nil:
		return why
	case a.grant.term.Past(now):
		return lossOf(a.handle, fault.ErrLost)
	}
	return nil
}
