package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
)

// wrap adds the operation and the lock to an error that does not name them yet, and explains an error of Redis.
func (l *Lock) wrap(err error, op string) error {
	if err == nil || fault.Named(err) {
		return err
	}
	return l.named(l.explained(err), op)
}

// named adds the operation and the lock to an error.
func (l *Lock) named(err error, op string) error {
	return &fault.OpError{Op: op, Name: l.h.Name, Err: err}
}

// explained adds to an error of Redis that it is an outage, which right to look for, or about which key it is.
func (l *Lock) explained(err error) error {
	var f *fault.Error
	switch {
	case errors.Is(err, fault.ErrClosed) && errors.Is(err, fault.ErrNotSent): // it waited for a connection
		return fault.ErrClosed
	case errors.Is(err, fault.ErrNotReplicated):
		return err
	case errors.Is(err, fault.ErrUnavailable):
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	case !errors.As(err, &f) || !f.Replied():
		return err
	case f.Denied():
		return l.h.Of(f)
	case f.OfServer():
		return err
	case f.WrongType():
		return fmt.Errorf("the key %s has a value that is not a %s: %w",
			fault.Quote(l.h.Key.Name), cmp.Or(l.h.Kind.Noun, "lock"), err)
	}
	return fmt.Errorf("the key %s: %w", fault.Quote(l.h.Key.Name), err)
}

// Ended returns the error of a call whose ctx has ended, whose wait is over, or whose client is closed, given what is known at that moment. Nil
// means nothing.
func Ended(ctx context.Context, known error) error {
	switch {
	case ctx.Err() == nil:
		return known
	case known == nil:
		return EndOf(ctx)
	case errors.Is(known, fault.ErrNotAcquired):
		return fmt.Errorf("%w: %w", known, EndOf(ctx))
	}
	return WithEnd(ctx, known)
}

// ended is [Ended] for an attempt, given for how long this process has held the lock. A cancellation by itself says nothing about
// Redis. A wait that passes without a reply does.
func (l *Lock) ended(ctx context.Context, last outcome.Result, held time.Duration) error {
	end, class := ctx.Err(), fault.ErrRefused
	if end != nil {
		class = fault.ErrNotAcquired // because the context ended the wait
	}
	if !last.Known() && (end == nil || errors.Is(end, context.DeadlineExceeded)) {
		last.Err = last.Silence()
	}
	var known error
	switch {
	case l.client.IsClosed() && (end == nil || !last.Refused):
		known = fault.ErrClosed
	case last.Refused:
		known = refusal(class, last, held)
	case last.Err != nil:
		known = l.explained(last.Err)
	}
	return Ended(ctx, known)
}

// refusal adds the reason to a refusal, as far as it is known: nobody has set the semaphore up, or this process holds the lock. held is for
// how long; zero means that it does not hold it.
func refusal(err error, last outcome.Result, held time.Duration) error {
	switch {
	case last.Unset:
		return &fault.NoPermitsError{Refusal: err}
	case held == 0:
		return err
	}
	return &fault.HeldHereError{For: held, Refusal: err}
}

// EndOf returns why ctx ended: its cause, and its error if the cause does not match it. If the cause says how another call
// went, only its text is kept: otherwise the error of this call would have the class of that one.
func EndOf(ctx context.Context) error { return endWithout(ctx, nil) }

// WithEnd adds to the error of a call why ctx ended. If the error is an outage, it does not match a loss that ended ctx.
func WithEnd(ctx context.Context, err error) error {
	var other error
	if errors.Is(err, fault.ErrUnavailable) {
		other = fault.ErrLost
	}
	return fmt.Errorf("%w (%w)", err, endWithout(ctx, other))
}

// endWithout is EndOf, and keeps only the text of a cause that matches another error too.
func endWithout(ctx context.Context, other error) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	for _, class := range []error{fault.ErrNotAcquired, fault.ErrUnavailable, other} {
		if class != nil && errors.Is(cause, class) {
			return fmt.Errorf("%w: %s", err, cause.Error())
		}
	}
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
