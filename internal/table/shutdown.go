package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A shutdown has two parts. Stop ends all waits and tells the holders, and their locks are held and renewed as before. Close
// follows when the last of them is unlocked, or when the user does not wait any longer.

// Stop ends the wait of every attempt, and the context of every hold, with [fault.ErrClosed]. From now on an owner only
// re-enters what it holds, and nothing is handed over. The channel is closed when no acquisition is open that a caller could
// still unlock, and no unlock is under way. Calling Stop again returns the same channel.
//
// The caller must then wake the attempts that sleep, except those of which [Step.Stays] is set.
func (t *Table) Stop(n *notice.List) (drained <-chan struct{}) {
	defer t.lock().Unlock()
	if t.drained != nil {
		return t.drained
	}
	t.stopping, t.drained = true, make(chan struct{})
	for _, g := range t.heap.All() { // it has every grant that is held
		for i := range g.open() {
			g.at(i).ending.Tell(fault.ErrClosed, n)
		}
	}
	t.drain()
	return t.drained
}

// drain closes the channel of Stop once no acquisition is open.
func (t *Table) drain() {
	if t.open == 0 && t.drained != nil && !t.isDrained {
		t.isDrained = true
		close(t.drained)
	}
}

// settle notes that a caller no longer has to unlock an acquisition, or that its unlock is over.
func (t *Table) settle(a *Acquisition) {
	if !a.settled {
		a.settled = true
		t.open--
		t.drain()
	}
}

// settleOver settles the acquisitions of a grant that is over. An unlock that is under way settles its own.
func (t *Table) settleOver(g *Grant) {
	for i := range g.open() {
		if a := g.at(i); !a.closed.Load() {
			t.settle(a)
		}
	}
}

// bars reports whether an attempt must not acquire any more. While the client shuts down, only an owner that holds the lock,
// or the other side of its name, may go on. A leaked acquisition does not count, and neither does one that was handed to the
// attempt itself and that no caller has yet.
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

// giveBack ends an attempt that must not have the lock any more that was handed to it. A background release follows.
func (t *Table) giveBack(a *Attempt, now clock.Instant, n *notice.List) Step {
	got, g := a.got, a.grant
	a.got = nil
	got.closed.Store(true)
	got.handle.unlocks.Forget(got)
	got.ending.End(fault.ErrClosed, n)
	t.settle(got)
	t.loseIfPast(g, now, n) // another call of the owner may have re-entered it
	g.settleLost()
	if g.stage != held && g.stage != expired {
		t.leaveLine(a, n)
		t.conclude(a, now)
		return a.finish(t.barred(a, now))
	}
	for g.open() > 0 {
		g.close(g.at(0))
	}
	g.needsCleanup = true
	return t.giveUp(a, nil, now, n)
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
		if !a.waits {
			a.waits = true
			a.Seen.Slept = now
			t.counts.Waiting++
		}
	case s.Do == Done && a.waits:
		a.waits = false
		t.counts.Waiting--
	}
	return s
}

// Waits adds to the gauge of waiting calls. A group that waits without an attempt uses it.
func (t *Table) Waits(more int) {
	defer t.lock().Unlock()
	t.counts.Waiting += more
}

// Counts is what happened in a table, and what is the case at one moment. The root package documents the fields.
type Counts struct {
	Held, Waiting, InDoubt int

	Acquired, HandOvers, Renewals, RenewalFailures, Losses uint64
}

// Counts returns what happened so far, and what is the case now. A closed table holds nothing.
func (t *Table) Counts() Counts {
	defer t.lock().Unlock()
	c := t.counts
	if t.closed {
		c.Held = 0
	}
	return c
}

// leave takes a grant out of the gauge of its stage. The caller sets the next stage.
func (c *Counts) leave(s stage) {
	switch s {
	case held:
		c.Held--
	case retiring:
		c.InDoubt--
	default: // no gauge has it
	}
}

// lost counts a grant that was lost, once.
func (c *Counts) lost(g *Grant) {
	if !g.lost {
		g.lost = true
		c.Losses++
	}
}
