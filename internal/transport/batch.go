package transport

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// batch sends calls from the queue of a lane in one pipeline after the other, until the queue is empty. It is used again.
type batch struct {
	conn  *Conn
	lane  *lane
	since time.Time // when its pipeline was sent
	stuck bool      // it has a slot, and no longer counts. lane.mu guards it

	errands []*errand
	calls   []wire.Call
	replies []wire.Reply
}

// Run sends until the queue is empty. It runs on a worker. It lets goroutines that are about to call run first, so that their
// calls join the pipeline. A goroutine that is alone does not notice.
func (b *batch) Run() {
	for runtime.Gosched(); b.take(); runtime.Gosched() {
		b.send()
	}
	b.lane = nil
	b.conn.pool.Put(b)
}

// take takes calls from the queue. If there is none, or if others have taken the place of this batch, it ends the batch and
// returns false.
func (b *batch) take() bool {
	w := b.lane
	w.mu.Lock()
	defer w.mu.Unlock()
	b.errands = b.errands[:0]
	taken := 0
	for taken < len(w.queue) && len(b.errands) < batchSize && !b.stuck {
		e := w.queue[taken]
		taken++
		if e.proceed(running) {
			b.errands = append(b.errands, e)
		} else {
			w.left--
		}
	}
	w.queue = slices.Delete(w.queue, 0, taken)
	if len(b.errands) > 0 {
		b.since, w.began = time.Now(), true
		return true
	}
	w.active = slices.DeleteFunc(w.active, func(other *batch) bool { return other == b })
	if b.stuck {
		b.stuck = false
		w.stuck--
		w.slots.free()
	}
	return false
}

// send sends the calls that were taken. Their callers may leave, but the pipeline goes on.
func (b *batch) send() {
	c := b.conn
	b.calls = b.calls[:0]
	for _, e := range b.errands {
		b.calls = append(b.calls, e.question.Call)
	}
	b.replies = slices.Grow(b.replies[:0], len(b.calls))[:len(b.calls)]
	bounded := driver.Bound(context.Background(), c.CommandTimeout)
	c.driver.Pipe(&bounded, b.errands[0].question.node, b.calls, nil, b.replies)
	for i, e := range b.errands {
		r := b.replies[i]
		c.note(r.Err)
		if c.cluster && elsewhere(r.Err) {
			c.tasks.Run(task.Func(func() { c.sendAgain(&bounded, e) }))
			continue
		}
		e.over(r, true)
		c.tasks.End()
	}
	clear(b.errands)
	clear(b.calls)
	clear(b.replies)
}

// elsewhere reports whether a call that a node did not run may succeed by itself: then the driver looks for the node again, and
// follows redirections.
func elsewhere(err *fault.Error) bool {
	if err == nil {
		return false
	}
	return err.Fate == fault.NotSent || err.Fate == fault.Rejected && slices.Contains([]string{"MOVED", "ASK", "READONLY"}, err.Code)
}

// sendAgain sends a call of a batch by itself, within the time that the batch has left.
func (c *Conn) sendAgain(bounded context.Context, e *errand) {
	r := c.driver.Run(bounded, nil, e.question.Call)
	c.note(r.Err)
	e.over(r, true)
	c.tasks.End()
}
