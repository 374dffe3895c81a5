package scene

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// adds gives a semaphore one more permit for a while, unless a command may be in doubt: then nobody would know how many it has.
func (w *worker) adds(t *target) {
	if w.faulty() || len(w.Nemeses) > 0 {
		return
	}
	if t.kind == kindPlain {
		w.drains(t)
		return
	}
	s := w.clients[0].NewSemaphore(t.name, w.total()...)
	w.mu.Lock()
	t.extra++
	w.touch(t)
	w.mu.Unlock()
	err := s.AddPermits(context.Background(), 1)
	if err == nil {
		time.Sleep(w.upTo(time.Second))
		err = s.AddPermits(context.Background(), -1)
		time.Sleep(w.slack()) // a reply that says that somebody has the permit may still be on its way
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.extra--
	w.touch(t)
	if err != nil {
		w.brokenf("permits: %v could not change the number of %s: %v", w.process, t.name, err)
	}
}

// counted takes permits of a plain semaphore once, and gives them back. Nobody but their owner knows that it has them.
func (w *worker) counted(t *target) {
	p := w.draw(t)
	ctx, opts, cancel := w.terms(&p)
	defer cancel()
	s := w.clients[0].NewPlainSemaphore(t.name, w.total()...)
	a := w.asks(p)
	acquire := s.Acquire
	if p.try {
		acquire = func(ctx context.Context, opts ...rlock.AcquireOption) error {
			got, err := s.TryAcquire(ctx, opts...)
			if !got && err == nil {
				err = rlock.ErrNotAcquired
			}
			return err
		}
	}
	err := acquire(ctx, opts...)
	w.answered(ctx, a, err)
	if err != nil {
		return
	}
	w.trace.Note("%v got %d of %s", w.process, p.permits, t.name)
	w.moves(t, p.permits)
	time.Sleep(w.onGrid(p.hold))
	w.moves(t, -p.permits)
	w.trace.Note("%v gives %d of %s back", w.process, p.permits, t.name)
	began := time.Now()
	err = s.Release(ctx, p.permits)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch(t)
	switch w.class(err); {
	case errors.Is(err, rlock.ErrUnavailable): // it goes on
		w.explained(w.asked(w.process, t.name, began, err))
		t.untold = time.Now().Add(2 * time.Minute)
	case err != nil && !errors.Is(err, rlock.ErrClosed):
		w.brokenf("error: the release of %s by %v returned %v", t.name, w.process, err)
	}
}

// moves notes that somebody has so many more permits of a plain semaphore, or fewer, and checks that nobody else has them, unless Redis may forget.
func (w *worker) moves(t *target, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.out += more
	w.touch(t)
	if t.out > permits && !w.Unsafe {
		w.brokenf("permits: %d of %s are out, of %d", t.out, t.name, permits)
	}
}

// drains takes the free permits of a plain semaphore, and gives them back.
func (w *worker) drains(t *target) {
	s := w.clients[0].NewPlainSemaphore(t.name, w.total()...)
	w.mu.Lock()
	t.untold = time.Now().Add(5 * time.Second)
	for _, o := range t.waiting {
		o.alone = false
	}
	w.mu.Unlock()
	n, err := s.DrainPermits(context.Background())
	time.Sleep(w.upTo(time.Second))
	switch {
	case err != nil || n <= 0:
	case w.one(2):
		err = s.AddPermits(context.Background(), n)
	default:
		err = s.Release(context.Background(), n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch(t)
	if err != nil || n > permits {
		w.brokenf("permits: %v drained %d of %s, and could not give them back: %v", w.process, n, t.name, err)
	}
}

// reserved reports whether the line may keep free permits for a process that it has told: that has asked for them, and the question or its reply
// takes long. In a long wait, that may happen in one turn after another. The run must be locked.
func (r *run) reserved(t *target) bool {
	if !t.counts() || !r.faulty() {
		return false
	}
	now := time.Now()
	usual := now.Add(-4 * r.Faults.Latency)
	return slices.ContainsFunc(r.processes, func(p *process) bool {
		return slices.ContainsFunc(p.inquest.since(subject{0, t.name}, now.Add(-commandTimeout)), func(q question) bool {
			return q.sort == acquires && q.told == nothing && q.sent.Before(usual)
		})
	})
}
