package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// plan sets when a grant must be looked at, from its stage.
func (t *Table) plan(g *Grant, n *Notices) {
	switch g.stage {
	case held:
		if t.closed {
			return
		}
		g.due = g.term.Due(!g.inRound && g.renewing())
	case expired:
		g.due = g.term.Ends()
	case retiring:
	default:
		return
	}
	t.heap.Fix(g)
	t.arm(n)
}

// arm asks for the alarm when something is due before it. (An alarm that comes for nothing is cheaper than one that is
// always right: a lock that is taken and released all day leaves it alone.)
func (t *Table) arm(n *Notices) {
	if t.heap.Len() == 0 {
		return
	}
	if due := t.heap.Head().due; t.armed == 0 || due < t.armed {
		t.armed = due
		n.Alarm(due)
	}
}

// Due carries out what is due, and returns the renewals and the background releases that are. It is called when an alarm
// has come, and asks for the next one.
func (t *Table) Due(now clock.Instant, bySlot bool, n *Notices) (renew []Batch, release []*Exit) {
	defer t.lock().Unlock()
	t.armed = 0
	for t.heap.Len() > 0 && t.heap.Head().due <= now {
		g := t.heap.Head()
		switch {
		case g.stage == expired:
			t.lose(g, lostLease, true, now, n)
		case g.stage == retiring:
			t.heap.Remove(g)
			release = append(release, &Exit{phase: pausing, grant: g, background: true})
		case g.term.Past(now):
			t.expire(g, n)
		case g.term.MaxHold != 0 && g.term.MaxHold <= now:
			t.lose(g, lostByMaxHold, true, now, n)
		case !g.renewing() || g.inRound:
			t.plan(g, n)
		default:
			renew = append(renew, t.gather(now, bySlot, n)...) // this one, and all others
		}
	}
	t.arm(n)
	return renew, release
}

// Batch is locks that one call of a script renews.
type Batch struct {
	script *wire.Script
	slot   uint16
	grants []*Grant
}

// Name returns the name in Redis of one lock of the batch, which decides the node.
func (b *Batch) Name() string { return b.grants[0].handle.Key.Name }

// Len returns how many locks the batch has.
func (b *Batch) Len() int { return len(b.grants) }

// gather makes batches of what is due, and with it of what will be due soon, so that locks taken one by one come to be
// renewed together.
func (t *Table) gather(now clock.Instant, bySlot bool, n *Notices) []Batch {
	type sort struct {
		script *wire.Script
		slot   uint16
	}
	open := make(map[sort]int) // the index of the sort's unfilled batch
	var all []Batch
	for _, g := range t.heap.Before(now.Add(t.cfg.WatchdogTimeout / 6)) {
		if g.stage != held || g.term.Past(now) || g.inRound || !g.renewing() || g.failures > 0 && g.term.RenewAt > now {
			continue
		}
		g.inRound = true
		t.plan(g, n)
		s := sort{script: g.handle.Kind.Renew}
		if bySlot {
			s.slot = wire.Slot(g.handle.Key.Name)
		}
		i, ok := open[s]
		if !ok || g.alone || len(all[i].grants) == t.cfg.BatchSize {
			i = len(all)
			if !g.alone {
				open[s] = i
			}
			all = append(all, Batch{script: s.script, slot: s.slot})
		}
		all[i].grants = append(all[i].grants, g)
	}
	return all
}

// Wanted returns the call that renews what is still to be renewed of a batch, and drops the rest of it. It is called right
// before the batch is sent. A call without keys means that there is nothing to send.
func (t *Table) Wanted(b *Batch, now clock.Instant, n *Notices) wire.Call {
	defer t.lock().Unlock()
	wanted := make([]*Grant, 0, len(b.grants))
	for _, g := range b.grants {
		switch {
		case t.closed, !g.inRound || g.stage != held || g.term.Past(now):
		case !g.renewing():
			g.inRound = false
			t.plan(g, n)
		default:
			g.sending(t.cfg.WatchdogTimeout, now)
			g.handle.names.Store(nil)
			wanted = append(wanted, g)
		}
	}
	b.grants = wanted
	if len(wanted) == 0 {
		return wire.Call{}
	}
	c := wire.NewRenewal(b.script, t.cfg.WatchdogTimeout, len(wanted))
	for _, g := range wanted {
		c.Renew(&g.holder, g.handle.Key.Name)
	}
	return c
}

// Renewed takes the reply for one batch that was sent at that moment. A hold is renewed, or lost, or nothing is known of
// it: then it is tried again until its deadline. A reply counts only for what is still held.
func (t *Table) Renewed(b *Batch, sent clock.Instant, r wire.Reply, now clock.Instant, n *Notices) {
	defer t.lock().Unlock()
	for i, g := range b.grants {
		switch {
		case !g.usable(now):
		case r.Err != nil:
			g.failures++
			g.inRound = false
			g.alone = r.Err.Code == "TRYAGAIN" // a slot on the move, with the batch on both sides
			g.term.RenewAt = now.Add(t.backoff(int(g.failures), t.retryAfter()))
			t.plan(g, n)
		case r.List[i] == 1:
			g.confirm(sent, t.cfg.WatchdogTimeout, n)
		default:
			t.lose(g, lostInRedis, false, now, n)
		}
	}
}

// retryAfter returns the longest pause before a renewal that failed is sent again.
func (t *Table) retryAfter() time.Duration { return RetryPause(t.cfg.WatchdogTimeout) }

// RetryPause returns for how long a renewal may go unanswered before it is sent again.
func RetryPause(watchdogTimeout time.Duration) time.Duration {
	return max(min(watchdogTimeout/10, time.Second), 20*time.Millisecond)
}
