package client

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/wire"
)

// prepareWithin is [Semaphore.prepare] for an acquisition, within the limits of that acquisition. A single attempt sends one command. Any
// other waits until Redis answers, or until the bound; a bound of 0 means no limit. The end of ctx and a shutdown end it. known is what
// the acquisition has learned before.
func (s *Semaphore) prepareWithin(ctx context.Context, bound clock.Instant, op string, single bool, known outcome.Record) error {
	c, bounded := s.client, ctx
	if bound != 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithDeadlineCause(Calm(ctx), bound.Time(), errWaitOver)
		defer cancel()
	}
	var silence outcome.Silence
	for start := clock.Now(); !s.ready.Load(); {
		switch {
		case ctx.Err() != nil && known == (outcome.Record{}):
			return s.named(EndOf(ctx), op)
		case c.IsStopping() || !c.tasks.Begin():
			return s.wrap(fault.ErrClosed, op)
		}
		number := c.table.Number()
		r := func() wire.Reply {
			defer c.tasks.End() // also if the user's context panics
			return c.once(bounded, s.calls().SetUp(number, s.total, 0), s.calls().Mark(number), limits{c.stopping, single, &known})
		}()
		if r.Err == nil {
			s.noteSetUp(r.N)
			return nil
		}
		switch {
		case bounded.Err() != nil:
			return s.named(s.ended(ctx, known.At(clock.Now(), c.cfg.Table.Floor()), 0), op)
		case c.IsStopping():
			return s.wrap(fault.ErrClosed, op)
		case single || !mayPass(r.Err):
			return s.wrap(r.Err, op)
		}
		c.TellUnanswered(silence.Noticed(start, clock.Now(), c.cfg.Table.CommandTimeout, false), s.h.Name, false, r.Err)
	}
	return nil
}

// prepare sets the semaphore up if the handle was made with a total, once.
func (s *Semaphore) prepare(ctx context.Context, op string) error {
	if s.total < 0 || s.ready.Load() {
		return nil
	}
	before, err := s.setUp(ctx, op, s.total, 0)
	if err != nil {
		return err
	}
	s.noteSetUp(before)
	return nil
}

// noteSetUp notes that the semaphore is set up, and how many permits there were before it was set up.
func (s *Semaphore) noteSetUp(before int64) {
	known := !s.h.Kind.Lasting // how many permits there are in all, out and free
	if s.ready.CompareAndSwap(false, true) && known && before >= 0 && before != s.total {
		s.Log(notice.LogOtherTotal, fmt.Errorf("it has %d permits, and the Total is %d", before, s.total))
	}
}

// setUp sets the semaphore up, and returns how many permits it had before. A negative number means that nobody had set it up.
func (s *Semaphore) setUp(ctx context.Context, op string, total int64, lifetime time.Duration) (before int64, err error) {
	return s.once(ctx, op, s.calls().Mark, func(number int64) wire.Call { return s.calls().SetUp(number, total, lifetime) })
}
