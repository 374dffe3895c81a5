package table

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// Handle is a lock as the table sees it. Several handles of one name are one lock. The exported fields are set before its
// first use, and do not change.
type Handle struct {
	Key  Key
	Kind *wire.Kind
	Name string // the user's, for errors and log lines

	FirstDelay, MaxDelay time.Duration // the poll delays, for a kind without a channel
	NonReentrant         bool

	// The table's mutex guards locked, unlocks and unlockedBy. Locked stands here because there is room beside NonReentrant.
	locked bool // an acquisition was made through this handle without a Hold

	names wire.NamesCache

	unlocks owner.Unlocks[*Acquisition] // those without a Hold that are not known to be over, and the latest lost ones
	// unlockedBy is the latest owner that unlocked through this handle.
	unlockedBy *owner.Owner
}

func (h *Handle) sideKey() HeldKey { return HeldKey{h.Key, h.Kind.Side} }

// Names returns the keys and the channel of the lock.
func (h *Handle) Names() *wire.Names {
	return h.names.Get(h.Kind, h.Key.Name, h.Key.Table.cfg.ClientID)
}

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

// Of returns the error of a call for the lock, for a log line or a caller.
func (h *Handle) Of(err *fault.Error) *fault.Error { return err.Of(h.Kind.Name(), h.Name, h.Key.Name) }

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

var errNoToken = fmt.Errorf("%w: this owner holds the lock without a fencing token", fault.ErrInvalidOption)

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

// Queues reports whether the waiters of a handle queue in Redis, where an attempt that does not wait never overtakes them.
func (t *Table) Queues(h *Handle) bool {
	defer t.lock().Unlock()
	return h.Kind.Queues || h.Kind.Channel != "" && t.standsFor(h)
}
