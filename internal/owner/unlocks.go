package owner

import (
	"cmp"
	"slices"
)

// Unlocks has the acquisitions that are yet to be unlocked, also lost ones. The zero value has none. It must not be copied, because all
// may lie in one, and it is not safe for concurrent use.
type Unlocks[A comparable] struct {
	all []A
	one [1]A // the first array of all
}

// Add adds an acquisition.
func (u *Unlocks[A]) Add(a A) {
	if cap(u.all) == 0 {
		u.all = u.one[:0]
	}
	u.all = append(u.all, a)
	if len(u.all) == 2 { // append has moved them, and one must not keep the first alive
		clear(u.one[:])
	}
}

// Forget drops an acquisition.
func (u *Unlocks[A]) Forget(a A) {
	if i := slices.Index(u.all, a); i >= 0 {
		u.all = slices.Delete(u.all, i, i+1)
	}
}

// Len returns how many acquisitions there are.
func (u *Unlocks[A]) Len() int { return len(u.all) }

// Soonest returns the acquisition that an unlock without an owner ends, or zero. Acquisitions made without an owner come
// first, of them lost acquisitions before live ones, and of those the one whose lease ends first.
func (u *Unlocks[A]) Soonest(counts func(A) bool, of func(A) State) (first A) {
	var none A
	var least State
	for _, a := range u.all {
		if !counts(a) {
			continue
		}
		if s := of(a); first == none || cmp.Or(s.rank()-least.rank(), cmp.Compare(s.Deadline, least.Deadline)) < 0 {
			first, least = a, s
		}
	}
	return first
}

// State is what an unlock asks of an acquisition.
type State struct {
	Plain    bool // made without an owner, or as that of a hold that is closed
	Lost     bool
	Deadline int64 // when its lease ends
}

func (s State) rank() (rank int) {
	if !s.Plain {
		rank += 2
	}
	if !s.Lost {
		rank++
	}
	return rank
}
