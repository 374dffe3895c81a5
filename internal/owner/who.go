package owner

import "sync/atomic"

// Claim is a hold that a context carries. The context stands for the owner of the hold until the hold is closed.
type Claim struct {
	Owner *Owner
	// Closed is true once the hold is unlocked, exported or dropped, or about to be. It never becomes false again.
	Closed *atomic.Bool
}

// Who says for whom a call is. The context of the call may outlive the holds that it carries. A closed hold counts no more, or else
// two callers would still be one owner, and both would have the lock. So whoever lets a caller share what an owner holds must call
// [Who.Now] in the same critical section.
type Who struct {
	Holds []Claim // the nearest one first
	Owner *Owner  // counts when all of the holds are closed; nil means an owner of its own
}

// Now returns the owner at this moment, and the flag of the hold that makes it so. A nil flag means that no hold does.
func (w Who) Now() (o *Owner, by *atomic.Bool) {
	for _, c := range w.Holds {
		if !c.Closed.Load() {
			return c.Owner, c.Closed
		}
	}
	return w.Owner, nil
}

// Or returns w if it has an owner for good. Otherwise another one comes after its holds.
func (w Who) Or(other Who) Who {
	if w.Owner != nil {
		return w
	}
	return Who{append(w.Holds, other.Holds...), other.Owner}
}
