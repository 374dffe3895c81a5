package transport

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// batch takes calls from the queue of a lane and sends them, one pipeline after the other, until the queue is empty. Batches are
// pooled.
type batch struct {
	conn  *Conn
	lane  *lane
	since clock.Instant // when its pipeline was sent, zero before the first. lane.mu guards it and stuck
	stuck bool          // it holds a connection slot, and does not count against Conn.batches

	errands []*errand
	calls   []wire.Call
	replies []wire.Reply
}

func (c *Conn) newBatch(w *lane) *batch {
	b, ok := c.pool.Get().(*batch)
	if !ok {
		b = &batch{conn: c}
	}
	b.lane = w
	return b
}

// Run sends until the queue is empty, or calls have moved. It runs on a worker. It lets goroutines that are about to call run
// first, so that their calls join the pipeline. Without such goroutines Gosched costs almost nothing.
func (b *batch) Run() {
	for goesOn := true; goesOn; {
		runtime.Gosched()
		goesOn = b.take() && b.send()
	}
	b.lane, b.since = nil, 0
	b.conn.pool.Put(b)
}

// take takes calls from the queue. If there is none for it, or if the batch is stuck, it ends the batch and returns false.
func (b *batch) take() bool {
	w := b.lane
	w.mu.Lock()
	defer w.mu.Unlock()
	b.errands = b.errands[:0]
	switch {
	case b == w.urgent:
		w.drop(func(e *errand) bool {
			return e.state.Load() == abandoned || len(b.errands) < batchSize && b.conn.needsNoSlot(e) && b.takes(e)
		})
	case !b.stuck:
		taken := 0
		for ; taken < len(w.queue) && len(b.errands) < batchSize; taken++ {
			if !b.takes(w.queue[taken]) {
				w.left--
			}
		}
		w.shift(taken)
		w.took = w.took || len(b.errands) > 0
	}
	if len(b.errands) > 0 {
		b.since = clock.Now()
		b.watch()
		return true
	}
	b.end()
	return false
}

// takes takes a call, unless its caller has left. lane.mu must be held.
func (b *batch) takes(e *errand) bool {
	if !e.proceed(running) {
		return false
	}
	b.errands = append(b.errands, e)
	return true
}

// late reports whether the pipeline of a batch has been under way for patience or longer. lane.mu must be held.
func (b *batch) late() bool {
	return !b.stuck && b.since != 0 && clock.Now().Sub(b.since) >= patience
}

// watch lets relieve end the calls of a batch that become overdue, until [batch.unwatch]. lane.mu must be held.
func (b *batch) watch() {
	b.lane.sent = append(b.lane.sent, b)
	b.conn.lookAt(b.lane, b.errands[0].began.Add(b.conn.CommandTimeout))
}

// unwatch must be called before the calls of the batch end: their callers use the errands again.
func (b *batch) unwatch() {
	w := b.lane
	w.mu.Lock()
	w.sent = without(w.sent, b)
	w.mu.Unlock()
}

func without(batches []*batch, b *batch) []*batch {
	return slices.DeleteFunc(batches, func(other *batch) bool { return other == b })
}

// end takes a batch out of its lane. lane.mu must be held.
func (b *batch) end() {
	w := b.lane
	if b == w.urgent {
		w.urgent = nil
		return
	}
	w.active = without(w.active, b)
	if b.stuck {
		b.stuck = false
		w.stuck--
		w.slots.free()
	}
}

// send sends the calls that were taken. Their callers may leave, but the pipeline goes on. On a cluster, the node
// does not run calls whose keys are at other nodes: these are sent once more. Then the batch is over, and send returns false.
func (b *batch) send() (goesOn bool) {
	bounded := driver.Bound(context.Background(), b.conn.CommandTimeout)
	b.pipe(&bounded, b.errands[0].question.node, b.conn.cluster)
	goesOn = len(b.errands) == 0
	if !goesOn {
		deadline, _ := bounded.Deadline()
		b.leave()
		b.sendElsewhere(deadline)
	}
	clear(b.replies)
	return goesOn
}

// leave takes the batch out of its lane, and has another one go on there. It needs no connection to this node any more, and so no
// slot: stuck batches with all slots would otherwise wait for each other when their calls have moved.
func (b *batch) leave() {
	w := b.lane
	w.mu.Lock()
	b.end()
	if len(b.errands) > 0 {
		b.watch()
	}
	next := b.conn.begin(w)
	w.mu.Unlock()
	if next != nil {
		b.conn.tasks.Run(next)
	}
}

// pipe sends the calls and ends them with their replies. If keep is true, a call that may succeed at another node does not end: it
// stays in b.errands.
func (b *batch) pipe(ctx context.Context, at driver.Node, keep bool) {
	b.calls = b.calls[:0]
	for _, e := range b.errands {
		b.calls = append(b.calls, e.question.Call)
	}
	b.replies = slices.Grow(b.replies[:0], len(b.calls))[:len(b.calls)]
	b.conn.driver.Pipe(ctx, at, b.calls, nil, b.replies)
	b.unwatch()
	kept := 0
	for i, e := range b.errands {
		r := b.replies[i]
		b.conn.note(r.Err)
		if keep && elsewhere(r.Err) && e.state.Load() != abandoned {
			b.errands[kept], b.replies[kept] = e, r
			kept++
		} else {
			b.reply(e, r)
		}
	}
	clear(b.errands[kept:])
	clear(b.calls)
	b.errands = b.errands[:kept]
}

func (b *batch) reply(e *errand, r wire.Reply) {
	e.onReply(r, true)
	b.conn.tasks.End()
}

// elsewhere reports whether a call that a node of a cluster did not run may succeed at another one.
func elsewhere(err *fault.Error) bool {
	switch {
	case err == nil:
		return false
	case err.Fate == fault.NotSent: // but not because connections are short
		return err.Stale || !err.Transient
	}
	return err.Fate == fault.Rejected && slices.Contains([]string{"MOVED", "ASK", "READONLY"}, err.Code)
}

// sendElsewhere lets the driver find the nodes of the calls, and follow redirections. It takes a connection slot at the node of
// the first call, so that connections are left for renewals. If none is free in time, the calls end with the replies that they
// have.
func (b *batch) sendElsewhere(deadline time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if slots, free := b.slotElsewhere(ctx); free {
		defer slots.free()
		b.pipe(ctx, nil, false)
		return
	}
	b.unwatch()
	for i, e := range b.errands {
		b.reply(e, b.replies[i])
	}
}

// slotElsewhere takes a slot at the node of the first call, unless one of the calls must not wait for it.
func (b *batch) slotElsewhere(ctx context.Context) (slots slot, ok bool) {
	if slices.ContainsFunc(b.errands, b.conn.needsNoSlot) {
		return nil, true
	}
	w, _, err := b.conn.laneOf(ctx, b.errands[0].question.Call.Key())
	if err != nil {
		return nil, false
	}
	return w.slots, w.slots.takeBefore(ctx.Done())
}
