package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// release unlocks all members of a closed acquisition. A red lock is released when the remaining members no longer exclude
// others. It must have been held by a majority until then. If it was lost before, it does not matter how the unlocks go.
func (a *acquisition) release(ctx context.Context) error {
	g := a.group
	g.forget(a)
	u := a.unlockAll(ctx)
	a.mu.Lock()
	why := a.why
	done, wasLost := a.released(u)
	a.mu.Unlock()
	switch {
	case errors.Is(why, fault.ErrLost):
		return why
	case done:
		return nil
	case wasLost:
		return g.wrap(g.summary(lost, u.errs), "unlock")
	}
	return g.wrap(g.verdict(u.errs), "unlock")
}

// unlocking is the unlocks of the members of one acquisition under way. It belongs to one goroutine.
type unlocking struct {
	members  []lease.Held
	errs     []error
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

// unlock begins to unlock a member, if it was held. The error of a member that is lost is known already.
func (u *unlocking) unlock(ctx context.Context, i int) {
	h := u.members[i]
	if h == nil {
		return
	}
	err := h.Err()
	isLost := errors.Is(err, fault.ErrLost)
	if isLost {
		u.ending++
		u.errs[i], u.answered[i] = err, true
	} else {
		u.running++
	}
	clientOf(h).Background(func() { u.results <- unlocked{i, isLost, h.Unlock(ctx)} })
}

// succeeded reports whether a member was held until its unlock.
func (u *unlocking) succeeded(i int) bool {
	return u.members[i] != nil && u.answered[i] && u.errs[i] == nil
}

// collect takes in results until it has all or enough of them. A nil enough means all. It waits for no member that is lost.
func (u *unlocking) collect(enough func() bool) {
	for u.running > 0 && (enough == nil || !enough()) {
		u.take(<-u.results)
	}
}

func (u *unlocking) take(r unlocked) {
	if r.lost {
		u.ending--
		return
	}
	u.running--
	u.errs[r.member], u.answered[r.member] = r.err, true
}

// linger waits a moment for the results that are not needed.
func (u *unlocking) linger() {
	moment := time.NewTimer(minTimeout)
	defer moment.Stop()
	for u.running+u.ending > 0 {
		select {
		case r := <-u.results:
			u.take(r)
		case <-moment.C:
			return
		}
	}
}

// unlockAll unlocks the members. Once the group is released, it waits for the remaining members a moment longer. A member
// that hangs is unlocked in the background.
func (a *acquisition) unlockAll(ctx context.Context) *unlocking {
	members := a.held()
	n := len(members)
	u := &unlocking{
		members: members, errs: make([]error, n), answered: make([]bool, n), results: make(chan unlocked, n),
	}
	multi := a.group.quorum == nil
	for i := range members {
		if i > 0 || !multi {
			u.unlock(ctx, i)
		}
	}
	if multi { // the first member comes last, because others wait for it
		u.collect(nil)
		u.unlock(ctx, 0)
		u.collect(nil)
	}
	u.collect(func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		done, _ := a.released(u)
		return done
	})
	u.linger()
	return u
}

// released reports whether the members that are not known to be released no longer exclude others, and whether enough were
// held until they were unlocked. Otherwise, it reports whether the group is known to have been lost. a.mu must be held.
func (a *acquisition) released(u *unlocking) (done, wasLost bool) {
	left, gone := 0, false
	for i, h := range u.members {
		switch {
		case h == nil || u.succeeded(i):
		case u.answered[i] && errors.Is(u.errs[i], fault.ErrNotHeld):
			gone = true
		default:
			left++
		}
	}
	if left > len(u.members)-a.group.need {
		return false, false
	}
	// A member whose unlock succeeded was held until then, and so excluded others.
	wasLost = errors.Is(a.why, fault.ErrLost) || gone && !a.hadQuorum(u.succeeded)
	return !wasLost, wasLost
}

// giveUp unlocks the members of an acquisition that failed, even if ctx has ended. The unlocks are detached: it waits for
// them only as long as the request may last, and for a short time. It returns what failed until then. A member that has not
// replied yet is released when it replies.
func (a *acquisition) giveUp(ctx context.Context, r *request) error {
	a.close()
	result := make(chan error, 1)
	clientOf(a.group).Background(func() {
		u := a.unlockAll(context.WithoutCancel(ctx))
		// A lease that ran out meanwhile is not a failure.
		result <- errors.Join(slices.DeleteFunc(u.errs, func(err error) bool { return errors.Is(err, fault.ErrNotHeld) })...)
	})
	enough := time.NewTimer(r.floor)
	defer enough.Stop()
	select {
	case err := <-result:
		return err
	case <-enough.C:
	case <-r.bound:
	}
	return nil
}
