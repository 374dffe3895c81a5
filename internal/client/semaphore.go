package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/wire"
)

// Semaphore is a semaphore of one client. A permit is acquired as a lock is. The zero value is no semaphore: its methods return
// [fault.ErrInvalidOption]. It is safe for concurrent use once [Semaphore.Init] has returned.
type Semaphore struct {
	Lock

	total int64       // with which the first method sets it up; negative means that none does
	ready atomic.Bool // whether one did

	lifetime time.Duration // of what it sets up; zero means for good
}

// Init makes the zero Semaphore a handle on a semaphore, given its kind, the user's name for it and its name in Redis.
func (s *Semaphore) Init(c *Client, k *wire.Kind, name, inRedis string) {
	s.Lock.Init(c, k, name, inRedis)
	s.total = -1
}

// Total has the first method set the semaphore up with a number of permits.
func (s *Semaphore) Total(n int) error {
	s.total = int64(n)
	return inRange("a total of", int64(n), 0)
}

// ExpireAfter has the semaphore that this handle sets up deleted d later.
func (s *Semaphore) ExpireAfter(d time.Duration) { s.lifetime = d }

// inRange returns what is wrong with a number of permits that is not from least to the most that a semaphore can have.
func inRange(what string, n, least int64) error {
	if n < least || n > wire.MaxPermits {
		return fmt.Errorf("%w: %s %d permits out of range [%d, %d]", fault.ErrInvalidOption, what, n, least, wire.MaxPermits)
	}
	return nil
}

// Check returns what is wrong with the handle itself.
func (s *Semaphore) Check(op string) error {
	if s == nil || s.client == nil {
		what := "of a nil or zero Semaphore, or of a nil or zero Client"
		return &fault.OpError{Op: op, What: what, Err: fault.ErrInvalidOption}
	}
	return s.Lock.Check(op)
}

// Take implements [Member].
func (s *Semaphore) Take(ctx context.Context, t Terms) (Held, error) {
	var seen *report.Span
	if s != nil {
		seen = s.span(ctx, &t)
	}
	h, err := s.take(ctx, t, seen)
	seen.End(report.Acquired{By: h != nil}, err)
	if err != nil {
		return nil, err
	}
	return held{&s.Lock, h}, nil
}

// take is Take, for those who may observe it.
func (s *Semaphore) take(ctx context.Context, t Terms, seen *report.Span) (*core.Hold, error) {
	if err := s.Check(t.Op); err != nil {
		return nil, err
	}
	if err := cmp.Or(t.Err, s.fits(&t)); err != nil {
		return nil, s.wrap(err, t.Op)
	}
	w := s.newWait(ctx, &t, s.client.cfg.AckTimeout) // all that follows takes no longer
	var h *core.Hold
	err := s.setUpFor(ctx, &t, seen, &w, func() (err error) {
		h, err = s.acquireByTurns(ctx, &t, seen, &w)
		return err
	})
	return h, err
}

// setUpFor calls what acquires permits. If the handle has a total, it sets the semaphore up before, and again if it is gone.
func (s *Semaphore) setUpFor(ctx context.Context, t *Terms, seen *report.Span, w *Wait, acquire func() error) error {
	if s.total < 0 {
		return acquire()
	}
	start, wait, tried := clock.Now(), t.Wait, false
	for w.setsUp = true; ; {
		if err := s.prepareWithin(ctx, t.Op, seen, w); err != nil {
			return err
		}
		if !t.Single() && t.Limited {
			t.Wait = max(wait-clock.Now().Sub(start), 1)
		}
		err := acquire()
		if !errors.Is(err, fault.ErrNoPermits) || tried || w.bound != 0 && clock.Now() >= w.bound || ctx.Err() != nil {
			return err
		}
		s.ready.Store(false) // Redis has lost the semaphore, or somebody has deleted it
		w.known.NotSetUp()
		tried = t.Single()
	}
}

func (s *Semaphore) calls() wire.Semaphore { return wire.NewSemaphore(s.Names()) }

// TrySetPermits sets the semaphore up unless somebody has: see the root package.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	const op = "try set permits"
	if err := s.Check(op); err != nil {
		return false, err
	}
	if err := inRange("a total of", int64(n), 0); err != nil {
		return false, s.wrap(err, op)
	}
	before, err := s.setUp(ctx, op, int64(n))
	return err == nil && before < 0, err
}

// SetPermits sets how many permits there are in all: see the root package.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	const op = "set permits"
	if err := s.Check(op); err != nil {
		return err
	}
	if err := inRange("a total of", int64(n), 0); err != nil {
		return s.wrap(err, op)
	}
	return s.change(ctx, op, func(number int64) wire.Call { return s.calls().SetPermits(number, int64(n)) })
}

// AddPermits changes how many permits there are: see the root package.
func (s *Semaphore) AddPermits(ctx context.Context, more int) error {
	const op = "add permits"
	if err := s.Check(op); err != nil {
		return err
	}
	if err := inRange("a change by", int64(more), -wire.MaxPermits); err != nil {
		return s.wrap(err, op)
	}
	return s.add(ctx, op, more)
}

// Drain takes all free permits of a plain semaphore, and returns how many there were: see the root package.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	const op = "drain permits"
	if err := s.Check(op); err != nil {
		return 0, err
	}
	if err := s.prepare(ctx, op); err != nil {
		return 0, err
	}
	n, err := s.once(ctx, op, s.calls().Mark, s.calls().Drain)
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

func (s *Semaphore) add(ctx context.Context, op string, more int) error {
	if err := s.prepare(ctx, op); err != nil {
		return err
	}
	return s.change(ctx, op, func(number int64) wire.Call { return s.calls().AddPermits(number, int64(more)) })
}

func (s *Semaphore) change(ctx context.Context, op string, call func(number int64) wire.Call) error {
	fits, err := s.once(ctx, op, s.calls().Mark, call)
	if err == nil && fits == 0 {
		err = s.wrap(errPermitsRange, op)
	}
	if err == nil {
		s.serve()
	}
	return err
}

// serve gives those who wait what a call may have made free. The script of the call tells only those who know of no line.
func (s *Semaphore) serve() {
	if s.h.Kind == wire.Permit {
		s.client.core.Serve(s.h.Key.Name)
	}
}

var errPermitsRange = fmt.Errorf("%w: the permits in all, or those that are free, would be out of range [%d, %d]",
	fault.ErrInvalidOption, -wire.MaxPermits, wire.MaxPermits)

// Counts returns how many permits are free, and how many are out: see the root package.
func (s *Semaphore) Counts(ctx context.Context, op string) (free, out int64, err error) {
	if err := s.Check(op); err != nil {
		return 0, 0, err
	}
	if err := s.prepare(ctx, op); err != nil {
		return 0, 0, err
	}
	r, err := s.query(ctx, op, s.calls().Count(), nil)
	if err != nil {
		return 0, 0, err
	}
	return r.List[0], r.List[1], nil
}

// Release gives permits back by their ids, all or none: see the root package.
func (s *Semaphore) Release(ctx context.Context, texts []string) error {
	const op = "release"
	if err := s.Check(op); err != nil {
		return err
	}
	ids, err := parseIDs(texts)
	if err != nil {
		return s.wrap(err, op)
	}
	done, err := s.once(ctx, op, s.calls().Mark, func(number int64) wire.Call { return s.calls().GiveBack(number, ids) })
	if err == nil && done == 0 {
		return s.named(fault.ErrUnknownPermit, op)
	}
	if err == nil {
		s.serve()
	}
	return err
}

// parseIDs returns ids as Redis has them.
func parseIDs(texts []string) ([]string, error) {
	if most := wire.Permit.MaxPermits; len(texts) == 0 || len(texts) > most {
		return nil, fmt.Errorf("%w: %d permits out of range [1, %d]", fault.ErrInvalidOption, len(texts), most)
	}
	ids := make([]string, len(texts))
	known := make(map[string]bool, len(texts))
	for i, text := range texts {
		id, err := wire.ParsePermitID(text)
		switch {
		case err != nil:
			return nil, err
		case known[id]:
			return nil, fmt.Errorf("%w: the permit %s comes twice", fault.ErrInvalidOption, strings.ToLower(text))
		}
		ids[i], known[id] = id, true
	}
	return ids, nil
}

// Delete deletes the semaphore: see the root package.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	const op = "delete"
	if err := s.Check(op); err != nil {
		return false, err
	}
	found, err := s.once(ctx, op, s.calls().Mark, s.calls().Delete)
	return err == nil && found == 1, err
}

// once sends a call that counts once, given its number.
func (l *Lock) once(ctx context.Context, op string, mark, call func(number int64) wire.Call) (int64, error) {
	c := l.client
	if ctx.Err() != nil {
		return 0, l.named(EndOf(ctx), op)
	}
	number := c.table.Number()
	return l.counts(ctx, op, &Wait{client: c, brief: true}, call(number), mark(number))
}

// counts sends a call that counts once, and returns its reply.
func (l *Lock) counts(ctx context.Context, op string, w *Wait, call, mark wire.Call) (int64, error) {
	c := l.client
	if c.tasks.Begin() {
		defer c.tasks.End()
	} else if w.lasts == 0 {
		return 0, l.wrap(fault.ErrClosed, op)
	}
	r := c.once(ctx, call, mark, w)
	err := l.failed(ctx, op, r.Err, w.known)
	if w.lasts != 0 && r.Err != nil {
		err = l.wrap(r.Err, op) // that the client is closed is not why
	}
	if ctx.Err() != nil && r.Err != nil && r.Err.Replied() && mayPass(r.Err) {
		err = l.named(WithEnd(ctx, l.explained(r.Err)), op)
	}
	var named *fault.OpError
	if r.Err.InDoubt() && errors.As(err, &named) {
		named.Phase = "outcome unknown"
	}
	return r.N, err
}
