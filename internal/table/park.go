package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// A lock that must stay taken for some time is parked when it is unlocked before: its holder in Redis becomes a number that nobody has.
// Nothing renews that, and no owner can lose it, so the lock is free when the time is over. No message says so: waiters sleep
// until the lease that they know of is over, and ask.

// keep notes from when the time counts for which the lock of an attempt stays taken.
func (a *Attempt) keep(from clock.Instant) {
	if a.AtLeast > 0 {
		a.grant.rarely().keep = from.Add(a.AtLeast)
	}
}

// parks decides whether the last unlock of a grant parks the lock.
func (t *Table) parks(g *Grant, now clock.Instant) bool {
	if g.rare == nil || g.rare.keep <= now {
		return false
	}
	t.number++
	park := wire.NewHolder(g.handle.Kind, g.handle.Names(), t.cfg.ClientID, t.number)
	g.rare.park = &park
	return true
}

// parkedFor returns for how long the release of a grant has to keep the lock taken. Zero means that it frees the lock.
func (g *Grant) parkedFor(now clock.Instant) time.Duration {
	if g.rare == nil || g.rare.park == nil {
		return 0
	}
	return max(g.rare.keep.Sub(now), 0)
}

// leavesMore reports whether a grant that is parked or exported has left more in Redis than its holder, or may yet do so. A background
// release of the holder, which is gone, removes that.
func (g *Grant) leavesMore() bool {
	return g.inDoubt || g.needsCleanup || g.stood() != 0 || g.rare != nil && g.rare.seat != nil
}
