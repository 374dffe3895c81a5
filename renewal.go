package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// batch is possessions that one call of a script renews.
type batch struct {
	script      *script
	slot        uint16
	possessions []*possession
}

// round is renewals on their way to one node: some batches in one pipeline, and when these are answered the next ones.
// So a confirmation counts from when its own pipeline was sent, however many locks are held, and a server that is slow
// to renew them all is never asked for the same twice. A sick node delays no renewal elsewhere.
type round struct {
	node *redis.Client // nil where there is one server, or the node is not known

	// Guarded by client.mu.
	batches []batch   // yet to be sent
	flying  []batch   // sent, and not answered
	sent    time.Time // when these were
	size    int       // how many possessions go into a pipeline
}

// minFlight is how many possessions a pipeline renews at least, if there are as many: little work for a server, and
// enough that the way to it does not count.
const minFlight = 1000

// gather makes batches of what is due, and with it of what will be soon, so that locks taken one by one come to be
// renewed together. It requires client.mu.
func (w *watchdog) gather(now time.Time) []batch {
	type group struct {
		script *script
		slot   uint16
	}
	bySlot := w.client.bySlot.Load()
	open := make(map[group]int) // where the group's unfilled batch is
	var all []batch
	for _, p := range w.heap.before(instantOf(now).add(w.client.watchdogTimeout / 6)) {
		if p.stage != held || p.past(now) || p.inRound || !p.renewing() || p.failures > 0 && p.renewAt > instantOf(now) {
			continue
		}
		p.inRound = true
		w.plan(p)
		g := group{script: p.lock.kind.renew}
		if bySlot {
			g.slot = slot(p.lock.nameKey.name)
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

// stalled takes away the batches of each round that has gone unanswered for too long: they are sent on another
// connection, while the answer may still come. It requires client.mu.
func (w *watchdog) stalled(now time.Time) []batch {
	var all []batch
	for node, r := range w.rounds {
		if late := instantOf(r.sent).add(w.retryPause()); late > instantOf(now) {
			w.wake(late)
			continue
		}
		delete(w.rounds, node)
		all = slices.Concat(all, r.flying, r.batches)
		r.batches = nil
		w.client.sawError(errNoAnswer) // long before go-redis gives up a node that hangs
	}
	return all
}

// send adds batches to the rounds of their nodes. It requires client.mu.
func (w *watchdog) send(batches []batch) {
	c := w.client
	switch {
	case len(batches) == 0:
	case c.cluster == nil:
		w.join(nil, batches)
	default:
		c.active++
		c.workers.run(func() { w.route(batches) }) // who knows the nodes may have to ask one
	}
}

// route adds batches to the rounds of a cluster's nodes. It counts as active already.
func (w *watchdog) route(batches []batch) {
	c := w.client
	defer c.end()
	nodes := make(map[*redis.Client][]batch)
	for _, b := range batches {
		node := w.node(b)
		nodes[node] = append(nodes[node], b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, batches := range nodes {
		w.join(node, batches)
	}
}

// join adds batches to the round of a node, and starts it if there is none. It requires client.mu.
func (w *watchdog) join(node *redis.Client, batches []batch) {
	r := w.rounds[node]
	if r == nil {
		r = &round{node: node, sent: time.Now(), size: minFlight}
		w.rounds[node] = r
		w.wake(instantOf(r.sent).add(w.retryPause()))
		w.client.active++
		w.client.workers.run(func() { w.carry(r) })
	}
	r.batches = append(r.batches, batches...)
}

// node returns the client of the node that has a batch, or nil if none is known.
func (w *watchdog) node(b batch) *redis.Client {
	node, err := w.client.cluster.MasterForKey(context.Background(), b.possessions[0].lock.nameKey.name)
	if err != nil {
		return nil
	}
	return node
}

// carry carries out a round. It counts as active already.
func (w *watchdog) carry(r *round) {
	defer w.client.end()
	for {
		flight, sent := w.next(r)
		if len(flight) == 0 {
			return
		}
		w.renew(flight, sent)
	}
}

// next returns what the next pipeline of a round has to renew, and the moment from which that counts. Nothing: the round
// is over.
func (w *watchdog) next(r *round) ([]batch, time.Time) {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if r.flying != nil && now.Sub(r.sent) < w.retryPause()/3 {
		r.size *= 2 // over a long way, more at a time
	}
	r.flying, r.sent = nil, now
	for n := 0; len(r.batches) > 0 && n < r.size && !c.closed; r.batches = r.batches[1:] {
		b := r.batches[0]
		r.batches[0] = batch{} // the rest may be with us for long
		if b.possessions = w.wanted(b.possessions, now); len(b.possessions) > 0 {
			n += len(b.possessions)
			r.flying = append(r.flying, b)
		}
	}
	if len(r.flying) > 0 {
		w.wake(instantOf(now).add(w.retryPause()))
	} else if w.rounds[r.node] == r {
		delete(w.rounds, r.node)
	}
	return r.flying, now
}

// wanted returns the possessions that are still to be renewed, and notes that they are about to be. It requires
// client.mu.
func (w *watchdog) wanted(queued []*possession, now time.Time) []*possession {
	wanted := make([]*possession, 0, len(queued))
	for _, p := range queued {
		switch {
		case !p.inRound || p.stage != held || p.past(now):
		case !p.renewing():
			p.inRound = false
			w.plan(p)
		default:
			p.sending(w.client.watchdogTimeout)
			p.lock.wired.Store(nil)
			wanted = append(wanted, p)
		}
	}
	return wanted
}

// renew sends batches and takes in the answers.
func (w *watchdog) renew(batches []batch, sent time.Time) {
	c := w.client
	ctx, cancel := context.WithTimeout(context.Background(), c.commandTimeout)
	defer cancel()
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
			if p.own != nil {
				keys = append(keys, b.script.of(*p.own)...)
			} else {
				keys = append(keys, p.lock.nameKey.name) // one key is all that these renewals need
			}
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
			p.inRound = false
			p.alone = redis.HasErrorPrefix(err, "TRYAGAIN") // a slot on the move, with the batch on both sides
			p.renewAt = instantOf(time.Now()).add(backoff(int(p.failures), w.retryPause()))
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

// before returns what is due before a moment, the first ones roughly first.
func (h *dueHeap) before(moment instant) []*possession {
	var found []*possession
	look := func(i int) {
		if i < len(*h) && (*h)[i].due < moment {
			found = append(found, (*h)[i])
		}
	}
	look(0)
	for i := 0; i < len(found); i++ { // the children of what is due later are, too
		at := int(found[i].index)
		look(2*at + 1)
		look(2*at + 2)
	}
	return found
}
