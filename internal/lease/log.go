package lease

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
)

// lineLimit drops the log lines of a client that come too often. It is safe for concurrent use.
type lineLimit struct {
	mu    sync.Mutex // a leaf
	limit table.LineLimit
}

func (l *lineLimit) allow(line *table.Line) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit.Allow(line.Message.Text, line.Lock, clock.Now())
}

// Log logs a line, on a worker, because a log handler may block. It implements [table.Told].
func (m *Manager) Log(line table.Line) {
	m.reports.Event(line.Sort, line.Lock, line.Err)
	m.logLine(line, m.Aside)
}

// LogHere logs a line in place, for a caller that may wait for the log handler. It runs code of the user, so no mutex may be
// held.
func (m *Manager) LogHere(line table.Line) { m.logLine(line, func(log func()) { log() }) }

// logLine has the line logged unless it comes too often. No line contains a holder field or the client's id.
func (m *Manager) logLine(line table.Line, run func(log func())) {
	dropped, ok := m.log.allow(&line)
	if !ok {
		return
	}
	run(func() {
		defer m.handlerPanicked()
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
		m.cfg.Logger().LogAttrs(context.Background(), line.Message.Level, "rlock: "+line.Message.Text, attrs...)
	})
}

// panicked logs, once, that code of the user panicked where it ran for this client. The command that it ran for has failed.
func (m *Manager) panicked(err error) {
	if m.panics.CompareAndSwap(false, true) {
		m.Log(table.Line{Message: notice.LogUserPanicked, Err: err})
	}
}

// handlerPanicked recovers a panic of a log handler, and says so on the standard error, once: no other log is known.
func (m *Manager) handlerPanicked() {
	if p := recover(); p != nil && m.mute.CompareAndSwap(false, true) {
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
		var n table.Notices
		l.m.table.Suspect(a, &n)
		n.Deliver(l.m)
	}).Stop
}
