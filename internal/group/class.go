package group

import (
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
)

// class is what an error says about the lock. An error of a group is of one class: the errors of its members that are of
// another class are part of its text alone.
type class uint8

// The classes.
const (
	hopeless    class = iota // waiting does not help
	refused                  // another owner has the lock
	unavailable              // nobody could say
	lost                     // it was held, and is no longer
	classes
)

// classOf returns the class of the error of a member.
func classOf(err error) class {
	switch {
	case errors.Is(err, fault.ErrNotAcquired):
		return refused
	case errors.Is(err, fault.ErrNotHeld):
		return lost
	case errors.Is(err, fault.ErrUnavailable):
		return unavailable
	}
	return hopeless
}

// verdict returns the error of a group whose members have these errors, where nil means that a member did not fail. The
// class is one of which enough members are to decide alone. If there is no such class, nobody could say.
func (g *Group) verdict(errs []error) error {
	var n [classes]int
	for _, err := range errs {
		if err != nil {
			n[classOf(err)]++
		}
	}
	spare := len(g.members) - g.need
	switch {
	case n[lost] > spare:
		return g.summary(lost, errs)
	case n[refused] > spare:
		return fmt.Errorf("%w: %w", fault.ErrRefused, g.summary(refused, errs))
	case n[hopeless] > spare:
		return g.summary(hopeless, errs)
	}
	return fault.Unavailable(g.summary(unavailable, errs))
}

// summary makes one error of the errors of the members. It matches what those of one class match.
func (g *Group) summary(c class, errs []error) error {
	named := make([]error, len(errs))
	var all error
	for i, err := range errs {
		switch what := fmt.Sprintf("member %d (%s)", i+1, nameOf(g.members[i])); {
		case err == nil:
			continue
		case classOf(err) == c:
			named[i] = fmt.Errorf("%s: %w", what, err)
		case classOf(err) == refused:
			named[i] = fmt.Errorf("%s: held by another owner", what)
		default:
			named[i] = fmt.Errorf("%s: %s", what, err.Error()) // text, which must not match
		}
		if all == nil {
			all = named[i]
		} else {
			all = fmt.Errorf("%w; %w", all, named[i])
		}
	}
	if g.quorum != nil {
		return g.quorum(g.need, named)
	}
	return all
}

// cleanedUp adds the text of a clean-up that failed to the error of the request that it follows.
func cleanedUp(err, failed error) error {
	if failed == nil {
		return err
	}
	return fmt.Errorf("%w (the acquired members could not be released: %s)", err, failed.Error())
}
