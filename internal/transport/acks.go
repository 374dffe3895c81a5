package transport

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

// maxRedirects is how often a call that replicas acknowledge is sent again, after an error that its slot is at another node.
const maxRedirects = 4

// sendAcked sends a call, and waits for replicas to acknowledge it.
func (c *Conn) sendAcked(ctx context.Context, call wire.Call) wire.Reply {
	bounded := driver.Bound(ctx, c.CommandTimeout)
	for retries := 1; ; retries++ {
		r := c.sendAckedOnce(&bounded, call)
		if r.Err == nil {
			return r
		}
		c.note(r.Err)
		if retries == maxRedirects || r.Err.Code != "MOVED" || !c.cluster {
			return r
		}
		<-time.After(clock.Backoff(retries, time.Second, nil)) // until the topology is new
	}
}

// sendAckedOnce sends a call and its WAIT to the node of the call's key: WAIT is about the writes of its own connection.
func (c *Conn) sendAckedOnce(ctx context.Context, call wire.Call) wire.Reply {
	node, err := c.driver.Node(ctx, call.Key())
	if err != nil {
		return wire.Reply{N: -1, Err: unsent(err)}
	}
	acks := *c.Acks
	if acks.Replicas < 0 {
		if acks.Replicas, err = c.onlineOf(ctx, node); err != nil {
			return wire.Reply{N: -1, Err: err}
		}
	}
	var out [1]wire.Reply
	c.driver.Pipe(ctx, node, []wire.Call{call}, &acks, out[:])
	return out[0]
}
