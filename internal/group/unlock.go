package group

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
)

// Unlock ends one acquisition that Lock or TryLock made. With an owner in ctx it is the owner's latest one, through any
// handle on the same locks. Without an owner, it is an acquisition made through this handle.
func (g *Group) Unlock(ctx context.Context) error {
	if err := g.Check("unlock"); err != nil {
		return err
	}
	w, _ := client.Together(ctx, g.locks, true)
	for {
		a, o := g.toUnlock(w)
		if a == nil {
			return g.wrap(g.notHeld(o), "unlock")
		}
		if o != nil {
			g.unlocked.Store(o)
		}
		if a.close(false) {
			return a.release(ctx)
		}
		g.forget(a) // another goroutine is unlocking it
	}
}

// toUnlock returns the acquisition that an unlock ends, or nil, and the owner for whom it is. What a hold of the context let it acquire
// counts also once the hold is over, as for a single lock.
func (g *Group) toUnlock(w owner.Who) (a *acquisition, o *owner.Owner) {
	o, by := w.Now()
	state := func(a *acquisition) owner.State {
		return owner.State{Plain: a.plain, Lost: a.Err() != nil, Deadline: a.Deadline().UnixNano()}
	}
	if o != nil {
		a = g.latest(o)
	} else {
		a = owner.Soonest(g.open.All(), state)
	}
	if by == nil || a == nil { // holds of several members may have different owners: the open ones need not have made it
		a = owner.ToUnlock(o, a, g.owed(w.Holds), state)
	}
	return a, o
}

// notHeld returns why an unlock has nothing to end.
func (g *Group) notHeld(o *owner.Owner) error {
	if owner.UnlockedAlready(o, g.unlocked.Load(), g.locked.Load()) {
		return fault.ErrUnlockedAlready
	}
	return fault.ErrNeverLocked
}

// remember keeps an acquisition for its unlock. The handle keeps a limited number: to stay within it, it drops the oldest
// lost acquisition, which perhaps is never unlocked. The owner can still unlock that one.
func (g *Group) remember(a *acquisition) {
	if open := g.open.All(); len(open) >= owner.MaxLost {
		if i := slices.IndexFunc(open, func(a *acquisition) bool { return a.Err() != nil }); i >= 0 {
			g.open.Remove(open[i])
		}
	}
	g.open.Add(a)
	g.locked.Store(true)
	ownedBy(a.owner).Add(a)
}

// forget makes the handle and the owner forget an acquisition.
func (g *Group) forget(a *acquisition) {
	g.open.Remove(a)
	ownedBy(a.owner).Remove(a)
}

// latest returns the last acquisition of the same group that an owner has yet to unlock, or nil.
func (g *Group) latest(o *owner.Owner) *acquisition {
	for _, a := range slices.Backward(ownedBy(o).All()) {
		if a.group.same(g) {
			return a
		}
	}
	return nil
}

// owed returns the last acquisition of the same group that one of these holds let its context make, or nil. A lost one comes first: two
// callers may have had the group one after the other, and a late unlock of the first must not free it.
func (g *Group) owed(holds []owner.Claim) (left *acquisition) {
	for _, c := range holds {
		for _, a := range slices.Backward(ownedBy(c.Owner).All()) {
			switch {
			case a.by != c.Closed || !a.group.same(g):
			case a.Err() != nil:
				return a
			case left == nil:
				left = a
			}
		}
	}
	return left
}

type ownedKey struct{}

// ownedBy returns the acquisitions of groups that an owner has made and not unlocked yet. It is attached to the owner, and
// so lives as long as the owner does.
func ownedBy(o *owner.Owner) *owner.List[*acquisition] {
	v, _ := o.Value(ownedKey{}, func() any { return new(owner.List[*acquisition]) }).(*owner.List[*acquisition])
	return v
}
