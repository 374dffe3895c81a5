package table

import (
	"errors"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
)

// The contexts of the model carry holds, as those of users do: also holds that are over.

// claims returns what a context says that carries these holds.
func claims(holds []*record) (all []owner.Claim) {
	for _, r := range holds {
		all = append(all, owner.Claim{Owner: r.owner, Closed: r.acq.Closed()})
	}
	return all
}

// closed reports whether the hold of an acquisition is over for its context.
func (r *record) closed() bool { return r.unlocked || r.acq.closed.Load() }

// ownerOf returns for whom a context stands now: for the owner of the nearest hold that is not over, or else for that of WithOwner.
func ownerOf(holds []*record, base *owner.Owner) *owner.Owner {
	for _, r := range holds {
		if !r.closed() {
			return r.owner
		}
	}
	return base
}

// startBeside begins an acquisition with the context of a hold: a re-entry, an acquisition of the other side, or neither, if that hold is
// over.
func (w *world) startBeside() bool {
	past := w.rand(4) == 0
	r, ok := pick(w, w.records, func(r *record) bool { return r.open() || past && !r.proc.stopped })
	if !ok {
		return false
	}
	handles := r.proc.handles[r.name.index]
	h := handles[w.rand(len(handles))]
	if r.base != nil && w.rand(2) == 0 {
		return w.admit(r.proc, r.name, h, r.base)
	}
	return w.admitFor(nil, r.proc, r.name, h, r.base, append([]*record{r}, r.holds...)...)
}

// checkOwner checks that an attempt that has just decided for whom it acquires did so for whom its context stands.
func (w *world) checkOwner(v *verb) {
	switch want := ownerOf(v.holds, v.a.Owner); {
	case v.a.phase == claiming, v.a.phase == done:
	case v.a.owner != want:
		w.failf("Context: %s acquires for an owner for whom its context does not stand", v)
	case want == nil && v.a.grant.shared, want != nil && v.a.grant.owner != want:
		w.failf("Context: %s has the grant of another owner", v)
	}
}

// checkShares checks, where an attempt asks for the other side of a name as its owner, that its context still stands for that owner.
func (w *world) checkShares(v *verb, s Step) {
	if v.a.grant == nil || ownerOf(v.holds, v.a.Owner) == v.a.owner {
		return
	}
	if other := v.a.grant.sibling(); other != nil && s.Call.Args.Other == other.inRedis().Field {
		w.failf("Context: %s shares the other side of the name with an owner for whom its context no longer stands", v)
	}
}

// checkChosen checks which acquisition an unlock chose with the context that had made one. A late unlock frees nobody else's lock.
func (w *world) checkChosen(r *record, x *Exit, late bool) {
	if late && x.acq != nil && !errors.Is(x.acq.ending.Err(), fault.ErrLost) {
		w.failf("Context: the unlock of #%d, which is lost, frees #%d", r.acq.grant.holder.Number, x.acq.grant.holder.Number)
	}
}

// handleFor returns a handle with which the context of an acquisition unlocks it: any one, if the context still stands for its owner.
func (w *world) handleFor(r *record) *Handle {
	owned := ownerOf(r.holds, r.base) != nil
	h, _ := pick(w, r.proc.handles[r.name.index], func(h *Handle) bool { return h == r.handle || owned && h.sideKey() == r.handle.sideKey() })
	return h
}
