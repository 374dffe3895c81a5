package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/owner"
)

// Chosen returns the grant to which a query about a lock refers: the owner's. Without an owner, it is the grant of the
// acquisition that [Table.Unlock] would end. It returns nil if that grant is not held.
func (t *Table) Chosen(h *Handle, w owner.Who, now clock.Instant) *Grant {
	defer t.lock().Unlock()
	o := w.Now()
	g := t.grants.Of(h.sideKey(), o)
	if a := h.toUnlock(w, now); g == nil && a != nil {
		g = a.grant
	}
	if g == nil || g.stage != held {
		return nil
	}
	return g
}

// Count returns how many acquisitions of a grant are open, or 0 if it is not held any more.
func (t *Table) Count(g *Grant, now clock.Instant) int {
	defer t.lock().Unlock()
	if !g.usable(now) {
		return 0
	}
	return g.open()
}

// Stats is what a table has in memory at one moment.
type Stats struct {
	Grants    int    // of shared owners
	Exclusive int    // names that an owner of this client holds exclusively
	Queues    int    // names with a local queue
	Due       int    // grants with a due time: every held one, and every one that is being released in the background
	Sections  uint64 // how often the table's mutex was taken, since New
}

// Stats returns what the table has in memory.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Grants: t.grants.Len(), Queues: t.queues.Len() + len(t.trying), Due: t.heap.Len(), Sections: t.sections}
	for _, byName := range t.exclusive {
		s.Exclusive += len(byName)
	}
	return s
}

// Line returns how many attempts are in the local queue of a name, whether its head sleeps until something happens, and on
// which channel it wants to listen. A head that is about to stand in the line in Redis does not sleep yet.
func (t *Table) Line(k Key) (waiters int, rests bool, channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.queueOf(k)
	if l == nil {
		return 0, false, ""
	}
	head := l.Head()
	placed := head.place.Stands || t.wayOf(head).channel(head) != head.Handle.Names().Own()
	rests = placed && head.phase == resting && head.bell.Slept() && !head.handing && head.askAt == 0
	if l.Shared.heard.Heard != nil {
		channel = l.Shared.heard.Channel
	}
	return l.Len(), rests, channel
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

// Lined reports whether the scripts of the line serve a handle.
func (t *Table) Lined(h *Handle) bool {
	defer t.lock().Unlock()
	return t.lined(h)
}
