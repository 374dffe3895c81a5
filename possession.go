package rlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// possession is one owner's holding of one lock: a holder field in Redis, with a number of its own. It is acquired
// once, counts its open entries, and is released when the last one is unlocked.
//
// It knows no Hold and no context of a user but by the functions that end them, so that a Hold nobody can reach any
// more is noticed (see watchLeak).
type possession struct {
	client *Client
	lock   *Lock // the handle it was acquired through: keys, kind and name
	owner  *owner
	self   owner // its owner when nobody else is
	number int64
	field  string
	own    *[]any // its keys, as they are sent, if one of them is for it alone

	// Guarded by client.mu from here on. There may be a hundred thousand held locks, so what is small is kept together.

	entries []*entry  // open, in the order they were made
	leaked  []*entry  // open, but nobody can unlock them
	first   entry     // mostly the only one
	one     [1]*entry // what entries begins in

	// idle is closed when the operation that busy tells of is over.
	idle chan struct{}
	// last is how the latest attempt of a pending possession went, for the owner's other goroutines, who may not want
	// to wait themselves; nil: not known, or there are none.
	last *outcome
	// beside has a token once the owner holds the other side of the name: then this one need not queue.
	beside chan struct{}
	token  uint64 // of a fenced lock
	// confirmed is from when Redis last said that it has the holder: before that was asked.
	confirmed instant

	lease    time.Duration // of the acquisition
	deadline instant       // when the lock can no longer be guaranteed; only ever moved later
	margin   time.Duration // from the deadline to the moment Redis may have freed the lock
	maxHold  instant       // when WithMaxHold ends it; 0: never
	offered  instant       // when it was last offered to all
	mayLast  instant       // until when Redis may keep the holder, by any command that was sent, answered or not

	stage stage
	// busy is set while an operation of the owner is under way. Operations of one possession take turns, so that the
	// count in Redis follows the count here.
	busy   bool
	queued bool // behind another contender of this process, whose attempts count for it
	// unanswered is set once a command that can make this number a holder has gone unanswered: it may still come.
	unanswered bool
	// orphan is set while Redis may have what only a release removes: a lock that it granted after the verb had left, or
	// a place in a queue.
	orphan bool
	// gone tells that the possession was lost before its deadline, and final that this client ended it on purpose.
	gone, final bool
	// unlocking counts the unlocks that wait for their turn. They come before acquisitions.
	unlocking int32

	// The watchdog's.
	inRound  bool    // its renewal is on its way: sent, or soon to be
	alone    bool    // to be renewed by a script call of its own
	turns    int32   // hand-overs since the lock was last offered to all
	failures int32   // renewals or releases that failed since
	index    int32   // in its heap; -1: not in it
	due      instant // when it must look again
	renewAt  instant
	until    instant // when a detached release gives up
}

// stage is how far a possession has come. It only ever grows.
type stage uint8

const (
	pending   stage = iota // the acquire may be under way
	held                   // confirmed, and inside its deadline as far as anyone has looked
	expired                // past its deadline: over for its users, though Redis may still have it
	releasing              // its last unlock is under way
	detached               // over here; a release that nobody waits for is under way
	over
)

// margin is by how much a lease is trusted less here than in Redis: for the drift between two clocks and the
// granularity of Redis's.
func margin(lease time.Duration) time.Duration {
	return min(lease/100+2*time.Millisecond, lease/4)
}

func (l *Lock) newPossession(o *owner, lease time.Duration) *possession {
	p := &possession{client: l.client, lock: l, owner: o, lease: lease, index: -1}
	if o == nil {
		p.owner = &p.self
	}
	p.number = p.client.numbers.Add(1)
	p.field = p.client.id + ":" + strconv.FormatInt(p.number, 10) + l.kind.fieldSuffix
	if o != nil && l.kind.family == rwFamily {
		p.beside = make(chan struct{}, 1)
	}
	if l.kind.holdKey != "" {
		keys := slices.Clone(l.wire().keys)
		keys = slices.Insert(keys, len(keys)-1, any(suffixed(l.nameKey.name, p.field+l.kind.holdKey)))
		p.own = &keys
	}
	return p
}

// keys are all that its scripts may need, as they are sent.
func (p *possession) keys() []any {
	if p.own != nil {
		return *p.own
	}
	return p.lock.wire().keys
}

// channel is the one on which whoever waits with this possession is woken; empty: none.
func (p *possession) channel() string {
	if p.lock.kind.queues {
		return p.lock.wire().channel + ":" + p.field
	}
	return p.lock.wire().channel
}

// sibling returns what the same owner holds on the other side of the name, or nil. It requires client.mu.
func (p *possession) sibling() *possession {
	return p.client.possession(lockKey{p.lock.nameKey, mainSide + readSide - p.lock.kind.side}, p.owner)
}

// usable tells whether the possession is held as far as is known. It requires client.mu, and works for nil.
func (p *possession) usable() bool { return p != nil && p.stage == held && !p.past(time.Now()) }

// endings collects, under client.mu, what tells the users of a hold that it is over. Canceling a context and logging
// run code of others, and wait until client.mu is free.
type endings []ending

type ending struct {
	why    error
	over   chan struct{}
	cancel context.CancelCauseFunc
	warn   *Lock // lost, while nobody watched
}

// add ends an entry for a reason, unless it has ended before. It requires client.mu.
func (ends *endings) add(e *entry, reason error) {
	if e.why == nil {
		e.why = reason
		*ends = append(*ends, ending{why: reason, over: e.over, cancel: e.cancel})
	}
}

// known drops the warnings: the owner is being told of the loss.
func (ends *endings) known() {
	for i := range *ends {
		(*ends)[i].warn = nil
	}
}

// tell ends the contexts, and leaves the logging to a worker: a handler takes as long as it likes.
func (ends *endings) tell() {
	for _, end := range *ends {
		if end.cancel != nil {
			end.cancel(end.why)
		}
		if end.over != nil {
			close(end.over) // whoever is woken by it finds the context ended
		}
		if end.warn != nil {
			end.warn.client.workers.run(func() {
				end.warn.warn("a lock was lost while it was held; Do and Hold.Context tell the holder", end.why)
			})
		}
	}
}

// turn waits until no other operation of the possession is under way, and starts an unlock. It requires client.mu,
// which it gives up while it waits.
func (p *possession) turn() {
	p.unlocking++
	for p.busy {
		p.awaitIdle(context.Background())
	}
	p.unlocking--
	p.busy = true
}

// awaitIdle waits until the possession is worth another look. It requires client.mu, which it gives up while it waits.
// It may return because ctx has ended.
func (p *possession) awaitIdle(ctx context.Context) {
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.client.mu.Unlock()
	defer p.client.mu.Lock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// notify lets those who wait for the possession look at it again. It requires client.mu.
func (p *possession) notify() {
	if p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// rest ends an operation that turn began. It requires client.mu.
func (p *possession) rest() {
	p.busy = false
	p.notify()
}

// sending notes, before a command that may lengthen the lease is sent, until when Redis may keep the holder. It returns
// the present moment. It requires client.mu.
func (p *possession) sending(lease time.Duration) time.Time {
	sent := time.Now()
	p.mayLast = max(p.mayLast, instantOf(sent).add(p.client.commandTimeout+lease))
	return sent
}

// past tells whether the lock can no longer be guaranteed. It requires client.mu.
func (p *possession) past(now time.Time) bool { return instantOf(now) >= p.deadline }

// confirm counts an acquire, a re-entry or a renewal that Redis granted, from the moment before it was sent. It
// requires client.mu.
func (p *possession) confirm(sent time.Time, lease time.Duration) {
	if deadline := instantOf(sent).add(lease - margin(lease)); deadline > p.deadline {
		p.deadline, p.margin = deadline, margin(lease)
	}
	p.confirmed = instantOf(sent)
	p.failures, p.alone, p.inRound = 0, false, false
	p.renewAt = p.deadline.add(p.margin - p.client.watchdogTimeout*2/3)
	p.client.watchdog.plan(p)
}

// renewing tells whether the watchdog keeps the possession. It requires client.mu.
func (p *possession) renewing() bool {
	return slices.ContainsFunc(p.entries, func(e *entry) bool { return e.renewed })
}

// expire ends the possession for its users at its local deadline. Redis may have the holder a little longer, so that
// an unlock may still find it. It requires client.mu.
func (p *possession) expire(ends *endings) {
	p.endAll(ends, "its lease ended")
	p.stage = expired
	p.client.watchdog.plan(p)
}

// lose ends the possession for its users and here. If Redis may still have it, a detached release follows. It requires
// client.mu.
func (p *possession) lose(ends *endings, why string, release bool) {
	p.gone = !p.past(time.Now())
	p.final = why == lostByMaxHold || why == lostByForce
	p.endAll(ends, why)
	open := false
	for _, e := range p.entries {
		e.lock.forget(e)
		if !e.closed {
			open = true
			e.lock.remember(e)
		}
	}
	p.unregister()
	if open {
		p.owner.lose(p)
	}
	p.dispose(release || p.lock.kind.holdKey != "") // a hold that is gone may have left its field
}

// dispose ends the possession here, with a detached release if Redis may still have the holder, or may yet get it. It
// requires client.mu.
func (p *possession) dispose(release bool) {
	if release || p.unanswered || p.orphan {
		p.detach()
	} else {
		p.finish()
	}
}

// endAll requires client.mu.
func (p *possession) endAll(ends *endings, why string) {
	watched, told := false, len(*ends)
	for _, e := range slices.Concat(p.entries, p.leaked) {
		watched = watched || e.watched
		ends.add(e, fmt.Errorf("%w: %s: %s", ErrLost, quote(e.lock.name), why))
	}
	// The end of a lease is what Lease asked for; any other loss somebody should hear of before the unlock.
	if len(*ends) > told && !watched && p.renewing() {
		(*ends)[told].warn = p.lock
	}
}

// giveUp ends a possession that its verb leaves pending. If a command of it may have taken the lock, or may yet, a
// detached release follows. It requires client.mu.
func (p *possession) giveUp() {
	p.unregister()
	p.dispose(false)
	p.rest()
}

// late takes the answer of an acquire that its verb did not wait for.
func (p *possession) late(reply int64, err error) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	switch {
	case granted(reply):
		p.orphan = true
	case unanswered(err):
		p.unanswered = true
	default:
		return
	}
	if p.stage == over {
		p.detach()
	}
}

// memory is for how long Redis must refuse the number of a possession that is released or given up: not at all if
// every command that could create its holder was answered. It requires client.mu.
func (p *possession) memory() time.Duration {
	if !p.unanswered {
		return 0
	}
	return max(p.lease, 2*time.Minute)
}

// detach hands the release to the watchdog, which tries it until it is answered or can no longer matter. It requires
// client.mu.
func (p *possession) detach() {
	c := p.client
	if c.retired() {
		p.finish()
		return
	}
	now := instantOf(time.Now())
	p.stage = detached
	p.failures = 0
	p.until = max(now.add(max(p.memory(), c.commandTimeout)), p.mayLast)
	if p.lock.kind.queues {
		p.until = p.until.add(c.fairWait) // so long a place in the queue outlasts who stood there
	}
	p.due = now
	c.active++
	c.watchdog.plan(p)
	p.notify()
}

// finish requires client.mu.
func (p *possession) finish() {
	p.stage = over
	p.client.watchdog.drop(p)
	p.notify()
}

func (p *possession) key() possessionKey { return possessionKey{p.lock.key(), p.owner} }

// possession returns what an owner has of a lock, or nil. It requires c.mu.
func (c *Client) possession(key lockKey, o *owner) *possession {
	if o != nil && o.of != nil && o.of.lock.key() == key {
		return o.of
	}
	return c.possessions[possessionKey{key, o}]
}

// register requires client.mu.
func (p *possession) register() {
	if p.owner == &p.self {
		p.self.of = p
	} else {
		p.client.possessions[p.key()] = p
	}
}

// unregister requires client.mu.
func (p *possession) unregister() {
	c, id := p.client, p.lock.nameKey
	if p.owner == &p.self {
		p.self.of = nil
	} else if key := p.key(); c.possessions[key] == p {
		delete(c.possessions, key)
	}
	if c.tenantOf(id) == p {
		delete(c.tenants[id.family], id.name)
		c.alert(id)
	}
}
