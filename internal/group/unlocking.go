package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// unlocking is the unlocks of the members of one acquisition of a group, side by side. It belongs to one goroutine.
type unlocking struct {
	members []client.Held // nil means a member that is not held
	errs    []error       // of the unlocks that returned, and of the members that are lost

	locks    []*client.Lock
	answered []bool // the members whose unlocks returned, or which are lost
	running  int
	ending   int // unlocks of members that are lost
	results  chan unlocked
}

// unlocked is the result of one member's unlock.
type unlocked struct {
	member int
	lost   bool // it was lost before
	err    error
}

// newUnlocking returns the unlocks of these members of a group with these locks. None of them has begun.
func newUnlocking(members []client.Held, locks []*client.Lock) *unlocking {
	n := len(members)
	return &unlocking{
		members: members, locks: locks, errs: make([]error, n), answered: make([]bool, n), results: make(chan unlocked, n),
	}
}

// begin begins to unlock a member, if it was held. The error of a member that is lost is known already.
func (u *unlocking) begin(ctx context.Context, i int) {
	h := u.members[i]
	if h == nil {
		return
	}
	err := h.Err()
	lost := errors.Is(err, fault.ErrLost)
	if lost {
		u.ending++
		u.errs[i], u.answered[i] = err, true
	} else {
		u.running++
	}
	c := clientOf(h)
	if c.Retired() {
		c = runner(u.locks)
	}
	c.Alongside(func() error { return h.Unlock(context.WithoutCancel(ctx)) }, func(err error) { u.results <- unlocked{i, lost, err} })
}

// runner returns a client of these locks that can still run functions on goroutines of its own. If there is none, it returns the first
// client. That one runs them in place, because its Close no longer waits.
func runner(locks []*client.Lock) *client.Client {
	i := slices.IndexFunc(locks, func(l *client.Lock) bool { return !l.Client().Retired() })
	return locks[max(i, 0)].Client()
}

// succeeded reports whether a member was held until its unlock.
func (u *unlocking) succeeded(i int) bool {
	return u.members[i] != nil && u.answered[i] && u.errs[i] == nil
}

// gone reports whether a member was lost before its unlock.
func (u *unlocking) gone(i int) bool {
	return u.answered[i] && errors.Is(u.errs[i], fault.ErrNotHeld)
}

// all reports whether the results of all members are there that were held.
func (u *unlocking) all() bool { return u.running == 0 }

// awaitFor waits until it has the results of all members that were held, for d at most. The others have no answer by then.
// Their unlocks go on.
func (u *unlocking) awaitFor(d time.Duration) {
	u.await(d, u.all)
	for i, h := range u.members {
		if h != nil && !u.answered[i] {
			u.errs[i] = fault.ErrNoAnswer
		}
	}
}

// linger waits for d at most for the results that nobody needs. The unlocks go on after that.
func (u *unlocking) linger(d time.Duration) {
	u.await(d, func() bool { return u.running+u.ending == 0 })
}

// await takes results until there are enough, for d at most. A negative d means no limit.
func (u *unlocking) await(d time.Duration, enough func() bool) {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	for !enough() {
		select {
		case r := <-u.results:
			if r.lost {
				u.ending--
			} else {
				u.running--
				u.errs[r.member], u.answered[r.member] = r.err, true
			}
		case <-over:
			return
		}
	}
}
