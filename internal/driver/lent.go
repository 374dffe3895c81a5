package driver

import (
	"context"
	"sync"
	"time"
)

// Lent is the context of a call for what may go on after the call has returned. A framework may lend its contexts, and take them back then:
// so nothing calls a method of the context after [Lent.End].
type Lent struct {
	done     <-chan struct{}
	deadline time.Time
	limited  bool

	mu sync.RWMutex
	of context.Context //nolint:containedctx // it is lent; nil once the call is over
}

var _ context.Context = (*Lent)(nil)

// Lend begins to lend a context. It is called once.
func (l *Lent) Lend(ctx context.Context) {
	l.of, l.done = ctx, ctx.Done()
	l.deadline, l.limited = ctx.Deadline()
}

// End takes the context back. It waits for the methods of the context that run. A nil Lent has none.
func (l *Lent) End() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
}

// Deadline implements [context.Context].
func (l *Lent) Deadline() (time.Time, bool) { return l.deadline, l.limited }

// Done implements [context.Context].
func (l *Lent) Done() <-chan struct{} { return l.done }

// Err implements [context.Context]. After the end it is [context.Canceled].
func (l *Lent) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.of == nil {
		return context.Canceled
	}
	return l.of.Err()
}

// Value implements [context.Context]. After the end there are no values.
func (l *Lent) Value(key any) any {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.of == nil {
		return nil
	}
	return l.of.Value(key)
}
