package transport

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// errand is a call on a worker. Its caller can leave before the reply.
type errand struct {
	question Question
	late     Late
	bounded  driver.Bounded
	state    atomic.Int32
	reply    wire.Reply    // the caller's once done is closed
	done     chan struct{} // closed when the errand is over
}

// The states of an errand.
const (
	running int32 = iota
	returned
	abandoned
)

// askAside sends a call on a worker. It ends the task that its caller began.
func (c *Conn) askAside(ctx, slot context.Context, q Question, late Late) wire.Reply {
	if err := ctx.Err(); err != nil {
		c.tasks.End()
		return wire.Reply{N: -1, Err: notSent(err)}
	}
	var expired <-chan time.Time // for a command that the driver may not end in time
	if !c.bounded || q.Within > 0 {
		timeout := time.NewTimer(cmp.Or(q.Within, c.CommandTimeout))
		defer timeout.Stop()
		expired = timeout.C
	}
	e := &errand{question: q, late: late, done: make(chan struct{})}
	c.tasks.Run(task.Func(func() { // a closure, because contexts do not belong in the errand
		defer c.tasks.End()
		c.run(ctx, slot, e)
	}))
	select {
	case <-e.done:
		return e.reply
	case <-ctx.Done():
	case <-expired:
	}
	if e.state.CompareAndSwap(running, abandoned) {
		return c.left(ctx)
	}
	<-e.done
	return e.reply
}

// run sends the call of an errand. The end of ctx does not end the command.
func (c *Conn) run(ctx, slot context.Context, e *errand) {
	r := c.send(ctx, slot, &e.bounded, e.question)
	e.reply = r
	if !e.state.CompareAndSwap(running, returned) && e.late != nil {
		e.late.Late(r, clock.Now())
	}
	close(e.done)
}
