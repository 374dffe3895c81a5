package driver

import (
	"context"
	"time"
)

// Bounded is a context for sending a command that cannot be canceled. It has the values of another context and a deadline,
// but it never ends. The deadline bounds how long the client library connects. It costs no timer. It must not be changed
// once it is in use.
type Bounded struct {
	values   interface{ Value(key any) any }
	deadline time.Time
}

var _ context.Context = Bounded{}

// Bound returns a context with the values of ctx, and a deadline that comes after the timeout.
func Bound(ctx context.Context, timeout time.Duration) Bounded {
	return Bounded{ctx, time.Now().Add(timeout)}
}

// Deadline returns a moment that a client library heeds when it connects.
func (b Bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done returns nil, because the context never ends.
func (Bounded) Done() <-chan struct{} { return nil }

// Err returns nil, because the context never ends.
func (Bounded) Err() error { return nil }

// Value returns a value of the context that was bounded.
func (b Bounded) Value(key any) any { return b.values.Value(key) }
