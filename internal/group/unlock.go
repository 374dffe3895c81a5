package group

import (
	"context"
	"slices"
	"sync"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/table"
)

// Unlock ends one acquisition that Lock or TryLock made. With an owner in ctx it is the owner's latest one, through any
// handle on the same locks. Without, it is one made through this handle.
func (g *Group) Unlock(ctx context.Context) error {
	if err := g.Check("unlock"); err != nil {
		return err
	}
	o := g.ownerIn(ctx)
	for {
		a := g.soonest()
		if o != nil {
			a = ownedBy(o).latest(g)
		}
		if a == nil {
			return g.wrap(fault.ErrNotHeld, "unlock")
		}
		if a.close() {
			return a.release(ctx)
		}
		g.forget(a) // another goroutine is unlocking it
	}
}

// remember keeps an acquisition for its unlock. The handle keeps a limited number: to stay within it, it drops the
// oldest one that is lost, which perhaps nobody unlocks.
func (g *Group) remember(a *acquisition) {
	if open := g.opened(); len(open) >= lease.MaxLost {
		if i := slices.IndexFunc(open, func(a *acquisition) bool { return a.Err() != nil }); i >= 0 {
			g.drop(open[i])
		}
	}
	g.mu.Lock()
	g.open = append(g.open, a)
	g.mu.Unlock()
	ownedBy(a.owner).add(a)
}

// opened returns what is open now.
func (g *Group) opened() []*acquisition {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.open)
}

// drop makes the handle forget an acquisition. Its owner can still unlock it.
func (g *Group) drop(a *acquisition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = without(g.open, a)
}

// forget makes the handle and the owner forget an acquisition.
func (g *Group) forget(a *acquisition) {
	g.drop(a)
	ownedBy(a.owner).remove(a)
}

// soonest returns the acquisition that an unlock without an owner ends, or nil. It is one made without an owner before
// any other, of these a lost one before one that is held, and of these the one whose lease ends first.
func (g *Group) soonest() *acquisition {
	open := g.opened()
	if len(open) == 0 {
		return nil
	}
	rank := func(a *acquisition) int {
		switch lost := a.Err() != nil; {
		case a.plain && lost:
			return 0
		case a.plain:
			return 1
		case lost:
			return 2
		}
		return 3
	}
	return slices.MinFunc(open, func(a, b *acquisition) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return a.Deadline().Compare(b.Deadline())
	})
}

// owned has what one owner locked through groups and has not unlocked yet, in that order. It is attached to the owner,
// and so lives as long as the owner does.
type owned struct {
	mu   sync.Mutex
	open []*acquisition
}

type ownedKey struct{}

// ownedBy returns what is attached to an owner.
func ownedBy(o *table.Owner) *owned {
	v, _ := o.Value(ownedKey{}, func() any { return new(owned) }).(*owned)
	return v
}

func (o *owned) add(a *acquisition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, a)
}

func (o *owned) remove(a *acquisition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = without(o.open, a)
}

// latest returns what the owner locked last through any handle on the same group, or nil.
func (o *owned) latest(g *Group) *acquisition {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range slices.Backward(o.open) {
		if a.group.same(g) {
			return a
		}
	}
	return nil
}

// without removes one element from a slice, if it is there.
func without[T comparable](s []T, gone T) []T {
	if i := slices.Index(s, gone); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}
