package transport

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// maxRedirects is how often a call that replicas acknowledge is sent again to where its slot is said to be.
const maxRedirects = 4

// sendAcked sends a call, and waits for replicas to acknowledge it.
func (c *Conn) sendAcked(ctx context.Context, call wire.Call) wire.Reply {
	for retries := 1; ; retries++ {
		r := c.sendAckedOnce(ctx, call)
		if r.Err == nil {
			return r
		}
		c.note(r.Err)
		if retries == maxRedirects || r.Err.Code != "MOVED" || !c.cluster {
			return r
		}
		<-time.After(backoff(retries)) // until the topology is new
	}
}

// sendAckedOnce sends a call and its WAIT to the node of the call's key: WAIT is about the writes of its own connection.
func (c *Conn) sendAckedOnce(ctx context.Context, call wire.Call) wire.Reply {
	node, err := c.driver.Node(ctx, call.Key())
	if err != nil {
		return wire.Reply{N: -1, Err: unsent(err)}
	}
	var out [1]wire.Reply
	c.driver.Pipe(ctx, node, []wire.Call{call}, c.Acks, out[:])
	return out[0]
}

// backoff returns a pause that doubles from 10 ms to 1 s, less up to half of it by chance.
func backoff(retries int) time.Duration {
	d := min(10*time.Millisecond<<min(max(retries-1, 0), 16), time.Second)
	return d - rand.N(d/2+1)
}
