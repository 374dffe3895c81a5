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
	c.holds.Rang()
	for h := c.holds.Due(now); h != nil; h = c.holds.Due(now) {
		switch {
		case h.term.Past(now):
			due.Release = append(due.Release, c.lose(h, errLeaseEnded, now, n))
		case h.term.MaxHold != 0 && h.term.MaxHold <= now:
			due.Release = append(due.Release, c.lose(h, errMaxHold, now, n))
		case !h.attempt.t.Renewed || h.inRound || h.term.RenewAt > now:
			c.plan(h, n)
		default:
			due.Renew = c.gather(due.Renew, h, now, bySlot, n)
		}
	}
	n.Alarm(c.holds.Alarm())
	return due
}

// gather appends batches of the renewals that are due now or soon: each at most a sixth of its lease too early, and none later than a sixth of
// the first one's. Locks that were taken one by one are then renewed together. mu must be held.
func (c *Client) gather(all []watchdog.Batch, first *Hold, now clock.Instant, bySlot bool, n *notice.List) []watchdog.Batch {
	var wanted []*Hold
	for _, h := range c.holds.Before(now.Add(first.attempt.lease() / 6)) {
		early := h.term.RenewAt.Sub(now)
		if !h.attempt.t.Renewed || early > h.attempt.lease()/6 || h.term.Past(now) || h.inRound || h.failures > 0 && early > 0 {
			continue
		}
		h.inRound = true
		c.plan(h, n)
		wanted = append(wanted, h)
	}
	type sort struct {
		script *wire.Script
		millis int64
		slot   uint16
	}
	for _, holds := range queue.Batches(wanted, mostRenewed, func(h *Hold) (s sort, alone bool) {
		s.script, s.millis = h.attempt.kind.renew(), h.attempt.millis
		if bySlot {
			s.slot = wire.Slot(h.attempt.key.key)
		}
		return s, h.alone
	}) {
		all = append(all, &batch{client: c, holds: holds})
	}
	return all
}

// batch is the holds that one call renews, all with the same lease.
type batch struct {
	client *Client
	holds  []*Hold
	late   bool // there was no reply in time, so it goes out again
}

// Name implements [watchdog.Batch].
func (b *batch) Name() string { return b.holds[0].attempt.key.key }

// Shortest implements [watchdog.Batch].
func (b *batch) Shortest() time.Duration { return b.holds[0].attempt.lease() }

// Again implements [watchdog.Batch].
func (b *batch) Again() watchdog.Batch { return &batch{b.client, b.holds, true} }

// Wanted implements [watchdog.Batch]. It returns a copy, because b may be in flight on another connection at the same time.
func (b *batch) Wanted(now clock.Instant) (watchdog.Batch, wire.Call) {
	c, wanted := b.client, &batch{client: b.client, late: b.late}
	var n notice.List
	defer n.Deliver(c.Receiver)
	c.mu.Lock()
	defer c.mu.Unlock()
	call := wire.Call{Script: b.holds[0].attempt.kind.renew(), Argv: []any{b.holds[0].attempt.millis}}
	for _, h := range b.holds {
		if c.closed || !h.inRound || h.over() {
			continue
		}
		if b.late && h.failures == 0 && now.Sub(h.term.Confirmed) >= b.Shortest()/2 { // so that a hang is told before the loss
			h.failures++
			n.Report(observe.EventRenewalFailed, h.attempt.t.Name, notice.LogNoRenewal, fault.ErrNoAnswer)
		}
		key, holder := h.attempt.renewed()
		call.Keys, call.Argv = append(call.Keys, key), append(call.Argv, holder)
		wanted.holds = append(wanted.holds, h)
	}
	return wanted, call
}

// Renewed implements [watchdog.Batch]. A hold is renewed, or lost, or its state is unknown: then the renewal goes out again until the deadline.
func (b *batch) Renewed(sent clock.Instant, r wire.Reply, now clock.Instant) {
	c := b.client
	var n notice.List
	var after []func()
	c.mu.Lock()
	for i, h := range b.holds {
		switch {
		case h.over():
		case r.Err != nil:
			c.counts.RenewalFailures++
			if h.failures++; h.failures == 1 { // once in each outage
				n.Report(observe.EventRenewalFailed, h.attempt.t.Name, notice.LogNoRenewal, h.attempt.t.Denied(r.Err))
			}
			h.inRound, h.alone = false, r.Err.Code == "TRYAGAIN" // a slot on the move, with the batch on both sides
			h.term.RenewAt = now.Add(clock.Backoff(h.failures, config.RenewalTimeout(h.attempt.lease()), nil))
			c.plan(h, &n)
		case r.List[i] == 1:
			c.counts.Renewals++
			if h.failures > 0 {
				n.Report(observe.EventRenewalRecovered, h.attempt.t.Name, notice.LogRenewed, nil)
			}
			h.confirm(sent, h.attempt.lease())
			c.plan(h, &n)
		default:
			after = append(after, c.lose(h, errHolderGone, now, &n))
		}
	}
	c.mu.Unlock()
	for _, do := range after {
		do()
	}
	n.Deliver(c.Receiver)
}
