package scene

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

const (
	latchCount = 3
	latchTime  = 30 * time.Second // after which the workers go on to the next latch
)

// latch is a count-down latch, and what the checkers know of it. The mutex of the run guards it.
type latch struct {
	name    string
	set     bool // somebody has set its count
	started int  // calls that count down
	done    int  // those that succeeded
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
		l, first = &latch{name: name, waiting: make(map[*process]int)}, true
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
	l.started++
	w.mu.Unlock()
	_, err := handle.CountDown(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
	if err != nil {
		return
	}
	if l.done++; l.done == latchCount {
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
	if err == nil && l.started < latchCount && !w.Unsafe {
		w.brokenf("latch: %v passed %s, which was counted down %d times of %d", w.process, l.name, l.started, latchCount)
	}
	if errors.Is(err, rlock.ErrUnavailable) {
		w.explained(a.asked, err)
	}
	w.passed(l, a, err)
}

// passed judges a wait that was limited, given its error. The run must be locked.
func (w *worker) passed(l *latch, a *attempt, err error) {
	if !a.limited() || w.ctx.Err() != nil {
		return
	}
	open := !l.opened.IsZero() && l.opened.Before(a.asked)
	if errors.Is(err, rlock.ErrNotAcquired) && open && !w.Unsafe {
		w.brokenf("latch: %v did not pass %s, which has been open since %v: %v", w.process, l.name, w.at(l.opened), err)
	}
	if late := time.Since(a.asked.Add(a.limit())); late > w.slack() {
		w.brokenf("late: a wait of %v for %s returned %v after its limit: %v", w.process, l.name, late, err)
	}
}

// opens checks that nobody waits for a latch that has opened. The run must be locked.
func (r *run) opens(l *latch) {
	now := time.Now()
	if l.opened.IsZero() || r.WakeUp == 0 || !now.After(r.disturbed) || r.Unsafe {
		return
	}
	for _, a := range l.awaits {
		if open := now.Sub(later(l.opened, a.asked)); !a.told && a.p.healthy() && open > r.WakeUp && !a.limited() {
			a.told = true
			r.brokenf("lost wake-up: %v waits for %s since %v, which has been open for %v", a.p, l.name, r.at(a.asked), open)
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
	r.servers[0].With(func(s *simredis.Server) {
		text, _ := s.Do("GET", l.name).(string)
		left, _ := strconv.Atoi(text)
		if least, most := max(latchCount-l.started, 0), max(latchCount-l.done, 0); left < least || left > most {
			r.brokenf("latch: %s has %d left instead of %d to %d", l.name, left, least, most)
		}
	})
}
