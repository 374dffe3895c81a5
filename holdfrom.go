package rlock

import (
	"context"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// HoldFrom returns the hold of a lock that ctx carries, if there is one: ctx is the context of [Hold.Context], the one that Do gives to
// its function, or derived from them. So a function that is called under a lock gets at the token and the deadline of the hold:
//
//	hold, held := rlock.HoldFrom(ctx, lock)
//
// of is a [Lock], a [Semaphore], a [MultiLock] or a [RedLock]. HoldFrom finds the hold by the client, the name and, for an [RWLock], the side. Of several it returns the nearest that is not unlocked, or
// else the nearest. An owner made by [WithOwner] hides all holds outside it.
//
// For a group, it returns the hold of a group with the same members. For a member of a [MultiLock], it returns the hold of that member;
// for one of a [RedLock] it returns false, because the majority may be without it.
//
// The hold is borrowed: its Unlock returns [ErrNotHeld] and sends nothing. Everything else works, also once the hold is over: a holder
// that was too slow can still present its token, and be refused.
func HoldFrom(ctx context.Context, of acquirer) (*Hold, bool) {
	if of == nil {
		return nil, false
	}
	hold := &Hold{}
	if !hold.h.Borrow(ctx, of.member()) {
		return nil, false
	}
	return hold, true
}

// DoValue is the Do of a [Lock], a [Semaphore], a [MultiLock] or a [RedLock], for a function that returns a value. DoValue returns it
// whenever fn returned, also beside an error: the caller may need it to undo what fn did before a loss.
func DoValue[T any](
	ctx context.Context, of acquirer, fn func(context.Context) (T, error), opts ...AcquireOption,
) (value T, err error) {
	switch {
	case of == nil:
		return value, &fault.OpError{Op: "do", What: "with a nil lock", Err: ErrInvalidOption}
	case fn == nil:
		return value, of.Do(ctx, nil, opts...)
	}
	err = of.Do(ctx, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	}, opts...)
	return value, err
}

// EnsureOwner returns ctx itself if it has an owner. Otherwise it returns a context with a new owner, as [WithOwner] does, but hides no
// hold of ctx: locks that ctx holds still re-enter. It is for middleware, which does not know whether its caller holds a lock. Where a
// goroutine begins, use WithOwner, so that it does not share the holds of its parent.
func EnsureOwner(ctx context.Context) context.Context { return client.EnsureOwner(ctx) }
