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
	heap  dueHeap
	timer *time.Timer // nil until started
	armed time.Time   // when the timer fires; zero: not set

	stopping chan struct{}
	running  sync.WaitGroup
}

func newWatchdog(c *Client) *watchdog {
	return &watchdog{client: c, stopping: make(chan struct{})}
}

// plan sets when a possession must be looked at, from its stage. It requires client.mu.
func (w *watchdog) plan(p *possession) {
	switch p.stage {
	case held:
		if w.client.closed {
			return
		}
		p.due = p.deadline
		if p.renewing() && p.renewAt.Before(p.due) {
			p.due = p.renewAt
		}
		if !p.maxHold.IsZero() && p.maxHold.Before(p.due) {
			p.due = p.maxHold
		}
	case expired:
		p.due = p.deadline.Add(p.margin)
	case detached:
	default:
		return
	}
	if p.index < 0 {
		heap.Push(&w.heap, p)
	} else {
		heap.Fix(&w.heap, p.index)
	}
	w.arm()
}

// arm sets the timer if it would fire too late. (One that fires for nothing is cheaper than one that is always right:
// a lock that is taken and released all day leaves it alone.) It requires client.mu.
func (w *watchdog) arm() {
	if len(w.heap) == 0 {
		return
	}
	due := w.heap[0].due
	if !w.armed.IsZero() && !due.Before(w.armed) {
		return
	}
	w.armed = due
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(due))
		w.running.Go(w.run)
		return
	}
	w.timer.Reset(time.Until(due))
}

// drop forgets a possession. It requires client.mu.
func (w *watchdog) drop(p *possession) {
	if p.index >= 0 {
		heap.Remove(&w.heap, p.index)
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
			p.due = now
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
	renew := false
	c.mu.Lock()
	w.armed = time.Time{}
	for len(w.heap) > 0 && !w.heap[0].due.After(now) {
		p := w.heap[0]
		switch {
		case p.stage == expired:
			p.lose(&ends, "its lease ended", true)
		case p.stage == detached:
			w.drop(p)
			c.workers.run(p.releaseDetached)
		case p.past(now):
			p.expire(&ends)
		case !p.maxHold.IsZero() && !p.maxHold.After(now):
			p.lose(&ends, lostByMaxHold, true)
		case !p.renewing():
			w.plan(p)
		default:
			renew = true
			p.sending(c.watchdogTimeout)
			p.renewAt = now.Add(w.retryPause()) // if no answer comes
			w.plan(p)
			p.picked = true
		}
	}
	var batches []batch
	if renew {
		batches = w.batches(now)
	}
	w.arm()
	c.active += min(len(batches), 1)
	c.mu.Unlock()
	if len(batches) > 0 {
		c.workers.run(func() { w.send(batches) })
	}
	ends.tell()
}

// retryPause is how long a renewal may go unanswered before it is sent again.
func (w *watchdog) retryPause() time.Duration {
	return max(min(w.client.watchdogTimeout/10, time.Second), 20*time.Millisecond)
}

// batch is possessions that one call of a script renews.
type batch struct {
	script      *script
	slot        uint16
	possessions []*possession
}

// batches gathers what is due, and with it what will be soon, so that locks taken one by one come to be renewed
// together. It requires client.mu.
func (w *watchdog) batches(now time.Time) []batch {
	type group struct {
		script *script
		slot   uint16
	}
	soon := now.Add(w.client.watchdogTimeout / 6)
	bySlot := w.client.bySlot.Load()
	open := make(map[group]int) // where the group's unfilled batch is
	var all []batch
	for _, p := range slices.Clone(w.heap) {
		switch {
		case p.picked:
			p.picked = false
		case p.stage == held && p.renewing() && p.failures == 0 && p.renewAt.Before(soon):
			p.sending(w.client.watchdogTimeout)
			p.renewAt = now.Add(w.retryPause())
			w.plan(p)
		default:
			continue
		}
		g := group{script: p.lock.kind.renew}
		if bySlot {
			g.slot = slot(p.id.name)
		}
		i, ok := open[g]
		if !ok || p.alone || len(all[i].possessions) == w.client.batchSize {
			i = len(all)
			if !p.alone {
				open[g] = i
			}
			all = append(all, batch{script: g.script, slot: g.slot})
		}
		all[i].possessions = append(all[i].possessions, p)
	}
	return all
}

// send sends the batches: one pipeline for each node, so that a sick node delays no renewal elsewhere. It counts as
// active already.
func (w *watchdog) send(batches []batch) {
	c := w.client
	defer c.end()
	if c.cluster == nil {
		w.renew(batches)
		return
	}
	nodes := make(map[*redis.Client][]batch)
	for _, b := range batches {
		node := w.node(b)
		nodes[node] = append(nodes[node], b)
	}
	for _, batches := range nodes {
		c.mu.Lock()
		c.active++
		c.mu.Unlock()
		c.workers.run(func() {
			defer c.end()
			w.renew(batches)
		})
	}
}

// node returns the client of the node that has a batch, or nil if none is known.
func (w *watchdog) node(b batch) *redis.Client {
	node, err := w.client.cluster.MasterForKey(context.Background(), b.possessions[0].id.name)
	if err != nil {
		return nil
	}
	return node
}

// renew sends batches and takes in the answers.
func (w *watchdog) renew(batches []batch) {
	c := w.client
	ctx, cancel := context.WithTimeout(context.Background(), c.commandTimeout)
	defer cancel()
	sent := time.Now()
	cmds := w.pipeline(ctx, batches, false)
	var unknown []batch // to the server: it does not have the script
	for i, b := range batches {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			unknown = append(unknown, b)
			continue
		}
		w.renewed(b, sent, cmds[i])
	}
	if len(unknown) > 0 {
		sent = time.Now()
		for i, cmd := range w.pipeline(ctx, unknown, true) {
			w.renewed(unknown[i], sent, cmd)
		}
	}
}

func (w *watchdog) pipeline(ctx context.Context, batches []batch, full bool) []once {
	pipe := w.client.rdb.Pipeline()
	cmds := make([]once, len(batches))
	for i, b := range batches {
		keys := make([]any, 0, len(b.possessions)*b.script.keys)
		args := make([]any, 1, 1+len(b.possessions))
		args[0] = millis(w.client.watchdogTimeout)
		for _, p := range b.possessions {
			keys = append(keys, b.script.of(p.keys)...)
			args = append(args, p.field)
		}
		cmds[i] = b.script.command(ctx, full, keys, args...)
		_ = pipe.Process(ctx, cmds[i]) // queues; cannot fail
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

// renewed takes in the answer for one batch. A hold is renewed, or lost, or nothing is known of it: then it is tried
// again until its deadline. An answer counts only for what is still held.
func (w *watchdog) renewed(b batch, sent time.Time, cmd once) {
	c := w.client
	err := cmd.Err()
	var answers []int64
	if err == nil {
		answers, err = numbers(cmd.Cmd, len(b.possessions))
	}
	if err != nil {
		c.sawError(err)
	}
	var ends endings
	c.mu.Lock()
	for i, p := range b.possessions {
		switch {
		case p.stage != held || p.past(time.Now()):
		case err != nil:
			p.failures++
			p.alone = redis.HasErrorPrefix(err, "TRYAGAIN") // a slot on the move, with the batch on both sides
			p.renewAt = time.Now().Add(backoff(p.failures, w.retryPause()))
			w.plan(p)
		case answers[i] == 1:
			p.confirm(sent, c.watchdogTimeout)
		default:
			p.lose(&ends, lostInRedis, false)
		}
	}
	c.mu.Unlock()
	ends.tell()
}

// dueHeap has the possession that is due first at its head.
type dueHeap []*possession

func (h *dueHeap) Len() int           { return len(*h) }
func (h *dueHeap) Less(i, j int) bool { return (*h)[i].due.Before((*h)[j].due) }

func (h *dueHeap) Swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is called by heap.
func (h *dueHeap) Push(x any) {
	p := x.(*possession)
	p.index = len(*h)
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
