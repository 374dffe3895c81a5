package table

import (
	"slices"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
)

// Close ends every hold for its users, with [fault.ErrClosed], and all renewals. Releases under way go on, and those in
// the background are due at once. Later attempts get ErrClosed. Close returns how many acquisitions are yet to be unlocked, and of which names.
func (t *Table) Close(now clock.Instant, n *notice.List) (open int, names []string) {
	defer t.lock().Unlock()
	t.closed, t.stopping = true, true
	for _, g := range slices.Clone(t.heap.All()) {
		g.endAcquisitions(fault.ErrClosed, n)
		switch g.stage {
		case held:
			t.over(g, now, fault.ErrClosed, n)
			t.heap.Remove(g)
			if g.open() > 0 {
				names = append(names, g.handle.Name)
			}
		case retiring:
			t.schedule(g, now, n)
		default: // an expired grant has its release before it
		}
	}
	return t.open, names
}

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

// Waits adds to the gauge of waiting calls. A group that waits without an attempt uses it.
func (t *Table) Waits(more int) {
	defer t.lock().Unlock()
	t.counts.Waiting += more
}
