package client

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/wire"
)

// prepareWithin is [Semaphore.prepare] for an acquisition, within its wait. A single attempt sends one command. Any other waits until Redis
// answers, or until the bound.
func (s *Semaphore) prepareWithin(ctx context.Context, op string, seen *report.Span, w *Wait) error {
	c := s.client
	switch {
	case s.ready.Load():
		return nil
	case ctx.Err() != nil && w.known == (outcome.Record{}):
		return s.named(EndOf(ctx), op)
	case c.IsStopping() || !c.tasks.Begin():
		return s.wrap(fault.ErrClosed, op)
	}
	defer c.tasks.End()
	var end time.Time
	if w.bound != 0 {
		end = w.bound.Add(-w.acks).Time() // no replica acknowledges a set-up
	}
	bounded, stop := Until(ctx, end)
	defer stop()
	w.stop = c.stopping
	defer func() {
		seen.Saw(notice.Seen{Slept: w.slept})
		w.End()
	}()
	for !s.ready.Load() {
		number := c.table.Number()
		r := c.once(seen.Context(bounded), s.calls().SetUp(number, s.total, s.lifetime), s.calls().Mark(number), w)
		switch {
		case r.Err == nil:
			s.noteSetUp(r.N)
			s.servesNew(r.N)
		case bounded.Err() != nil:
			return s.named(s.ended(ctx, w.known.At(clock.Now(), c.cfg.Table.Floor()), 0), op)
		case c.IsStopping():
			return s.wrap(fault.ErrClosed, op)
		case w.single || !mayPass(r.Err):
			return s.wrap(r.Err, op)
		}
	}
	return nil
}

// prepare sets the semaphore up if the handle was made with a total, once.
func (s *Semaphore) prepare(ctx context.Context, op string) error {
	if s.total < 0 || s.ready.Load() {
		return nil
	}
	before, err := s.setUp(ctx, op, s.total)
	if err != nil {
		return err
	}
	s.noteSetUp(before)
	return nil
}

// noteSetUp notes that the semaphore is set up, and how many permits there were before it was set up.
func (s *Semaphore) noteSetUp(before int64) {
	known := s.h.Kind == wire.Permit // how many permits there are in all, out and free
	if s.ready.CompareAndSwap(false, true) && known && before >= 0 && before != s.total {
		s.Log(notice.LogOtherTotal, fmt.Errorf("it has %d permits, and the Total is %d", before, s.total))
	}
}

// setUp sets the semaphore up, and returns how many permits it had before. A negative number means that nobody had set it up.
func (s *Semaphore) setUp(ctx context.Context, op string, total int64) (before int64, err error) {
	before, err = s.once(ctx, op, s.calls().Mark, func(number int64) wire.Call { return s.calls().SetUp(number, total, s.lifetime) })
	if err == nil {
		s.servesNew(before)
	}
	return before, err
}

// servesNew serves those who wait for a semaphore that was just set up.
func (s *Semaphore) servesNew(before int64) {
	if before < 0 {
		s.serve()
	}
}
