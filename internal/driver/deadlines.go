package driver

import (
	"context"
	"sync/atomic"
	"time"
)

// Deadlines makes the contexts with which commands are sent. Each ends when its command has had no reply for the timeout, or up to an
// eighth of the timeout later: all commands that are sent within such an eighth share a timer. It is safe for concurrent use.
type Deadlines struct {
	Timeout time.Duration

	current atomic.Pointer[tick]
}

// tick is the end of the commands that were sent within a period.
type tick struct {
	until time.Time // the end of the period
	over  chan struct{}
}

// Bound returns a context with the values of ctx, for a command that is sent now. It ends after the timeout, and not with ctx.
func (d *Deadlines) Bound(ctx context.Context, now time.Time) Ending {
	for {
		current := d.current.Load()
		if current != nil && now.Before(current.until) {
			return Ending{Bound(ctx, d.Timeout), current}
		}
		period := d.Timeout / 8
		next := &tick{until: now.Add(period), over: make(chan struct{})}
		if d.current.CompareAndSwap(current, next) {
			time.AfterFunc(period+d.Timeout, func() { close(next.over) })
			return Ending{Bound(ctx, d.Timeout), next}
		}
	}
}

// Within returns ctx if it has a deadline and can end, and otherwise such a context.
func (d *Deadlines) Within(ctx context.Context, now time.Time) context.Context {
	if _, limited := ctx.Deadline(); limited && ctx.Done() != nil {
		return ctx
	}
	return d.Bound(ctx, now)
}

// Ending is the context of a command. A client library heeds its end while it connects and while commands wait for a connection: go-redis
// heeds no deadline there.
type Ending struct {
	Bounded

	end *tick
}

var _ context.Context = Ending{}

// Done returns a channel that is closed at the end.
func (e Ending) Done() <-chan struct{} { return e.end.over }

// Err returns context.DeadlineExceeded after the end.
func (e Ending) Err() error {
	select {
	case <-e.end.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
