package table

import (
	"slices"
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
)

// open returns how many acquisitions of the grant are open. [Grant.at] takes an index below that.
func (g *Grant) open() int {
	n := 0
	if g.opened {
		n = 1
	}
	if g.rare != nil {
		n += len(g.rare.more)
	}
	return n
}

// at returns an open acquisition by its index, in the order in which they were made.
func (g *Grant) at(i int) *Acquisition {
	if g.opened {
		if i == 0 {
			return &g.first
		}
		i--
	}
	return g.rare.more[i]
}

// another opens one more acquisition, which the caller has to fill. The first is used only once, because a caller may still refer to
// it after the unlock.
func (g *Grant) another() *Acquisition {
	if g.first.grant == nil {
		g.opened = true
		return &g.first
	}
	a := new(Acquisition)
	g.rarely().more = append(g.rarely().more, a)
	return a
}

// close takes an acquisition out of the open ones.
func (g *Grant) close(a *Acquisition) {
	switch {
	case a == &g.first:
		g.opened = false
	case g.rare != nil:
		g.rare.more = queue.Without(g.rare.more, a)
	}
	if g.rare != nil {
		g.rare.owed = slices.DeleteFunc(g.rare.owed, func(o owed) bool { return o.acq == a })
	}
}

// mustUnlock reports whether a caller has yet to unlock one of the acquisitions.
func (g *Grant) mustUnlock() bool {
	for i := range g.open() {
		if !g.at(i).closed.Load() {
			return true
		}
	}
	return false
}

// endLeaked ends the acquisitions that no caller can unlock any more.
func (g *Grant) endLeaked(n *notice.List) {
	for _, leaked := range g.leaked() {
		leaked.ending.End(fault.ErrUnlockedAlready, n)
	}
}

// owes notes that a hold let its context make an acquisition, given the flag of that hold.
func (g *Grant) owes(a *Acquisition, by *atomic.Bool) {
	g.rarely().owed = append(g.rarely().owed, owed{a, by})
}

// rarely returns what few grants have, and makes it if this one has none.
func (g *Grant) rarely() *rarely {
	if g.rare == nil {
		g.rare = new(rarely)
	}
	return g.rare
}

// leaked returns the acquisitions that are open, but that no caller can unlock any more.
func (g *Grant) leaked() []*Acquisition {
	if g.rare == nil {
		return nil
	}
	return g.rare.leaked
}

// drain closes the channel of Stop once no acquisition is open.
func (t *Table) drain() {
	if t.open == 0 && t.drained != nil && !t.isDrained {
		t.isDrained = true
		close(t.drained)
	}
}

// unlocked notes that a caller no longer has to unlock an acquisition, or that its unlock is over.
func (t *Table) unlocked(a *Acquisition) {
	if !a.settled {
		a.settled = true
		t.open--
		t.drain()
	}
}

// allUnlocked notes the same of the acquisitions of a grant that is over. An unlock that is under way notes its own.
func (t *Table) allUnlocked(g *Grant) {
	for i := range g.open() {
		if a := g.at(i); !a.closed.Load() {
			t.unlocked(a)
		}
	}
}
