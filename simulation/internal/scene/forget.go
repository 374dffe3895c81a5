package scene

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock"
)

// collector runs the garbage collector, which finds the holds that the program has dropped. It is outside of the bubble: what the runtime
// does meanwhile wakes no goroutine of the bubble, so that it changes no drawn order. Time in the bubble stands still until it is done.
var collector = func() chan *atomic.Bool {
	requests := make(chan *atomic.Bool)
	go func() {
		for found := range requests {
			for runtime.GC(); !found.Load(); { // the runtime calls its cleanups on a goroutine of its own
				runtime.Gosched()
			}
			collected <- struct{}{}
		}
	}()
	return requests
}()

var collected = make(chan struct{})

// endsDropped is how long a client may take to end a hold that the program has dropped: see rule B.11.
const endsDropped = time.Second + 100*time.Millisecond

// dropped is a hold that the program drops, as the observer sees it.
type dropped struct {
	end rlock.HoldEnding // guarded by the observer; empty means that it goes on
}

type droppedKey struct{}

// forgets uses a target once, and drops the hold instead of unlocking it.
func (w *worker) forgets(t *target, p plan) {
	p.try, p.lease, p.atLeast, p.past = false, 0, 0, nil
	ctx, opts, cancel := w.terms(&p)
	defer cancel()
	d := new(dropped)
	ctx = context.WithValue(ctx, droppedKey{}, d)
	a := w.asks(p)
	h, found := w.lostSight(ctx, t, a, opts)
	if h == nil || w.dead() {
		return
	}
	w.trace.Note("%v drops its hold of %s", w.process, t.name)
	w.mu.Lock()
	free := w.drops(h)
	before := w.ended
	w.mu.Unlock()
	w.occupied(w.process, len(t.atoms())) // its client has it until the lease ends
	w.workers.Go(func() {
		time.Sleep(time.Until(free))
		w.occupied(w.process, -len(t.atoms()))
	})
	collector <- found
	<-collected
	time.Sleep(endsDropped)
	if !before {
		w.wasDropped(t, d)
	}
}

// drops notes that the program drops a hold. Until its lease ends, the client has it, and refuses other owners without asking Redis. It returns
// when that is over. The run must be locked.
func (r *run) drops(h *holder) time.Time {
	h.ends = true
	r.drop(h)
	free := time.Now().Add(endsDropped + max(watchdogTimeout, h.renewed) + r.strayFor())
	for _, m := range append(h.of.atoms(), h.of) {
		m.untold = later(m.untold, free)
		if m.dropped == nil {
			m.dropped = make(map[*process]time.Time)
		}
		m.dropped[h.p] = free
	}
	return free
}

// lostSight acquires a target, and keeps the hold as long as planned. found is set once the runtime has found that nobody can reach the hold.
func (w *worker) lostSight(ctx context.Context, t *target, a *attempt, opts []rlock.AcquireOption) (h *holder, found *atomic.Bool) {
	hold, err := w.acquirer(t, a.reads).Acquire(ctx, opts...)
	w.answered(ctx, a, err)
	if err != nil || w.dead() {
		return nil, nil
	}
	found = new(atomic.Bool)
	runtime.AddCleanup(hold, func(found *atomic.Bool) { found.Store(true) }, found)
	h = &holder{plan: a.plan, p: w.process, asked: a.asked, since: time.Now(), err: func() error { return nil }, deadline: hold.Deadline(), blind: true}
	w.enters(a, h, hold.Token())
	time.Sleep(a.hold)
	runtime.KeepAlive(hold)
	return h, found
}

// wasDropped checks that the client has ended a hold that the program dropped, and told its observer how.
func (w *worker) wasDropped(t *target, d *dropped) {
	o := w.observer
	o.mu.Lock()
	end := d.end
	o.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead() || w.ended || w.pausedSince(time.Now().Add(-endsDropped)) > 0 || len(w.Panics) > 0 || w.clients[0].Stats().DroppedReports > 0 {
		return
	}
	if end == "" || end == rlock.HoldUnlocked {
		w.brokenf("dropped: %v dropped its hold of %s, and %v later its observer was told of the end %q", w.process, t.name, endsDropped, end)
	}
}
