package client

import (
	"context"
	"iter"
	"slices"

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

// Together returns for whom ctx stands when it asks for several locks as one. The holds of all of them count, the outermost first, so that
// calls within each other agree. rest is for whom it asks for those of the locks of which it carries no hold. The owner of a hold may
// have these for another caller. So each hold has one more owner, for which only contexts within the hold stand. past says that closed holds are wanted too.
func Together(ctx context.Context, locks []*Lock, past bool) (w, rest owner.Who) {
	w.Owner = OwnerOf(ctx)
	hiding := hidingOwner(ctx)
	for hold := carried(ctx); hold != nil && hold.created == hiding; hold = carried(hold.parent) {
		closed := hold.of.Closed()
		if i := slices.IndexFunc(locks, hold.has); i >= 0 && (past || !closed.Load()) {
			w.Holds = append(w.Holds, owner.Claim{Owner: hold.of.OwnerOf(locks[i].h.Key), Closed: closed})
			rest.Holds = append(rest.Holds, owner.Claim{Owner: hold.others(), Closed: closed})
		}
	}
	slices.Reverse(w.Holds)
	slices.Reverse(rest.Holds)
	return w, rest
}

// has reports whether the hold counts for a lock: as one of it, or of the other side of its name.
func (h *Hold) has(l *Lock) bool {
	return slices.ContainsFunc(h.of.Locks(), func(held *Lock) bool { return held.h.Key == l.h.Key })
}

// others returns the owner for other locks than those of the hold.
func (h *Hold) others() *owner.Owner {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rest == nil {
		h.rest = new(owner.Owner)
	}
	return h.rest
}

// borrowed is the Held of a borrowed hold. A borrowed hold is never told of its end, and never leaks.
type borrowed struct {
	Held

	// from is the hold that the context carries. The borrowed hold keeps it reachable: otherwise the runtime could take it for
	// a dropped one.
	from *Hold
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
