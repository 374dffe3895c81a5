package client

import (
	"context"
	"log/slog"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
)

// Log logs an entry, on a worker, because a log handler may block. It implements [notice.Receiver].
func (c *Client) Log(e notice.Entry) {
	c.reports.Event(e.Event, e.Lock, e.Err)
	c.write(e, c.Aside)
}

// LogHere logs an entry in place, for a caller that may wait for the log handler. It runs code of the user, so no mutex may be
// held.
func (c *Client) LogHere(e notice.Entry) { c.write(e, func(log func()) { log() }) }

// write logs an entry, unless such entries come too often. No entry contains a holder field or the client's id.
func (c *Client) write(e notice.Entry, run func(log func())) {
	dropped, ok := c.log.allow(e.Message.Text, e.Lock, clock.Now())
	if !ok {
		return
	}
	run(func() {
		attrs := make([]slog.Attr, 0, 3)
		if e.Lock = fault.Cut(e.Lock); e.Lock != "" {
			attrs = append(attrs, slog.String("lock", e.Lock))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		if dropped > 0 {
			attrs = append(attrs, slog.Int("suppressed", dropped))
		}
		c.cfg.Logger().LogAttrs(context.Background(), e.Message.Level, "rlock: "+e.Message.Text, attrs...)
	})
}
