package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
)

// Export ends the hold without freeing the lock, and returns a ticket. A caller of [Lock.Adopt] with the ticket, also in another process,
// then holds the lock. In between, nobody else can take the lock. So a handler can lock what a job is about, and put the ticket into the
// job's row or message:
//
//	ticket, err := hold.Export(ctx, rlock.Lease(time.Minute)) // the job has a minute to begin
//
// The lock stays taken for as long as [Lease] says, from 1 ms to 100 years, and nobody lengthens that. A command that is sent again counts
// it anew. Without Lease, it is the lease with which the hold was renewed, or else that of [WithWatchdogTimeout]. If nobody adopts the
// lock by then, it is free. Those who wait are told when that is. [WithMaxHold] begins anew with each adoption.
// [Lock.Inspect] shows the ticket as a holder of this client.
//
// If Export refuses, nothing is sent, and the hold goes on. The error is [ErrReentered] if the owner has another acquisition of the lock
// open. It is [ErrInvalidOption] for any option but Lease, for an acquisition with AtLeast, for a write lock whose owner also reads, for
// read locks, groups and semaphores, and for a hold borrowed by [HoldFrom]. If ctx has ended before the call, the hold goes on, too.
// Export returns [ErrLost] if the lock is lost, and [ErrClosed] after [Client.Close]. It works during [Client.Shutdown].
//
// Otherwise the hold is over once the command is sent, whatever comes of it: its context ends, and [Hold.Err] and [Hold.Unlock] return
// [ErrNotHeld]. So a deferred Unlock does no harm. ctx may be derived from the context of the hold. If the ticket cannot be passed on, adopt
// it, and unlock.
//
// After any error from then on there is no ticket, and rlock frees the lock in the background. Without a reply within the command timeout,
// or before ctx ends, the error is [ErrUnavailable], and also the error and cause of ctx if ctx ended the call. If ctx is canceled within a
// fifth of the command timeout, the error is that of ctx alone, because it says nothing about Redis. While a cluster moves the slot of
// the lock, Export may fail with ErrUnavailable. With [WithReplicaAcks], the error may be [ErrNotReplicated].
//
// A ticket is ASCII text without spaces, no longer than 4/3 of the name in Redis and 150 bytes more. Whoever has it can take the lock over,
// once. rlock writes it to no log and to no error. Redisson has nothing like it, and cannot adopt.
func (h *Hold) Export(ctx context.Context, opts ...AcquireOption) (ticket string, err error) {
	return h.in().Export(ctx, terms("export", false, true, opts))
}

// Adopt takes over the hold that [Hold.Export] made a ticket of. The lock must have the same name in Redis, and be of the same kind as
// that of the exporter's hold: made by the same constructor, with the same [Fenced]. It may belong to another client in another process.
// Adopt does not wait for the lock, which is the ticket's. The lease is that of [Lease] or [RenewedLease], or else renewed as that of [Lock.Lock]. A fenced lock gets a new token, greater than that
// of the exporter.
//
// The error is [ErrNotHeld] if the ticket is worth nothing: it was adopted before, its lease is over, the lock was unlocked by
// force, or this Redis is not that of the exporter or has lost its data. These cannot be told apart. A job that is delivered again after
// its worker has died gets this error. It has to lock as usual, and gets the lock when the lease of that worker is over. Others may have had the lock in between, and done the job:
//
//	hold, err := lock.Adopt(ctx, ticket)
//	if errors.Is(err, rlock.ErrNotHeld) {
//		hold, err = lock.Acquire(ctx)
//	}
//
// The error is [ErrInvalidOption] for a text that is no ticket, for a ticket of another name or kind, and for other options. It is
// [ErrReentered] if the owner of ctx holds the lock, or waits for it in another call. It is [ErrLost] or [ErrClosed] as for
// [Lock.Acquire]. Nothing was sent then.
//
// Without a reply within the command timeout, or before ctx ends, the error is [ErrUnavailable] or that of ctx, as for Export. It is also
// ErrUnavailable if the reply comes too late to rely on, and [ErrNotReplicated] if too few replicas have the lock. Then the ticket may be
// used up, and rlock frees the lock if it is.
func (l *Lock) Adopt(ctx context.Context, ticket string, opts ...AcquireOption) (*Hold, error) {
	t := terms("adopt", false, true, opts)
	if t.Err == nil && (t.Limited || t.AtLeast != 0 || t.Permits != 0) {
		t.Err = fmt.Errorf("%w: Lease and RenewedLease are the only options of Adopt", fault.ErrInvalidOption)
	}
	t.Limited = true // it does not wait
	if t.Err == nil {
		t.Ticket, t.Err = l.in().OpenTicket(ticket)
	}
	return takeHold(ctx, l.in(), t)
}
