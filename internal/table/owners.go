package table

import (
	"cmp"
	"slices"

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

// soonest returns the acquisition that an unlock without an owner ends, or nil. Acquisitions made without an owner come
// first, of them lost acquisitions before live ones, and of those the one whose lease ends first.
func (h *Handle) soonest() *Acquisition {
	sooner := func(a, b *Acquisition) bool { return a.grant.term.Deadline < b.grant.term.Deadline }
	for _, plain := range [2]bool{true, false} {
		if a := h.unlocks.First(func(a *Acquisition) bool { return !a.closed.Load() && a.plain == plain }, sooner); a != nil {
			return a
		}
	}
	return nil
}

// toUnlock returns the acquisition that an unlock ends, or nil, and the owner for whom it is. If the context carries a hold that is over, that
// is the one of a call without it, unless nothing is left but what the hold had let its context acquire. Of that, a lost one comes first.
func (h *Handle) toUnlock(w owner.Who, now clock.Instant) (a *Acquisition, o *owner.Owner) {
	o, by := w.Now()
	var left *Acquisition
	if by == nil {
		left = h.owed(w.Holds)
	}
	switch {
	case left != nil && !left.grant.usable(now):
		return left, o
	case o != nil:
		a = h.latest(o)
	default:
		a = h.soonest()
	}
	if left != nil && (a == nil || o == nil && !a.plain) {
		a = left
	}
	return a, o
}

// owed returns the latest acquisition without a Hold that one of these holds let its context make, or nil.
func (h *Handle) owed(holds []owner.Claim) *Acquisition {
	for _, c := range holds {
		g := cmp.Or(h.Key.Table.grants.Of(h.sideKey(), c.Owner), lostOf(c.Owner, h.sideKey()))
		if g == nil || g.rare == nil {
			continue
		}
		for _, o := range slices.Backward(g.rare.owed) {
			if o.by == c.Closed && !o.acq.closed.Load() {
				return o.acq
			}
		}
	}
	return nil
}

// lostOf returns the grant that an owner lost and has not unlocked since, or nil. It is attached to the owner until all
// acquisitions of the grant have been unlocked. So it lives as long as the owner's context, and needs no place in the table.
func lostOf(o *owner.Owner, key HeldKey) *Grant {
	g, _ := o.Attached(key).(*Grant)
	return g
}

// mayNot returns why an owner must not acquire a name now: because it lost the name and has not unlocked it since, because
// the handle does not re-enter, or the attempt must not (anew), or because the handle has tokens and the owner's hold has none. It returns nil if it may.
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

// notHeld returns why an unlock through a handle has nothing to end.
func (t *Table) notHeld(h *Handle, o *owner.Owner) error {
	otherHandle := false
	for _, g := range t.holdersOf(h) {
		for i := range g.open() {
			a := g.at(i)
			mine := o != nil && o == g.owner || o == nil && a.handle == h
			switch {
			case a.closed.Load():
			case mine && a.byHold:
				return fault.ErrTakenByHold
			case o == nil && a.plain && !a.byHold:
				otherHandle = true
			}
		}
	}
	switch {
	case o == nil && h.locked, o != nil && h.unlockedBy == o:
		return fault.ErrUnlockedAlready
	case otherHandle:
		return fault.ErrOtherHandle
	}
	return fault.ErrNeverLocked
}

// holdersOf returns the grants of a handle's name and side, for an error. Grants that share the lock are looked for only
// among the first thousand grants of the client.
func (t *Table) holdersOf(h *Handle) (found []*Grant) {
	if h.Kind.Side == wire.MainSide {
		if g := t.holder(h.Key); g != nil {
			found = append(found, g)
		}
		return found
	}
	all := t.heap.All()
	for _, g := range all[:min(len(all), 1000)] {
		if g.handle.sideKey() == h.sideKey() {
			found = append(found, g)
		}
	}
	return found
}
