package client

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// onMessage passes a message to the table. The hub calls it in the order of the messages.
func (c *Client) onMessage(channel, payload string, arrived clock.Instant) {
	message, ok := wire.ParseMessage(payload)
	if c.core.Stray(channel, payload) || !ok {
		return
	}
	var n notice.List
	c.table.Hear(channel, message, arrived, &n)
	n.Deliver(c)
}

// onFreed tells the table that a lock is free, by the channel on which that was told, or may have been before the client watched it.
func (c *Client) onFreed(channel string) {
	var n notice.List
	c.table.Freed(channel, &n)
	n.Deliver(c)
}

// onUnwatched tells the table that the hub does not watch a channel any more.
func (c *Client) onUnwatched(channel string) {
	var n notice.List
	c.table.Unwatched(channel, &n)
	n.Deliver(c)
}

// Pump implements [notice.Receiver]. Close waits for the command, because others may rely on it. The caller, which may be the hub's
// reader, never does.
func (c *Client) Pump(channel string, after time.Duration) {
	kept := c.tasks.Keep()
	c.Aside(func() {
		if kept {
			defer c.tasks.End()
		}
		if after > 0 {
			time.Sleep(after)
		}
		r := c.conn.Ask(context.Background(), transport.Question{Call: c.table.PumpCall(channel)}, nil)
		var n notice.List
		c.table.Pumped(channel, r, clock.Now(), &n)
		n.Deliver(c)
	})
}
