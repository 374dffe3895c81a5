package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/table"
)

var (
	errNoExport = fmt.Errorf("%w: only a hold of Acquire or TryAcquire of a plain, fenced, fair, spin or write lock is exported, and not one of Do", fault.ErrInvalidOption)
	errOnlyLife = fmt.Errorf("%w: Lease is the only option of Export", fault.ErrInvalidOption)
)

// Export ends the hold and returns a ticket for it: see the root package.
func (h *Hold) Export(ctx context.Context, t Terms) (string, error) {
	if !h.valid() {
		return "", &fault.OpError{Op: t.Op, What: "of a nil or zero Hold", Err: fault.ErrNotHeld}
	}
	locks := h.of.Locks()
	l := locks[0]
	exports := func(ctx context.Context) (string, error) { return "", errNoExport }
	switch of := h.of.(type) {
	case held:
		exports = func(ctx context.Context) (string, error) { return of.export(ctx, t.Lease) }
	case taken:
		exports = func(ctx context.Context) (string, error) { return l.export(ctx, of.Acquisition, &t) }
	default:
		return "", &fault.OpError{Op: t.Op, Name: l.Name(), What: descriptionOf(h.of), Err: errNoExport}
	}
	ticket, err := l.exported(ctx, h.of, &t, exports)
	return ticket, l.wrap(err, t.Op)
}

// exported checks whether a hold may be exported, and calls what does it.
func (l *Lock) exported(ctx context.Context, of Held, t *Terms, exports func(ctx context.Context) (string, error)) (string, error) {
	switch err := of.Err(); {
	case err != nil:
		return "", err
	case t.Err != nil:
		return "", t.Err
	case !l.h.Kind.HasTickets():
		return "", errNoExport
	case t.Renewed, t.Limited, t.Permits != 0, t.AtLeast != 0:
		return "", errOnlyLife
	case ctx.Err() != nil:
		return "", EndOf(ctx)
	case !l.client.tasks.Begin():
		return "", fault.ErrClosed
	}
	defer l.client.tasks.End()
	var lent driver.Lent // the goroutine of an AfterFunc may look at its context late
	lent.Lend(ctx)
	defer lent.End()
	spared, done := sparing(&lent)
	defer done()
	return exports(spared)
}

// export carries out the steps of an export.
func (l *Lock) export(spared context.Context, a *table.Acquisition, t *Terms) (string, error) {
	var x table.Exit
	var n notice.List
	began := clock.Now()
	err := l.client.exit(spared, &x, l.client.table.Export(&x, a, t.Lease, spared, began, &n), &n)
	var failed *fault.Error
	switch {
	case err == nil:
		return x.Ticket(), nil
	case errors.Is(err, table.ErrCallerGone):
		return "", EndOf(spared)
	case errors.As(err, &failed):
		return "", l.failed(spared, t.Op, failed, outcome.Since(began))
	}
	return "", err
}

// sparing returns a context that ends with ctx, unless an export ends that: ctx may be derived from the context of the hold. The caller must
// call the function once it no longer needs the context.
func sparing(ctx context.Context) (context.Context, func()) {
	spared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if why := context.Cause(ctx); !errors.Is(why, fault.ErrExported) && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel(why)
		}
	})
	done := func() { stop(); cancel(nil) }
	end, limited := ctx.Deadline()
	if !limited {
		return spared, done
	}
	timed, over := context.WithDeadline(spared, end)
	return timed, func() { over(); done() }
}

// OpenTicket returns what [Terms] need of a ticket that was exported for this lock.
func (l *Lock) OpenTicket(ticket string) (string, error) {
	if err := l.Check("adopt"); err != nil {
		return "", err
	}
	return l.h.Kind.OpenTicket(ticket, l.h.Key.Name)
}
