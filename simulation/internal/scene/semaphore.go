package scene

import (
	"context"
	"time"

	"github.com/go-rlock/rlock"
)

// adds gives a semaphore one more permit for a while, unless a command may be in doubt: then nobody would know how many it has.
func (w *worker) adds(t *target) {
	s, _ := w.acquirer(t, false).(*rlock.Semaphore)
	if w.faulty() || len(w.Nemeses) > 0 || w.Faults.Panic > 0 {
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
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.extra--
	w.touch(t)
	if err != nil {
		w.brokenf("permits: %v could not change the number of %s: %v", w.process, t.name, err)
	}
}
