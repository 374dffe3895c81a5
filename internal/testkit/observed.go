package testkit

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/observe"
)

// Observed is an observer that remembers what it is told, and fails the test if a call comes out of turn.
type Observed struct {
	tb testing.TB

	mu      sync.Mutex
	all     []*Observation
	events  []observe.Event
	clients int
}

// Observation is what an observer is told of one acquisition.
type Observation struct {
	Start observe.AcquireStart
	Ctx   context.Context // the caller's
	End   *observe.AcquireEnd
	Hold  *observe.HoldEnd
}

var _ observe.Observer = (*Observed)(nil)

// Observe returns an observer, and the option that sets it.
func Observe(tb testing.TB) (*Observed, rlock.Option) {
	tb.Helper()
	o := &Observed{tb: tb}
	return o, rlock.WithObserver(o)
}

type observationKey struct{}

// ObservationOf returns the observation of the acquisition to which a context belongs, or nil.
func ObservationOf(ctx context.Context) *Observation {
	o, _ := ctx.Value(observationKey{}).(*Observation)
	return o
}

// AcquireStart implements [observe.Observer].
func (o *Observed) AcquireStart(ctx context.Context, d observe.AcquireStart) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &Observation{Start: d, Ctx: ctx}
	o.all = append(o.all, s)
	return context.WithValue(ctx, observationKey{}, s)
}

// AcquireEnd implements [observe.Observer].
func (o *Observed) AcquireEnd(ctx context.Context, d observe.AcquireEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := ObservationOf(ctx)
	if s == nil || s.End != nil || s.Hold != nil || d.AcquireStart != s.Start {
		o.tb.Errorf("an acquisition ended twice, or another one did: %+v", d)
		return
	}
	if (d.Err == nil) != (d.Outcome == observe.OutcomeAcquired) {
		o.tb.Errorf("outcome %q with the error %v", d.Outcome, d.Err)
	}
	s.End = &d
}

// HoldEnd implements [observe.Observer].
func (o *Observed) HoldEnd(ctx context.Context, d observe.HoldEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := ObservationOf(ctx)
	if s == nil || s.End == nil || s.End.Err != nil || s.End.Reentry || s.Hold != nil || d.AcquireStart != s.Start {
		o.tb.Errorf("a hold ended that nobody had, or twice: %+v", d)
		return
	}
	if d.Held < 0 || d.Token != s.End.Token || (d.End == observe.EndUnlocked) != (d.Err == nil) {
		o.tb.Errorf("a hold ended with %+v, after %+v", d, s.End)
	}
	s.Hold = &d
}

// Event implements [observe.Observer].
func (o *Observed) Event(d observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, d)
}

// ClientStart implements [observe.Observer].
func (o *Observed) ClientStart(c observe.Client) { o.count(c, 1) }

// ClientEnd implements [observe.Observer].
func (o *Observed) ClientEnd(c observe.Client) { o.count(c, -1) }

func (o *Observed) count(c observe.Client, more int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients += more
	if c.Stats().Held != 0 {
		o.tb.Errorf("a client that begins or ends holds locks")
	}
}

// Clients returns how many clients it observes.
func (o *Observed) Clients() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clients
}

// All returns a copy of all observations so far.
func (o *Observed) All() (all []Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		all = append(all, *s)
	}
	return all
}

// Behind returns how many acquisitions are held, or were and the end is not told yet.
func (o *Observed) Behind() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		if s.End != nil && s.End.Err == nil && !s.End.Reentry && s.Hold == nil {
			n++
		}
	}
	return n
}

// Last returns a copy of the observation that began last.
func (o *Observed) Last() Observation {
	o.tb.Helper()
	all := o.All()
	if len(all) == 0 {
		o.tb.Fatal("nothing was observed")
	}
	return all[len(all)-1]
}

// AwaitHoldEnd waits until the hold of the acquisition that began last is over.
func (o *Observed) AwaitHoldEnd() observe.HoldEnd {
	o.tb.Helper()
	Eventually(o.tb, "the end of the hold is told", func() bool { return o.Last().Hold != nil })
	return *o.Last().Hold
}

// AwaitEvent waits for an event of a sort, of any lock or of one of these, and returns the first one.
func (o *Observed) AwaitEvent(sort observe.EventKind, names ...string) (d observe.Event) {
	o.tb.Helper()
	Eventually(o.tb, "the event "+string(sort), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, e := range o.events {
			if e.Kind == sort && (len(names) == 0 || slices.Contains(names, e.Name)) {
				d = e
				return true
			}
		}
		return false
	})
	return d
}
