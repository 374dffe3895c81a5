package client

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
)

// Wait is how one call waits: for a lock, for a latch, for the set-up of a semaphore, or for the reply to a call that counts once.
// These calls share three rules:
//
//   - A short wait does not cut the first question off, which lasts until a bound: rule L.7.
//   - From its first sleep until its end, the call counts as waiting: see [Wait.Sleeps].
//   - The error of its end is made of what Redis has said: see [Ended].
//
// It belongs to one goroutine.
type Wait struct {
	client *Client

	bound  clock.Instant // when the first question must be over, although Redis has not answered; zero means that its context says so
	acks   time.Duration // how much of the time until the bound is for replicas
	single bool          // there is no other question
	setsUp bool          // the caller sets a semaphore up that nobody has set up

	// For calls that count once.

	brief bool            // it is over within a command timeout, so it does not count as waiting
	lasts time.Duration   // as an unlock, it works after Close, and is repeated in the background until it is that old; zero means neither
	stop  <-chan struct{} // closing it ends the pauses, and the wait for a slot; nil means that only Close does, unless the call lasts
	known outcome.Record  // what the questions have shown

	slept clock.Instant // when it first slept; zero means that it has not
}

// newWait returns the wait of a call for a lock or a latch, given the time that replicas have to acknowledge it.
func (l *Lock) newWait(ctx context.Context, t *Terms, acks time.Duration) Wait {
	w := Wait{client: l.client}
	if t.Limited || t.Ticket != "" || !t.By.IsZero() {
		w.bound, w.acks, w.single = l.bound(ctx, t, acks), acks, t.Single()
	}
	return w
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
		q.Within = max(w.bound.Sub(clock.Now()), time.Millisecond)
	}
}

// pause sleeps before a question is repeated. It reports false if the wait ended meanwhile.
func (w *Wait) pause(ctx context.Context, d time.Duration) bool {
	w.Sleeps()
	stop := w.stop
	if stop == nil && w.lasts == 0 {
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
	return context.WithDeadlineCause(ctx, end, errWaitOver)
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

// AttemptTime returns how long a first attempt may take.
func (l *Lock) AttemptTime(wait time.Duration) time.Duration {
	return max(wait, l.client.cfg.Table.Floor())
}
