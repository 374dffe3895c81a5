package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
)

// Export ends the hold without freeing the lock, and returns a ticket: a caller of [Lock.Adopt], also in another process, has the
// lock by it from then on. In between, nobody else can take the lock. So a handler can lock what a job is about, and put the
// ticket into the job's row or message:
//
//	ticket, err := hold.Export(ctx, rlock.Lease(time.Minute)) // the job has a minute to begin
//
// The lock stays taken for exactly as long as [Lease] says, from 1 ms to 100 years, and nobody renews it. Without Lease, that is the lease with
// which the hold was renewed, or else that of [WithWatchdogTimeout]. If nobody adopts it by then, the lock is free. Redis tells nobody of that:
// waiters ask at the end of the lease that they know of, or after [WithPollInterval].
//
// The hold is over as soon as Export sends its command: its context ends, and [Hold.Err] and [Hold.Unlock] return [ErrNotHeld]. So a deferred
// Unlock does no harm. The deferred Unlock does release the lock if Export refuses, because then nothing was sent, and the hold goes on:
// with [ErrReentered] if the owner has another acquisition of the lock open, and with [ErrInvalidOption] for another option, for an
// acquisition with [AtLeast], for a write lock whose owner also reads, and for holds that cannot be exported: of a read lock, a
// group or a semaphore, or borrowed from a context by [HoldFrom]. So it does if ctx has ended before the call. Export returns [ErrLost] if the
// lock is lost, and [ErrClosed] after [Client.Close]. It works during [Client.Shutdown].
//
// Without a reply within the command timeout, or before ctx ends, Export returns [ErrUnavailable], and also the error and cause of ctx if ctx ended
// the call. A cancellation soon after the call has only these. With [WithReplicaAcks], it may also return [ErrNotReplicated]. Then there is
// no ticket, and rlock frees the lock in the background.
//
// A ticket is text in ASCII without spaces, a little longer than the name. Whoever has it can take the lock over, once. rlock writes it to no log and to
// no error; do not either. Redisson has nothing like this, and cannot adopt.
func (h *Hold) Export(ctx context.Context, opts ...AcquireOption) (ticket string, err error) {
	return h.in().Export(ctx, terms("export", false, true, opts))
}

// Adopt takes over the hold that [Hold.Export] made a ticket of. The lock must have the same name in Redis and be of the same kind, but may
// belong to another client in another process. The lease is that of the options [Lease] and [RenewedLease], or renewed as that of [Lock.Lock]. Adopt does not wait for
// the lock, which is the ticket's. A fenced lock has a new token, greater than that of the exporter.
//
// The error is [ErrNotHeld] if the ticket is worth nothing any more: it was adopted before, its lease is over, or the lock was unlocked by
// force. These cannot be told apart. A job that is delivered a second time, after its worker has died, gets this error. It has to lock
// as usual, and gets the lock when the lease of that worker is over:
//
//	hold, err := lock.Adopt(ctx, ticket)
//	if errors.Is(err, rlock.ErrNotHeld) {
//		hold, err = lock.Acquire(ctx)
//	}
//
// The error is [ErrInvalidOption] for a text that is no ticket, a ticket for another name or kind, and the options [Wait], [AtLeast] and
// [Permits], and [ErrReentered] if the owner of ctx holds the lock. Nothing was sent then. Without a reply within the command timeout, or before
// ctx ends, it is [ErrUnavailable] or that of ctx, as for [Hold.Export]. Then the ticket may or may not be used up, and rlock frees the lock if it was.
// Adopt also returns [ErrLost], [ErrClosed] and [ErrNotReplicated], as [Lock.Acquire] does.
func (l *Lock) Adopt(ctx context.Context, ticket string, opts ...AcquireOption) (*Hold, error) {
	t := terms("adopt", false, true, opts)
	if t.Err == nil && (t.Limited || t.AtLeast != 0 || t.Permits != 0) {
		t.Err = fmt.Errorf("%w: Lease and RenewedLease are the only options of Adopt", fault.ErrInvalidOption)
	}
	if t.Err == nil {
		t.Ticket, t.Err = l.in().OpenTicket(ticket)
	}
	return takeHold(ctx, l.in(), t)
}
