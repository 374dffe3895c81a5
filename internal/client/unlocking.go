package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// Unlocking is the unlocks of the members of one acquisition of a group, side by side. It belongs to one goroutine.
type Unlocking struct {
	Members []Held  // nil means a member that is not held
	Errs    []error // of the unlocks that returned, and of the members that are lost

	locks    []*Lock
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

// NewUnlocking returns the unlocks of these members of a group with these locks. None of them has begun.
func NewUnlocking(members []Held, locks []*Lock) *Unlocking {
	n := len(members)
	return &Unlocking{
		Members: members, locks: locks, Errs: make([]error, n), answered: make([]bool, n), results: make(chan unlocked, n),
	}
}

// Begin begins to unlock a member, if it was held. The error of a member that is lost is known already.
func (u *Unlocking) Begin(ctx context.Context, i int) {
	h := u.Members[i]
	if h == nil {
		return
	}
	err := h.Err()
	lost := errors.Is(err, fault.ErrLost)
	if lost {
		u.ending++
		u.Errs[i], u.answered[i] = err, true
	} else {
		u.running++
	}
	c := h.Locks()[0].client
	if c.tasks.Retired() {
		c = Runner(u.locks)
	}
	c.Background(func() { u.results <- unlocked{i, lost, h.Unlock(context.WithoutCancel(ctx))} })
}

// Runner returns a client of these locks that can still run functions on goroutines of its own. If there is none, it returns the first
// client. That one runs them in place, because its Close no longer waits.
func Runner(locks []*Lock) *Client {
	i := slices.IndexFunc(locks, func(l *Lock) bool { return !l.client.tasks.Retired() })
	return locks[max(i, 0)].client
}

// Succeeded reports whether a member was held until its unlock.
func (u *Unlocking) Succeeded(i int) bool {
	return u.Members[i] != nil && u.answered[i] && u.Errs[i] == nil
}

// Gone reports whether a member was lost before its unlock.
func (u *Unlocking) Gone(i int) bool {
	return u.answered[i] && errors.Is(u.Errs[i], fault.ErrNotHeld)
}

// Await waits until it has the results of all members that were held, or enough of them. A nil enough means all.
func (u *Unlocking) Await(enough func() bool) {
	u.await(nil, func() bool { return u.running == 0 || enough != nil && enough() })
}

// AwaitFor waits until it has the results of all members that were held, for d at most. The others have no answer by then.
// Their unlocks go on.
func (u *Unlocking) AwaitFor(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	if u.await(over.C, func() bool { return u.running == 0 }) {
		return
	}
	for i, h := range u.Members {
		if h != nil && !u.answered[i] {
			u.Errs[i] = fault.ErrNoAnswer
		}
	}
}

// Linger waits for d at most for the results that nobody needs. The unlocks go on after that.
func (u *Unlocking) Linger(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	u.await(over.C, func() bool { return u.running+u.ending == 0 })
}

// await takes results until there are enough, or until over has a value. It reports whether there are enough.
func (u *Unlocking) await(over <-chan time.Time, enough func() bool) bool {
	for !enough() {
		select {
		case r := <-u.results:
			u.take(r)
		case <-over:
			return false
		}
	}
	return true
}

func (u *Unlocking) take(r unlocked) {
	if r.lost {
		u.ending--
		return
	}
	u.running--
	u.Errs[r.member], u.answered[r.member] = r.err, true
}
