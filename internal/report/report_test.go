package report

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told is an observer that remembers the order of what it is told.
type told struct {
	calls []string
	call  func()
	hold  observe.HoldEnd
}

func (o *told) is(what string) {
	o.calls = append(o.calls, what)
	if o.call != nil {
		o.call()
	}
}

func (o *told) AcquireStart(context.Context, observe.AcquireStart) context.Context {
	o.is("start")
	return nil
}
func (o *told) AcquireEnd(context.Context, observe.AcquireEnd) { o.is("end") }
func (o *told) HoldEnd(_ context.Context, e observe.HoldEnd)   { o.hold = e; o.is("over") }
func (o *told) Event(observe.Event)                            { o.is("event") }
func (o *told) ClientStart(observe.Client)                     { o.is("client") }
func (o *told) ClientEnd(observe.Client)                       { o.is("client") }

var held = Acquired{By: true, Token: 7}

var errLost = errors.New("lost")

// TestTheEndOfAHoldComesAfterItsBegin has a hold lost before the observer was told that there is one.
func TestTheEndOfAHoldComesAfterItsBegin(t *testing.T) {
	t.Parallel()
	var o told
	r := New([]observe.Observer{&o}, nil)
	v := r.Begin(t.Context(), observe.AcquireStart{Name: "name"}, nil)
	v.Ended(clock.Now(), observe.EndGone, errLost)
	require.Equal(t, []string{"start"}, o.calls)
	v.End(held, nil)
	r.Wait(t.Context())
	require.Equal(t, []string{"start", "end", "over"}, o.calls)
	require.Equal(t, observe.HoldEnd{AcquireStart: observe.AcquireStart{Name: "name"}, End: observe.EndGone, Err: errLost, Token: 7}, o.hold)
}

// TestNoHoldNoEnd covers acquisitions after which there is no hold of their own.
func TestNoHoldNoEnd(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(v *Span){
		"failed":    func(v *Span) { v.End(Acquired{}, errLost) },
		"re-entry":  func(v *Span) { v.End(Acquired{By: true, Reentered: true}, nil) },
		"of nobody": func(v *Span) { v.End(Acquired{}, nil) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var o told
			r := New([]observe.Observer{&o}, nil)
			v := r.Begin(t.Context(), observe.AcquireStart{}, nil)
			end(v)
			v.Ended(clock.Now(), observe.EndUnlocked, nil)
			r.Wait(t.Context())
			require.Equal(t, []string{"start", "end"}, o.calls)
		})
	}
}

func TestAPanicIsToldOnce(t *testing.T) {
	t.Parallel()
	o := told{call: func() { panic("observer") }}
	var failed []error
	var other told
	r := New([]observe.Observer{&o, &other}, func(err error) { failed = append(failed, err) })
	v := r.Begin(t.Context(), observe.AcquireStart{}, nil)
	v.End(held, nil)
	v.Ended(clock.Now(), observe.EndUnlocked, nil)
	r.Event(observe.EventLost, "", nil)
	r.Wait(t.Context())
	require.Equal(t, []string{"start", "end", "over", "event"}, o.calls)
	require.Equal(t, o.calls, other.calls, "the other observer is told nevertheless")
	require.Len(t, failed, 1)
}

// TestAnObserverThatEndsItsGoroutine, as a failed requirement of a test does, is called again.
func TestAnObserverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	o := told{call: runtime.Goexit}
	r := New([]observe.Observer{&o}, nil)
	for range 2 {
		r.Event(observe.EventLost, "", nil)
	}
	r.Wait(t.Context())
	require.Len(t, o.calls, 2)
}

// TestWaitWaitsForTheEndOfAnAcquisition, too.
func TestWaitWaitsForTheEndOfAnAcquisition(t *testing.T) {
	t.Parallel()
	var o told
	r := New([]observe.Observer{&o}, nil)
	v := r.Begin(t.Context(), observe.AcquireStart{}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r.Wait(ctx)
	require.Error(t, ctx.Err())
	go func() {
		v.Ended(clock.Now(), observe.EndUnlocked, nil)
		v.End(held, nil)
	}()
	r.Wait(t.Context())
	require.Equal(t, []string{"start", "end", "over"}, o.calls)
}

// TestASlowObserver drops what does not fit, and keeps the order of the rest.
func TestASlowObserver(t *testing.T) {
	t.Parallel()
	blocked, begun := make(chan struct{}), make(chan struct{}, 1)
	o := told{call: func() {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-blocked
	}}
	r := New([]observe.Observer{&o}, nil)
	r.Event(notice.LogOnly, "", nil)
	r.Event(observe.EventLost, "", nil)
	<-begun // one is under way
	for range maxReports + 3 {
		r.Event(observe.EventLost, "", nil)
	}
	require.EqualValues(t, 3, r.Dropped())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r.Wait(ctx)
	require.Error(t, ctx.Err(), "Wait gives up")
	close(blocked)
	r.Wait(t.Context())
	require.Len(t, o.calls, maxReports+1)
}

// TestManyReportsAtOnce do not wait until they do not fit.
func TestManyReportsAtOnce(t *testing.T) {
	t.Parallel()
	var o told
	r := New([]observe.Observer{&o}, nil)
	for range 20 {
		for range maxReports {
			r.Event(observe.EventLost, "", nil)
		}
		r.Wait(t.Context())
	}
	require.Zero(t, r.Dropped())
	require.Len(t, o.calls, 20*maxReports)
}

func TestNobodyObserves(t *testing.T) {
	t.Parallel()
	r := New(nil, nil)
	v := r.Begin(t.Context(), observe.AcquireStart{}, nil)
	require.Nil(t, v)
	require.Equal(t, t.Context(), v.Context(t.Context()))
	v.Saw(notice.Seen{})
	r.Event(observe.EventLost, "", nil)
	r.Wait(t.Context())
	require.Zero(t, r.Dropped())
}
