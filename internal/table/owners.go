package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// latest returns the acquisition that an unlock by an owner ends: the latest one, made through any handle. It returns nil if
// there is none.
func (h *Handle) latest(o *owner.Owner) *Acquisition {
	g := h.Key.Table.grants.Of(h.sideKey(), o)
	if g == nil {
		g = lostOf(o, h.sideKey())
	}
	if g == nil {
		return nil
	}
	for i := g.open() - 1; i >= 0; i-- {
		if a := g.at(i); !a.byHold && !a.closed.Load() {
			return a
		}
	}
	return nil
}

// toUnlock returns the acquisition that an unlock ends, or nil.
func (h *Handle) toUnlock(w owner.Who, now clock.Instant) *Acquisition {
	if o := w.Now(); o != nil {
		return h.latest(o)
	}
	return h.unlocks.Soonest(func(a *Acquisition) bool { return !a.closed.Load() }, func(a *Acquisition) owner.State {
		return owner.State{Plain: a.loose(), Lost: !a.grant.usable(now), Deadline: int64(a.grant.term.Deadline)}
	})
}

// loose reports whether an acquisition is nobody's but its handle's: it was made without an owner, and no hold stands for its grant.
func (a *Acquisition) loose() bool {
	for i := range a.grant.open() {
		if other := a.grant.at(i); other.byHold && !other.closed.Load() {
			return false
		}
	}
	return a.plain
}

// lostOf returns the grant that an owner lost and has not unlocked since, or nil. It is attached to the owner until all
// acquisitions of the grant have been unlocked. So it lives as long as the owner's context, and needs no place in the table.
func lostOf(o *owner.Owner, key HeldKey) *Grant {
	g, _ := o.Attached(key).(*Grant)
	return g
}

// mayNot returns why an owner must not acquire a name now: because it lost the name and has not unlocked it since, because
// the handle does not re-enter, or the attempt must be a first acquisition (anew), or because the handle has tokens and the owner's hold has none. It returns nil if it may.
func (t *Table) mayNot(h *Handle, o *owner.Owner, anew bool, now clock.Instant) error {
	holds, fenced := false, true
	for _, side := range [2]wire.Side{wire.MainSide, wire.ReadSide} {
		key := HeldKey{h.Key, side}
		g := t.grants.Of(key, o)
		switch {
		case lostOf(o, key) != nil:
			return errStillLost
		case g == nil:
		case g.stage == expired, g.stage == held && g.term.Past(now):
			return errStillLost
		case g.stage == held:
			holds = true
			fenced = fenced && (side == wire.ReadSide || g.handle.Kind.Tokens)
		}
	}
	switch {
	case holds && (anew || h.NonReentrant):
		return fault.ErrReentered
	case h.Kind.Tokens && !fenced:
		return errNoToken
	}
	return nil
}
