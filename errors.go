package rlock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/fault"
)

// The errors that callers distinguish with [errors.Is]. The error of a method wraps one of them, or an error from Redis or
// the network, and names the operation and the lock.
//
// Ask for [ErrLost] first: after a loss, the error of Do also matches what its function returned. Next, ask for the others, and last
// for [context.Canceled] and [context.DeadlineExceeded]: if the context ended a wait, the error matches that of the context, too.
var (
	// ErrNotAcquired means that another owner held the lock until the wait was over, or until the context ended. In the second
	// case the error also matches the context's error and cause. Redis said so, and has neither failed nor been silent for a
	// fifth of the command timeout since. Or another owner of this client holds the lock.
	ErrNotAcquired = fault.ErrNotAcquired

	// ErrUnavailable means that Redis gave no usable answer: there was no reply, no connection, or only a temporary error of
	// the server. Nothing is known about the lock. The error wraps the reason. No error matches both it and [ErrNotAcquired],
	// or both it and [ErrLost]. Every method that sends a command may return it.
	//
	// If [Wait] or a deadline ends before any reply, the error matches it, even if nothing could be sent. A canceled context
	// says nothing about Redis. Then the error matches it only if a command has failed, or has had no reply for a fifth of the
	// command timeout. An error that waiting does not help, such as NOPERM, WRONGTYPE or OOM, does not match it.
	ErrUnavailable = fault.ErrUnavailable

	// ErrNotHeld means that an unlock has nothing to release, or [Hold.Extend] nothing to lengthen. The error says why. The
	// lock was never locked by this owner or through this handle, or it is unlocked already. Or only its [Hold] or Do unlocks
	// it, or it was locked through another handle without an owner. Nothing was changed in Redis.
	ErrNotHeld = fault.ErrNotHeld

	// ErrLost means that an acquired lock can no longer be guaranteed: its lease ended, or Redis no longer has its holder.
	// It is also the cause of a hold's context. It matches [ErrNotHeld] too.
	ErrLost = fault.ErrLost

	// ErrNoPermits means that nobody has set a [Semaphore] or [PlainSemaphore] up, so that it has no permits. It matches
	// [ErrNotAcquired] too.
	ErrNoPermits = fault.ErrNoPermits

	// ErrReentered means that an owner which holds the lock asked for it again through a handle made with [NonReentrant], or
	// with [AtLeast].
	ErrReentered = fault.ErrReentered

	// ErrUpgrade means that an owner which holds the read lock asked for the write lock of the same name. It would wait for
	// itself, and has to unlock the read lock first.
	ErrUpgrade = fault.ErrUpgrade

	// ErrNotReplicated means that fewer replicas acknowledged an acquisition than [WithReplicaAcks] asks for, or that the
	// server has no WAIT. The lock was released. It matches [ErrUnavailable] too.
	ErrNotReplicated = fault.ErrNotReplicated

	// ErrClosed is returned by every method but the unlocks once the [Client] is closed, and by methods that acquire once
	// [Client.Shutdown] has begun. It is then also the cause of the contexts of holds.
	ErrClosed = fault.ErrClosed

	// ErrInvalidName is returned by the first method of a lock whose name is empty or longer than 64 KiB. On a Redis Cluster, the
	// braces of a name must have something in between: not "a{b" or "a{}", whose keys would be in different slots.
	// Nor may the name be one that Redisson or rlock derives from another name for a key of its lock, as "redisson_lock_queue:{a}" is.
	ErrInvalidName = fault.ErrInvalidName

	// ErrInvalidOption means that an option or argument cannot work. Nothing was sent to Redis.
	ErrInvalidOption = fault.ErrInvalidOption
)

// QuorumError reports that too few members of a [RedLock] could be acquired or released. The failure as a whole matches at
// most one of [ErrNotAcquired], [ErrUnavailable] and [ErrLost]. The QuorumError matches, with [errors.Is], what those members
// match whose failures are of the same sort. The errors of the others are text.
type QuorumError struct {
	Need   int     // how many members are needed
	Errors []error // of each member, in the order in which they were given; nil means that this member did not fail
}

// Error names each member that failed, and why.
func (e *QuorumError) Error() string {
	var failed []string
	for _, err := range e.Errors {
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	return fmt.Sprintf("rlock: %d of %d members failed, %d are needed: %s",
		len(failed), len(e.Errors), e.Need, strings.Join(failed, "; "))
}

// Unwrap returns the errors of the members that failed.
func (e *QuorumError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errors), func(err error) bool { return err == nil })
}

func newQuorumError(need int, errs []error) error { return &QuorumError{Need: need, Errors: errs} }
