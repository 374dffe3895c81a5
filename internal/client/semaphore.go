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
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Semaphore is a semaphore of one client. A permit is acquired as a lock is. The zero value is no semaphore: its methods return
// [fault.ErrInvalidOption]. It is safe for concurrent use once [Semaphore.Init] has returned.
type Semaphore struct {
	Lock

	total int64       // with which the first method sets it up; negative means that none does
	ready atomic.Bool // whether one did
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

// Configure applies an option of the handle, unless an error was found before.
func (s *Semaphore) Configure(option func(s *Semaphore) error) {
	if s.err == nil {
		s.err = option(s)
	}
}

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
	var seen *observe.Span
	if s != nil {
		seen = s.span(ctx, &t)
	}
	a, err := s.take(ctx, t, seen)
	seen.End(heldBy(a), err)
	if err != nil {
		return nil, err
	}
	return taken{&s.Lock, a}, nil
}

// take is Take, for those who may observe it.
func (s *Semaphore) take(ctx context.Context, t Terms, seen *observe.Span) (*table.Acquisition, error) {
	if err := s.Check(t.Op); err != nil {
		return nil, err
	}
	if err := cmp.Or(t.Err, s.fits(&t)); err != nil {
		return nil, s.wrap(err, t.Op)
	}
	w := s.newWait(ctx, &t, s.client.cfg.AckTimeout) // all that follows takes no longer
	if s.total < 0 {
		return s.acquire(ctx, t, seen, &w)
	}
	start, wait, tried := clock.Now(), t.Wait, false
	for w.setsUp = true; ; {
		if err := s.prepareWithin(ctx, t.Op, seen, &w); err != nil {
			return nil, err
		}
		if !t.Single() && t.Limited {
			t.Wait = max(wait-clock.Now().Sub(start), 1)
		}
		a, err := s.acquire(ctx, t, seen, &w)
		// The context is asked last: it may panic, and so lose a permit that is acquired.
		if !errors.Is(err, fault.ErrNoPermits) || tried || w.bound != 0 && clock.Now() >= w.bound || ctx.Err() != nil {
			return a, err
		}
		s.ready.Store(false) // Redis has lost the semaphore, or somebody has deleted it
		w.known.NotSetUp()
		tried = t.Single()
	}
}

func (s *Semaphore) calls() wire.Semaphore { return wire.NewSemaphore(s.Names()) }

// TrySetPermits sets the semaphore up unless somebody has: see the root package.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int, lifetime time.Duration, invalid error) (bool, error) {
	const op = "try set permits"
	if err := s.Check(op); err != nil {
		return false, err
	}
	if err := cmp.Or(invalid, inRange("a total of", int64(n), 0)); err != nil {
		return false, s.wrap(err, op)
	}
	before, err := s.setUp(ctx, op, int64(n), lifetime)
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

// GiveMore gives a plain semaphore permits that no hold has: see the root package.
func (s *Semaphore) GiveMore(ctx context.Context, n int) error {
	const op = "release"
	if err := s.Check(op); err != nil {
		return err
	}
	if err := inRange("a release of", int64(n), 1); err != nil {
		return s.wrap(err, op)
	}
	return s.add(ctx, op, n)
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
		err = s.wrap(fmt.Errorf("%w: the permits in all, or those that are free, would be out of range [%d, %d]", fault.ErrInvalidOption, -wire.MaxPermits, wire.MaxPermits), op)
	}
	return err
}

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
	if s.h.Kind.Lasting {
		s.client.audit(&s.h)
	}
	return r.List[0], r.List[1], nil
}

// audit has the client give back permits without leases that Redis takes for its own, and that it does not have. It does not wait for
// that.
func (c *Client) audit(h *table.Handle) {
	call, due := c.table.Audit(h, clock.Now())
	if !due {
		return
	}
	c.Background(func() {
		r := c.conn.Ask(context.Background(), transport.Question{Call: call, Slot: transport.DutySlot}, nil)
		var n notice.List
		c.table.Audited(h, r, clock.Now(), &n)
		n.Deliver(c)
	})
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

// Extend sets the lease of a permit, and reports whether it is out: see the root package. invalid is what is wrong with d, or nil.
func (s *Semaphore) Extend(ctx context.Context, id string, d time.Duration, invalid error) (bool, error) {
	left, err := s.lease(ctx, "extend", id, d, invalid)
	return err == nil && left != wire.NoKey, err
}

// LeaseOf returns how long the lease of a permit still runs: see the root package.
func (s *Semaphore) LeaseOf(ctx context.Context, id string) (time.Duration, error) {
	const op = "lease of"
	left, err := s.lease(ctx, op, id, 0, nil)
	switch {
	case err != nil:
		return 0, err
	case left == wire.NoKey:
		return 0, s.named(fault.ErrUnknownPermit, op)
	}
	return time.Duration(left) * time.Millisecond, nil
}

// lease asks for the lease of a permit in ms, and sets it before unless d is zero.
func (s *Semaphore) lease(ctx context.Context, op, text string, d time.Duration, invalid error) (int64, error) {
	if err := s.Check(op); err != nil {
		return 0, err
	}
	id, err := wire.ParsePermitID(text)
	if err = cmp.Or(invalid, err); err != nil {
		return 0, s.wrap(err, op)
	}
	r, err := s.query(ctx, op, s.calls().Lease(id, d), nil)
	return r.N, err
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
	if !c.tasks.Begin() {
		return 0, l.wrap(fault.ErrClosed, op)
	}
	defer c.tasks.End()
	w, number := Wait{client: c, name: l.h.Name, brief: true}, c.table.Number()
	r := c.once(ctx, call(number), mark(number), &w)
	err := l.failed(ctx, op, r.Err, w.known)
	if ctx.Err() != nil && r.Err != nil && r.Err.Replied() && mayPass(r.Err) {
		err = l.named(WithEnd(ctx, l.explained(r.Err)), op)
	}
	var named *fault.OpError
	if r.Err.InDoubt() && errors.As(err, &named) {
		named.Phase = "outcome unknown"
	}
	return r.N, err
}
