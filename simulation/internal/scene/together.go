package scene

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// The ways in which an owner acquires its lock a second time.
const (
	briefly = 5 // below, it unlocks at once
	kept    = 8 // below, it unlocks before it unlocks the hold; otherwise it acquires only then
)

// again acquires the lock as its owner a second time. It returns what it has got, or nil.
func (w *worker) again(lock handles.Any, hold *rlock.Hold, h *holder) *rlock.Hold {
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	asked, lease := time.Now(), firstTerm-200*time.Millisecond
	var opts []rlock.AcquireOption
	switch {
	case h.lease > 0:
		opts, lease = append(opts, rlock.Lease(h.lease)), min(lease, h.lease)
	case h.verb%2 == 1:
		opts = append(opts, rlock.RenewedLease(shortLease))
	}
	inner, err := lock.TryAcquire(hold.Context(), opts...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks().Reentry(w.process, hold, inner, err)
	switch {
	case w.pausedSince(asked) > 0:
	case err == nil && inner.Err() == nil && time.Until(inner.Deadline()) < lease/4:
		w.brokenf("nearly over: a re-entry of %v is good for %v", w.process, time.Until(inner.Deadline()))
	case errors.Is(err, rlock.ErrNotAcquired) && hold.Err() == nil && hold.Context().Err() == nil:
		w.brokenf("re-entry: the owner of %v was refused: %v", w.process, err)
	case err == nil && w.wasDeleted(h, asked):
		w.brokenf("re-entry: %v could re-enter %s, which was deleted", w.process, h.of.name)
	}
	w.class(err)
	return inner
}

// wasDeleted reports whether Redis no longer has an owner, because somebody has deleted the lock since it got it, and before a moment. The run
// must be locked.
func (r *run) wasDeleted(h *holder, before time.Time) bool {
	comesBack := slices.ContainsFunc(r.Nemeses, func(n string) bool { return n == nemesisRestore || n == nemesisFailover })
	return !r.faulty() && !comesBack && h.since.Before(h.of.deleting) && h.of.deleted.Before(before)
}

// shortLease is the lease of a second acquisition that is renewed more often than the first one.
const shortLease = 12 * time.Second

// ends ends a second acquisition, while which the hold cannot be exported.
func (w *worker) ends(inner, hold *rlock.Hold) {
	if inner == nil || w.dead() {
		return
	}
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	if w.one(3) {
		if _, err := hold.Export(context.Background()); err == nil {
			w.note("ticket: %v exported a hold whose lock its owner has acquired again", w.process)
		}
	}
	err := inner.Unlock(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
}

// keepsUp checks that half of a lease is left that is renewed. The run must be locked.
func (r *run) keepsUp(h *holder) {
	if h.term == nil || h.told || h.ends || h.lease > 0 || h.p.dead() || h.p.ended || h.err() != nil {
		return
	}
	quiet := !r.faulty() && !r.Unsafe && r.MaxHold == 0 && !r.Panics && len(r.servers) == 1
	if !quiet || time.Now().Before(r.disturbed) || time.Since(h.since) < time.Second+20*r.Faults.Latency+4*r.slowest() || h.p.pausedSince(h.since) > 0 {
		return
	}
	if left := time.Until(h.term()); left < h.watchdog()/2 {
		h.told = true
		r.brokenf("renewal: of the lease of %v, %v has only %v left for %s", h.watchdog(), h.p, left, h.of.name)
	}
}

// together has goroutines of one owner use the lock at once. The first one re-enters. While Redis carries that out, a second one asks with the
// context of the hold, and two unlock the hold, after which that context stands for nobody but the owner that it had before. The lock is the first one's until it unlocks.
func (w *worker) together(h *holder, hold *rlock.Hold, lock *rlock.Lock) {
	w.occupied(w.process, 2)
	defer w.occupied(w.process, -2)
	ctx, before, deadline := context.WithoutCancel(hold.Context()), hold.Err(), hold.Deadline()
	var inner, second *rlock.Hold
	var err error
	var unlocks [2]error
	var first, all sync.WaitGroup
	first.Go(func() { inner, err = lock.TryAcquire(ctx) })
	time.Sleep(w.Faults.Latency / 8)
	for i := range unlocks {
		all.Go(func() { unlocks[i] = hold.Unlock(context.Background()) })
	}
	time.Sleep(w.Faults.Latency / 8)
	all.Go(func() {
		if other, err := lock.TryAcquire(ctx); err == nil {
			second = other
		}
	})
	first.Wait()
	alone := inner == nil && !w.dead()
	if alone { // nothing of the owner is left but the hold, which ends
		w.leaves(h, before)
	}
	all.Wait()
	if w.dead() {
		if alone {
			w.occupied(w.process, -len(h.of.atoms()))
		}
		return
	}
	if errors.Is(unlocks[0], rlock.ErrNotHeld) && !errors.Is(unlocks[0], rlock.ErrLost) { // the other one came first
		slices.Reverse(unlocks[:])
	}
	w.mu.Lock()
	for _, e := range append(unlocks[:], err) {
		w.class(e)
	}
	h.err, h.ctx, h.term, h.unsure = func() error { return nil }, nil, nil, true
	if inner != nil {
		h.err, h.term = inner.Err, inner.Deadline
	}
	good := !h.owned && before == nil && inner != nil && inner.Err() == nil && w.pausedSince(h.asked) == 0
	if good && second != nil {
		w.brokenf("owner: %v got %s with the context of a hold that is over, although another owner has it", w.process, h.of.name)
	}
	w.mu.Unlock()
	if unlocks[0] == nil {
		w.unlocksAgain(unlocks[1], h.of)
	}
	if second != nil {
		_ = second.Unlock(context.Background())
	}
	if inner != nil {
		time.Sleep(w.upTo(w.Hold))
		before, deadline = inner.Err(), inner.Deadline()
		w.leaves(h, before)
	}
	began, wrong := time.Now(), unlocks[0]
	if inner != nil {
		wrong = inner.Unlock(context.Background())
	}
	w.unlocked(h, before, wrong, deadline, time.Since(began))
}
