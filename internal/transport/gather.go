package transport

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// gathers reports whether a call may be gathered. Only a holder's own acquires, counts and releases are. Queries and
// unlocks by force are rare, and a call that replicas acknowledge needs WAIT right behind it.
func (c *Conn) gathers(q *Question) bool {
	acked := q.Acked && c.Acks != nil
	return (q.Call.Script.Numbers == 0 || q.Call.Script.Short) && q.Call.Args.Holder != nil && !acked
}

// askGathered sends a call in a pipeline with the calls of other goroutines. The caller can leave without a worker in
// between. It reports false if the call has to be sent by itself.
func (c *Conn) askGathered(ctx context.Context, q *Question, late Late) (wire.Reply, bool) {
	if err := ctx.Err(); err != nil {
		return wire.Reply{N: -1, Err: notSent(err)}, !c.tasks.Retired() // after that even an ended ctx sends in place
	}
	// The limit comes first: a caller that waits right after the call is queued leaves its thread to the pipeline.
	limit, cancel := context.WithTimeout(ctx, cmp.Or(q.Within, c.CommandTimeout))
	defer cancel()
	future, ok := c.gatherer.Gather(ctx, q.Call)
	if !ok {
		return wire.Reply{}, false
	}
	if r, ok := future.Wait(limit); ok {
		c.note(r.Err)
		return r, r.Err == nil || !errors.Is(r.Err, driver.ErrNotGathered)
	}
	if late != nil {
		c.tasks.Background(func() {
			r, _ := future.Wait(context.Background())
			late.Late(r, clock.Now())
		})
	}
	return c.left(ctx), true
}
