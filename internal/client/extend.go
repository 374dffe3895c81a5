package client

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Extend makes the lease end no earlier than d from now: see the root package. invalid is what is wrong with d, or nil.
func (h *Hold) Extend(ctx context.Context, d time.Duration, invalid error) error {
	const op = "extend"
	if !h.valid() {
		return &fault.OpError{Op: op, What: "of a nil or zero Hold", Err: fault.ErrNotHeld}
	}
	if locks := h.of.Locks(); invalid != nil && len(locks) == 1 {
		return locks[0].wrap(invalid, op)
	}
	if invalid != nil {
		return &fault.OpError{Op: op, What: "a group of locks", Err: invalid}
	}
	return h.of.Extend(ctx, d)
}

// Extend implements [Held].
func (t taken) Extend(ctx context.Context, d time.Duration) error {
	l := t.lock
	return l.wrap(l.extend(ctx, t.Acquisition, d), "extend")
}

// extend lengthens the lease of an acquisition. Like a renewal, it needs no connection slot and waits for no replica.
func (l *Lock) extend(ctx context.Context, a *table.Acquisition, d time.Duration) error {
	switch err := a.Err(clock.Now()); {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return EndOf(ctx)
	case !l.client.tasks.Begin():
		return fault.ErrClosed
	}
	defer l.client.tasks.End()
	x := extension{l.client, a, d, clock.Now()}
	call, err := a.Extend(d, x.sent)
	if err != nil {
		return err
	}
	r := l.client.conn.Ask(ctx, transport.Question{Call: call}, x)
	if over := x.onReply(r, clock.Now()); over != nil {
		return over
	}
	return l.failed(ctx, "extend", r.Err, outcome.Since(x.sent))
}

// extension is one call that lengthens a lease, under way.
type extension struct {
	client *Client
	acq    *table.Acquisition
	d      time.Duration
	sent   clock.Instant
}

// Late takes the reply after the caller has left. The lease was lengthened nevertheless.
func (x extension) Late(_ uint64, r wire.Reply, now clock.Instant) { _ = x.onReply(r, now) }

// onReply takes the reply, and returns why the acquisition is over, or nil if it is not.
func (x extension) onReply(r wire.Reply, now clock.Instant) error {
	var n notice.List
	defer n.Deliver(x.client)
	return x.acq.Extended(x.d, x.sent, r, now, &n)
}
