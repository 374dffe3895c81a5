package client

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// byTurns has the kinds that internal/core has. The lock table has the others.
var byTurns = map[*wire.Kind]*core.Kind{wire.Plain: core.Plain, wire.Fenced: core.Plain, wire.Spin: core.Plain, wire.Permit: core.Permits}

// acquireByTurns acquires a lock, or permits of a semaphore as far as it is known to be set up.
func (l *Lock) acquireByTurns(ctx context.Context, t *Terms, seen *report.Span, w *Wait) (*core.Hold, error) {
	c := l.client
	switch {
	case ctx.Err() != nil:
		return nil, l.named(EndOf(ctx), t.Op)
	case !c.tasks.Begin():
		return nil, l.wrap(fault.ErrClosed, t.Op)
	}
	defer c.tasks.End()
	c.used()
	waiting, stop := t.waiting(ctx)
	defer stop()
	want := core.Terms{
		Kind: l.turns, Name: l.h.Name, Key: l.h.Key.Name, Flags: l.flags(t), Lease: t.Lease, Renewed: t.Renews(), AtLeast: t.AtLeast, Ticket: t.Ticket,
		Single: w.single, SetsUp: w.setsUp, Spin: core.Spin{First: l.h.FirstDelay, Longest: l.h.MaxDelay}, Once: l.h.NonReentrant,
		Bound: w.bound, Denied: l.denied, Context: contexts(seen.Context(ctx), seen.Context(waiting)),
	}
	if l.turns != core.Permits {
		if want.Who = l.Who(ctx); !t.ByHold {
			want.Opened = &l.opened
		}
	}
	if seen != nil { // a nil Span must not become a Witness that is not nil
		want.Witness = seen
	}
	if want.Lease == 0 {
		want.Lease = c.cfg.Table.WatchdogTimeout
	}
	h, out := c.core.Acquire(&want)
	seen.Saw(out.Seen)
	switch {
	case h != nil:
		return h, nil
	case out.Err == nil && c.IsStopping() && (ctx.Err() == nil || !out.Last.Refused):
		out.Err = fault.ErrClosed
	}
	return nil, l.refused(ctx, t.Op, out.Last, out.HeldFor, w, out.Err)
}

// flags returns what internal/core has to know of the kind: that it draws a token, or how many permits.
func (l *Lock) flags(t *Terms) string {
	switch {
	case l.turns == core.Permits:
		return strconv.Itoa(max(t.Permits, 1))
	case l.h.Kind.Tokens:
		return "t"
	}
	return ""
}

// contexts returns that of the caller, or that of the wait: see [core.Terms].
func contexts(caller, waiting context.Context) func(known bool) context.Context {
	return func(known bool) context.Context {
		if known {
			return waiting
		}
		return caller
	}
}

// denied adds to an error of Redis which right to look for.
func (l *Lock) denied(err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		return l.h.Of(f)
	}
	return err
}

// held is the Held of what internal/core has.
type held struct {
	lock *Lock
	*core.Hold
}

var _ Held = held{}

// Locks implements [Held].
func (h held) Locks() []*Lock { return []*Lock{h.lock} }

// OwnerOf implements [Held]. Permits have no owner.
func (h held) OwnerOf(table.Key) *owner.Owner {
	if h.lock.turns == core.Permits {
		return nil
	}
	return h.Owner()
}

// Unlock implements [Held].
func (h held) Unlock(ctx context.Context) error { return h.lock.wrap(h.Hold.Unlock(ctx), "unlock") }

// Extend implements [Held].
func (h held) Extend(ctx context.Context, d time.Duration) error {
	const op = "extend"
	l := h.lock
	switch {
	case ctx.Err() != nil && h.Err() == nil:
		return l.wrap(EndOf(ctx), op)
	case !l.client.tasks.Begin():
		return l.wrap(cmp.Or(h.Err(), fault.ErrClosed), op)
	}
	defer l.client.tasks.End()
	sent := clock.Now()
	failed, over := h.Hold.Extend(ctx, d)
	if over != nil {
		return l.wrap(over, op)
	}
	return l.failed(ctx, op, failed, outcome.Since(sent))
}

// Part implements [Held].
func (h held) Part(m Member) Held {
	if l, ok := m.(*Lock); ok && l.ID() == h.lock.ID() {
		return h
	}
	return nil
}

// exportByTurns is export of what internal/core has.
func (h held) export(ctx context.Context, life time.Duration) (string, error) {
	l := h.lock
	began := clock.Now()
	field, failed, over := h.Hold.Export(ctx, life)
	switch {
	case over != nil:
		return "", over
	case failed != nil:
		return "", l.failed(ctx, "export", failed, outcome.Since(began))
	}
	return l.h.Kind.Ticket(field, l.h.Key.Name), nil
}
