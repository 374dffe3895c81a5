// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
)

// deadlines makes the contexts with which commands are sent. Each ends when its command has had no reply for the timeout, or up to an
// eighth of it later: all commands that are sent within an eighth share a timer, so that a command costs none.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[tick]
}

// tick is the end of the commands that were sent within a period.
type tick struct {
	until time.Time // the end of the period
	over  chan struct{}
}

// at returns the tick of a command that is sent now.
func (d *deadlines) at(now time.Time) *tick {
	for {
		current := d.current.Load()
		if current != nil && now.Before(current.until) {
			return current
		}
		period := d.timeout / 8
		next := &tick{until: now.Add(period), over: make(chan struct{})}
		if d.current.CompareAndSwap(current, next) {
			time.AfterFunc(period+d.timeout, func() { close(next.over) })
			return next
		}
	}
}

// bound returns a context with the values of ctx that does not end with it, but after the timeout.
func (d *deadlines) bound(ctx context.Context, now time.Time) context.Context {
	return &bounded{Bounded: driver.Bound(ctx, d.timeout), end: d.at(now)}
}

// within returns ctx if it has a deadline and can end, and otherwise such a context.
func (d *deadlines) within(ctx context.Context, now time.Time) context.Context {
	if _, limited := ctx.Deadline(); limited && ctx.Done() != nil {
		return ctx
	}
	return d.bound(ctx, now)
}

// bounded is the context of a command. valkey-go heeds its deadline while it connects and where a command has a connection to itself,
// and its end where commands share one.
type bounded struct {
	driver.Bounded
	end *tick
}

var _ context.Context = (*bounded)(nil)

// Done returns a channel that is closed at the end.
func (b *bounded) Done() <-chan struct{} { return b.end.over }

// Err returns context.DeadlineExceeded after the end.
func (b *bounded) Err() error {
	select {
	case <-b.end.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
