package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// Due ends the holds that are due, and returns the renewals and background releases that are due. It is called when an alarm
// has come, and asks for the next alarm.
func (t *Table) Due(now clock.Instant, bySlot bool, n *notice.List) (renew []Batch, release []*Exit) {
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
		case !g.renewing() || g.inRound || g.term.RenewAt > now:
			t.plan(g, n)
		default:
			renew = t.gather(renew, g, now, bySlot, n) // this one, and others
		}
	}
	n.Alarm(t.heap.Alarm())
	return renew, release
}

// Batch is the grants that one call of a script renews, all with the same lease.
type Batch struct {
	grants   []*Grant
	lease    time.Duration
	shortest time.Duration // of the leases by which the grants are due
	Late     bool          // there was no reply in time, so it goes out again
}

// Name returns the name in Redis of one lock of the batch, which decides the node.
func (b *Batch) Name() string { return b.grants[0].handle.Key.Name }

// Shortest returns the lease that leaves the least time for the reply.
func (b *Batch) Shortest() time.Duration { return b.shortest }

// gather appends batches of the renewals that are due now or soon: each at most a sixth of its lease too early, and none later
// than a sixth of the first one's. Locks that were taken one by one are then renewed together.
func (t *Table) gather(batches []Batch, first *Grant, now clock.Instant, bySlot bool, n *notice.List) []Batch {
	_, window := first.renewal()
	var wanted []*Grant
	for _, g := range t.heap.Before(now.Add(window / 6)) {
		_, shortest := g.renewal()
		early := g.term.RenewAt.Sub(now)
		if shortest == 0 || early > shortest/6 || g.stage != held || g.term.Past(now) || g.inRound || g.failures > 0 && early > 0 {
			continue
		}
		g.inRound = true
		t.plan(g, n)
		wanted = append(wanted, g)
	}
	type sort struct {
		script *wire.Script
		lease  time.Duration
		slot   uint16
	}
	for _, grants := range queue.Batches(wanted, t.cfg.BatchSize, func(g *Grant) (s sort, alone bool) {
		s.script = g.handle.Kind.Renew
		s.lease, _ = g.renewal()
		if bySlot {
			s.slot = wire.Slot(g.handle.Key.Name)
		}
		return s, g.alone
	}) {
		b := Batch{grants: grants}
		for _, g := range grants {
			longest, shortest := g.renewal()
			b.lease = longest
			if b.shortest == 0 || shortest < b.shortest {
				b.shortest = shortest
			}
		}
		batches = append(batches, b)
	}
	return batches
}

// Wanted returns the call that renews the grants of a batch that still need it, and drops the others from the batch. It is
// called right before the batch is sent. A call without keys means that there is nothing to send.
func (t *Table) Wanted(b *Batch, now clock.Instant, n *notice.List) wire.Call {
	defer t.lock().Unlock()
	wanted := make([]*Grant, 0, len(b.grants))
	for _, g := range b.grants {
		longest, _ := g.renewal()
		switch {
		case t.closed, !g.inRound || g.stage != held || g.term.Past(now):
		case longest != b.lease: // an acquisition came or went: another batch renews it, or none
			g.inRound = false
			t.plan(g, n)
		default:
			if b.Late && g.failures == 0 && now.Sub(g.term.Confirmed) >= b.lease/2 { // so that a hang is told before the loss
				g.fail()
				n.Report(observe.EventRenewalFailed, g.handle.Name, notice.LogNoRenewal, fault.ErrNoAnswer)
			}
			g.sending(b.lease, now)
			wanted = append(wanted, g)
		}
	}
	b.grants = wanted
	if len(wanted) == 0 {
		return wire.Call{}
	}
	c := wire.NewRenewal(wanted[0].handle.Kind.Renew, b.lease, len(wanted))
	for _, g := range wanted {
		c.Renew(g.inRedis(), g.handle.Key.Name)
		g.shrink()
	}
	return c
}

// Renewed takes the reply for one batch that was sent at that moment. A hold is renewed, or lost, or its state is unknown:
// then the watchdog tries again until the deadline. A reply counts only for a grant that is still held.
func (t *Table) Renewed(b *Batch, sent clock.Instant, r wire.Reply, now clock.Instant, n *notice.List) {
	defer t.lock().Unlock()
	for i, g := range b.grants {
		switch {
		case !g.usable(now):
		case r.Err != nil:
			_, shortest := g.renewal()
			t.counts.RenewalFailures++
			failures := g.fail()
			if failures == 1 { // once in each outage
				n.Report(observe.EventRenewalFailed, g.handle.Name, notice.LogNoRenewal, g.handle.Of(r.Err))
			}
			g.inRound = false
			g.alone = r.Err.Code == "TRYAGAIN" // a slot on the move, with the batch on both sides
			g.term.RenewAt = now.Add(t.cfg.RetryRenewal(shortest, failures))
			t.plan(g, n)
		case r.List[i] == 1:
			t.counts.Renewals++
			g.confirm(sent, b.lease, n)
		default:
			t.lose(g, errHolderGone, now, n)
		}
	}
}
