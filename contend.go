package rlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// contend acquires a pending possession, or gives it up. All kinds of lock wait here.
func (r *request) contend(p *possession) (*entry, error) {
	c := r.client
	var e *entry
	var err error
	switch {
	case r.single():
		if e, _, err = r.attempt(p); e == nil && err == nil {
			err = errEnded
		}
	case r.lock.kind.queues || r.holdsOther(p):
		p, e, err = r.await(p, nil)
	default:
		w := c.enter(r.lock.nameKey)
		p, e, err = r.await(p, w)
		if last := c.leave(w); !r.last.known() {
			r.last = last
		}
	}
	if err == nil {
		return e, nil
	}
	if errors.Is(err, errEnded) {
		err = r.ended()
	}
	c.mu.Lock()
	p.giveUp()
	c.mu.Unlock()
	return nil, err
}

// holdsOther tells whether the owner holds the other side of the name. It does not queue behind those who wait for that.
func (r *request) holdsOther(p *possession) bool {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return p.sibling().usable()
}

// await waits for the lock: its turn in this process if it queues there, then a release. Being woken, for whichever
// reason, is only a hint to try again; whether the lock is free is for the script to say. It returns the possession too,
// because one that was granted too late to rely on is replaced.
func (r *request) await(p *possession, w *waiter) (*possession, *entry, error) {
	c, l := r.client, r.lock
	var wake *listener
	defer func() { wake.close() }()
	waited := w != nil && w.head != nil
	if waited {
		defer r.warnLater(p)()
		r.tried = true // others do
		r.queue(p, true)
		select {
		case <-w.head:
			r.queue(p, false)
		case <-p.beside:
			r.queue(p, false)
		case <-r.waiting.Done():
			return p, nil, errEnded
		case <-c.done:
			return p, nil, errEnded
		}
		// Others waited here, so there is probably a subscription, and an attempt that is refused need not be made
		// again after subscribing.
		if wake = r.listen(p); wake != nil {
			select {
			case <-wake.wake:
			default:
			}
		}
	}
	for {
		e, pause, err := r.attempt(p)
		if errors.Is(err, errLate) {
			p, err = r.replace(p), nil
			if l.kind.queues { // the next one listens on a channel of its own
				wake.close()
				wake = nil
			}
		}
		if e != nil || err != nil {
			if e != nil {
				c.report(w, outcome{refused: true}) // to whoever comes next
			}
			return p, e, err
		}
		c.report(w, r.last)
		if !waited {
			waited = true
			defer r.warnLater(p)()
		}
		if wake == nil {
			// The confirmation wakes us, so the lock is tried once more when no release can be missed any longer.
			wake = r.listen(p)
		}
		if !r.sleep(pause, wake.woken(), p.beside) {
			return p, nil, errEnded
		}
	}
}

// listen returns the listener by which a possession that waits is woken, or nil if it must poll.
func (r *request) listen(p *possession) *listener {
	channel := p.channel()
	if channel == "" {
		return nil
	}
	return r.client.pubsub.listen(channel)
}

// pause returns for how long to sleep at most after a refusal that came with a hint.
func (r *request) pause(hint time.Duration) time.Duration {
	if l := r.lock; l.kind.channel == "" {
		r.nap = min(max(r.nap*2, l.first), l.most)
		return r.nap
	}
	if l := r.lock; l.kind.queues {
		hint = min(hint, r.client.fairWait/2) // or its place would be lost
	}
	return min(hint, r.client.pollInterval)
}

// maxHint is more than anybody sleeps, in ms.
const maxHint = 1 << 32

// attempt asks Redis for the lock once. Without entry and error it was refused, or Redis is in trouble that may pass:
// then it tells how long to pause at most.
func (r *request) attempt(p *possession) (*entry, time.Duration, error) {
	c, l, lease := r.client, r.lock, r.leaseTime()
	limit := r.limit()
	wait := l.queueWait()
	if r.single() {
		wait = -wait
	}
	c.mu.Lock()
	writer := ""
	if other := p.sibling(); other.usable() {
		if l.kind.noUpgrade {
			c.mu.Unlock()
			return nil, 0, l.wrap(ErrUpgrade, r.op)
		}
		writer = other.field
	}
	sent, forces := p.sending(lease), c.forceCount
	c.mu.Unlock()
	reply, failed := int64(-1), error(nil)
	err := c.exec(limit, func(ctx context.Context) {
		var taken place
		if taken, failed = c.place(r.waiting, l.nameKey.name); failed != nil {
			return
		}
		defer taken.free()
		script, publish := l.kind.acquire, any("")
		if l.kind.queues {
			publish = l.publisher() // who takes the lock tells the next one that he is first
		}
		keys := script.withAbandoned(p.keys())
		reply, failed = c.take(ctx, script, keys, p.field, millis(lease), p.number, l.wire().sent, publish, wait, writer)
	}, func() { p.late(reply, failed) })
	switch {
	case err != nil && limit.Err() != nil:
		if wait > 0 {
			r.unanswered(p) // it may queue after the release that follows
		}
		return nil, 0, errEnded
	case err != nil: // the command goes on, and failed is not ours to look at
		return nil, r.backoff(), r.failed(p, err)
	case errors.Is(failed, errNotSent) && (r.waiting.Err() != nil || c.isClosed()):
		return nil, 0, errEnded
	case failed != nil:
		if granted(reply) {
			r.orphaned(p)
		}
		return nil, r.backoff(), r.failed(p, failed)
	}
	if !granted(reply) {
		r.retries = 0
		r.note(p, outcome{refused: true})
		return nil, r.pause(time.Duration(min(-1-reply, maxHint)) * time.Millisecond), nil
	}
	e, err := r.grant(p, uint64(reply), sent, forces)
	if errors.Is(err, errLate) {
		return nil, r.backoff(), err
	}
	return e, 0, err
}

// granted tells whether an acquire was, by its reply.
func granted(reply int64) bool { return reply >= 0 }

// failed takes in that an attempt went unanswered, or was answered with an error. It returns the error if waiting does
// not mend it.
func (r *request) failed(p *possession, err error) error {
	if unanswered(err) {
		r.unanswered(p)
	}
	r.note(p, outcome{trouble: err})
	if r.client.isClosed() {
		return errEnded
	}
	if r.single() || !r.client.transient(err) {
		return r.lock.wrap(err, r.op)
	}
	return nil
}

func (r *request) orphaned(p *possession) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	p.orphan = true
}

func (r *request) unanswered(p *possession) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	p.unanswered = true
}

// queue notes whether others come first, for the owner's other goroutines.
func (r *request) queue(p *possession, queued bool) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	p.queued = queued
}

// note keeps how an attempt went, and tells other goroutines of the owner.
func (r *request) note(p *possession, last outcome) {
	r.last = last
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if p.owner != &p.self {
		p.last = new(outcome)
		*p.last = last
	}
	p.orphan = p.orphan || last.refused && r.lock.kind.queues && !r.single()
	p.notify()
}

// grant makes the possession held, and its first entry.
func (r *request) grant(p *possession, token uint64, sent time.Time, forces int) (*entry, error) {
	c, lease := r.client, r.leaseTime()
	c.mu.Lock()
	defer c.mu.Unlock()
	p.orphan = true // unless it is held below
	switch {
	case c.closed:
		return nil, errEnded
	case time.Since(sent) >= lease-margin(lease), c.forcedSince(r.lock.nameKey, forces):
		r.last = outcome{trouble: errLate}
		return nil, r.lock.wrap(errLate, r.op)
	}
	p.orphan = false
	p.stage, p.token = held, token
	if c.maxHold > 0 {
		p.maxHold = instantOf(sent).add(c.maxHold)
	}
	p.register()
	e := r.enter(p)
	p.confirm(sent, lease)
	p.rest()
	if other := p.sibling(); other != nil && other.beside != nil {
		select {
		case other.beside <- struct{}{}:
		default:
		}
	}
	return e, nil
}

// replace gives up a possession that was granted too late to rely on, and returns a new one.
func (r *request) replace(p *possession) *possession {
	c := r.client
	c.mu.Lock()
	defer c.mu.Unlock()
	p.giveUp()
	next := r.lock.newPossession(nil, r.leaseTime())
	next.busy = true
	if p.owner != &p.self {
		next.owner = p.owner
		next.register()
	}
	return next
}

// backoff returns the pause before the next attempt after one that went unanswered.
func (r *request) backoff() time.Duration {
	r.retries++
	return backoff(r.retries, time.Second)
}

// backoff returns a pause that doubles from 10 ms to most, less up to half of it by chance.
func backoff(retries int, most time.Duration) time.Duration {
	d := min(10*time.Millisecond<<min(max(retries-1, 0), 16), most)
	return d - rand.N(d/2+1)
}

// sleep pauses until it is woken, or for d and a little more by chance, so that processes whose lease hint is the same
// do not all come at once. It returns false when there is nothing left to wait for.
func (r *request) sleep(d time.Duration, wake, beside <-chan struct{}) bool {
	d = max(d, time.Millisecond)
	timer := time.NewTimer(d + rand.N(min(d/10, 20*time.Millisecond)+1))
	defer timer.Stop()
	select {
	case <-wake:
	case <-beside:
	case <-timer.C:
	case <-r.waiting.Done():
	case <-r.client.done:
	}
	return r.waiting.Err() == nil && !r.client.isClosed()
}

// warnLater says, when a caller without owner has waited for a lease, what to do if it waits for itself. It returns the
// function that calls that off.
func (r *request) warnLater(p *possession) (cancel func() bool) {
	if p.owner != &p.self {
		return func() bool { return true }
	}
	return time.AfterFunc(r.client.watchdogTimeout, func() {
		r.client.mu.Lock()
		own := len(r.lock.open) > 0
		r.client.mu.Unlock()
		if own {
			r.lock.warn("waiting for a hold of the same handle for longer than a lease; if it is the caller's own, lock "+
				"with the context that Do or Hold.Context gives, or with an owner by WithOwner", nil)
		}
	}).Stop
}
