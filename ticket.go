package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
)

// Export ends the hold without freeing the lock, and returns a ticket. A caller of [Lock.Adopt] with the ticket, also in another process,
// then holds the lock, and nobody else gets it in between. So a handler can lock what a job is about, and put the ticket into the job's
// row or message:
//
//	ticket, err := hold.Export(ctx, rlock.Lease(time.Minute)) // the job has a minute to begin
//
// The lock stays taken for as long as [Lease] says, from 1 ms to 100 years, or else for the lease of the hold. If nobody adopts it by
// then, it is free. [Lock.Inspect] shows the ticket as a holder of this client.
//
// If Export refuses, nothing is sent, and the hold goes on: with [ErrReentered] if the owner has another acquisition of the lock open,
// with [ErrInvalidOption] for other options, for an acquisition with [AtLeast], for a write lock whose owner also reads, for read locks,
// groups and semaphores, and for a hold lent by [HoldFrom], with [ErrLost] or [ErrClosed], and if ctx had ended before the call.
//
// Otherwise the hold is over, whatever comes of the command, so a deferred Unlock does no harm. After an error from then on, such as
// [ErrUnavailable] or [ErrNotReplicated], there is no ticket, and rlock frees the lock in the background.
//
// A ticket is ASCII text without spaces, no longer than 4/3 of the name in Redis and 150 bytes. Whoever has it can take the lock over,
// once; rlock writes it to no log and to no error. Redisson cannot adopt.
func (h *Hold) Export(ctx context.Context, opts ...AcquireOption) (ticket string, err error) {
	return h.in().Export(ctx, terms("export", false, true, nil, opts))
}

// Adopt takes over the hold that [Hold.Export] made a ticket of, through a handle of the same name and kind, mostly in another process. It
// does not wait. The lease is that of [Lease] or [RenewedLease], or else renewed as that of [Lock.Lock]. A fenced lock gets a greater
// token.
//
// The error is [ErrNotHeld] if the ticket is worth nothing: it was adopted before, its lease is over, the lock was unlocked by force, or
// this Redis has lost it. A job that is delivered again after its worker died has to lock as usual, knowing that others may have had the
// lock in between:
//
//	hold, err := lock.Adopt(ctx, ticket)
//	if errors.Is(err, rlock.ErrNotHeld) {
//	    hold, err = lock.Acquire(ctx)
//	}
//
// It is [ErrInvalidOption] for a text that is no ticket, for a ticket of another name or kind, and for other options, [ErrReentered] if
// the owner of ctx holds the lock or waits for it, and [ErrLost] or [ErrClosed] as for [Lock.Acquire]; nothing was sent then. After
// [ErrUnavailable], [ErrNotReplicated] or the error of ctx, the ticket may be used up, and rlock frees the lock if it is.
func (l *Lock) Adopt(ctx context.Context, ticket string, opts ...AcquireOption) (*Hold, error) {
	t := terms("adopt", false, true, nil, opts)
	if t.Err == nil && (t.Limited || t.AtLeast != 0 || t.Permits != 0) {
		t.Err = fmt.Errorf("%w: Lease and RenewedLease are the only options of Adopt", fault.ErrInvalidOption)
	}
	if t.Limited = true; t.Lease == 0 && l != nil && l.l.Defaults != nil { // it does not wait
		t.Lease, t.Renewed = l.l.Defaults.Lease, l.l.Defaults.Renewed
	}
	if t.Err == nil {
		t.Ticket, t.Err = l.in().OpenTicket(ticket)
	}
	return takeHold(ctx, l.in(), t)
}
