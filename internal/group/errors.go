package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// class is what an error says about the lock.
type class uint8

const (
	lost        class = iota // it was held, and is no longer
	hopeless                 // waiting does not help
	refused                  // another owner has the lock
	unavailable              // nobody could say
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

// failure returns one error of those of the members. It says one thing about the lock. For a multi lock, it is that of one member: of the one
// that decides. For a red lock, the class is that of which too many members are for a majority, or else that of a loss if isLost says so. If
// there is no such class, nobody could say. What the others say is text.
func (g *Group) failure(errs []error, isLost bool) error {
	if i := failed(errs); !g.red && i >= 0 {
		return errs[i]
	} else if !g.red {
		return fault.ErrLate // a lease ran out while the others were taken
	}
	for _, c := range []class{lost, hopeless, refused} {
		n := 0
		for _, err := range errs {
			if err != nil && classOf(err) == c {
				n++
			}
		}
		switch err := g.summary(c, errs); {
		case n <= len(errs)-g.need && (c != lost || !isLost):
		case c == refused:
			return fmt.Errorf("%w: %w", fault.ErrRefused, err)
		default:
			return err
		}
	}
	return fault.Unavailable(g.summary(unavailable, errs))
}

// summary returns the error of a red lock, which says why each member failed. It matches what those of one class match.
func (g *Group) summary(c class, errs []error) error {
	var says []string
	var match []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		why := err.Error()
		if k := classOf(err); k == c {
			match = append(match, err)
		} else if k == refused {
			why = "held by another owner"
		}
		says = append(says, fmt.Sprintf("member %d (%s): %s", i+1, client.QuoteName(g.members[i]), why))
	}
	return &quorumError{fmt.Sprintf("rlock: %d of %d members failed, %d are needed: %s", len(says), len(errs), g.need, strings.Join(says, "; ")), match}
}

// quorumError says that too few members of a red lock could be acquired, extended or released.
type quorumError struct {
	text  string
	match []error
}

// Error implements error.
func (e *quorumError) Error() string { return e.text }

// Unwrap returns the errors that it matches.
func (e *quorumError) Unwrap() []error { return e.match }

// loud reports whether a member has failed in another way than by a refusal or by silence: no reply came when its time was over, or no
// connection. An error of the network is another failure.
func loud(errs []error) bool {
	ends := []error{fault.ErrNoAnswer, fault.ErrNoConnection, context.Canceled, context.DeadlineExceeded}
	return slices.ContainsFunc(errs, func(err error) bool {
		var f *fault.Error
		switch {
		case err == nil, errors.Is(err, fault.ErrNotAcquired):
			return false
		case errors.As(err, &f) && f.Fate != fault.NotSent:
			return f.Fate != fault.Left
		}
		return !slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
	})
}
