package owner

import "sync/atomic"

// Claim is a hold that a context carries. The context stands for the owner of the hold until the hold is closed.
type Claim struct {
	Owner *Owner
	// Closed is true once the hold is unlocked or exported, or about to be. It never becomes false again.
	Closed *atomic.Bool
}

// Who says for whom a call is. The context of the call may outlive the holds that it carries. A closed hold counts no more, or else
// two callers would still be one owner, and both would have the lock. So whoever lets a caller share what an owner holds must call
// [Who.Now] in the same critical section.
type Who struct {
	Holds []Claim // the nearest one first
	Owner *Owner  // counts when all of the holds are closed; nil means an owner of its own
}

// Now returns the owner at this moment.
func (w Who) Now() *Owner {
	for _, c := range w.Holds {
		if !c.Closed.Load() {
			return c.Owner
		}
	}
	return w.Owner
}
