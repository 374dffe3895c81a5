package scene

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// adds gives a semaphore one more permit for a while, unless a command may be in doubt: then nobody would know how many it has.
func (w *worker) adds(t *target) {
	if w.faulty() || len(w.Nemeses) > 0 {
		return
	}
	s, ok := w.acquirer(t, false).(*rlock.Semaphore)
	if !ok {
		w.drains(t)
		return
	}
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

// drains takes the free permits of a plain semaphore, and gives them back.
func (w *worker) drains(t *target) {
	s, _ := w.acquirer(t, false).(*rlock.PlainSemaphore)
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
