package core

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/watchdog"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// mostRenewed is how many holds one call renews.
const mostRenewed = 100

// Due implements [watchdog.Source]: it ends the holds whose time is over, and returns the renewals that are due.
func (c *Client) Due(now clock.Instant, bySlot bool) watchdog.Work {
	n := new(notice.List)
	due := watchdog.Work{Deliver: func() { n.Deliver(c.Receiver) }}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants.Rang()
	for g := c.grants.Due(now); g != nil; g = c.grants.Due(now) {
		switch {
		case g.term.Past(now):
			due.Release = append(due.Release, c.lose(g, errLeaseEnded, now, n))
		case g.term.MaxHold != 0 && g.term.MaxHold <= now:
			due.Release = append(due.Release, c.lose(g, errMaxHold, now, n))
		case g.renewal == 0 || g.inRound || g.term.RenewAt > now:
			c.plan(g, n)
		default:
			due.Renew = c.gather(due.Renew, g, now, bySlot, n)
		}
	}
	n.Alarm(c.grants.Alarm())
	return due
}

// gather appends batches of the renewals that are due now or soon: each at most a sixth of its lease too early, and none later than a sixth of
// the first one's. Locks that were taken one by one are then renewed together. mu must be held.
func (c *Client) gather(all []watchdog.Batch, first *grant, now clock.Instant, bySlot bool, n *notice.List) []watchdog.Batch {
	var wanted []*grant
	for _, g := range c.grants.Before(now.Add(first.soonest / 6)) {
		early := g.term.RenewAt.Sub(now)
		if g.renewal == 0 || early > g.soonest/6 || g.term.Past(now) || g.inRound || g.failures > 0 && early > 0 {
			continue
		}
		g.inRound = true
		c.plan(g, n)
		wanted = append(wanted, g)
	}
	type sort struct {
		script         *wire.Script
		lease, soonest time.Duration
		slot           uint16
	}
	for _, grants := range queue.Batches(wanted, mostRenewed, func(g *grant) (s sort, alone bool) {
		s.script, s.lease, s.soonest = g.attempt.kind.renew(), g.renewal, g.soonest
		if bySlot {
			s.slot = wire.Slot(g.attempt.key.key)
		}
		return s, g.alone
	}) {
		all = append(all, &batch{client: c, grants: grants, lease: grants[0].renewal, soonest: grants[0].soonest})
	}
	return all
}

// batch is the grants that one call renews, all with the same lease.
type batch struct {
	client         *Client
	grants         []*grant
	lease, soonest time.Duration
	late           bool // there was no reply in time, so it goes out again
}

// Name implements [watchdog.Batch].
func (b *batch) Name() string { return b.grants[0].attempt.key.key }

// Shortest implements [watchdog.Batch].
func (b *batch) Shortest() time.Duration { return b.soonest }

// Again implements [watchdog.Batch].
func (b *batch) Again() watchdog.Batch { return &batch{b.client, b.grants, b.lease, b.soonest, true} }

// Wanted implements [watchdog.Batch]. It returns a copy, because b may be in flight on another connection at the same time.
func (b *batch) Wanted(now clock.Instant) (watchdog.Batch, wire.Call) {
	c, wanted := b.client, &batch{client: b.client, lease: b.lease, soonest: b.soonest, late: b.late}
	var n notice.List
	defer n.Deliver(c.Receiver)
	c.mu.Lock()
	defer c.mu.Unlock()
	call := wire.Call{Script: b.grants[0].attempt.kind.renew(), Argv: []any{wire.Millis(b.lease)}}
	for _, g := range b.grants {
		if c.closed || !g.inRound || g.over() {
			continue
		}
		if b.late && g.failures == 0 && now.Sub(g.term.Confirmed) >= b.Shortest()/2 { // so that a hang is told before the loss
			g.failures++
			n.Report(observe.EventRenewalFailed, g.attempt.t.Name, notice.LogNoRenewal, fault.ErrNoAnswer)
		}
		key, holder := g.attempt.renewed()
		call.Keys, call.Argv = append(call.Keys, key), append(call.Argv, holder)
		wanted.grants = append(wanted.grants, g)
	}
	return wanted, call
}

// Renewed implements [watchdog.Batch]. A hold is renewed, or lost, or its state is unknown: then the renewal goes out again until the deadline.
func (b *batch) Renewed(sent clock.Instant, r wire.Reply, now clock.Instant) {
	c := b.client
	var n notice.List
	var after []func()
	c.mu.Lock()
	for i, g := range b.grants {
		switch {
		case g.over():
		case r.Err != nil:
			c.counts.RenewalFailures++
			if g.failures++; g.failures == 1 { // once in each outage
				n.Report(observe.EventRenewalFailed, g.attempt.t.Name, notice.LogNoRenewal, g.attempt.t.Denied(r.Err))
			}
			g.inRound, g.alone = false, r.Err.Code == "TRYAGAIN" // a slot on the move, with the batch on both sides
			g.term.RenewAt = now.Add(clock.Backoff(g.failures, config.RenewalTimeout(b.soonest), nil))
			c.plan(g, &n)
		case r.List[i] == 1:
			c.counts.Renewals++
			if g.failures > 0 {
				n.Report(observe.EventRenewalRecovered, g.attempt.t.Name, notice.LogRenewed, nil)
			}
			g.confirm(sent, b.lease)
			c.plan(g, &n)
		default:
			after = append(after, c.lose(g, errHolderGone, now, &n))
		}
	}
	c.mu.Unlock()
	for _, do := range after {
		do()
	}
	n.Deliver(c.Receiver)
}
