package client

import (
	"context"
	"iter"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/table"
)

// ensured is an owner that hides no hold of the context for which it was made. An owner of [WithOwner] hides them all.
type ensured struct{ owner owner.Owner }

// EnsureOwner returns ctx if it has an owner. Otherwise it returns a context with a new owner that hides no hold of ctx.
func EnsureOwner(ctx context.Context) context.Context {
	if OwnerOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, new(ensured))
}

// Keep returns a child of a context that stands for the same owners of locks as ctx, without touching ctx later.
func Keep(child, ctx context.Context, locks []*Lock) context.Context {
	if len(locks) == 0 {
		return keep(keep(child, ctx, ownerKey{}), ctx, holdsKey{})
	}
	return keep(Keep(child, ctx, locks[1:]), ctx, locks[0].h.Key)
}

// keep returns a child of a context that has the value of ctx for a key, if there is one.
func keep(child, ctx context.Context, key any) context.Context {
	if v := ctx.Value(key); v != nil {
		return context.WithValue(child, key, v)
	}
	return child
}

// Borrow makes the zero Hold the nearest hold of a lock or a group that ctx carries, on loan. It reports whether there is
// one. It looks outward only as far as the lock would be re-entered: an owner made by [WithOwner] hides the holds outside it. A hold
// that is closed comes after all others, as it does for a re-entry.
func (h *Hold) Borrow(ctx context.Context, m Member) bool {
	locks := m.Locks()
	if len(locks) == 0 || locks[0] == nil || locks[0].client == nil {
		return false
	}
	for hold := range holdsOf(ctx, locks[0].h.Key) {
		part := hold.of.Part(m)
		if part == nil {
			continue
		}
		if closed := hold.of.Closed().Load(); h.of == nil || !closed {
			h.of = borrowed{part, hold}
			if !closed {
				break
			}
		}
	}
	return h.of != nil
}

// holdsOf yields the holds of a name that ctx carries, on either side, the nearest first. An owner made by [WithOwner] hides those outside it.
func holdsOf(ctx context.Context, key table.Key) iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		hiding := hidingOwner(ctx)
		for hold := nearest(ctx, key); hold != nil && hold.created == hiding && yield(hold); {
			hold = nearest(hold.parent, key)
		}
	}
}

// nearest returns the hold of a name that ctx carries, on either side, or nil. The next one is in the context that acquired
// it.
func nearest(ctx context.Context, key table.Key) *Hold {
	hold, _ := ctx.Value(key).(*Hold)
	return hold
}

// borrowed is the Held of a borrowed hold. A borrowed hold is never told of its end.
type borrowed struct {
	Held

	from *Hold // that the context carries
}

// PermitIDs returns the ids of the permits, or nil for other holds.
func (b borrowed) PermitIDs() []string { return b.from.PermitIDs() }

// Unlock implements [Held].
func (b borrowed) Unlock(context.Context) error {
	return &fault.OpError{Op: "unlock", What: QuoteName(b), Err: fault.ErrBorrowed}
}

// QuoteName returns the quoted name of a lock, or of the first lock of a group, for errors.
func QuoteName(of interface{ Locks() []*Lock }) string {
	locks := of.Locks()
	name := fault.Quote(locks[0].Name())
	if len(locks) > 1 {
		name += " and others"
	}
	return name
}

// Part implements [Held].
func (t taken) Part(m Member) Held {
	if l, ok := m.(*Lock); ok && l.ID() == t.lock.ID() {
		return t
	}
	return nil
}
