package scene

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/go-rlock/rlock/observe"
)

// observer counts what it is told. In some scenes it panics once in a few calls.
type observer struct {
	observe.Base

	mu     sync.Mutex
	random *rand.Rand // nil: it never panics

	started, ended, acquired, over int
}

func (o *observer) call() {
	o.mu.Lock()
	panics := o.random != nil && o.random.IntN(8) == 0
	o.mu.Unlock()
	if panics {
		panic("code of the application")
	}
}

func (o *observer) add(n *int) {
	o.mu.Lock()
	*n++
	o.mu.Unlock()
	o.call()
}

// AcquireStart implements [observe.Observer].
func (o *observer) AcquireStart(ctx context.Context, _ observe.AcquireStart) context.Context {
	o.add(&o.started)
	return ctx
}

// AcquireEnd implements [observe.Observer].
func (o *observer) AcquireEnd(_ context.Context, d observe.AcquireEnd) {
	if d.Err == nil && !d.Reentry && d.Op != "await" && d.Kind != kindPlain {
		o.mu.Lock()
		o.acquired++
		o.mu.Unlock()
	}
	o.add(&o.ended)
}

// HoldEnd implements [observe.Observer].
func (o *observer) HoldEnd(context.Context, observe.HoldEnd) {
	o.add(&o.over)
}

// Event implements [observe.Observer].
func (o *observer) Event(observe.Event) { o.call() }

// observed checks that an observer was told of the end of everything of whose beginning it was told, unless observers panic. The run must be locked.
func (r *run) observed(p *process) {
	o := p.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.Panics && (o.ended != o.started || o.over > o.acquired || o.over < o.acquired-int(p.clients[0].Stats().DroppedReports)) {
		r.brokenf("observer: that of %v was told of %d acquisitions and %d ends of them, of %d holds and %d ends of them",
			p, o.started, o.ended, o.acquired, o.over)
	}
}
