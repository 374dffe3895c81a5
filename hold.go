package rlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// WithOwner returns a context that owns locks: all callers that lock with it, or with a context derived from it, are the same holder of
// every lock, as one thread is in Java. Each call makes a new owner, which hides the holds that ctx carries: inside [Lock.Do], it waits
// for Do's lock. Middleware uses [EnsureOwner].
//
// Goroutines that share an owner do not exclude each other, so call it where a goroutine or a request begins, not where a function locks.
// Without an owner, each acquisition is an owner of its own.
func WithOwner(ctx context.Context) context.Context { return client.WithOwner(ctx) }

// Hold is one acquisition of a lock, of permits or of a group, made by Acquire or TryAcquire, or lent by [HoldFrom]. It notices when the
// lock is lost. It is safe for concurrent use. The zero value is a hold that is over.
//
// rlock renews a Hold until it is unlocked, even if the program has forgotten it: [WithMaxHold] bounds that, and rlockvet finds it.
type Hold struct{ h client.Hold }

// in returns the implementation of the hold, or nil.
func (h *Hold) in() *client.Hold {
	if h == nil {
		return nil
	}
	return &h.h
}

// Context returns a child of the context that acquired the lock. It ends with that context, when the hold is over, with [Hold.Err] as its
// cause, and when [Client.Shutdown] begins, with cause [ErrClosed]. Run all work that must not go on without the lock under it. Locking
// the same lock with it is a re-entry, until the hold is over.
func (h *Hold) Context() context.Context { return h.in().Context() }

// Done returns a channel that is closed when the hold is over: lost, unlocked, or its client closed. Unlike that of the context, it stays
// open if the caller's context ends.
func (h *Hold) Done() <-chan struct{} { return h.in().Done() }

// Err returns nil while the lock is held, and then why it is not: [ErrLost], [ErrNotHeld] once it is unlocked or exported, or [ErrClosed].
// It compares the clock itself, so it is never late.
func (h *Hold) Err() error { return h.in().Err() }

// Deadline returns the moment from which the lock is no longer guaranteed, a little before its lease ends in Redis. Renewals move it. It
// is the zero time for the zero Hold.
func (h *Hold) Deadline() time.Time { return h.in().Deadline() }

// Token returns the fencing token of a lock with the option [Fenced], greater than that of every earlier holder. It stays after the hold
// is over, so that a resource can refuse a late write. It is 0 without that option, for a read lock and for a group.
func (h *Hold) Token() Token { return Token(h.in().Token()) }

// PermitIDs returns the ids of the permits that the hold has of a [Semaphore], for [Semaphore.Release] elsewhere, also in Redisson. It is
// nil for other holds.
func (h *Hold) PermitIDs() []string { return h.in().PermitIDs() }

// ID returns a text that names this acquisition for [Client.UnlockID], for code that can keep a text but no Hold: a random UUID of 36
// characters, which means nothing to other clients. From the first call of ID on, the client keeps the hold until it is unlocked, also if it
// is lost. The ID is empty for a hold that was unlocked before, for one that [HoldFrom] has lent, and for the zero Hold.
func (h *Hold) ID() string { return h.in().ID() }

// UnlockID is [Hold.Unlock] of the hold with this [Hold.ID]. The error is [ErrNotHeld] if this client has no such hold. A group belongs to
// the client of its first lock.
func (c *Client) UnlockID(ctx context.Context, id string) error {
	if c == nil || c.client == nil {
		return &fault.OpError{Op: "unlock", What: "by a nil or zero Client", Err: ErrInvalidOption}
	}
	return c.client.UnlockID(ctx, id)
}

// String implements [fmt.Stringer]: the kind and the name of the lock, and the token if there is one.
func (h *Hold) String() string { return h.in().String() }

// LogValue implements [slog.LogValuer] with the name of the lock, the token if there is one, and the deadline.
func (h *Hold) LogValue() slog.Value { return h.in().LogValue() }

// Unlock ends the hold. The last unlock of an owner releases the lock, also after [Client.Close]. Neither the end of ctx nor its deadline
// stops it: it may take up to the command timeout.
//
// It returns nil once, and then [ErrNotHeld]. It returns [ErrLost] at once if the lock was lost before, also if only its deadline has
// passed. It returns [ErrUnavailable] if Redis did not confirm the release within the command timeout, and an error that waiting does not
// help as it is; then rlock tries to release the lock in the background until the lease is over.
func (h *Hold) Unlock(ctx context.Context) error { return h.in().Unlock(ctx) }

// Extend makes the lease end no earlier than d from now, for all acquisitions of the owner. It never shortens a lease, and renewals go on.
// A multi lock extends all of its members, a red lock a majority. d is from 1 ms to 100 years. It always asks Redis, so nil also means
// that Redis had the hold a moment ago.
//
// The error is [ErrLost] if the hold is lost, [ErrNotHeld] once it is unlocked, [ErrClosed] after [Client.Close], and [ErrUnavailable]
// without a reply, with the error and cause of a ctx that ended the call. The hold then goes on with its old deadline, but Redis may keep
// the lock for as long as d.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	var invalid error
	if d < minLease || d > maxLease {
		invalid = outOfRange("extension", d, minLease)
	}
	return h.in().Extend(ctx, d, invalid)
}
