package driver

import (
	"context"
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Checked returns a driver that sends through d, and adds what every client library needs:
//
//   - A panic becomes the error of the command that ran the code of the user: a hook, a provider of credentials, a method of a
//     context. rlock sends on goroutines of its own, where nobody could recover it. The command may have been sent, so it is in doubt.
//     panicked is called with each panic, and must not wait.
//   - A client that reaches nothing but replicas is told so, see [replicas].
func Checked(d Driver, panicked func(error)) Driver {
	return &checked{Driver: d, panicked: panicked, replicas: replicas{cluster: d.Info().Cluster}}
}

// checked is what [Checked] returns.
type checked struct {
	Driver

	panicked func(error)
	replicas replicas
}

// recovered returns what was recovered from a panic as the error of a command, or nil.
func (d *checked) recovered(p any) *fault.Error {
	if p == nil {
		return nil
	}
	f := Panicked(p)
	d.panicked(f.Err)
	return f
}

// Panicked returns what a driver has recovered from a panic as the error of a command. A driver recovers it on the goroutines that it
// starts itself: nobody else can.
func Panicked(p any) *fault.Error {
	return &fault.Error{Fate: fault.InDoubt, Transient: true, Err: fault.Panicked(p)}
}

// note looks at the reply to a call.
func (d *checked) note(c *wire.Call, r *wire.Reply) {
	if r.Err != nil && fault.Stack(r.Err) != nil { // the driver has recovered it
		d.panicked(r.Err.Err)
	}
	d.replicas.note(c, r)
}

// Run implements [Driver].
func (d *checked) Run(ctx context.Context, at Node, c wire.Call) (r wire.Reply) {
	defer func() {
		if p := recover(); p != nil {
			r = Failed(d.recovered(p))
		}
	}()
	if r = d.Driver.Run(ctx, at, c); r.Err != nil || !d.replicas.wrote.Load() {
		d.note(&c, &r)
	}
	return r
}

// Pipe implements [Driver].
func (d *checked) Pipe(ctx context.Context, at Node, calls []wire.Call, acks *Acks, out []wire.Reply) {
	defer func() {
		if f := d.recovered(recover()); f != nil {
			for i := range calls {
				out[i] = Failed(f)
			}
		}
	}()
	d.Driver.Pipe(ctx, at, calls, acks, out)
	for i := range calls {
		d.note(&calls[i], &out[i])
	}
}

// Node implements [Driver].
func (d *checked) Node(ctx context.Context, key string) (n Node, err *fault.Error) {
	defer func() {
		if f := d.recovered(recover()); f != nil {
			f.Fate = fault.NotSent
			n, err = nil, f
		}
	}()
	return d.Driver.Node(ctx, key)
}

// Raw implements [Driver].
func (d *checked) Raw(ctx context.Context, at Node, cmd ...any) (value any, err *fault.Error) {
	defer func() {
		if f := d.recovered(recover()); f != nil {
			value, err = nil, f
		}
	}()
	return d.Driver.Raw(ctx, at, cmd...)
}

// Refresh implements [Driver].
func (d *checked) Refresh() {
	defer func() { _ = d.recovered(recover()) }()
	d.Driver.Refresh()
}

// Subscribe implements [Driver].
func (d *checked) Subscribe(ctx context.Context, at Node, sharded bool) (s Subscription) {
	defer func() {
		if f := d.recovered(recover()); f != nil {
			s = unusable{f}
		}
	}()
	return &subscription{Subscription: d.Driver.Subscribe(ctx, at, sharded), driver: d}
}

// subscription is a [Subscription] whose panics are errors. After one it counts as closed, and nothing calls it any more: go-redis, for
// example, leaves a mutex locked when a dial hook panics.
type subscription struct {
	Subscription

	driver *checked
	dead   atomic.Bool
}

// try calls a method of the subscription.
func (s *subscription) try(method func() *fault.Error) (err *fault.Error) {
	if s.dead.Load() {
		return &fault.Error{Fate: fault.NotSent, Err: ErrSubscriptionClosed}
	}
	over := false
	defer func() {
		if over {
			return
		}
		s.dead.Store(true)
		if f := s.driver.recovered(recover()); f != nil {
			err = f
		}
	}()
	err = method()
	over = true
	return err
}

// Subscribe implements [Subscription].
func (s *subscription) Subscribe(ctx context.Context, channels ...string) *fault.Error {
	return s.try(func() *fault.Error { return s.Subscription.Subscribe(ctx, channels...) })
}

// Unsubscribe implements [Subscription].
func (s *subscription) Unsubscribe(ctx context.Context, channels ...string) *fault.Error {
	return s.try(func() *fault.Error { return s.Subscription.Unsubscribe(ctx, channels...) })
}

// Ping implements [Subscription].
func (s *subscription) Ping(ctx context.Context) *fault.Error {
	return s.try(func() *fault.Error { return s.Subscription.Ping(ctx) })
}

// Receive implements [Subscription].
func (s *subscription) Receive(ctx context.Context) (m Message, err *fault.Error) {
	err = s.try(func() (f *fault.Error) {
		m, f = s.Subscription.Receive(ctx)
		return f
	})
	return m, err
}

// Close implements [Subscription].
func (s *subscription) Close() (err error) {
	_ = s.try(func() *fault.Error { err = s.Subscription.Close(); return nil })
	return err
}

// unusable is the subscription of a client that panicked instead of making one.
type unusable struct{ why *fault.Error }

// Subscribe implements [Subscription].
func (u unusable) Subscribe(context.Context, ...string) *fault.Error { return u.why }

// Unsubscribe implements [Subscription].
func (u unusable) Unsubscribe(context.Context, ...string) *fault.Error { return u.why }

// Ping implements [Subscription].
func (u unusable) Ping(context.Context) *fault.Error { return u.why }

// Receive implements [Subscription].
func (u unusable) Receive(context.Context) (Message, *fault.Error) { return Message{}, u.why }

// Close implements [Subscription].
func (u unusable) Close() error { return nil }
