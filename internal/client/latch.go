package client

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/wire"
)

// Latch is a count-down latch of one client. The zero value is no latch: its methods return [fault.ErrInvalidOption]. It is safe
// for concurrent use once [Latch.Init] has returned.
type Latch struct {
	lock  Lock // its name, and the texts of its errors
	names *wire.Latch
}

// Init makes the zero Latch a handle on a latch, given the user's name for it and its name in Redis.
func (l *Latch) Init(c *Client, name, inRedis string) {
	l.lock.client = c
	l.lock.h.Kind, l.lock.h.Name, l.lock.h.Key.Name = wire.CountDown, name, inRedis
	l.lock.err = wire.CheckLatch(inRedis, c.driver.Info().Cluster)
	l.names = wire.NewLatch(inRedis, c.cfg.Table.ClientID)
}

// Lock returns what has the name of the latch, or nil.
func (l *Latch) Lock() *Lock {
	if l == nil {
		return nil
	}
	return &l.lock
}

// Listening returns how many calls of this client listen until the latch opens, once they can hear that.
func (l *Latch) Listening() int {
	h := l.lock.client.hub
	if _, confirmed := h.Received(l.names.Channel); !confirmed {
		return 0
	}
	return h.Listeners(l.names.Channel)
}

// check returns what is wrong with the handle itself.
func (l *Latch) check(op string) error {
	if l == nil || l.lock.client == nil {
		what := "of a nil or zero CountDownLatch, or of a nil or zero Client"
		return &fault.OpError{Op: op, What: what, Err: fault.ErrInvalidOption}
	}
	return l.lock.wrap(l.lock.err, op)
}

// TrySetCount sets the count if there is none, and reports whether it did: see the root package.
func (l *Latch) TrySetCount(ctx context.Context, count int64) (bool, error) {
	const op = "try set count"
	if err := l.check(op); err != nil {
		return false, err
	}
	if count < 1 || count > wire.MaxCount {
		err := fmt.Errorf("%w: count %d out of range [1, %d]", fault.ErrInvalidOption, count, int64(wire.MaxCount))
		return false, l.lock.wrap(err, op)
	}
	set, err := l.once(ctx, op, func(number int64) wire.Call { return l.names.TrySet(number, count) })
	return err == nil && set == 1, err
}

// CountDown counts down by one, and returns the count that is left: see the root package.
func (l *Latch) CountDown(ctx context.Context) (left int64, err error) {
	const op = "count down"
	if err := l.check(op); err != nil {
		return 0, err
	}
	return l.once(ctx, op, l.names.CountDown)
}

// Delete deletes the latch, and reports whether there was one: see the root package.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	const op = "delete"
	if err := l.check(op); err != nil {
		return false, err
	}
	deleted, err := l.once(ctx, op, l.names.Delete)
	return err == nil && deleted == 1, err
}

// Count returns the count: see the root package.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	const op = "count"
	if err := l.check(op); err != nil {
		return 0, err
	}
	r, err := l.lock.query(ctx, op, l.names.Count(), nil)
	return r.N, err
}

// once sends a call that counts once, given its number.
func (l *Latch) once(ctx context.Context, op string, call func(number int64) wire.Call) (int64, error) {
	return l.lock.once(ctx, op, l.names.Mark, call)
}

// Await waits until the latch is open: see the root package.
func (l *Latch) Await(ctx context.Context, t Terms) error {
	var seen *report.Span
	if l != nil {
		seen = l.lock.span(ctx, &t)
	}
	err := l.observed(ctx, t, seen)
	seen.End(report.Acquired{}, err)
	return err
}

// observed is Await, for those who may observe it.
func (l *Latch) observed(ctx context.Context, t Terms, seen *report.Span) error {
	if err := l.check(t.Op); err != nil {
		return err
	}
	if t.Err != nil {
		return l.lock.wrap(t.Err, t.Op)
	}
	a := awaiting{Wait: l.lock.newWait(ctx, &t, 0), lock: &l.lock, channel: l.names.Channel, call: l.names.Count()}
	a.says = func(count int64) bool {
		if count > 0 {
			a.known.Refused()
		}
		return count <= 0
	}
	return a.await(ctx, &t, seen)
}
