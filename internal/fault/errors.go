package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The errors that callers of rlock match with [errors.Is]. The root package documents them.
var (
	ErrNotAcquired = errors.New("rlock: not acquired")

	ErrUnavailable = errors.New("rlock: Redis unavailable")

	ErrNotHeld = errors.New("rlock: not held by this owner (to unlock elsewhere than where the lock was taken, " +
		"pass Hold.Context, or an owner by WithOwner, or use Do)")

	ErrLost error = lostError{}

	ErrReentered = errors.New("rlock: already held by this owner")

	ErrUpgrade = errors.New("rlock: this owner holds the read lock, which cannot become a write lock")

	ErrNotReplicated = errors.New("rlock: not acknowledged by enough replicas")

	ErrClosed = errors.New("rlock: client is closed")

	ErrInvalidName = errors.New("rlock: invalid name")

	ErrInvalidOption = errors.New("rlock: invalid option")
)

// The errors that stay inside rlock, or reach users only as text.
var (
	// ErrRefused matches ErrNotAcquired. It is the error of an acquisition that ended only because another owner holds the
	// lock.
	ErrRefused = fmt.Errorf("%w", ErrNotAcquired)

	// ErrNoAnswer is the error of a command without a reply within the command timeout, or before the wait was over.
	ErrNoAnswer error = outage("no answer from Redis in time")

	// ErrNotSent is the error of a call that was not tried: its wait ended before, or no node was found for it.
	ErrNotSent = errors.New("not sent")

	// ErrLate is the error of an acquisition that Redis granted, but whose reply came after its lease was over, or
	// after the lock had been unlocked by force.
	ErrLate error = outage("the reply from Redis came too late to rely on")

	// ErrNoConnection is the error of a call that had to wait too long for a connection.
	ErrNoConnection error = outage("no free connection")

	// ErrReply is the error of a reply that no script of rlock gives.
	ErrReply = errors.New("unexpected reply from Redis")
)

// lostError is the type of ErrLost, so that ErrLost matches ErrNotHeld too.
type lostError struct{}

func (lostError) Error() string { return "rlock: lock lost" }

// Is makes a lost lock a lock that is not held.
func (lostError) Is(target error) bool { return target == ErrNotHeld }

// Sentinel reports whether err matches one of the errors that callers can match, other than ErrLost.
func Sentinel(err error) bool {
	for _, known := range []error{
		ErrNotAcquired, ErrNotHeld, ErrReentered, ErrUpgrade, ErrNotReplicated, ErrClosed, ErrInvalidName, ErrInvalidOption,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Unavailable returns an error that matches ErrUnavailable and wraps the reason.
func Unavailable(why error) error { return unavailable{why} }

// unavailable is the type of the errors that [Unavailable] returns.
type unavailable struct{ error }

// Is makes it an outage.
func (unavailable) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the reason.
func (u unavailable) Unwrap() error { return u.error }

// outage is the text of an error that matches ErrUnavailable.
type outage string

// Error returns the text.
func (o outage) Error() string { return string(o) }

// Is makes it an outage.
func (outage) Is(target error) bool { return target == ErrUnavailable }

// Quote makes a name fit for an error or a log line: quoted, and at most 64 runes of it.
func Quote(name string) string {
	if utf8.RuneCountInString(name) <= 64 {
		return strconv.Quote(name)
	}
	return strconv.Quote(string([]rune(name)[:64])) + "..."
}

// OpError names the operation that failed and its lock. Its text begins with "rlock: ", once.
type OpError struct {
	Op   string // the operation, such as lock
	Name string // the name of the lock
	What string // instead of Name: a description, such as that of a group
	Err  error
}

// Error returns the operation, the lock, and then what is wrong.
func (e *OpError) Error() string {
	what := e.What
	if what == "" {
		what = Quote(e.Name)
	}
	return "rlock: " + e.Op + " " + what + ": " + strings.TrimPrefix(e.Err.Error(), "rlock: ")
}

// Unwrap returns the underlying error.
func (e *OpError) Unwrap() error { return e.Err }
