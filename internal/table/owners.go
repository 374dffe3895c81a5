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

// toUnlock returns the acquisition that an unlock ends, or nil, and the owner for whom it is. If the context carries a hold that is over, that
// is the one of a call without it, unless nothing is left but what the hold had let its context acquire. Of that, a lost one comes first.
func (h *Handle) toUnlock(w owner.Who, now clock.Instant) (a *Acquisition, o *owner.Owner) {
	o, by := w.Now()
	state := func(a *Acquisition) owner.State {
		return owner.State{Plain: a.plain, Lost: !a.grant.usable(now), Deadline: int64(a.grant.term.Deadline)}
	}
	if o != nil {
		a = h.latest(o)
	} else {
		a = h.unlocks.Soonest(func(a *Acquisition) bool { return !a.closed.Load() }, state)
	}
	if by == nil {
		a = owner.ToUnlock(o, a, h.owed(w.Holds), state)
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
	case owner.UnlockedAlready(o, h.unlockedBy, h.locked):
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
