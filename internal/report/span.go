package report

import (
	"context"
	"errors"
	"sync"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/observe"
)

// Span is one acquisition that is observed. Nil means one that is not. It is safe for concurrent use.
type Span struct {
	reports *Reports
	ctx     context.Context //nolint:containedctx // its values go to the commands, and to the end of the hold
	began   clock.Instant
	started observe.AcquireStart

	mu       sync.Mutex // a leaf, except for that of the reports
	seen     notice.Seen
	held     clock.Instant // since when; zero until it is known that it is held
	token    uint64
	returned bool   // End has returned
	early    *ended // came before that
}

// ended is how a hold ended.
type ended struct {
	at  clock.Instant
	how observe.End
	why error
}

var _ notice.Witness = (*Span)(nil)

// Context returns a context that ends as ctx does, with the values of the one that AcquireStart returned.
func (v *Span) Context(ctx context.Context) context.Context {
	if v == nil {
		return ctx
	}
	return valued{ctx, v.ctx}
}

// valued is a context that looks a value up in another context first, and then in itself.
type valued struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // has them
}

// Value returns a value of the other context, or else its own.
func (v valued) Value(key any) any {
	if value := v.values.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}

// Saw adds what happened to an attempt of the acquisition.
func (v *Span) Saw(s notice.Seen) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.Questions += s.Questions
	v.seen.HandedOver, v.seen.Granted = v.seen.HandedOver || s.HandedOver, v.seen.Granted || s.Granted
	v.seen.Here = v.seen.Here || s.Here
	if v.seen.Slept == 0 {
		v.seen.Slept = s.Slept
	}
}

// SawMember adds what happened to a member of the group.
func (v *Span) SawMember(of *Span) {
	if v == nil || of == nil {
		return
	}
	of.mu.Lock()
	s := of.seen
	of.mu.Unlock()
	v.Saw(notice.Seen{Questions: s.Questions, Here: s.Here, Slept: s.Slept})
}

// End tells what was acquired, or why nothing was.
func (v *Span) End(held Acquired, err error) {
	if v == nil {
		return
	}
	now := clock.Now()
	v.mu.Lock()
	r := observe.AcquireEnd{
		AcquireStart: v.started, Took: now.Sub(v.began), Outcome: outcomeOf(err), Err: err, Reentry: held.Reentered,
		Attempts: int(v.seen.Questions), Contended: v.seen.Here, Token: held.Token,
	}
	switch {
	case err != nil:
	case v.seen.HandedOver:
		r.Via = observe.ViaLocal
	case v.seen.Granted:
		r.Via = observe.ViaRemote
	}
	if v.seen.Slept != 0 {
		r.Waited = now.Sub(v.seen.Slept)
	}
	if held.By && !held.Reentered {
		v.held, v.token = now, held.Token
	}
	v.mu.Unlock()
	defer v.reports.ends()
	v.reports.each(func(each observe.Observer) { each.AcquireEnd(v.ctx, r) })
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.returned = true; v.early != nil {
		v.report(*v.early)
	}
}

// Ended implements [notice.Witness].
func (v *Span) Ended(at clock.Instant, how observe.End, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := (ended{at, how, why}); v.returned {
		v.report(e)
	} else {
		v.early = &e
	}
}

// report has the end of the hold reported. An acquisition that failed, or re-entered, has none. v.mu must be held.
func (v *Span) report(e ended) {
	if v.held == 0 {
		return
	}
	o := observe.HoldEnd{AcquireStart: v.started, Held: max(e.at.Sub(v.held), 0), End: e.how, Err: e.why, Token: v.token}
	v.reports.add(func() { v.reports.each(func(each observe.Observer) { each.HoldEnd(v.ctx, o) }) })
}

// Acquired is what was acquired.
type Acquired struct {
	By        bool // somebody holds it; not so a latch that is open
	Reentered bool // its owner had all of it already
	Token     uint64
}

// outcomeOf returns the class of an acquisition's error.
func outcomeOf(err error) observe.Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return observe.OutcomeAcquired
	case is(fault.ErrNotAcquired), is(fault.ErrNotHeld) && !is(fault.ErrLost): // the second one is of Adopt
		return observe.OutcomeRefused
	case is(fault.ErrUnavailable):
		return observe.OutcomeUnavailable
	case is(fault.ErrLost):
		return observe.OutcomeLost
	case is(fault.ErrClosed):
		return observe.OutcomeClosed
	case is(fault.ErrInvalidName), is(fault.ErrInvalidOption), is(fault.ErrReentered), is(fault.ErrUpgrade):
		return observe.OutcomeMisused
	case is(context.Canceled), is(context.DeadlineExceeded):
		return observe.OutcomeCanceled
	}
	return observe.OutcomeFailed
}
