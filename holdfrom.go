package rlock

import (
	"context"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// HoldFrom returns the hold of a lock that ctx carries: the context of [Hold.Context], the one that Do gives to its function,
// or one derived from them. It returns nil and false if ctx carries no hold of this lock, and for a nil lock. With it, a
// function that is called under a lock gets at the token and the deadline of the hold:
//
//	hold, held := rlock.HoldFrom(ctx, lock)
//
// It finds the hold by the client, the name and, for an [RWLock], the side, through whichever handle the lock was taken. If
// ctx carries several, it returns the nearest that is not unlocked, or else the nearest. It looks as far outward as a re-entry would: an owner made by [WithOwner]
// hides all holds outside it. It finds no lock that was taken with Lock or TryLock, because these give no context.
//
// For a [MultiLock] or a [RedLock], it returns the hold of the group, if the group has the same members. For a member of a
// MultiLock, it returns the hold of that member, with its token, deadline and end. For a member of a RedLock it returns
// false, because the majority may be without that member.
//
// The hold is borrowed. Its Unlock returns [ErrNotHeld] and sends nothing, because the caller of Acquire, or Do, ends the
// hold. Everything else works, also once the hold is over: a holder that was too slow can still present its token, and be
// refused. Its Context is that of the hold that ctx carries.
func HoldFrom(ctx context.Context, of Acquirer) (*Hold, bool) {
	if of == nil {
		return nil, false
	}
	hold := &Hold{}
	if !hold.h.Borrow(ctx, of.member()) {
		return nil, false
	}
	return hold, true
}

// DoValue is the Do of a lock for a function that returns a value: see [Lock.Do]. It returns fn's value whenever fn returned,
// also beside an error. fn may have inserted a row, and the caller may need its id to undo that after a loss. It returns the
// zero value only if fn did not return.
//
// The error for a nil lock and for a nil fn is [ErrInvalidOption].
func DoValue[T any](
	ctx context.Context, of Acquirer, fn func(context.Context) (T, error), opts ...AcquireOption,
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

// EnsureOwner returns ctx itself if it has an owner. Otherwise it returns a context with a new owner, as [WithOwner] does.
// Unlike WithOwner, it hides no hold of ctx: locks that ctx holds still re-enter.
//
// It is for middleware, which does not know whether its caller has an owner or holds a lock. WithOwner there, inside a Do of
// the same lock, would be a different owner, and wait for itself. Where a goroutine begins, use WithOwner: with EnsureOwner
// the goroutine would share the holds of its parent.
func EnsureOwner(ctx context.Context) context.Context { return client.EnsureOwner(ctx) }
