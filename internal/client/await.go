package client

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// awaiting is a call that waits until Redis says yes: that a latch is open, or that it has taken permits. It asks, and asks again after
// each message of a channel, after each confirmation of the subscription, and every poll interval. Nobody stands in a line, as with
// Redisson.
type awaiting struct {
	Wait

	lock    *Lock
	channel string
	call    wire.Call
	says    func(n int64) (yes bool) // what a reply means; it notes a no in the wait
	turns   *turns                   // has those of this process that were refused ask one at a time; nil means that all ask

	turn     *queue.Waiter[string, struct{}]
	wake     chan struct{} // nil means that it does not listen
	told     bool          // whether Redis has said no
	unset    bool          // whether that was because nobody has set the semaphore up
	doubt    bool          // whether a command may still be carried out, or was and nobody knows
	failures int           // how many questions have failed in a row
	epoch    uint64        // of the channel, before the latest question
	next     clock.Instant // when to ask at the latest; after failures, at the earliest
	seen     notice.Seen
}

// turns has the calls of one client that wait for the same permits.
type turns = queue.Local[string, struct{}]

// await waits, given the terms of the call, which have no error.
func (a *awaiting) await(ctx context.Context, t *Terms, seen *report.Span) error {
	c := a.lock.client
	switch {
	case ctx.Err() != nil:
		return a.lock.named(EndOf(ctx), t.Op)
	case c.IsStopping() || !c.tasks.Begin():
		return a.lock.wrap(fault.ErrClosed, t.Op)
	}
	defer c.tasks.End()
	c.used()
	waiting, stop := t.waiting(ctx)
	defer stop()
	defer func() { // also if a method of a context panics
		a.turn.Leave()
		if a.wake != nil {
			c.hub.Unlisten(a.channel, a.wake)
		}
		a.seen.Slept = a.slept
		seen.Saw(a.seen)
		a.End()
	}()
	inner, until := seen.Context(ctx), seen.Context(waiting)
	limit := func() context.Context {
		if a.told {
			return until
		}
		return inner // a short wait does not cut the first question off
	}
	for {
		if yes, err := a.ask(limit()); yes || err != nil {
			return a.lock.wrap(err, t.Op)
		}
		if err := c.hub.Refused(a.channel); err != nil { // nobody would wake it
			return a.lock.wrap(err, t.Op)
		}
		for again := false; !again; {
			switch {
			case ctx.Err() == nil && c.IsStopping():
				return a.lock.wrap(fault.ErrClosed, t.Op)
			case a.over(limit()):
				return a.lock.named(a.lock.ended(ctx, a.known.At(clock.Now(), c.cfg.Table.Floor()), 0), t.Op)
			}
			again = a.sleep(limit())
		}
	}
}

// over reports whether the wait is over.
func (a *awaiting) over(limit context.Context) bool {
	return limit.Err() != nil || a.single || a.unset && a.setsUp || !a.told && a.bound != 0 && clock.Now() >= a.bound
}

// ask asks once. An error says why Redis will not answer.
func (a *awaiting) ask(limit context.Context) (yes bool, err error) {
	c := a.lock.client
	a.epoch = c.hub.Epoch(a.channel)
	q := transport.Question{Call: a.call, Slot: transport.QuerySlot, Stop: c.stopping}
	if !a.told {
		a.first(&q)
	}
	a.seen.Questions++
	a.known.Asked(0, clock.Now())
	r := c.conn.Ask(limit, q, nil)
	now := clock.Now()
	a.doubt = a.doubt || r.Err.InDoubt()
	switch {
	case r.Err == nil:
		a.failures, a.next = 0, now.Add(c.cfg.Table.Poll())
		yes = a.says(r.N)
		a.told = !yes
	case !r.Err.Replied() && (limit.Err() != nil || q.Within > 0 && now >= a.bound || c.IsStopping()):
		a.failed(limit, r.Err)
	case !mayPass(r.Err):
		return false, r.Err
	default:
		a.known.Failed(r.Err)
		a.failures++
		a.next = now.Add(c.cfg.Table.Retry(a.failures))
	}
	return yes, nil
}

// sleep sleeps until there is something to do, and reports whether that is to ask. One that waits for its turn asks when it comes.
func (a *awaiting) sleep(limit context.Context) (asks bool) {
	c := a.lock.client
	a.Sleeps()
	if a.unset { // one behind it may be about to set the semaphore up
		a.turn.Leave()
		a.turn = nil
	} else if a.failures == 0 && a.turns != nil && a.turn == nil {
		if a.turn = a.turns.Join(a.channel); a.turn.Head() != nil {
			return Sleep(-1, a.turn.Head(), nil, limit.Done(), c.stopping) == table.ByNews
		}
	}
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
		c.hub.Listen(a.channel, a.wake, a.epoch)
	}
	wake, until := a.wake, a.next
	if a.failures > 0 {
		wake = nil // a message does not hasten it
	}
	if a.bound != 0 && !a.told {
		until = min(until, a.bound)
	}
	why := Sleep(max(until.Sub(clock.Now()), 50*time.Microsecond), nil, wake, limit.Done(), c.stopping)
	return why == table.ByMessage || why == table.ByTime && clock.Now() >= a.next
}
