package client

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// ForceUnlock frees the lock, even if another owner holds it, and reports whether it was held: see the root package. It frees it only from
// these holders; nil means from any.
func (l *Lock) ForceUnlock(ctx context.Context, from []string) (bool, error) {
	const op = "force unlock"
	if err := l.Check(op); err != nil {
		return false, err
	}
	if err := wire.CheckHolders(from); err != nil {
		return false, l.wrap(err, op)
	}
	var call wire.Call
	if l.turns != nil {
		call = l.client.core.ForceCall(l.turns, l.h.Key.Name, from)
	} else {
		call = l.h.Kind.ForceCall(l.h.Names(), l.client.table.Lined(&l.h), from...)
	}
	r, err := l.query(ctx, op, call, forced{l})
	if err != nil {
		return false, err
	}
	forced{l}.Late(0, r, clock.Now())
	return freed(&r), nil
}

// freed reports whether a reply says that the lock was freed.
func freed(r *wire.Reply) bool { return r.N == 1 || len(r.List) > 0 && r.List[0] == 1 }

// forced takes the reply of an unlock by force, also after its caller has left.
type forced struct{ l *Lock }

// Late ends every grant that this client has of the lock, if it was freed.
func (f forced) Late(_ uint64, r wire.Reply, now clock.Instant) {
	if r.Err != nil || !freed(&r) {
		return
	}
	if f.l.turns != nil {
		f.l.client.core.Forced(f.l.turns, f.l.h.Key.Name, r.List[1])
		return
	}
	var micros int64
	if len(r.List) > 1 {
		micros = r.List[1]
	}
	var n notice.List
	f.l.client.table.Forced(f.l.h.Key, micros, now, &n)
	n.Deliver(f.l.client)
}

// IsLocked reports whether any owner holds the lock.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	const op = "is locked"
	if err := l.Check(op); err != nil {
		return false, err
	}
	seen, err := l.inspect(ctx, op, l.h.Kind.InspectCall(l.h.Names()))
	return seen.locked, err
}

// TTL returns how long the lock's present lease still runs.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	const op = "ttl"
	if err := l.Check(op); err != nil {
		return 0, err
	}
	seen, err := l.inspect(ctx, op, l.h.Kind.InspectCall(l.h.Names()))
	return seen.ttl, err
}

// HoldCount returns how many acquisitions the context's owner has yet to unlock.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	const op = "hold count"
	if err := l.Check(op); err != nil {
		return 0, err
	}
	call := l.h.Kind.InspectCall(l.h.Names())
	if l.turns != nil {
		field, count := l.client.core.Chosen(l.turns, l.h.Key.Name, l.Who(ctx), &l.opened)
		call.Args.Holder = field
		seen, err := l.inspect(ctx, op, call)
		if err != nil || !seen.held {
			return 0, err
		}
		return count(), nil
	}
	g := l.client.table.Chosen(&l.h, l.Who(ctx), clock.Now())
	if g != nil {
		call = g.Inspect()
	}
	seen, err := l.inspect(ctx, op, call)
	if err != nil || !seen.held {
		return 0, err
	}
	return l.client.table.Count(g, clock.Now()), nil
}

// inspection is the reply of Redis about a lock.
type inspection struct {
	ttl          time.Duration // 0 means that the key does not exist, negative that it has no lease
	locked, held bool
}

// inspect asks Redis about the lock, by a call of [wire.Kind.InspectCall].
func (l *Lock) inspect(ctx context.Context, op string, call wire.Call) (inspection, error) {
	r, err := l.query(ctx, op, call, nil)
	if err != nil {
		return inspection{}, err
	}
	return inspection{wire.Lease(r.List[0]), r.List[1] == 1, r.List[2] == 1}, nil
}

// query runs a call that is not part of an acquisition or an unlock.
func (l *Lock) query(ctx context.Context, op string, call wire.Call, late transport.Late) (wire.Reply, error) {
	if ctx.Err() != nil {
		return wire.Reply{}, l.named(EndOf(ctx), op)
	}
	if !l.client.tasks.Begin() {
		return wire.Reply{}, l.wrap(fault.ErrClosed, op)
	}
	defer l.client.tasks.End()
	known := outcome.Since(clock.Now())
	r := l.client.conn.Ask(ctx, transport.Question{Call: call, Slot: transport.QuerySlot}, late)
	return r, l.failed(ctx, op, r.Err, known)
}

// failed returns the error of a call, or nil for none. A call whose caller left before the reply is an outage only if Redis was
// silent for long, or had failed before, as its questions have shown.
func (l *Lock) failed(ctx context.Context, op string, err *fault.Error, known outcome.Record) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !err.Replied():
		if errors.Is(err, fault.ErrNoConnection) {
			known.Unsent()
		}
		return l.named(l.ended(ctx, known.At(clock.Now(), l.client.cfg.Table.Floor()), 0), op)
	case err.Fate == fault.NotSent && l.client.IsClosed():
		return l.wrap(fault.ErrClosed, op)
	}
	return l.wrap(err, op)
}
