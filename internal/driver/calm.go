package driver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// Calm returns a context of the user whose methods do not panic, for one that is derived from it: the context package calls them on
// timers and goroutines of its own. A method that panics says that the context has ended, or has no value and no deadline.
func Calm(ctx context.Context) context.Context { return &calm{Context: ctx} }

type calm struct {
	context.Context

	broke atomic.Pointer[error] // what Done has panicked: the context package insists on an Err once that is closed
}

var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err implements [context.Context].
func (c *calm) Err() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Panicked(p)
		}
	}()
	if broke := c.broke.Load(); broke != nil {
		return *broke
	}
	return c.Context.Err()
}

// Done implements [context.Context].
func (c *calm) Done() (done <-chan struct{}) {
	defer func() {
		if p := recover(); p != nil {
			err := fault.Panicked(p)
			c.broke.Store(&err)
			done = over
		}
	}()
	if c.broke.Load() != nil {
		return over
	}
	return c.Context.Done()
}

// Value implements [context.Context].
func (c *calm) Value(key any) (value any) {
	defer func() {
		if recover() != nil {
			value = nil
		}
	}()
	return c.Context.Value(key)
}

// Deadline implements [context.Context].
func (c *calm) Deadline() (end time.Time, limited bool) {
	defer func() {
		if recover() != nil {
			end, limited = time.Time{}, false
		}
	}()
	return c.Context.Deadline()
}
