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
		defer c.handlerPanicked()
		attrs := make([]slog.Attr, 0, 3)
		if !e.Whole {
			e.Lock = fault.Cut(e.Lock)
		}
		if e.Lock != "" {
			attrs = append(attrs, slog.String("lock", e.Lock))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		if stack := fault.Stack(e.Err); stack != nil && e.Message == notice.LogUserPanicked { // once is enough
			attrs = append(attrs, slog.String("stack", string(stack)))
		}
		if dropped > 0 {
			attrs = append(attrs, slog.Int("suppressed", dropped))
		}
		c.cfg.Logger().LogAttrs(context.Background(), e.Message.Level, "rlock: "+e.Message.Text, attrs...)
	})
}

// onReplicas logs that replicas hang, or that none does any more.
func (c *Client) onReplicas(hang bool, err error) {
	what := notice.LogReplicasBack
	if hang {
		what = notice.LogReplicasHang
	}
	c.Log(notice.Entry{Message: what, Err: err})
}

// panicked logs, once, that code of the user panicked where it ran for this client. The command that it ran for has failed.
func (c *Client) panicked(err error) {
	if c.panics.CompareAndSwap(false, true) {
		c.Log(notice.Entry{Message: notice.LogUserPanicked, Err: err})
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
