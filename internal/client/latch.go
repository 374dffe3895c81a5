package client

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/latch"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Latch is a count-down latch of one client. The zero value is no latch: its methods return [fault.ErrInvalidOption]. It is safe
// for concurrent use once [Latch.Init] has returned.
type Latch struct {
	lock  Lock // its name, and the texts of its errors
	names *wire.Latch
}

// Init makes the zero Latch a handle on a latch, given the user's name for it and its name in Redis.
func (l *Latch) Init(c *Client, name, inRedis string) {
	l.lock.client = c
	l.lock.h.Kind, l.lock.h.Name, l.lock.h.Key.Name = wire.CountDown, name, inRedis
	l.lock.err = wire.CheckLatch(inRedis, c.driver.Info().Cluster)
	l.names = wire.NewLatch(inRedis, c.cfg.Table.ClientID)
}

// Lock returns what has the name of the latch, or nil.
func (l *Latch) Lock() *Lock {
	if l == nil {
		return nil
	}
	return &l.lock
}

// Ready returns how many calls of this client await the latch, and reports whether a message that it has opened would now let
// all of them through.
func (l *Latch) Ready() (waiting int, all bool) {
	c := l.lock.client
	return c.latches.Ready(l.names.Channel, c.hub.Since(l.names.Channel))
}

// check returns what is wrong with the handle itself.
func (l *Latch) check(op string) error {
	if l == nil || l.lock.client == nil {
		what := "of a nil or zero CountDownLatch, or of a nil or zero Client"
		return &fault.OpError{Op: op, What: what, Err: fault.ErrInvalidOption}
	}
	return l.lock.wrap(l.lock.err, op)
}

// TrySetCount sets the count if there is none, and reports whether it did: see the root package.
func (l *Latch) TrySetCount(ctx context.Context, count int64) (bool, error) {
	const op = "try set count"
	if err := l.check(op); err != nil {
		return false, err
	}
	if count < 1 || count > wire.MaxCount {
		err := fmt.Errorf("%w: count %d out of range [1, %d]", fault.ErrInvalidOption, count, int64(wire.MaxCount))
		return false, l.lock.wrap(err, op)
	}
	set, err := l.once(ctx, op, func(number int64) wire.Call { return l.names.TrySet(number, count) })
	return err == nil && set == 1, err
}

// CountDown counts down by one, and returns the count that is left: see the root package.
func (l *Latch) CountDown(ctx context.Context) (left int64, err error) {
	const op = "count down"
	if err := l.check(op); err != nil {
		return 0, err
	}
	moment := l.lock.client.latches.Moment()
	if left, err = l.once(ctx, op, l.names.CountDown); err != nil {
		return 0, err
	}
	l.seen(left, moment)
	return left, nil
}

// Delete deletes the latch, and reports whether there was one: see the root package.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	const op = "delete"
	if err := l.check(op); err != nil {
		return false, err
	}
	moment := l.lock.client.latches.Moment()
	deleted, err := l.once(ctx, op, l.names.Delete)
	if err != nil {
		return false, err
	}
	l.seen(0, moment)
	return deleted == 1, nil
}

// Count returns the count: see the root package.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	const op = "count"
	if err := l.check(op); err != nil {
		return 0, err
	}
	moment := l.lock.client.latches.Moment()
	r, err := l.lock.query(ctx, op, l.names.Count(), nil)
	if err != nil {
		return 0, err
	}
	l.seen(r.N, moment)
	return r.N, nil
}

// seen lets those through who await the latch in this process, and came before a moment after which the latch had a count. They
// need not wait for a message.
func (l *Latch) seen(count int64, moment uint64) {
	if count <= 0 {
		l.lock.client.latches.Seen(l.names.Channel, moment)
	}
}

// once sends a call that counts once, given its number.
func (l *Latch) once(ctx context.Context, op string, call func(number int64) wire.Call) (int64, error) {
	return l.lock.once(ctx, op, l.names.Mark, call)
}

// Await waits until the latch is open: see the root package.
func (l *Latch) Await(ctx context.Context, t Terms) error {
	var seen *observe.Span
	if l != nil {
		seen = l.lock.span(ctx, &t)
	}
	err := l.observed(ctx, t, seen)
	seen.End(observe.Acquired{}, err)
	return err
}

// observed is Await, for those who may observe it.
func (l *Latch) observed(ctx context.Context, t Terms, seen *observe.Span) error {
	if err := l.check(t.Op); err != nil {
		return err
	}
	c := l.lock.client
	switch {
	case t.Err != nil:
		return l.lock.wrap(t.Err, t.Op)
	case ctx.Err() != nil:
		return l.lock.named(EndOf(ctx), t.Op)
	case c.IsStopping() || !c.tasks.Begin():
		return l.lock.wrap(fault.ErrClosed, t.Op)
	}
	defer c.tasks.End()
	c.used()
	a := awaiting{latch: l, Wait: l.lock.newWait(ctx, &t, 0), Waiter: c.latches.Join(l.names.Channel, c.hub.Orders(), t.Limited)}
	waiting, stop := t.waiting(ctx)
	defer stop()
	open, last, err := a.all(seen.Context(ctx), seen.Context(waiting))
	seen.Saw(a.seen)
	switch {
	case open:
		return nil
	case err != nil:
		return l.lock.wrap(err, t.Op)
	}
	return l.lock.named(l.lock.ended(ctx, last, 0), t.Op)
}

// awaiting is one call of Await.
type awaiting struct {
	*latch.Waiter
	Wait

	latch *Latch
	tried bool   // whether a question of its own failed
	epoch uint64 // of the channel, before its latest question
	seen  notice.Seen
}

// all waits, and leaves, also if a method of a context panics. Another waiter then asks, for one whose question has no reply.
func (a *awaiting) all(ctx, waiting context.Context) (open bool, last outcome.Result, err error) {
	c, over := a.latch.lock.client, false
	defer func() {
		if !over {
			a.Abandoned(false)
		}
		var unlisten chan struct{}
		if last, unlisten = a.Leave(clock.Now()); unlisten != nil {
			c.hub.Unlisten(a.latch.names.Channel, unlisten)
		}
		a.seen.Slept = a.slept
		a.End()
	}()
	open, err = a.await(ctx, waiting)
	over = true
	return open, last, err
}

// await carries out the steps of the waiter. It reports whether the latch was open. If not, the error is why Redis does not say
// so; nil means that the wait is over.
func (a *awaiting) await(ctx, waiting context.Context) (open bool, err error) {
	c := a.latch.lock.client
	for {
		now := clock.Now()
		limit, told := waiting, a.Told()
		if !told {
			limit = ctx // a short wait does not cut the first question off
		}
		step := a.Next(now)
		over := limit.Err() != nil || a.single && (told || a.tried) || !told && a.bound != 0 && now >= a.bound
		switch {
		case step.Do == latch.Done:
			return step.Err == nil, step.Err
		case c.IsStopping():
			err = fault.ErrClosed
			if ctx.Err() != nil {
				err = nil
			}
			return false, err
		case over && step.Do == latch.Ask:
			a.Abandoned(false)
			return false, nil
		case over:
			return false, nil
		case step.Do == latch.Ask:
			a.ask(limit, told)
		default:
			a.sleep(limit, &step, told)
		}
	}
}

// ask asks for the count.
func (a *awaiting) ask(limit context.Context, told bool) {
	c := a.latch.lock.client
	a.epoch = c.hub.Epoch(a.latch.names.Channel)
	q := transport.Question{Call: a.latch.names.Count(), Slot: transport.QuerySlot, Stop: c.stopping}
	if !told {
		a.first(&q)
	}
	a.seen.Questions++
	sent := clock.Now()
	r := c.conn.Ask(limit, q, nil)
	now := clock.Now()
	switch {
	case r.Err == nil:
		a.Answered(r.N, now)
		a.GoesOn(sent, true, nil)
	case !r.Err.Replied() && (limit.Err() != nil || q.Within > 0 && now >= a.bound || c.IsStopping()):
		a.Abandoned(r.Err.Fate == fault.NotSent)
	default:
		a.Failed(r.Err, now)
		a.tried = true
		if mayPass(r.Err) {
			a.GoesOn(sent, false, r.Err)
		}
	}
}

// sleep sleeps until there is something to do. The one waiter that asks listens for messages.
func (a *awaiting) sleep(limit context.Context, step *latch.Step, told bool) {
	c := a.latch.lock.client
	a.Sleeps()
	if step.Wake != nil {
		channel := a.latch.names.Channel
		if step.Listen {
			c.hub.Listen(channel, step.Wake, a.epoch)
		}
		c.hub.Renew(channel, step.Orders)
	}
	now := clock.Now()
	until := step.Until
	if a.bound != 0 && !told && (until == 0 || a.bound < until) {
		until = a.bound
	}
	d := time.Duration(-1)
	if until != 0 {
		d = max(until.Sub(now), 50*time.Microsecond)
	}
	if Sleep(d, step.Bell, step.Wake, limit.Done(), c.stopping) == table.ByMessage {
		a.OnMessage()
	}
}
