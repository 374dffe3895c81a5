package rlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/internal/client"
)

// WithOwner returns a context that owns locks. All callers that lock with it, or with a context derived from it, are the
// same holder of every lock, as one thread is in Java. Each call creates a new owner, also within another one. It hides the
// holds that ctx carries: called inside [Lock.Do], it makes an owner that waits for Do's lock. Middleware uses [EnsureOwner].
//
// Goroutines that share an owner do not exclude each other. Call it where a goroutine or a request begins, not where a
// function locks. Without an owner, each acquisition is an owner of its own.
func WithOwner(ctx context.Context) context.Context { return client.WithOwner(ctx) }

// Hold is one acquisition of a lock or of a group of locks, made by Acquire or TryAcquire, or borrowed by [HoldFrom]. It
// notices when the lock is lost; after a bare [Lock.Lock], only the unlock reports a loss. A Hold is safe for concurrent use.
// The zero value is a hold that is over.
//
// rlock stops renewing a Hold when the program can reach neither the Hold nor its context. A derived context that is not
// canceled keeps both reachable. A variable that is not used any more does not. The lock then becomes free when its lease
// ends. That is logged, unless the lock was taken with [Lease].
type Hold struct{ h client.Hold }

// in returns the implementation of the hold, or nil.
func (h *Hold) in() *client.Hold {
	if h == nil {
		return nil
	}
	return &h.h
}

// Context returns a child of the context that acquired the lock. It ends when that context ends. It also ends when the hold is
// over: then its cause is [Hold.Err]. [Client.Shutdown] ends it with cause [ErrClosed], although the hold goes on. The
// context's Err is [context.Canceled] after a loss, after an unlock and in a shutdown. [context.Cause] tells these apart. Run
// under the context all work that must not go on without the lock. It also carries the hold: locking the same lock with it is
// a re-entry, until the hold is over. Then [context.WithoutCancel] of it is a context without an owner.
func (h *Hold) Context() context.Context { return h.in().Context() }

// Done returns a channel that is closed when the hold is over: lost, unlocked, or its client closed. Unlike the context's
// channel, it does not close because the caller's context ended. To have the channel does not keep the hold: see [Hold].
func (h *Hold) Done() <-chan struct{} { return h.in().Done() }

// Err returns nil while the lock is held, and then why it is not: [ErrLost], [ErrNotHeld] once it is unlocked or exported, or
// [ErrClosed]. It compares the clock itself, so it is never late.
func (h *Hold) Err() error { return h.in().Err() }

// Deadline returns the moment from which the lock is no longer guaranteed, on the monotonic clock of this process: a little
// before its lease ends in Redis. Renewals move it. It is the zero time for the zero Hold.
func (h *Hold) Deadline() time.Time { return h.in().Deadline() }

// Token returns the fencing token of a lock with the option [Fenced]: it is greater than that of every earlier holder. All
// acquisitions that an owner has of the lock at a time have one token. It stays after the hold is over, so that a resource
// can refuse a late write. It is 0 without that option, for a read lock, for a group, and for the zero Hold. It ports getToken.
func (h *Hold) Token() Token { return Token(h.in().Token()) }

// PermitIDs returns the ids of the permits that the hold has of a [Semaphore]: 32 hexadecimal digits each, which Redisson and
// [Semaphore.Release] understand. It is nil for all other holds.
func (h *Hold) PermitIDs() []string { return h.in().PermitIDs() }

// String returns the kind and the name of the lock, and the token if there is one. It implements [fmt.Stringer].
func (h *Hold) String() string { return h.in().String() }

// LogValue returns the name of the lock, the token if there is one, and the deadline, for a log line. It implements
// [slog.LogValuer].
func (h *Hold) LogValue() slog.Value { return h.in().LogValue() }

// Unlock ends the hold. The last unlock of an owner releases the lock, even if ctx has ended: the commands use only the
// values of ctx. Unlock works after [Client.Close] too.
//
// It returns nil once, and then [ErrNotHeld]. It returns [ErrLost] if the lock was lost before, also if only its deadline has
// passed. Then it returns at once, and rlock releases the lock in the background. That changes nothing for the present holder.
//
// It returns [ErrUnavailable] if Redis did not confirm the release within the command timeout. It returns an error that
// waiting does not help, such as NOPERM, as it is. After both the hold is over: rlock no longer renews it, and tries to
// release it until the lease is over.
func (h *Hold) Unlock(ctx context.Context) error { return h.in().Unlock(ctx) }

// Extend makes the lease end no earlier than d from now. It never shortens a lease. On a hold that is renewed it does the
// same, and the renewals go on. So code that is given a Hold need not know how the lock was taken. The extension is for all
// acquisitions of the owner. A re-entry in Redisson lengthens a lease too; it has no method for that alone.
//
// Extend asks Redis even if the lease already lasts as long. So nil also means that Redis had the hold a moment ago. It does
// not wait for the replicas of [WithReplicaAcks], and [WithMaxHold] still ends the hold. d is from 1 ms to 100 years.
// Otherwise the error is [ErrInvalidOption]. A process that dies after Extend blocks other owners for as long as d.
//
// Extend returns [ErrLost] if the hold is lost, which Extend itself may find out. It returns [ErrNotHeld] once the hold is
// unlocked, and [ErrClosed] after [Client.Close]. Without a reply it returns [ErrUnavailable], and also the error and cause of
// ctx if ctx ended the call. A cancellation soon after the call has only these, because it says nothing about Redis. The hold
// then goes on with its old deadline, but Redis may keep the lock for as long as d.
//
// A multi lock extends all of its members, a red lock at least a majority.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	var invalid error
	if d < minLease || d > maxLease {
		invalid = outOfRange("extension", d, minLease)
	}
	return h.in().Extend(ctx, d, invalid)
}
