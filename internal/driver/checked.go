package driver

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Checked returns a driver that sends through d, and adds what every client library needs:
//
//   - A hook of the application that panics fails its command, which is in doubt then: it may have been sent. rlock sends on goroutines
//     of its own, where nobody else could recover the panic.
//   - A client that reaches nothing but replicas is told so, see [replicas].
func Checked(d Driver) Driver {
	return &checked{Driver: d, replicas: replicas{cluster: d.Info().Cluster}}
}

// checked is what [Checked] returns.
type checked struct {
	Driver

	replicas replicas
}

// Panicked returns what was recovered from a panic as the error of a command, or nil. Nobody waits for a bug to go away, so it is not
// transient.
func Panicked(p any) *fault.Error {
	if p == nil {
		return nil
	}
	return &fault.Error{Fate: fault.InDoubt, Err: fmt.Errorf("panic in code of the application: %v", p)}
}

// Run implements [Driver].
func (d *checked) Run(ctx context.Context, at Node, c wire.Call) (r wire.Reply) {
	defer func() {
		if err := Panicked(recover()); err != nil {
			r = Failed(err)
		}
	}()
	if r = d.Driver.Run(ctx, at, c); r.Err != nil || !d.replicas.wrote.Load() {
		d.replicas.note(&c, &r)
	}
	return r
}

// Pipe implements [Driver].
func (d *checked) Pipe(ctx context.Context, at Node, calls []wire.Call, acks *Acks, out []wire.Reply) {
	defer func() {
		if err := Panicked(recover()); err != nil {
			for i := range calls {
				out[i] = Failed(err)
			}
		}
	}()
	d.Driver.Pipe(ctx, at, calls, acks, out)
	for i := range calls {
		d.replicas.note(&calls[i], &out[i])
	}
}

// Raw implements [Driver].
func (d *checked) Raw(ctx context.Context, at Node, cmd ...any) (value any, err *fault.Error) {
	defer func() {
		if f := Panicked(recover()); f != nil {
			value, err = nil, f
		}
	}()
	return d.Driver.Raw(ctx, at, cmd...)
}
