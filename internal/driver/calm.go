package driver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// Calm returns ctx without its panics. Package context asks a context of the user on goroutines of its own, where nobody could recover
// them. A context that has panicked has ended, with the panic as its error.
func Calm(ctx context.Context) context.Context { return &calm{user: ctx} }

// user is a context of the user.
type user interface{ context.Context }

type calm struct {
	user

	panicked atomic.Pointer[error] // nil means that it has not
}

var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// recovered notes what was recovered from a panic of the context.
func (c *calm) recovered(p any) {
	if p != nil {
		err := fault.Panicked(p)
		c.panicked.CompareAndSwap(nil, &err)
	}
}

// Err implements [context.Context].
func (c *calm) Err() error {
	err := c.err()
	if p := c.panicked.Load(); p != nil { // whoever saw that Done is closed finds an error
		return *p
	}
	return err
}

func (c *calm) err() (err error) {
	defer func() { c.recovered(recover()) }()
	return c.user.Err()
}

// Done implements [context.Context].
func (c *calm) Done() <-chan struct{} {
	done := c.done()
	if c.panicked.Load() != nil {
		return over
	}
	return done
}

func (c *calm) done() (done <-chan struct{}) {
	defer func() { c.recovered(recover()) }()
	return c.user.Done()
}

// Value implements [context.Context].
func (c *calm) Value(key any) (value any) {
	defer func() { c.recovered(recover()) }()
	return c.user.Value(key)
}

// Deadline implements [context.Context].
func (c *calm) Deadline() (end time.Time, limited bool) {
	defer func() { c.recovered(recover()) }()
	return c.user.Deadline()
}
