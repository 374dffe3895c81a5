package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-rlock/rlock/internal/fault"
)

// rule makes one error of the errors that the members of a group have. That error says one thing about the lock: another owner has it,
// nobody could say, it was lost, or waiting does not help.
type rule struct {
	names []string // of the members
	need  int      // how many members the group needs
	// quorum makes the error of a group that does not need all of its members. It may be nil. errs has an entry for each
	// member, in order, and nil means that the member did not fail.
	quorum func(need int, errs []error) error
}

// class is what an error says about the lock.
type class uint8

const (
	hopeless    class = iota // waiting does not help
	refused                  // another owner has the lock
	unavailable              // nobody could say
	lost                     // it was held, and is no longer
	classes
)

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

// of returns the error of a group whose members have these errors. Its class is that of which enough members are to decide
// alone. If there is no such class, nobody could say. The errors of the other classes are part of its text alone.
func (r *rule) of(errs []error) error {
	var n [classes]int
	for _, err := range errs {
		if err != nil {
			n[classOf(err)]++
		}
	}
	spare := len(errs) - r.need
	switch {
	case n[lost] > spare:
		return r.lost(errs)
	case n[refused] > spare:
		return r.refused(errs)
	case n[hopeless] > spare:
		return r.summary(hopeless, errs)
	}
	return fault.Unavailable(r.summary(unavailable, errs))
}

// refused returns the error of a group that was refused.
func (r *rule) refused(errs []error) error {
	return fmt.Errorf("%w: %w", fault.ErrRefused, r.summary(refused, errs))
}

// lost returns the error of a group that was lost, as at least one of these errors says.
func (r *rule) lost(errs []error) error { return r.summary(lost, errs) }

// noReply reports whether an error of a member means that there was no reply when the wait ended, perhaps because there was no
// connection until then. An error of the network is another failure.
func noReply(err error) bool {
	var f *fault.Error
	switch {
	case errors.Is(err, fault.ErrNotAcquired):
		return false
	case errors.As(err, &f) && f.Fate != fault.NotSent:
		return f.Fate == fault.Left
	}
	ends := []error{fault.ErrNoAnswer, fault.ErrNoConnection, context.Canceled, context.DeadlineExceeded}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

// sameClass reports whether two errors say the same about the lock.
func sameClass(one, two error) bool { return classOf(one) == classOf(two) }

// summary makes one error of the errors of the members. It matches what those of one class match.
func (r *rule) summary(c class, errs []error) error {
	named := make([]error, len(errs))
	var all error
	for i, err := range errs {
		if err == nil {
			continue
		}
		switch what := fmt.Sprintf("member %d (%s)", i+1, r.names[i]); classOf(err) {
		case c:
			named[i] = fmt.Errorf("%s: %w", what, err)
		case refused:
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
	if r.quorum != nil {
		return r.quorum(r.need, named)
	}
	return all
}

// cleanedUp adds the text of a clean-up that failed to the error of the attempt before it.
func cleanedUp(err, failed error) error {
	if failed == nil {
		return err
	}
	return fmt.Errorf("%w (the acquired members could not be released: %s)", err, failed.Error())
}
