package torture

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// errOwn is an error of the application, such as that of a section. Do must return that untouched, unless the lock was lost.
var errOwn = errors.New("the application's own error")

// do uses the lock with Do, TryDo or DoValue.
func (s *section) do(ctx context.Context) {
	ctx, opts, cancel := s.terms(ctx)
	defer cancel()
	var ran bool
	var own error
	fn := func(ctx context.Context) error {
		ran = true
		own = s.inside(ctx)
		return own
	}
	var err error
	switch {
	case s.Verb == verbDoValue:
		if s.try {
			opts = append(opts, rlock.Wait(0))
		}
		var value int64
		value, err = handles.DoValue(ctx, s.lock, func(ctx context.Context) (int64, error) { return s.ID, fn(ctx) }, opts...)
		if ran != (value == s.ID) {
			s.wrong("do: DoValue returned %d although fn returned %d", value, s.ID)
		}
	case s.try:
		var said bool
		said, err = s.lock.TryDo(ctx, fn, opts...)
		if said != ran {
			s.wrong("TryDo returned %v, %v, but whether fn ran is %v", said, err, ran)
		}
		if err == nil && !ran {
			err = rlock.ErrNotAcquired
		}
	default:
		err = s.lock.Do(ctx, fn, opts...)
	}
	if !ran {
		s.answered(ctx, err)
		if err == nil {
			s.wrong("Do returned nil without a call of fn")
		}
		return
	}
	s.done(own, err)
}

// inside is the section that Do runs. It returns an error that Do must pass on.
func (s *section) inside(ctx context.Context) error {
	s.answered(ctx, nil)
	if ctx.Err() != nil { // it may have ended at this moment
		s.Hears = false
	}
	hold, ok := handles.HoldFrom(ctx, s.lock)
	if !ok {
		s.wrong("borrow: the context of Do carries no hold")
		return nil
	}
	s.Token = uint64(hold.Token())
	defer s.leaves(hold)
	s.believe(hold)
	s.emit(*s.Turn)
	again := s.reenter(hold)
	s.borrow(ctx, hold)
	s.work(hold)
	s.unlockAll(again)
	if s.gap == 0 {
		s.believe(hold)
	}
	var own error
	switch s.random.IntN(3) {
	case 0:
		own = errOwn
	case 1:
		own = context.Cause(ctx)
	}
	s.unlocking(hold)
	return own
}

// done records how Do ended.
func (s *section) done(own, err error) {
	s.Unlocked, s.ByDo = now(), true
	s.class(err)
	switch {
	case same(err, own) && !same(own, errOwn) && errors.Is(own, rlock.ErrLost): // the section says that the lock is lost
		s.Unlock, s.Err = lost, err.Error()
	case same(err, own):
		s.Unlock = got
	case !s.judge().Done(s, own, err):
		s.Unlock = failed
	default:
		s.Unlock, s.Err = lost, err.Error()
	}
}

// same reports whether Do returned the very error of its function.
func same(err, own error) bool { return any(err) == any(own) }

// borrow looks for the hold in its context. The borrowed hold must be the same, and must not end it.
func (s *section) borrow(ctx context.Context, hold *rlock.Hold) {
	other := handle(s.clients, s.Kind, s.Names...)
	s.judge().Borrowed(ctx, s, other, hold)
	if _, ok := handles.HoldFrom(rlock.WithOwner(ctx), other); ok {
		s.wrong("borrow: a new owner does not hide the hold")
	}
	if _, ok := handles.HoldFrom(rlock.EnsureOwner(ctx), other); !ok {
		s.wrong("borrow: EnsureOwner hides the hold")
	}
	if (s.Kind == kindMulti || s.Kind == kindRed) && s.past == nil {
		if _, ok := handles.HoldFrom(ctx, handle(s.clients, kindLock, s.Names[0])); ok != (s.Kind == kindMulti) {
			s.wrong("borrow: whether a member of a %s lock has a hold is %v", s.Kind, ok)
		}
	}
}

// extend extends the lease, and compares the deadline.
func (s *section) extend(hold *rlock.Hold, d time.Duration) {
	from, start, deadline := now(), time.Now(), hold.Deadline()
	s.Extended = from.Add(d + commandTimeout) // also if the process is killed meanwhile
	s.emit(*s.Turn)
	err := hold.Extend(context.Background(), d)
	class := s.called(from, err)
	switch {
	case err == nil:
		s.Extends++
		s.Extended = now().Add(d)
		s.judge().Extended(s, hold, d, start)
	case class == outage:
		s.Extended = now().Add(d + commandTimeout)
		if err := hold.Err(); errors.Is(err, rlock.ErrLost) && time.Now().Before(deadline) && !hold.Deadline().Before(deadline) {
			s.wrong("extend: Extend had no reply, and the hold ended before its deadline: %v", err)
		}
	case errors.Is(err, rlock.ErrNotHeld) && class != loss:
		s.wrong("extend: Extend of a hold that is not unlocked returned %v", err)
	}
}

// notice records that the hold's context says that the client shuts down.
func (t *Turn) notice(hold *rlock.Hold) {
	if t.Told == 0 && errors.Is(context.Cause(hold.Context()), rlock.ErrClosed) {
		t.Told = now()
	}
}
