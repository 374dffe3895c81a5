package owner

import "slices"

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

// First returns the first of the acquisitions that count, or zero. A lost acquisition comes before an open one.
func (u *Unlocks[A]) First(counts func(A) bool, before func(a, b A) bool) A {
	var first, none A
	for _, list := range [2][]A{u.Lost(), u.open} {
		for _, a := range list {
			if counts(a) && (first == none || before(a, first)) {
				first = a
			}
		}
		if first != none {
			break
		}
	}
	return first
}
