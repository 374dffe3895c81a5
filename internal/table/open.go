package table

import (
	"math"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
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

func (g *Grant) close(a *Acquisition) {
	switch {
	case a == &g.first:
		g.opened = false
	case g.rare != nil:
		g.rare.more = queue.Without(g.rare.more, a)
	}
}

func (g *Grant) mustUnlock() bool {
	for i := range g.open() {
		if !g.at(i).closed.Load() {
			return true
		}
	}
	return false
}

func (g *Grant) rarely() *rarely {
	if g.rare == nil {
		g.rare = new(rarely)
	}
	return g.rare
}

func (s *streak) begin(now clock.Instant) {
	s.after = int32(min(now.Sub(s.since)/time.Millisecond, math.MaxInt32))
}

// began returns when the latest hold of the streak began, or up to a millisecond before.
func (s *streak) began() clock.Instant { return s.since.Add(time.Duration(s.after) * time.Millisecond) }

// over reports whether the streak has reached a limit: of its hand-overs, or of its duration.
func (s *streak) over(handOvers int, most time.Duration, now clock.Instant) bool {
	return int(s.count) >= handOvers || now.Sub(s.since) >= most
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
	if !a.accounted {
		a.accounted = true
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
