package watchdog

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// round is the renewals of similar leases for one node: it sends some batches in one pipeline, and after their replies the
// next ones. So a confirmation counts from the moment its own pipeline was sent, however many locks are held. A server that
// is slow to renew all locks is never asked for the same one twice, and a sick node delays no renewal elsewhere. Nor do a
// hundred thousand long leases delay the renewal of a short one.
type round struct {
	key roundKey

	// Guarded by Watchdog.mu.
	pause    time.Duration // how long the replies may take, by the shortest lease
	batches  []Batch       // yet to be sent, shorter leases first
	inFlight []Batch       // of the present pipeline
	sent     clock.Instant // when the present pipeline was sent
	size     int           // how many locks go into a pipeline
}

// roundKey identifies a round.
type roundKey struct {
	node driver.Node // nil where there is one server, or the node is not known
	// class is that of the leases: those of one class allow similar times for the reply.
	class int
}

// minPipeline is the minimum number of locks that a pipeline renews, if there are as many. That is little work for a server,
// and enough that the round trip costs little per lock.
const minPipeline = 1000

// pipeline is the part of a round that goes out at once.
type pipeline struct {
	batches []Batch
	calls   []wire.Call   // one for each batch
	sent    clock.Instant // the moment from which the renewals count
}

// stalled takes away the batches of each round that has had no reply for too long. They are sent again on another
// connection, while the reply may still come. It reports whether there was such a round.
func (w *Watchdog) stalled(now clock.Instant) (all []Batch, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = 0
	for key, r := range w.rounds {
		if late := r.sent.Add(r.pause); late > now {
			w.arm(late)
			continue
		}
		delete(w.rounds, key)
		all = slices.Concat(all, r.inFlight, r.batches)
		r.batches = nil
		silent = true
	}
	return all, silent
}

// send adds batches to the rounds of their nodes.
func (w *Watchdog) send(batches []Batch) {
	switch {
	case len(batches) == 0:
	case !w.conn.BySlot():
		w.join(nil, batches)
	default:
		w.start(func() { w.route(batches) }) // to find a node, it may have to ask a node
	}
}

// start runs a job on a worker. It does nothing once the client is closed, because nothing is renewed then.
func (w *Watchdog) start(job func()) {
	if !w.tasks.Begin() {
		return
	}
	w.tasks.Run(task.Func(func() {
		defer w.tasks.End()
		job()
	}))
}

// route adds batches to the rounds of a cluster's nodes.
func (w *Watchdog) route(batches []Batch) {
	byNode := make(map[driver.Node][]Batch)
	for _, b := range batches {
		node, err := w.conn.Node(context.Background(), b.Name())
		if err != nil {
			node = nil
		}
		byNode[node] = append(byNode[node], b)
	}
	for node, batches := range byNode {
		w.join(node, batches)
	}
}

// join adds batches to the rounds of a node, and starts the rounds that are new.
func (w *Watchdog) join(node driver.Node, batches []Batch) {
	byClass := make(map[int][]Batch)
	for _, b := range batches {
		class := classOf(b.Shortest())
		byClass[class] = append(byClass[class], b)
	}
	for class, batches := range byClass {
		if r := w.roundOf(roundKey{node, class}, batches); r != nil {
			w.start(func() { w.runRound(r) })
		}
	}
}

// classOf returns the class of a lease. Within a class, the times for the reply differ by less than a factor of two.
func classOf(lease time.Duration) int {
	return bits.Len64(uint64(config.RenewalTimeout(lease) / config.RenewalTimeout(0))) // positive
}

// roundOf adds batches to a round. It returns the round if that is new, and nil otherwise.
func (w *Watchdog) roundOf(key roundKey, batches []Batch) *round {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, known := w.rounds[key]
	if !known {
		if w.tasks.IsClosed() {
			return nil
		}
		r = &round{key: key, pause: time.Hour, sent: clock.Now(), size: minPipeline}
		w.rounds[key] = r
	}
	r.batches = append(r.batches, batches...)
	slices.SortStableFunc(r.batches, func(a, b Batch) int { return cmp.Compare(a.Shortest(), b.Shortest()) })
	r.pause = min(r.pause, config.RenewalTimeout(r.batches[0].Shortest()))
	w.arm(r.sent.Add(r.pause))
	if known {
		return nil
	}
	return r
}

func (w *Watchdog) runRound(r *round) {
	for {
		p := w.next(r)
		if len(p.calls) == 0 {
			return
		}
		w.renew(r.key.node, p)
	}
}

// next returns the next pipeline of a round. One without calls means that the round is over.
func (w *Watchdog) next(r *round) pipeline {
	sent, size, pause := w.beginPipeline(r)
	p := pipeline{sent: sent}
	for n := 0; n < size; {
		b := w.take(r, len(p.calls) > 0)
		if b == nil {
			break
		}
		// Decide which locks are still to be renewed only here, right before the call is sent.
		wanted, call := b.Wanted(sent)
		if len(call.Keys) == 0 {
			continue
		}
		n += call.Numbers()
		p.batches, p.calls = append(p.batches, wanted), append(p.calls, call)
	}
	if len(p.calls) > 0 {
		w.Alarm(sent.Add(pause))
	}
	return p
}

// beginPipeline returns the moment from which the next pipeline of a round counts, how many locks go into it, and how long
// the replies may take.
func (w *Watchdog) beginPipeline(r *round) (now clock.Instant, size int, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = clock.Now()
	if r.inFlight != nil && now.Sub(r.sent) < r.pause/3 {
		r.size *= 2 // the round trip is long, so send more at a time
	}
	r.inFlight, r.sent = nil, now
	return now, r.size, r.pause
}

// take moves a batch of a round into its pipeline. It returns nil if there is none, or if the client is closed. The round
// is over then, unless its pipeline has something to send.
func (w *Watchdog) take(r *round, sending bool) Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(r.batches) > 0 && !w.tasks.IsClosed() {
		b := r.batches[0]
		r.batches[0] = nil // the rest may stay in memory for long
		r.batches = r.batches[1:]
		r.inFlight = append(r.inFlight, b)
		return b
	}
	if !sending && w.rounds[r.key] == r {
		delete(w.rounds, r.key)
	}
	return nil
}

// renew sends a pipeline and takes in the replies.
func (w *Watchdog) renew(node driver.Node, p pipeline) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.CommandTimeout)
	defer cancel()
	replies := make([]wire.Reply, len(p.calls))
	w.conn.Pipe(ctx, node, p.calls, replies)
	for i, b := range p.batches {
		b.Renewed(p.sent, replies[i], clock.Now())
	}
}
