package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// plan sets when a grant that is not over here must be looked at.
func (t *Table) plan(g *Grant, n *Notices) {
	switch {
	case g.stage == held && !t.closed:
		t.schedule(g, g.term.Due(!g.inRound && g.renewing()), n)
	case g.stage == expired:
		t.schedule(g, g.term.Ends(), n)
	}
}

// schedule has a grant looked at in time.
func (t *Table) schedule(g *Grant, due clock.Instant, n *Notices) {
	t.heap.Set(g, due)
	n.Alarm(t.heap.Alarm())
}

// Due ends the holds that are due, and returns the renewals and background releases that are due. It is called when an alarm
// has come, and asks for the next alarm.
func (t *Table) Due(now clock.Instant, bySlot bool, n *Notices) (renew []Batch, release []*Exit) {
	defer t.lock().Unlock()
	t.heap.Rang()
	for g := t.heap.Due(now); g != nil; g = t.heap.Due(now) {
		switch {
		case g.stage == expired:
			t.lose(g, errLeaseEnded, now, n)
		case g.stage == retiring:
			t.heap.Remove(g)
			release = append(release, &Exit{phase: pausing, grant: g, background: true})
		case g.term.Past(now):
			t.expire(g, n)
		case g.term.MaxHold != 0 && g.term.MaxHold <= now:
			t.lose(g, errMaxHold, now, n)
		case !g.renewing() || g.inRound:
			t.plan(g, n)
		default:
			renew = append(renew, t.gather(now, bySlot, n)...) // this one, and all others
		}
	}
	n.Alarm(t.heap.Alarm())
	return renew, release
}

// Batch is the grants that one call of a script renews.
type Batch []*Grant

// Name returns the name in Redis of one lock of the batch, which decides the node.
func (b *Batch) Name() string { return (*b)[0].handle.Key.Name }

// gather makes batches of the renewals that are due now or soon. Locks that were taken one by one are then renewed together.
func (t *Table) gather(now clock.Instant, bySlot bool, n *Notices) []Batch {
	var wanted Batch
	for _, g := range t.heap.Before(now.Add(t.cfg.WatchdogTimeout / 6)) {
		if g.stage != held || g.term.Past(now) || g.inRound || !g.renewing() || g.failures > 0 && g.term.RenewAt > now {
			continue
		}
		g.inRound = true
		t.plan(g, n)
		wanted = append(wanted, g)
	}
	type sort struct {
		script *wire.Script
		slot   uint16
	}
	return queue.Batches(wanted, t.cfg.BatchSize, func(g *Grant) (s sort, alone bool) {
		s.script = g.handle.Kind.Renew
		if bySlot {
			s.slot = wire.Slot(g.handle.Key.Name)
		}
		return s, g.alone
	})
}

// Wanted returns the call that renews the grants of a batch that still need it, and drops the others from the batch. It is
// called right before the batch is sent. A call without keys means that there is nothing to send.
func (t *Table) Wanted(b *Batch, now clock.Instant, n *Notices) wire.Call {
	defer t.lock().Unlock()
	wanted := make(Batch, 0, len(*b))
	for _, g := range *b {
		switch {
		case t.closed, !g.inRound || g.stage != held || g.term.Past(now):
		case !g.renewing():
			g.inRound = false
			t.plan(g, n)
		default:
			g.sending(t.cfg.WatchdogTimeout, now)
			g.handle.names.Drop()
			wanted = append(wanted, g)
		}
	}
	*b = wanted
	if len(wanted) == 0 {
		return wire.Call{}
	}
	c := wire.NewRenewal(wanted[0].handle.Kind.Renew, t.cfg.WatchdogTimeout, len(wanted))
	for _, g := range wanted {
		c.Renew(&g.holder, g.handle.Key.Name)
	}
	return c
}

// Renewed takes the reply for one batch that was sent at that moment. A hold is renewed, or lost, or its state is unknown:
// then the watchdog tries again until the deadline. A reply counts only for a grant that is still held.
func (t *Table) Renewed(b *Batch, sent clock.Instant, r wire.Reply, now clock.Instant, n *Notices) {
	defer t.lock().Unlock()
	for i, g := range *b {
		switch {
		case !g.usable(now):
		case r.Err != nil:
			t.counts.RenewalFailures++
			if g.failures++; g.failures == 1 { // once in each outage
				n.Warn(g.handle.Name, logNoRenewal, r.Err)
			}
			g.inRound = false
			g.alone = r.Err.Code == "TRYAGAIN" // a slot on the move, with the batch on both sides
			g.term.RenewAt = now.Add(t.cfg.RetryRenewal(int(g.failures)))
			t.plan(g, n)
		case r.List[i] == 1:
			t.counts.Renewals++
			g.confirm(sent, t.cfg.WatchdogTimeout, n)
		default:
			t.lose(g, errHolderGone, now, n)
		}
	}
}
