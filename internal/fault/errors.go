package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The errors that callers of rlock match with [errors.Is]. The root package documents them.
var (
	ErrNotAcquired = errors.New("rlock: not acquired")

	ErrUnavailable = errors.New("rlock: Redis unavailable")

	ErrNotHeld = errors.New("rlock: not held")

	ErrLost error = lostError{}

	ErrNoPermits = errors.New("rlock: nobody has set the semaphore up")

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

	// ErrLate is the error of an acquisition that Redis granted, but whose reply came when little of its lease was left, or
	// after the lock had been unlocked by force.
	ErrLate error = outage("the reply from Redis came too late to rely on")

	// ErrNoConnection is the error of a call that had to wait too long for a connection.
	ErrNoConnection error = outage("no free connection")

	// ErrReply is the error of a reply that no script of rlock gives.
	ErrReply = errors.New("unexpected reply from Redis")
)

// The cases of ErrNotHeld.
var (
	// ErrNotLocked is the error of an unlock that finds nothing to end.
	ErrNotLocked = fmt.Errorf("%w: nothing to unlock for this owner, or through this handle", ErrNotHeld)

	// ErrUnlockedAlready is the error of a second unlock of a hold.
	ErrUnlockedAlready = fmt.Errorf("%w: unlocked already", ErrNotHeld)

	// ErrExported is the error of a hold that Export ended, also if it returned no ticket.
	ErrExported = fmt.Errorf("%w: ended by Export", ErrNotHeld)

	// ErrUnknownPermit is the error of a permit that Redis does not have: given back already, taken back, or never handed out.
	ErrUnknownPermit = fmt.Errorf("%w: the permit is not taken, or its lease is over", ErrNotHeld)

	// ErrBorrowed is the error of an unlock of a hold that is another caller's.
	ErrBorrowed = fmt.Errorf("%w: the hold is borrowed; only the code that acquired it unlocks it", ErrNotHeld)
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

// LibraryClosed returns the error of a command whose client library is closed. It matches ErrClosed, because nothing can be sent any more.
func LibraryClosed(err error) error { return fmt.Errorf("%w: %w", ErrClosed, err) }

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

// Quote returns a name as errors show it: quoted, and cut at 64 runes.
func Quote(name string) string {
	if cut := Cut(name); cut != name {
		return strconv.Quote(cut) + "..."
	}
	return strconv.Quote(name)
}

// Cut returns at most 64 runes of a name, for a log line. The log handler quotes it.
func Cut(name string) string {
	if utf8.RuneCountInString(name) <= 64 {
		return name
	}
	return string([]rune(name)[:64])
}

// HeldHereError is the refusal of an acquisition because another owner of this process holds the lock. It matches ErrNotAcquired.
type HeldHereError struct {
	For time.Duration // how long it has held the lock
	// Refusal is ErrRefused, or ErrNotAcquired if the caller's context ended the wait.
	Refusal error
}

// Error states the age of the hold.
func (e *HeldHereError) Error() string {
	age := e.For.Round(time.Second).String()
	if e.For < time.Minute {
		age = strconv.FormatFloat(e.For.Seconds(), 'f', 1, 64) + "s"
	}
	return e.Refusal.Error() + ": held by this process for " + age
}

// Unwrap returns the refusal.
func (e *HeldHereError) Unwrap() error { return e.Refusal }

// NoPermitsError is the refusal of permits of a semaphore that nobody has set up. It matches ErrNoPermits and ErrNotAcquired.
type NoPermitsError struct {
	// Refusal is ErrRefused, or ErrNotAcquired if the caller's context ended the wait.
	Refusal error
}

// Error says both.
func (e *NoPermitsError) Error() string {
	return e.Refusal.Error() + strings.TrimPrefix(ErrNoPermits.Error(), "rlock")
}

// Unwrap returns the refusal, and its reason.
func (e *NoPermitsError) Unwrap() []error { return []error{e.Refusal, ErrNoPermits} }

// LossError is the error of Do when its lock was lost, and its function failed for another reason.
type LossError struct {
	Loss, Own error // Own is the function's error
}

// Error has the loss, and then the function's error.
func (e *LossError) Error() string {
	return e.Loss.Error() + "; its function returned: " + e.Own.Error()
}

// Unwrap returns both errors.
func (e *LossError) Unwrap() []error { return []error{e.Loss, e.Own} }

// OpError names the operation that failed and its lock. Its text begins with "rlock: ", once.
type OpError struct {
	Op   string // the operation, such as lock
	Name string // the name of the lock
	What string // instead of Name: a description, such as that of a group
	// Phase is what the operation did when it failed, such as "while waiting". Empty means that it has no phases.
	Phase string
	Err   error
}

// Error returns the operation, the lock, and then what is wrong.
func (e *OpError) Error() string {
	what := e.What
	if what == "" {
		what = Quote(e.Name)
	}
	if e.Phase != "" {
		what += ": " + e.Phase
	}
	return "rlock: " + e.Op + " " + what + ": " + strings.TrimPrefix(e.Err.Error(), "rlock: ")
}

// Unwrap returns the underlying error.
func (e *OpError) Unwrap() error { return e.Err }

// Named reports whether an error names the operation and the lock.
func Named(err error) bool {
	var op *OpError
	return errors.As(err, &op)
}

// LeaseTooShort returns the [ErrLate] of a lease that was nearly over when its reply came.
func LeaseTooShort(lease, took time.Duration) error {
	return fmt.Errorf("%w: a lease of %v is too short for a round trip of %v, ask for a longer one", ErrLate, lease, took.Round(100*time.Microsecond))
}
