package client

import (
	"context"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// Calm is [driver.Calm].
func Calm(ctx context.Context) context.Context { return driver.Calm(ctx) }

// Alongside runs a call on a worker that Close waits for, and passes its error on. What the call panics is an error: nobody else could recover
// it. If code of the user ends the goroutine, the call has had no answer.
func (c *Client) Alongside(call func() error, done func(error)) {
	c.Background(func() {
		err := fault.ErrNoAnswer
		defer func() {
			if p := recover(); p != nil {
				err = fault.Panicked(p)
			}
			done(err)
		}()
		err = call()
	})
}

// lasting returns a context with the values of one of the user that does not end. A context that cannot end is that already.
func lasting(ctx context.Context) (unending context.Context) {
	defer func() {
		if recover() != nil {
			unending = context.WithoutCancel(ctx)
		}
	}()
	if ctx.Done() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// unanswered is the reply to a question of a goroutine that has ended.
func unanswered() wire.Reply {
	return wire.Reply{N: -1, Err: &fault.Error{Fate: fault.InDoubt, Transient: true, Err: fault.ErrNoAnswer}}
}

// goOn carries out the rest of an exit on a worker. asking says whether a question was under way, to which no reply will come.
func (c *Client) goOn(x *table.Exit, asking bool) {
	c.Aside(func() {
		var n notice.List
		var step table.Step
		if asking {
			step = c.table.SettleRelease(x, unanswered(), clock.Now(), &n)
		} else {
			step = c.table.ResumeRelease(x, clock.Now(), &n)
		}
		_ = c.exit(context.Background(), x, step, &n) // the table logs a failure
	})
}

// abandon ends an attempt that can go on no longer, because its context has panicked. What Redis may have made of it is released in
// the background, as after a call that its caller left. asking says whether a question was under way, to which no reply will come.
func (l *Lock) abandon(a *table.Attempt, asking bool) {
	var n notice.List
	c := l.client
	lost := unanswered()
	for step := (table.Step{Do: table.Sleep}); step.Do != table.Done; asking = step.Do == table.Ask {
		if asking {
			step = c.table.Settle(a, lost, clock.Now(), &n)
		} else {
			step = c.table.Wake(a, table.Ended, clock.Now(), &n)
		}
		n.Deliver(c)
		if step.Got != nil {
			got := step.Got
			c.Background(func() { _ = l.release(context.Background(), got) }) // the table logs a failure
		}
	}
}
