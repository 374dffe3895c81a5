package scene

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

const (
	latchCount = 3
	latchTime  = 30 * time.Second // after which the workers go on to the next latch
)

// latch is a count-down latch, and what the checkers know of it. The mutex of the run guards it.
type latch struct {
	promises.Latch

	set     bool // somebody has set its count
	opened  time.Time
	waiting map[*process]int
	awaits  []*attempt
}

// countDown uses the present latch once: it sets it, counts it down, or waits until it opens.
func (w *worker) countDown() {
	name := fmt.Sprintf("latch-%d", time.Since(w.trace.Began)/latchTime)
	handle := w.clients[0].NewCountDownLatch(name)
	ctx, end := context.WithTimeout(w.ctx, 10*time.Second+w.upTo(time.Minute))
	defer end()
	w.mu.Lock()
	l, first := w.latches[name], false
	if l == nil {
		l, first = &latch{Latch: promises.Latch{Name: name, Count: latchCount}, waiting: make(map[*process]int)}, true
		w.latches[name] = l
	}
	ready := l.set
	w.mu.Unlock()
	switch {
	case first:
		set, err := handle.TrySetCount(ctx, latchCount)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.class(err)
		if err == nil && !set && !w.Unsafe {
			w.brokenf("latch: the first to set %s was too late", name)
		}
		l.set = err == nil
	case !ready:
	case w.one(8):
		n, err := handle.Count(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.class(err); err == nil && (n < 0 || n > latchCount) {
			w.brokenf("latch: %s has the count %d", name, n)
		}
	case w.one(2):
		w.counts(ctx, l, handle)
	default:
		w.awaits(ctx, l, handle)
	}
}

func (w *worker) counts(ctx context.Context, l *latch, handle *rlock.CountDownLatch) {
	w.mu.Lock()
	l.Starts()
	w.mu.Unlock()
	n, err := handle.CountDown(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
	if err != nil {
		return
	}
	l.Counted(w.unlessForgotten(), w.process, n)
	if l.IsOpen() && l.opened.IsZero() {
		l.opened = time.Now()
	}
}

func (w *worker) awaits(ctx context.Context, l *latch, handle *rlock.CountDownLatch) {
	a := &attempt{p: w.process, asked: time.Now()}
	w.mu.Lock()
	l.waiting[w.process]++
	l.awaits = append(l.awaits, a)
	w.mu.Unlock()
	if w.one(3) {
		a.wait = w.upTo(5 * time.Second)
		a.try = w.one(4)
	}
	var opts []rlock.AcquireOption
	switch {
	case a.try:
		ctx = w.ctx // with a deadline, the one question has the command timeout
		opts = append(opts, rlock.Wait(0))
	case a.wait > 0:
		opts = append(opts, rlock.Wait(a.wait))
	}
	err := handle.Await(ctx, opts...)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.waiting[w.process]--
	a.told = true
	w.class(err)
	if err == nil {
		l.Passed(w.unlessForgotten(), w.process)
	}
	if errors.Is(err, rlock.ErrUnavailable) {
		w.explained(w.asked(w.process, l.Name, a.asked, err))
	}
	w.passed(l, a, err)
}

// passed judges a wait that was limited, given its error. The run must be locked.
func (w *worker) passed(l *latch, a *attempt, err error) {
	if !a.limited() || w.ctx.Err() != nil || a.p.pausedSince(a.asked) > 0 {
		return
	}
	open := !l.opened.IsZero() && l.opened.Before(a.asked)
	if errors.Is(err, rlock.ErrNotAcquired) && open && !w.Unsafe {
		w.brokenf("latch: %v did not pass %s, which has been open since %v: %v", w.process, l.Name, w.at(l.opened), err)
	}
	w.checks().Bound(w.call(a, l.Name, err), lateness, w.slack())
}

// opens checks that nobody waits for a latch that has opened. The run must be locked.
func (r *run) opens(l *latch) {
	now := time.Now()
	if l.opened.IsZero() || r.WakeUp == 0 || !now.After(r.disturbed) || r.Unsafe {
		return
	}
	for _, a := range l.awaits {
		if !a.told && a.p.healthy() && !a.limited() {
			a.told = !r.checks().WakeUp(l.Name, r.waits(a), now.Sub(later(l.opened, a.asked)), r.WakeUp)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// counted checks at the end that each call counted once. The run must be locked.
func (r *run) counted(l *latch) {
	if r.Unsafe || !l.set {
		return
	}
	r.home(l.Name).With(func(s *simredis.Server) {
		text, _ := s.Do("GET", l.Name).(string)
		left, _ := strconv.Atoi(text)
		l.Rest(r.checks(), int64(left))
	})
}
