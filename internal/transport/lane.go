package transport

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

const (
	// batchSize is how many calls go into one pipeline at most. With several small pipelines under way, the server runs one while
	// this process makes the next. Their order does not matter, because each call has a caller that waits for it.
	batchSize = 48

	// patience is how long calls wait in a queue while no batch takes any. Then batches whose pipelines have been under way for as
	// long count as stuck, if there are connection slots for them, and others begin beside them. A server that is merely busy
	// answers a pipeline sooner.
	patience = 10 * time.Millisecond

	// longQueue is how many calls a queue has whose rest a batch does not move to the front. To move a short one saves allocations.
	longQueue = 1024
)

// lane is the way to one node. While few calls are under way, each goes out at once. When there are more, calls join a queue,
// and batches take them from there, until there are few again.
type lane struct {
	slots slot // nil means no limit

	mu     sync.Mutex
	alone  int               // how many calls are under way outside batches
	queue  []*errand         // in state seeking, or abandoned
	left   int               // how many of the queue are abandoned
	stops  []<-chan struct{} // Question.Stop of the calls in the queue, each once; mostly they have the same
	looks  int               // how often drop looked at the whole queue, for a test
	sent   []*batch          // whose pipelines are under way, with calls that may become overdue
	active []*batch          // at most Conn.batches of them are not stuck
	stuck  int               // how many of the active are stuck
	urgent *batch            // one beside the active, for calls that must not wait for them
	took   bool              // an active batch has taken calls since relieve looked for stuck ones
	ticks  bool              // calls wait for a batch, so relieve looks every patience
	alarm  clock.Instant     // when relieve looks next; zero means never
	ticker *time.Timer       // calls it then
}

func (c *Conn) newLane() *lane {
	w := &lane{}
	if c.Slots > 0 {
		w.slots = make(slot, c.Slots)
	}
	return w
}

// laneOf returns the lane to the node that has a key, and that node. Outside clusters the node is nil.
func (c *Conn) laneOf(ctx context.Context, key string) (*lane, driver.Node, *fault.Error) {
	if !c.cluster {
		return c.lane, nil, nil
	}
	node, err := c.driver.Node(ctx, key)
	if err != nil {
		return nil, nil, unsent(err)
	}
	c.routed.Store(true)
	if node == nil {
		return c.lane, nil, nil
	}
	v, ok := c.lanes.Load(node.Addr())
	if !ok {
		v, _ = c.lanes.LoadOrStore(node.Addr(), c.newLane())
	}
	w, _ := v.(*lane)
	return w, node, nil
}

// laneFor returns the lane of a call that may be gathered: a holder's own acquire, count or release. It is nil for any other call, because
// queries and unlocks by force are rare, and a call that replicas acknowledge needs WAIT right behind it. It is nil, too, while the topology
// is not known: learning it may take long.
func (c *Conn) laneFor(ctx context.Context, q *Question) (w *lane) {
	acked := q.Acked && c.Acks != nil
	switch {
	case c.batches == 0, acked:
	case !q.Call.Script.Gathers && (q.Call.Script.Numbers != 0 && !q.Call.Script.Short || q.Call.Args.Holder == nil):
	case c.cluster && !c.routed.Load():
	case c.cluster:
		w, q.node, _ = c.laneOf(ctx, q.Call.Key()) // an error comes back when the call is sent
	default:
		w = c.lane
	}
	return w
}

// enter decides how a call is sent: alone, or in a batch. It counts a call that is sent alone, until [lane.exit].
func (c *Conn) enter(ctx context.Context, q *Question) (w *lane, alone bool) {
	if w = c.laneFor(ctx, q); w == nil {
		return nil, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	full := q.Slot != NoSlot && w.slots.full() // maybe with stuck batches
	if full || w.alone >= c.Crowd || len(w.queue) > 0 || len(w.active) > w.stuck {
		return w, false
	}
	w.alone++
	return w, true
}

// exit ends a call that went out alone.
func (w *lane) exit() {
	if w != nil {
		w.mu.Lock()
		w.alone--
		w.mu.Unlock()
	}
}

// join puts errands into the queue, and begins as many batches as they need, if there may be more.
func (c *Conn) join(w *lane, errands ...*errand) {
	now := clock.Now()
	w.mu.Lock()
	w.queue = append(w.queue, errands...)
	for _, e := range errands {
		e.began = now
		if stop := e.question.Stop; stop != nil && !slices.Contains(w.stops, stop) {
			w.stops = append(w.stops, stop)
		}
	}
	for left := len(errands); ; left -= batchSize {
		b := c.begin(w)
		if b == nil && !w.ticks {
			w.ticks, w.took = true, false
			c.lookAt(w, now.Add(min(patience, c.CommandTimeout)))
		}
		w.mu.Unlock()
		if b == nil {
			return
		}
		if c.tasks.Run(b); left <= batchSize {
			return
		}
		w.mu.Lock()
	}
}

// begin returns a new batch if calls wait for one, and there may be one more. w.mu must be held.
func (c *Conn) begin(w *lane) *batch {
	if len(w.queue) == 0 || len(w.active)-w.stuck >= c.batches {
		return nil
	}
	b := c.newBatch(w)
	w.active = append(w.active, b)
	return b
}

// withdraw takes an errand out of the queue, because its caller leaves. It reports false if a batch has taken it.
func (w *lane) withdraw(e *errand) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.state.CompareAndSwap(seeking, abandoned) {
		return false
	}
	w.left++
	if w.left > len(w.queue)/2 {
		w.drop(func(e *errand) bool { return e.state.Load() == abandoned })
	}
	return true
}

// drop removes from the queue every errand for which gone returns true, as it must for those that are abandoned. w.mu must be held.
func (w *lane) drop(gone func(*errand) bool) {
	w.looks++
	kept := w.queue[:0]
	for _, e := range w.queue {
		if !gone(e) {
			kept = append(kept, e)
		}
	}
	clear(w.queue[len(kept):])
	w.queue, w.left = kept, 0
}

// shift removes the first n errands from the queue. w.mu must be held.
func (w *lane) shift(n int) {
	if len(w.queue) > longQueue {
		clear(w.queue[:n])
		w.queue = w.queue[n:]
	} else {
		w.queue = slices.Delete(w.queue, 0, n)
	}
}

// lookAt has relieve look at that moment, or before. w.mu must be held.
func (c *Conn) lookAt(w *lane, at clock.Instant) {
	if w.alarm != 0 && w.alarm <= at {
		return
	}
	w.alarm = at
	if after := at.Sub(clock.Now()); w.ticker == nil {
		w.ticker = time.AfterFunc(after, func() { c.relieve(w) })
	} else {
		w.ticker.Reset(after)
	}
}

// relieve runs when calls have waited for patience, or one for the command timeout. If no batch has taken any since it last looked, each
// late one for which a connection slot is free takes that slot and counts as stuck, so another batch may begin beside it. If none may
// begin, the urgent batch sends the calls that must not wait. Overdue calls end here, and acquisitions if the client is closed, or if
// their Stop is.
func (c *Conn) relieve(w *lane) {
	now := clock.Now()
	w.mu.Lock()
	w.alarm = 0
	c.endOverdue(w, now)
	if c.tasks.IsClosed() || slices.ContainsFunc(w.stops, isClosed) {
		w.drop(func(e *errand) bool { return e.state.Load() == abandoned || c.stops(e) })
	}
	if len(w.queue) == 0 {
		w.ticks, w.stops = false, nil
		w.mu.Unlock()
		return
	}
	var next []*batch
	if !w.took {
		for _, b := range w.active {
			if b.late() && w.stuck < c.spare && w.slots.tryTake() {
				b.stuck = true
				w.stuck++
			}
		}
		for b := c.begin(w); b != nil; b = c.begin(w) {
			next = append(next, b)
		}
		if len(next) == 0 && w.urgent == nil && slices.ContainsFunc(w.queue, c.needsNoSlot) {
			w.urgent = c.newBatch(w)
			next = append(next, w.urgent)
		}
	}
	w.took = false
	c.lookAt(w, now.Add(patience))
	w.mu.Unlock()
	for _, b := range next {
		c.tasks.Run(b)
	}
}

// endOverdue ends the calls that joined the queue a command timeout ago, of which the oldest come first: their callers have no timer. A
// call under way goes on without its caller. w.mu must be held.
func (c *Conn) endOverdue(w *lane, now clock.Instant) {
	gone, since := 0, now.Add(-c.CommandTimeout)
	for ; gone < len(w.queue); gone++ {
		e := w.queue[gone]
		if e.state.Load() == abandoned {
			w.left--
		} else if e.began > since {
			break
		}
		c.refuse(e, noConnection(context.Background()))
	}
	w.shift(gone)
	for _, b := range w.sent {
		for _, e := range b.errands {
			if e.began > since {
				c.lookAt(w, max(e.began.Add(c.CommandTimeout), now.Add(patience)))
				break
			}
			if e.state.CompareAndSwap(running, abandoned) {
				e.done <- struct{}{}
			}
		}
	}
}

// refuse ends a call of a queue, unless its caller has left. w.mu must be held.
func (c *Conn) refuse(e *errand, err *fault.Error) {
	if e.state.CompareAndSwap(seeking, returned) {
		e.reply = wire.Reply{N: -1, Err: err}
		e.done <- struct{}{}
		c.tasks.End()
	}
}

// needsNoSlot reports whether a call must not wait until acquisitions have ended.
func (c *Conn) needsNoSlot(e *errand) bool {
	return e.question.Slot == NoSlot || e.question.Slot == DutySlot && c.tasks.IsClosed()
}

func isClosed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// stops ends an acquisition in a queue if the client is closed, or if the wait for a slot is to end. w.mu must be held.
func (c *Conn) stops(e *errand) bool {
	if q := &e.question; q.Slot != WaitSlot || !isClosed(q.Stop) && !c.tasks.IsClosed() {
		return false
	}
	c.refuse(e, notSent(fault.ErrClosed))
	return true
}
