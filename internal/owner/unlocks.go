package owner

import (
	"cmp"
	"slices"
)

// MaxLost is how many lost acquisitions are remembered until an unlock returns the loss.
const MaxLost = 64

// Unlocks has the acquisitions that are yet to be unlocked: all that are not known to be over, and the latest lost ones. The
// zero value has none. It must not be copied, because open may lie in one, and it is not safe for concurrent use.
type Unlocks[A comparable] struct {
	open []A
	one  [1]A // the first array of open
	lost *[]A // nil means none, as in most handles
}

// Add adds an acquisition.
func (u *Unlocks[A]) Add(a A) {
	if cap(u.open) == 0 {
		u.open = u.one[:0]
	}
	u.open = append(u.open, a)
	if len(u.open) == 2 { // append has moved them, and one must not keep the first alive
		clear(u.one[:])
	}
}

// Lose keeps an acquisition as lost.
func (u *Unlocks[A]) Lose(a A) {
	u.Forget(a)
	if u.lost == nil {
		u.lost = new([]A)
	}
	if len(*u.lost) == MaxLost {
		*u.lost = slices.Delete(*u.lost, 0, 1)
	}
	*u.lost = append(*u.lost, a)
}

// Forget drops an acquisition.
func (u *Unlocks[A]) Forget(a A) {
	for _, list := range [2]*[]A{&u.open, u.lost} {
		if list == nil {
			continue
		}
		if i := slices.Index(*list, a); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
}

// Open returns how many acquisitions are not known to be over.
func (u *Unlocks[A]) Open() int { return len(u.open) }

// Lost returns the lost ones, the oldest first. The caller must not change the slice.
func (u *Unlocks[A]) Lost() []A {
	if u.lost == nil {
		return nil
	}
	return *u.lost
}

// Soonest is [Soonest] of those that count.
func (u *Unlocks[A]) Soonest(counts func(A) bool, of func(A) State) A {
	var s soonest[A]
	for i, list := range [2][]A{u.Lost(), u.open} {
		for _, a := range list {
			if counts(a) {
				state := of(a)
				state.Lost = i == 0
				s.offer(a, state)
			}
		}
	}
	return s.first
}

// State is what an unlock asks of an acquisition.
type State struct {
	Plain    bool // made without an owner
	Lost     bool
	Deadline int64 // when its lease ends
}

// Soonest returns the acquisition that an unlock without an owner ends, or zero. Acquisitions made without an owner come
// first, of them lost acquisitions before live ones, and of those the one whose lease ends first.
func Soonest[A comparable](all []A, of func(A) State) A {
	var s soonest[A]
	for _, a := range all {
		s.offer(a, of(a))
	}
	return s.first
}

// soonest is the first of the acquisitions that were offered.
type soonest[A comparable] struct {
	first A
	state State
}

func (s *soonest[A]) offer(a A, state State) {
	var none A
	if s.first == none || cmp.Or(state.rank()-s.state.rank(), cmp.Compare(state.Deadline, s.state.Deadline)) < 0 {
		s.first, s.state = a, state
	}
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

// ToUnlock returns the acquisition that an unlock by an owner ends, or zero. mine is the owner's latest one; without an owner, it is the soonest one
// of the handle. left is the one that a closed hold of the call's context let that context make. It comes first if it is lost. Otherwise it
// comes after all but those that an owner made.
func ToUnlock[A comparable](o *Owner, mine, left A, of func(A) State) A {
	var none A
	switch {
	case left == none:
		return mine
	case mine == none, of(left).Lost, o == nil && !of(mine).Plain:
		return left
	}
	return mine
}

// UnlockedAlready reports whether an unlock by an owner has nothing to end because the owner has unlocked before, or without an owner, because
// something was locked through the handle. latest is the owner that unlocked through it last.
func UnlockedAlready(o, latest *Owner, locked bool) bool {
	return o == nil && locked || o != nil && latest == o
}
