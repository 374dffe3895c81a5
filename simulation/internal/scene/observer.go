package scene

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/go-rlock/rlock"
)

// The code of the application that panics now and then in a scene.
const (
	panicObserver = "observer"
	panicLogger   = "logger"
)

// panicking is code of the application that panics once in a few calls.
type panicking struct {
	mu     sync.Mutex
	random *rand.Rand // nil: it never panics
}

func (p *panicking) call() {
	p.mu.Lock()
	panics := p.random != nil && p.random.IntN(8) == 0
	p.mu.Unlock()
	if panics {
		panic("code of the application")
	}
}

// observer counts what it is told.
type observer struct {
	panicking

	started, ended, acquired, over int
}

func (o *observer) add(n *int) {
	o.mu.Lock()
	*n++
	o.mu.Unlock()
	o.call()
}

// AcquireStart implements [rlock.Observer].
func (o *observer) AcquireStart(ctx context.Context, _ rlock.AcquireStartData) context.Context {
	o.add(&o.started)
	return ctx
}

// AcquireEnd implements [rlock.Observer].
func (o *observer) AcquireEnd(_ context.Context, d rlock.AcquireEndData) {
	if d.Err == nil && !d.Reentry && d.Op != "await" {
		o.mu.Lock()
		o.acquired++
		o.mu.Unlock()
	}
	o.add(&o.ended)
}

// HoldEnd implements [rlock.Observer].
func (o *observer) HoldEnd(ctx context.Context, d rlock.HoldEndData) {
	if dropped, ok := ctx.Value(droppedKey{}).(*dropped); ok {
		o.mu.Lock()
		if dropped.end == "" || d.End != rlock.HoldUnlocked { // a member of a red lock that was not needed ends apart
			dropped.end = d.End
		}
		o.mu.Unlock()
	}
	o.add(&o.over)
}

// Event implements [rlock.EventObserver].
func (o *observer) Event(rlock.EventData) { o.call() }

// observed checks that an observer was told of the end of everything of whose beginning it was told, unless code of the application
// panics. The run must be locked.
func (r *run) observed(p *process) {
	o := p.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(r.Panics) == 0 && (o.ended != o.started || o.over > o.acquired || o.over < o.acquired-int(p.clients[0].Stats().DroppedReports)) {
		r.brokenf("observer: that of %v was told of %d acquisitions and %d ends of them, of %d holds and %d ends of them",
			p, o.started, o.ended, o.acquired, o.over)
	}
}
