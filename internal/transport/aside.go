package transport

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// errand is a call that a worker sends, alone or in a batch. Its caller can leave before the reply. An errand that returned is
// used again, so that a call with a bound costs hardly more than one in place.
type errand struct {
	question Question
	late     Late
	lent     *driver.Lent // the context of its caller, for the worker; nil for a call in a batch
	lane     *lane        // that counts it as alone; nil for a call in a batch, and for one that cannot be gathered
	state    atomic.Int32
	reply    wire.Reply    // the caller's once done has a token
	done     chan struct{} // has a token when the errand is over, unless its caller left: the last use by the worker
	expired  *time.Timer   // stopped, unless the caller waits for it
	began    clock.Instant // when a call joined a queue
}

// The states of an errand.
const (
	locating int32 = iota // it asks which node has the key
	seeking               // it waits for a connection slot of that node, or for a batch
	running
	returned
	abandoned
)

func (c *Conn) newErrand(q *Question, late Late) *errand {
	e, ok := c.errands.Get().(*errand)
	if !ok {
		e = &errand{done: make(chan struct{}, 1)}
	}
	e.question, e.late = *q, late
	return e
}

// over takes the reply of an errand, and keeps one that returned for another call.
func (c *Conn) over(ctx context.Context, e *errand) wire.Reply {
	if e.state.Load() == abandoned { // it was under way for too long
		return c.leave(ctx, e)
	}
	r := e.reply
	e.stop()
	e.question, e.late, e.lent, e.lane, e.reply = Question{}, nil, nil, nil, wire.Reply{}
	c.errands.Put(e)
	return r
}

// expire starts the timer of an errand.
func (e *errand) expire(after time.Duration) <-chan time.Time {
	if e.expired == nil {
		e.expired = time.NewTimer(after)
	}
	e.expired.Reset(after)
	return e.expired.C
}

// stop stops the timer of an errand.
func (e *errand) stop() {
	if e.expired != nil {
		e.expired.Stop()
	}
}

// askAside sends a call on a worker. It ends the task that its caller began, and its count in the lane.
func (c *Conn) askAside(ctx context.Context, q *Question, way *lane, late Late) wire.Reply {
	e := c.newErrand(q, late)
	e.lane = way
	c.runAside(ctx, e)
	return c.await(ctx, e, nil, c.expiry(e, nil))
}

// runAside sends the call of an errand on a worker, and ends its task then.
func (c *Conn) runAside(ctx context.Context, e *errand) {
	e.state.Store(locating)
	job := &aside{conn: c, errand: e}
	job.lent.Lend(ctx)
	e.lent = &job.lent
	c.tasks.Run(job)
}

// aside is the job of a worker that sends the call of an errand. The errand may be another call's by the time the job has ended.
type aside struct {
	conn   *Conn
	errand *errand
	lent   driver.Lent
}

// Run sends the call.
func (a *aside) Run() {
	a.conn.run(&a.lent, a.errand)
	a.conn.tasks.End()
}

// askGathered sends a call in a batch of its lane. It ends the task that its caller began.
func (c *Conn) askGathered(ctx context.Context, q *Question, way *lane, late Late) wire.Reply {
	e := c.newErrand(q, late)
	e.state.Store(seeking)
	c.join(way, e)
	return c.await(ctx, e, way, c.expiry(e, way))
}

// expiry starts the timer of an errand. There is none for a call that the driver or [Conn.relieve] ends in time.
func (c *Conn) expiry(e *errand, way *lane) <-chan time.Time {
	if q := &e.question; q.Within == 0 && (way != nil || c.bounded) {
		return nil
	}
	return e.expire(cmp.Or(e.question.Within, c.CommandTimeout))
}

// await waits for the reply of an errand until its caller leaves. The way is the lane whose queue may have the errand; nil means
// none. When await returns, nobody touches ctx any more.
func (c *Conn) await(ctx context.Context, e *errand, way *lane, expired <-chan time.Time) wire.Reply {
	defer e.lent.End()
	if expired == nil && ctx.Done() == nil { // a receive costs much less than a select
		<-e.done
		return c.over(ctx, e)
	}
	select {
	case <-e.done:
		return c.over(ctx, e)
	case <-ctx.Done():
	case <-expired:
	}
	switch { // in the order in which an errand takes its states
	case e.state.CompareAndSwap(locating, abandoned):
		e.stop()
		return wire.Reply{N: -1, Err: c.unlocated(ctx)}
	case way != nil && way.withdraw(e):
		e.stop()
		c.tasks.End()
		return wire.Reply{N: -1, Err: noConnection(ctx)}
	case way == nil && e.state.CompareAndSwap(seeking, abandoned):
		e.stop()
		return wire.Reply{N: -1, Err: noConnection(ctx)}
	case e.state.CompareAndSwap(running, abandoned):
		return c.leave(ctx, e)
	}
	<-e.done
	return c.over(ctx, e)
}

// leave returns the reply to the caller of an errand that goes on without it.
func (c *Conn) leave(ctx context.Context, e *errand) wire.Reply {
	e.stop()
	return c.left(ctx)
}

// run sends the call of an errand, unless its caller left while it waited for a slot. The end of ctx does not end the command.
func (c *Conn) run(ctx context.Context, e *errand) {
	r, sent := c.send(ctx, &e.question, e.lane, e)
	e.lane.exit()
	e.onReply(r, sent)
}

// onReply ends an errand with its reply, which goes to late if the caller has left. sent is false if the caller left before anything was sent.
func (e *errand) onReply(r wire.Reply, sent bool) {
	e.reply = r
	switch {
	case e.proceed(returned):
		e.done <- struct{}{}
	case sent && e.late != nil:
		e.late.Late(e.question.Number, r, clock.Now())
	}
}

// proceed takes an errand to its next state. It reports false if the caller has left. A nil errand is a call in place, whose
// caller stays.
func (e *errand) proceed(to int32) bool {
	if e == nil {
		return true
	}
	for state := e.state.Load(); state != abandoned; state = e.state.Load() {
		if e.state.CompareAndSwap(state, to) {
			return true
		}
	}
	return false
}
