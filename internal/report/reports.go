// Package report tells an observer what a client does: how each acquisition went, how each hold ended, and what else happened.
package report

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/observe"
)

// maxReports is how many reports wait for an observer that is slow. The next one is dropped.
const maxReports = 256

// Reports calls the observers of a client. Nil means that nobody observes it. It is safe for concurrent use.
//
// Ends of holds and events are called by one goroutine, in order, so that an observer that blocks holds up nothing else.
type Reports struct {
	observers []observe.Observer
	failed    func(err error) // logs that the observer panicked
	panicked  atomic.Bool     // whether that was called
	dropped   atomic.Uint64

	mu      sync.Mutex // a leaf
	open    int        // acquisitions that began, of which the observers have not been told the end
	waiting []func()
	running bool // the goroutine runs, or will when the timer fires
	timer   *time.Timer
	idle    chan struct{} // closed when nothing is open, nothing waits, and the goroutine has ended; nil if nobody waits for that
}

// New returns what calls observers, or nil if there are none. failed is called if an observer panics, once.
func New(observers []observe.Observer, failed func(err error)) *Reports {
	if len(observers) == 0 {
		return nil
	}
	return &Reports{observers: observers, failed: failed}
}

// Begin begins to observe an acquisition. ctx is the caller's. of is the group of which it is a member, or nil.
func (r *Reports) Begin(ctx context.Context, s observe.AcquireStart, of *Span) *Span {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	v := &Span{reports: r, ctx: of.Context(ctx), began: clock.Now(), started: s}
	r.each(func(o observe.Observer) {
		if started := o.AcquireStart(v.ctx, s); started != nil {
			v.ctx = valued{v.ctx, started} // what an observer leaves out stays
		}
	})
	return v
}

// Event reports an event, unless that is only for the log.
func (r *Reports) Event(what observe.EventKind, name string, err error) {
	if r != nil && what != notice.LogOnly {
		e := observe.Event{Kind: what, Name: name, Time: time.Now(), Err: err}
		r.add(func() { r.each(func(o observe.Observer) { o.Event(e) }) })
	}
}

// Begins tells that a client begins.
func (r *Reports) Begins(c observe.Client) {
	if r != nil {
		r.each(func(o observe.Observer) { o.ClientStart(c) })
	}
}

// Ends tells that a client has been closed, and waits until the observers were told, but no longer than most: one that blocks holds up no Close.
func (r *Reports) Ends(c observe.Client, most time.Duration) {
	if r == nil {
		return
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		r.each(func(o observe.Observer) { o.ClientEnd(c) })
	}()
	last := time.NewTimer(most)
	defer last.Stop()
	select {
	case <-told:
	case <-last.C:
	}
}

// each calls all observers in place. If one panics, the others are called nevertheless.
func (r *Reports) each(call func(observe.Observer)) {
	for _, o := range r.observers {
		func() {
			defer func() {
				if p := recover(); p != nil && r.panicked.CompareAndSwap(false, true) {
					r.failed(fmt.Errorf("panic: %v", p))
				}
			}()
			call(o)
		}()
	}
}

// add has the observers called later, unless too many reports wait.
func (r *Reports) add(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxReports {
		r.dropped.Add(1)
		return
	}
	r.waiting = append(r.waiting, report)
	switch {
	case !r.running:
		r.running, r.timer = true, time.AfterFunc(gather, r.run)
	case len(r.waiting) == maxReports/2 && r.timer.Stop():
		go r.run()
	}
}

// gather is how long reports gather before the goroutine is woken. If it ran at once, it would compete with every unlock for a processor.
const gather = time.Millisecond

// ends notes that the observers were told the end of an acquisition.
func (r *Reports) ends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.tellIdle()
}

// tellIdle tells those that wait if there is nothing left. r.mu must be held.
func (r *Reports) tellIdle() {
	if r.open == 0 && !r.running && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// run calls the observers until no report waits.
func (r *Reports) run() {
	over := false
	defer func() {
		if !over { // an observer has ended the goroutine
			go r.run()
		}
	}()
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			over, r.running, r.waiting = true, false, nil
			r.tellIdle()
			r.mu.Unlock()
			return
		}
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		next()
	}
}

// Wait waits until the observers were told of everything that has begun, or ctx ends.
func (r *Reports) Wait(ctx context.Context) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.tellIdle()
	r.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Dropped returns how many reports were dropped.
func (r *Reports) Dropped() uint64 {
	if r == nil {
		return 0
	}
	return r.dropped.Load()
}
