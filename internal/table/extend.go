package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

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
	case a.closed.Load(): // leaked
		return fault.ErrNotHeld
	case a.grant.term.Past(now):
		return lossOf(a.handle, fault.ErrLost)
	}
	return nil
}
