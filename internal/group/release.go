package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
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
		return g.wrap(g.rule().lost(u.errs), "unlock")
	}
	return g.wrap(g.rule().of(u.errs), "unlock")
}

// unlockAll unlocks the members. Once the group is released, it waits for the remaining members a moment longer. A member
// that hangs is unlocked in the background.
func (a *acquisition) unlockAll(ctx context.Context) *unlocking {
	u, begun := newUnlocking(a.held(), a.group.locks), time.Now()
	members := make([]int, len(u.members)) // the first one comes last, because others wait for it
	for i := range members {
		members[i] = (i + 1) % len(members)
	}
	if multi := a.group.quorum == nil; !multi {
		u.begin(ctx, members...)
		u.await(unlimited, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			done, _ := a.released(u)
			return done || u.all()
		})
	} else { // all members have one command timeout together
		if !a.waitedFor() && len(u.shares(members)) == 1 {
			u.begin(ctx, members...)
			u.await(unlimited, u.all)
		} else {
			u.begin(ctx, members[:len(members)-1]...)
			u.await(unlimited, u.all)
			u.begin(ctx, 0)
		}
		u.awaitFor(max(a.group.timeout()-time.Since(begun), minTimeout))
	}
	u.linger(minTimeout)
	return u
}

// waitedFor reports whether others of this process wait for the first lock. They would have it, and ask for the others, before these are
// free.
func (a *acquisition) waitedFor() bool {
	first := a.group.locks[0]
	waiters, _, _ := first.Client().Table().Line(first.ID().Key)
	return waiters > 0
}

// released reports whether the members that are not known to be released no longer exclude others, and whether enough were
// held until they were unlocked. Otherwise, it reports whether the group is known to have been lost. a.mu must be held.
func (a *acquisition) released(u *unlocking) (done, wasLost bool) {
	left, gone := 0, false
	for i, h := range u.members {
		switch {
		case h == nil || u.succeeded(i):
		case u.gone(i):
			gone = true
		default:
			left++
		}
	}
	if left > len(u.members)-a.group.need {
		return false, false
	}
	// A member whose unlock succeeded was held until then, and so excluded others. So may have one whose unlock has had no answer.
	wasLost = errors.Is(a.why, fault.ErrLost) || gone && !a.hadQuorum(func(i int) bool { return u.members[i] != nil && !u.gone(i) })
	return !wasLost && (!gone || a.hadQuorum(u.succeeded)), wasLost
}

// abandon ends a request that cannot go on. It releases the members that it has in the background.
func (r *request) abandon() {
	if a := r.made; a != nil && a.close(false) {
		runner(r.group.locks).Background(func() { a.unlockAll(context.Background()) })
	}
}

// giveUp unlocks the members of an acquisition that failed, even if ctx has ended. The unlocks are detached: it waits for
// them only as long as the request may last, and for a short time. It returns what failed until then. A member that has not
// replied yet is released when it replies.
func (a *acquisition) giveUp(ctx context.Context, r *request) error {
	a.close(false)
	result := make(chan error, 1)
	runner(a.group.locks).Background(func() {
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
