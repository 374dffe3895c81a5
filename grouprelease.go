package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// release unlocks all members of a closed entry. Of a red lock it is done when so few members are left that nobody is
// kept out; it must have been held by a majority until then.
func (e *groupEntry) release(ctx context.Context) error {
	g := e.group
	g.forget(e)
	e.owner.forgetGroup(e)
	e.mu.Lock()
	why := e.why
	e.mu.Unlock()
	errs, done := e.unlockAll(ctx)
	if done {
		return nil
	}
	err := g.failure(errs)
	if errors.Is(why, ErrLost) && !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return g.wrap(err, "unlock")
}

// unlockAll unlocks the members, and returns their errors, and whether the group was held until then and is released.
// When it is, it waits for those that are left a moment longer, and leaves what hangs to itself.
func (e *groupEntry) unlockAll(ctx context.Context) (errs []error, done bool) {
	type result struct {
		member int
		err    error
	}
	e.mu.Lock()
	members := slices.Clone(e.members)
	e.mu.Unlock()
	n := len(members)
	errs = make([]error, n)
	results := make(chan result, n)
	running, answered := 0, make([]bool, n)
	unlock := func(i int) {
		if h := members[i]; h != nil {
			running++
			h.locks()[0].client.background(func() { results <- result{i, h.Unlock(ctx)} })
		}
	}
	// collect takes in results until it is enough, as released says, or patience is over.
	collect := func(enough func() bool, patience <-chan time.Time) {
		for running > 0 && !enough() {
			select {
			case r := <-results:
				running--
				errs[r.member], answered[r.member] = r.err, true
			case <-patience:
				return
			}
		}
	}
	released := func() bool { return e.released(answered, errs) }
	never := func() bool { return false }
	all := e.group.need == n
	for i := range members {
		if i > 0 || !all {
			unlock(i)
		}
	}
	if all { // the first one comes last: it is the one that others wait for
		collect(never, nil)
		unlock(0)
		collect(never, nil)
	}
	collect(released, nil)
	if running > 0 {
		moment := time.NewTimer(minPatience)
		defer moment.Stop()
		collect(never, moment.C)
	}
	return errs, released()
}

// released tells, by what the members answered to their unlocks, whether so few may still be held that nobody is kept
// out, and whether enough were until they were unlocked.
func (e *groupEntry) released(answered []bool, errs []error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	left, gone := 0, false
	for i, h := range e.members {
		switch {
		case h == nil || answered[i] && errs[i] == nil:
		case answered[i] && errors.Is(errs[i], ErrNotHeld):
			gone = true
		default:
			left++
		}
	}
	if left > len(e.members)-e.group.need {
		return false
	}
	// Who answered that it was held was, and so kept others out.
	return !gone && !errors.Is(e.why, ErrLost) || e.kept(func(i int) bool { return e.members[i] != nil && answered[i] && errs[i] == nil })
}

// failure makes one error of those of the members.
func (g *group) failure(errs []error) error {
	if g.need == len(g.members) {
		return errors.Join(errs...)
	}
	return &QuorumError{Need: g.need, Errors: g.named(errs)}
}

// named says of the errors of members to which they belong.
func (g *group) named(errs []error) []error {
	named := make([]error, len(errs))
	for i, err := range errs {
		if err != nil {
			named[i] = fmt.Errorf("member %d (%s): %w", i+1, nameOf(g.members[i]), err)
		}
	}
	return named
}

// giveUp unlocks what has been taken of an entry that is not wanted, detached from ctx, and waits for that until ctx or
// the wait ends. What members are still being asked for is given back when they answer.
func (e *groupEntry) giveUp(r *groupRequest) error {
	e.close()
	unlocked := make(chan error, 1)
	e.group.all[0].client.background(func() {
		errs, _ := e.unlockAll(context.WithoutCancel(r.ctx))
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrNotHeld) }) // it ran out meanwhile
		unlocked <- errors.Join(errs...)
	})
	var over <-chan time.Time
	if r.limited {
		timer := time.NewTimer(max(r.left(), minPatience))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case err := <-unlocked:
		return err
	case <-over:
	case <-r.ctx.Done():
	}
	return nil
}
