package transport

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock/internal/wire"
)

// Together gathers questions that one caller asks at the same time: for each node, they go out in one pipeline. Calls that cannot
// be gathered go out side by side. It belongs to one goroutine.
type Together struct {
	Conn  *Conn // through which it sends
	lanes []*lane
	asked [][]*errand // by the lane
}

// Add adds a question, which goes out with [Together.Send] at the latest. The function that Add returns waits for the reply, as [Conn.Ask]
// does. It must be called after Send. way is the same for all questions of one pipeline, and -1 for a call that goes out by itself.
func (t *Together) Add(ctx context.Context, q Question, late Late) (await func() wire.Reply, way int) {
	c := t.Conn
	c.prepare(&q)
	lane := c.laneFor(ctx, &q)
	if err := ctx.Err(); err != nil { // asked before anything begins: it may panic
		return func() wire.Reply { return wire.Reply{N: -1, Err: notSent(err)} }, -1
	}
	if !c.tasks.Keep() {
		return func() wire.Reply { r, _ := c.send(ctx, &q, nil, nil); return r }, -1
	}
	e := c.newErrand(&q, late)
	expired := c.expiry(e, lane)
	await = func() wire.Reply { return c.await(ctx, e, lane, expired) }
	if lane == nil {
		c.runAside(ctx, e)
		return await, -1
	}
	e.state.Store(seeking)
	if way = slices.Index(t.lanes, lane); way < 0 {
		way = len(t.lanes)
		t.lanes, t.asked = append(t.lanes, lane), append(t.asked, nil)
	}
	t.asked[way] = append(t.asked[way], e)
	return await, way
}

// Send sends the questions that were added since it was last called.
func (t *Together) Send() {
	for way, lane := range t.lanes {
		errands := t.asked[way]
		if t.asked[way] = nil; len(errands) > 0 {
			t.Conn.join(lane, errands...)
		}
	}
}
