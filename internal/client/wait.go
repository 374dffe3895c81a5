package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
)

// Wait is how one call waits: for a lock, for a latch, for the set-up of a semaphore, for the reply to a call that counts once, or for the
// members of a group. These calls share four rules:
//
//   - A short wait does not cut the first question off, which lasts until a bound: rule L.7.
//   - A silence of Redis is reported if the call goes on: see [Wait.GoesOn].
//   - From its first sleep until its end, the call counts as waiting: see [Wait.Sleeps].
//   - The error of its end is made of what Redis has said: see [Ended].
//
// It belongs to one goroutine.
type Wait struct {
	client *Client
	name   string // what it waits for, in log lines
	group  bool   // the name is the description of a group

	bound    clock.Instant // when the first question must be over, although Redis has not answered; zero means that its context says so
	connects bool          // that question may have to connect first, and the bound allows for that
	single   bool          // there is no other question
	setsUp   bool          // the caller sets a semaphore up that nobody has set up

	// For calls that count once.

	brief bool            // it is over within a command timeout, so it does not count as waiting
	stop  <-chan struct{} // closing it ends the pauses, and the wait for a slot; nil means that only Close does
	known outcome.Record  // what the questions have shown

	silence outcome.Silence
	silent  time.Duration // after how long the silence is reported; zero means the command timeout
	slept   clock.Instant // when it first slept; zero means that it has not
}

// NewWait returns the wait of a group, given the client that reports for it, its description, and how long a silence must last to be reported.
func NewWait(client *Client, description string, silent time.Duration) Wait {
	return Wait{client: client, name: description, group: true, silent: silent}
}

// newWait returns the wait of a call for a lock or a latch, given the time that replicas have to acknowledge it.
func (l *Lock) newWait(ctx context.Context, t *Terms, acks time.Duration) Wait {
	w := Wait{client: l.client, name: l.h.Name}
	if t.Limited || t.Ticket != "" || !t.By.IsZero() {
		w.bound, w.single = l.bound(ctx, t, acks), t.Single()
	}
	if w.single {
		_, limited := ctx.Deadline()
		w.connects = (!limited || !t.By.IsZero()) && l.client.conn.Connects(l.h.Key.Name)
	}
	return w
}

// GoesOn notes that the call goes on after a question, which was sent at a moment. answered means that Redis gave a usable answer. If not, err
// is the reason. Once the silence has lasted for the command timeout, it is logged and observers are told; then only observers are, each minute.
func (w *Wait) GoesOn(sent clock.Instant, answered bool, err error) {
	c := w.client
	switch w.silence.Noticed(sent, clock.Now(), cmp.Or(w.silent, c.cfg.Table.CommandTimeout), answered) {
	case 0:
	case 1:
		c.Log(notice.Entry{Event: notice.Unanswered, Lock: w.name, Message: notice.LogUnanswered, Err: err, Whole: w.group})
	default:
		c.reports.Event(notice.Unanswered, w.name, err)
	}
}

// Sleeps counts the call among the waiting calls of its client, until End.
func (w *Wait) Sleeps() {
	if w.slept == 0 && !w.brief {
		w.slept = clock.Now()
		w.client.table.Waits(1)
	}
}

// End ends the wait. A call that sleeps again after that counts again.
func (w *Wait) End() {
	if w.slept != 0 {
		w.slept = 0
		w.client.table.Waits(-1)
	}
}

// first prepares the first question of the call, or another one if Redis has not answered yet.
func (w *Wait) first(q *transport.Question) {
	if w.bound != 0 {
		q.Within, q.Connects = max(w.bound.Sub(clock.Now()), time.Millisecond), w.connects
	}
}

// pause sleeps before a question is repeated. It reports false if the wait ended meanwhile.
func (w *Wait) pause(ctx context.Context, d time.Duration) bool {
	w.Sleeps()
	stop := w.stop
	if stop == nil {
		stop = w.client.tasks.Closed()
	}
	return Sleep(d, nil, nil, ctx.Done(), stop) == table.ByTime
}

// Sleep sleeps for a time, or without limit if that is negative. It returns early when there is news or a message, when the wait ends, or
// when the client stops, and says which.
func Sleep(d time.Duration, news, message, end, stop <-chan struct{}) table.Cause {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-news:
		return table.ByNews
	case <-message:
		return table.ByMessage
	case <-over:
		return table.ByTime
	case <-end:
		return table.Ended
	case <-stop:
		return table.Closed
	}
}

// Until returns a context that ends at a moment, too. The zero moment means ctx itself.
func Until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(Calm(ctx), end, errWaitOver)
}

// waiting returns a context that also ends when the wait is over.
func (t *Terms) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if !t.Limited || t.Wait == 0 {
		return ctx, func() {}
	}
	return Until(ctx, time.Now().Add(t.Wait))
}

// errWaitOver is the cause of a wait that has taken as long as Wait said.
var errWaitOver = errors.New("wait is over")

// bound returns when a call with a limit has to return, even if its first question has no reply.
func (l *Lock) bound(ctx context.Context, t *Terms, acks time.Duration) clock.Instant {
	cfg, now := &l.client.cfg.Table, clock.Now()
	_, limited := ctx.Deadline()
	switch {
	case t.Ticket != "":
		return now.Add(cfg.CommandTimeout)
	case !t.By.IsZero() && t.Single():
		return min(clock.Of(t.By).Add(acks), now.Add(cfg.CommandTimeout))
	case !t.By.IsZero():
		return clock.Of(t.By).Add(acks)
	case t.Wait > 0:
		return now.Add(l.AttemptTime(t.Wait)).Add(acks)
	case limited:
		return now.Add(cfg.CommandTimeout)
	}
	return now.Add(min(l.AttemptTime(0)+acks, cfg.CommandTimeout))
}

// AttemptTime returns how long a first attempt may take. The time that it takes to connect does not count where the user sets no limit.
func (l *Lock) AttemptTime(wait time.Duration) time.Duration {
	if wait == 0 && l.client.conn.Connects(l.h.Key.Name) {
		return l.client.cfg.Table.CommandTimeout
	}
	return max(wait, l.client.cfg.Table.Floor())
}
