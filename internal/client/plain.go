package client

import (
	"cmp"
	"context"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/wire"
)

// TakePlain takes permits of a plain semaphore: see the root package.
func (s *Semaphore) TakePlain(ctx context.Context, t Terms) error {
	var seen *report.Span
	if s != nil {
		seen = s.span(ctx, &t)
	}
	err := s.takePlain(ctx, t, seen)
	seen.End(report.Acquired{}, err)
	return err
}

// takePlain is TakePlain, for those who may observe it.
func (s *Semaphore) takePlain(ctx context.Context, t Terms, seen *report.Span) error {
	if err := s.Check(t.Op); err != nil {
		return err
	}
	if err := cmp.Or(t.Err, s.fits(&t)); err != nil {
		return s.wrap(err, t.Op)
	}
	w := s.newWait(ctx, &t, 0) // all that follows takes no longer
	return s.setUpFor(ctx, &t, seen, &w, func() error { return s.awaitPermits(ctx, &t, seen, &w) })
}

// awaitPermits takes permits, or waits for them. All of its questions have one number, so that they take permits once. A call that is
// given up, and may have taken some, gives them back in the background.
func (s *Semaphore) awaitPermits(ctx context.Context, t *Terms, seen *report.Span, w *Wait) (err error) {
	c, number, permits := s.client, s.client.table.Number(), max(t.Permits, 1)
	call := s.calls().Take(number, permits)
	call.Args.Other, call.Args.Millis = c.finished.take(call.Keys[1]), wire.Millis(c.cfg.Table.Memory())
	a := awaiting{Wait: *w, lock: &s.Lock, channel: s.Channel(), call: call, turns: &c.turns}
	a.says = func(n int64) bool {
		a.unset = n < 0
		switch {
		case n == 1:
			return true
		case a.unset:
			a.known.NotSetUp()
		default:
			a.known.Refused()
		}
		return false
	}
	taken := false
	defer func() {
		*w = a.Wait
		switch {
		case !taken && a.doubt:
			undo := s.calls().Undo(number, permits)
			undo.Args.Millis = call.Args.Millis
			c.Background(func() { c.repeat(context.Background(), undo, clock.Now().Add(c.cfg.Table.Memory())) })
		case taken && !a.doubt:
			c.finished.add(call.Keys[1], number)
		}
	}()
	err = a.await(ctx, t, seen)
	taken = err == nil
	return err
}

// GiveBack gives permits of a plain semaphore back, or more than were taken: see the root package. As an unlock, it does not depend on
// whether ctx has ended. Without an answer, it is repeated in the background for as long as Redis remembers its number.
func (s *Semaphore) GiveBack(ctx context.Context, n int) error {
	const op = "release"
	if err := s.Check(op); err != nil {
		return err
	}
	if err := inRange("a release of", int64(n), 1); err != nil {
		return s.wrap(err, op)
	}
	ctx = lasting(ctx)
	c, number := s.client, s.client.table.Number()
	call := s.calls().AddPermits(number, int64(n))
	w := Wait{client: c, brief: true, lasts: wire.MarkMemory}
	fits, err := s.counts(ctx, op, &w, call, s.calls().Mark(number))
	if err == nil && fits == 0 {
		err = s.wrap(errPermitsRange, op)
	}
	return err
}
