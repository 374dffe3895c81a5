package rlock

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// watchdog looks after everything that has a time of its own: renewals, deadlines, and releases that nobody waits for.
// It is one goroutine, which sleeps until the first of them is due, and does no I/O itself. It starts with the first
// possession, and ends with the client.
type watchdog struct {
	client *Client

	// Guarded by client.mu.
	heap   dueHeap
	rounds map[*redis.Client]*round // the renewals under way, by node
	timer  *time.Timer              // nil until started
	armed  instant                  // when the timer fires; 0: not set

	stopping chan struct{}
	running  sync.WaitGroup
}

func newWatchdog(c *Client) *watchdog {
	return &watchdog{client: c, rounds: make(map[*redis.Client]*round), stopping: make(chan struct{})}
}

// plan sets when a possession must be looked at, from its stage. It requires client.mu.
func (w *watchdog) plan(p *possession) {
	switch p.stage {
	case held:
		if w.client.closed {
			return
		}
		p.due = p.deadline
		if !p.inRound && p.renewing() && p.renewAt < p.due {
			p.due = p.renewAt
		}
		if p.maxHold != 0 && p.maxHold < p.due {
			p.due = p.maxHold
		}
	case expired:
		p.due = p.deadline.add(p.margin)
	case detached:
	default:
		return
	}
	if p.index < 0 {
		heap.Push(&w.heap, p)
	} else {
		heap.Fix(&w.heap, int(p.index))
	}
	w.arm()
}

// arm sets the timer for what is due first. It requires client.mu.
func (w *watchdog) arm() {
	if len(w.heap) > 0 {
		w.wake(w.heap[0].due)
	}
}

// wake sets the timer if it would fire too late. (One that fires for nothing is cheaper than one that is always right: a
// lock that is taken and released all day leaves it alone.) It requires client.mu.
func (w *watchdog) wake(due instant) {
	if w.armed != 0 && due >= w.armed {
		return
	}
	w.armed = due
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(due.time()))
		w.running.Go(w.run)
		return
	}
	w.timer.Reset(time.Until(due.time()))
}

// drop forgets a possession. It requires client.mu.
func (w *watchdog) drop(p *possession) {
	if p.index >= 0 {
		heap.Remove(&w.heap, int(p.index))
	}
}

// retire ends everything but detached releases, which are due at once: the client closes. It requires client.mu, with
// client.closed set.
func (w *watchdog) retire() {
	now := time.Now()
	for _, p := range slices.Clone(w.heap) {
		switch p.stage {
		case held:
			w.drop(p)
		case detached:
			p.due = instantOf(now)
			w.plan(p)
		default: // an expired one has its release before it
		}
	}
}

// retired tells whether nobody would carry out a detached release any more. It requires c.mu.
func (c *Client) retired() bool {
	select {
	case <-c.watchdog.stopping:
		return true
	default:
		return c.closed && c.active == 0
	}
}

// stop ends the watchdog, and waits for that until ctx ends. It requires that client.mu is free.
func (w *watchdog) stop(ctx context.Context) {
	w.client.mu.Lock()
	close(w.stopping)
	w.client.mu.Unlock()
	await(ctx, &w.running)
}

func (w *watchdog) run() {
	for {
		select {
		case <-w.timer.C:
			w.look()
		case <-w.stopping:
			w.timer.Stop()
			return
		}
	}
}

// look does what is due.
func (w *watchdog) look() {
	c := w.client
	now := time.Now()
	var ends endings
	c.mu.Lock()
	w.armed = 0
	batches := w.stalled(now)
	for len(w.heap) > 0 && w.heap[0].due <= instantOf(now) {
		p := w.heap[0]
		switch {
		case p.stage == expired:
			p.lose(&ends, "its lease ended", true)
		case p.stage == detached:
			w.drop(p)
			c.workers.run(p.releaseDetached)
		case p.past(now):
			p.expire(&ends)
		case p.maxHold != 0 && p.maxHold <= instantOf(now):
			p.lose(&ends, lostByMaxHold, true)
		case !p.renewing():
			w.plan(p)
		default:
			batches = append(batches, w.gather(now)...) // this one, and all others
		}
	}
	w.arm()
	w.send(batches)
	c.mu.Unlock()
	ends.tell()
}

// retryPause is how long a renewal may go unanswered before it is sent again.
func (w *watchdog) retryPause() time.Duration {
	return max(min(w.client.watchdogTimeout/10, time.Second), 20*time.Millisecond)
}

// dueHeap has the possession that is due first at its head.
type dueHeap []*possession

func (h *dueHeap) Len() int           { return len(*h) }
func (h *dueHeap) Less(i, j int) bool { return (*h)[i].due < (*h)[j].due }

func (h *dueHeap) Swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = int32(i), int32(j)
}

// Push is called by heap.
func (h *dueHeap) Push(x any) {
	p := x.(*possession)
	p.index = int32(len(*h))
	*h = append(*h, p)
}

// Pop is called by heap.
func (h *dueHeap) Pop() any {
	old := *h
	last := len(old) - 1
	p := old[last]
	old[last] = nil
	p.index = -1
	*h = old[:last]
	return p
}
