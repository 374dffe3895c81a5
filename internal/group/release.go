package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// release unlocks all members of a closed acquisition. A red lock is released when the remaining members no longer exclude
// others. It must have been held by a majority until then.
func (a *acquisition) release(ctx context.Context) error {
	g := a.group
	g.forget(a)
	a.mu.Lock()
	why := a.why
	a.mu.Unlock()
	errs, done := a.unlockAll(ctx)
	switch {
	case errors.Is(why, fault.ErrLost):
		return why // whatever became of the members
	case done:
		return nil
	}
	return g.wrap(g.failure(inClass(errs)), "unlock")
}

// inClass returns the errors of members so that an error which joins them is of one class. If a member was lost, the others
// matter as text only.
func inClass(errs []error) []error {
	if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, fault.ErrLost) }) {
		return errs
	}
	same := slices.Clone(errs)
	for i, err := range same {
		if err != nil && errors.Is(err, fault.ErrUnavailable) {
			same[i] = errors.New(err.Error())
		}
	}
	return same
}

// unlocking is the unlocks of the members of one acquisition under way. It belongs to one goroutine.
type unlocking struct {
	members  []lease.Held
	errs     []error
	answered []bool // the members whose unlocks returned
	running  int
	results  chan unlocked
}

// unlocked is the result of one member's unlock.
type unlocked struct {
	member int
	err    error
}

// unlock begins to unlock a member, if it was held.
func (u *unlocking) unlock(ctx context.Context, i int) {
	h := u.members[i]
	if h == nil {
		return
	}
	u.running++
	clientOf(h).Background(func() { u.results <- unlocked{i, h.Unlock(ctx)} })
}

// collect takes in results until it has all or enough of them, or over has a value. A nil enough means all.
func (u *unlocking) collect(enough func() bool, over <-chan time.Time) {
	for u.running > 0 && (enough == nil || !enough()) {
		select {
		case r := <-u.results:
			u.running--
			u.errs[r.member], u.answered[r.member] = r.err, true
		case <-over:
			return
		}
	}
}

// unlockAll unlocks the members. It returns their errors, and whether the group was held until then and is released
// now. Once it is released, unlockAll waits for the remaining members a moment longer. A member that hangs is unlocked
// in the background.
func (a *acquisition) unlockAll(ctx context.Context) (errs []error, done bool) {
	members := a.held()
	n := len(members)
	u := &unlocking{
		members: members, errs: make([]error, n), answered: make([]bool, n), results: make(chan unlocked, n),
	}
	all := a.group.need == n
	for i := range members {
		if i > 0 || !all {
			u.unlock(ctx, i)
		}
	}
	if all { // the first member comes last, because others wait for it
		u.collect(nil, nil)
		u.unlock(ctx, 0)
		u.collect(nil, nil)
	}
	released := func() bool { return a.released(u.answered, u.errs) }
	u.collect(released, nil)
	if u.running > 0 {
		moment := time.NewTimer(minTimeout)
		defer moment.Stop()
		u.collect(nil, moment.C)
	}
	return u.errs, released()
}

// released reports, given the results of the members' unlocks, whether the remaining members no longer exclude others, and
// whether enough were held until they were unlocked.
func (a *acquisition) released(answered []bool, errs []error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	left, gone := 0, false
	for i, h := range a.members {
		switch {
		case h == nil || answered[i] && errs[i] == nil:
		case answered[i] && errors.Is(errs[i], fault.ErrNotHeld):
			gone = true
		default:
			left++
		}
	}
	if left > len(a.members)-a.group.need {
		return false
	}
	// A member whose unlock succeeded was held until then, and so excluded others.
	return !gone && !errors.Is(a.why, fault.ErrLost) ||
		a.hadQuorum(func(i int) bool { return a.members[i] != nil && answered[i] && errs[i] == nil })
}

// failure makes one error of the errors of the members.
func (g *Group) failure(errs []error) error {
	if g.need == len(g.members) {
		return errors.Join(errs...)
	}
	return g.quorum(g.need, g.named(errs))
}

// named adds the number and the name of its member to each error.
func (g *Group) named(errs []error) []error {
	named := make([]error, len(errs))
	for i, err := range errs {
		if err != nil {
			named[i] = fmt.Errorf("member %d (%s): %w", i+1, nameOf(g.members[i]), err)
		}
	}
	return named
}

// giveUp unlocks the members of an acquisition that failed, even if ctx has ended. It waits for that until ctx or the wait
// ends. A member that has not replied yet is released when it replies.
func (a *acquisition) giveUp(ctx context.Context, r *request) error {
	a.close()
	result := make(chan error, 1)
	clientOf(a.group).Background(func() {
		errs, _ := a.unlockAll(context.WithoutCancel(ctx))
		// A lease that ran out meanwhile is not a failure.
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, fault.ErrNotHeld) })
		result <- errors.Join(errs...)
	})
	var over <-chan time.Time
	if r.Limited {
		timer := time.NewTimer(max(r.left(), minTimeout))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case err := <-result:
		return err
	case <-over:
	case <-ctx.Done():
	}
	return nil
}
