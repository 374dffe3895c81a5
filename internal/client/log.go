package client

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
)

// Log logs a line, on a worker, because a log handler may block. It implements [notice.Receiver].
func (c *Client) Log(line notice.Line) {
	c.reports.Event(line.Sort, line.Lock, line.Err)
	c.logLine(line, c.Aside)
}

// LogHere logs a line in place, for a caller that may wait for the log handler. It runs code of the user, so no mutex may be
// held.
func (c *Client) LogHere(line notice.Line) { c.logLine(line, func(log func()) { log() }) }

// TellUnanswered reports that a call goes on waiting although Redis does not answer: for a lock, by its name, or for a group. n is the
// result of [outcome.Silence.Noticed]: at 1 it is logged and observers are told, above 1 only observers are told, and 0 does nothing.
func (c *Client) TellUnanswered(n int, lock string, group bool, err error) {
	switch {
	case n == 0:
		return
	case n > 1:
		c.reports.Event(notice.Unanswered, lock, err)
		return
	}
	c.Log(notice.Line{Sort: notice.Unanswered, Lock: lock, Message: notice.LogUnanswered, Err: err, Whole: group})
}

// logLine has the line logged unless it comes too often. No line contains a holder field or the client's id.
func (c *Client) logLine(line notice.Line, run func(log func())) {
	dropped, ok := c.log.allow(line.Message.Text, line.Lock, clock.Now())
	if !ok {
		return
	}
	run(func() {
		defer c.handlerPanicked()
		attrs := make([]slog.Attr, 0, 3)
		if !line.Whole {
			line.Lock = fault.Cut(line.Lock)
		}
		if line.Lock != "" {
			attrs = append(attrs, slog.String("lock", line.Lock))
		}
		if line.Err != nil {
			attrs = append(attrs, slog.Any("error", line.Err))
		}
		if stack := fault.Stack(line.Err); stack != nil && line.Message == notice.LogUserPanicked { // once is enough
			attrs = append(attrs, slog.String("stack", string(stack)))
		}
		if dropped > 0 {
			attrs = append(attrs, slog.Int("suppressed", dropped))
		}
		c.cfg.Logger().LogAttrs(context.Background(), line.Message.Level, "rlock: "+line.Message.Text, attrs...)
	})
}

// panicked logs, once, that code of the user panicked where it ran for this client. The command that it ran for has failed.
func (c *Client) panicked(err error) {
	if c.panics.CompareAndSwap(false, true) {
		c.Log(notice.Line{Message: notice.LogUserPanicked, Err: err})
	}
}

// handlerPanicked recovers a panic of a log handler, and says so on the standard error, once: no other log is known.
func (c *Client) handlerPanicked() {
	if p := recover(); p != nil && c.mute.CompareAndSwap(false, true) {
		_, _ = fmt.Fprintf(os.Stderr, "rlock: the log handler panicked: %v\n%s", p, fault.Stack(fault.Panicked(p)))
	}
}

// suspectLater logs a possible self-deadlock when the attempt has waited for too long. It returns the function that cancels
// this.
func (l *Lock) suspectLater(a *table.Attempt) (cancel func() bool) {
	if a.Ends != 0 && a.Ends < clock.Now().Add(a.SuspectAfter) {
		return func() bool { return true } // the wait is over by then
	}
	return time.AfterFunc(a.SuspectAfter, func() {
		var n notice.List
		l.client.table.Suspect(a, &n)
		n.Deliver(l.client)
	}).Stop
}
