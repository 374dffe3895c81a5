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

// begin begins to unlock these members, as far as they were held. Single locks of one client are unlocked together, in this order. The
// error of a member that is lost is known already.
func (u *unlocking) begin(ctx context.Context, members ...int) {
	ctx = context.WithoutCancel(ctx)
	for _, share := range u.shares(members) {
		held, lost := make([]client.Held, len(share)), make([]bool, len(share))
		for k, i := range share {
			held[k] = u.members[i]
			err := held[k].Err()
			if lost[k] = errors.Is(err, fault.ErrLost); lost[k] {
				u.ending++
				u.errs[i], u.answered[i] = err, true
			} else {
				u.running++
			}
		}
		over := func(k int, err error) { u.results <- unlocked{share[k], lost[k], err} }
		c := clientOf(held[0])
		if c.Retired() {
			c = runner(u.locks)
		}
		if len(share) > 1 {
			client.UnlockTogether(ctx, held, c, over)
		} else {
			c.Alongside(func() error { return held[0].Unlock(ctx) }, func(err error) { over(0, err) })
		}
	}
}

// shares divides those of these members that were held: the single locks of a client are together.
func (u *unlocking) shares(members []int) (all [][]int) {
	of := make(map[*client.Client]int)
	for _, i := range members {
		h := u.members[i]
		if h == nil {
			continue
		}
		at, ok := of[clientOf(h)]
		if single := client.OneLock(h); single && ok {
			all[at] = append(all[at], i)
			continue
		} else if single {
			of[clientOf(h)] = len(all)
		}
		all = append(all, []int{i})
	}
	return all
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
