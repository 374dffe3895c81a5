package rlock

import (
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
	case r.single() && r.refusedHere(p):
		err = errEnded
	case r.single():
		if e, _, err = r.attempt(p); e == nil && err == nil {
			err = errEnded
		}
	case r.lock.kind.queues || r.holdsOther(p):
		p, e, err = r.await(p, nil)
	default:
		r.waiter = waiter{id: r.lock.nameKey, request: r, possession: p}
		w := &r.waiter
		c.enter(w)
		p, e, err = r.await(p, w)
		given, last := c.leave(w)
		if given != nil {
			e, err = given, nil
		}
		if !r.last.known() {
			r.last = last
		}
		if errors.Is(err, errEnded) && !r.last.known() && r.ctx.Err() == nil && !c.isClosed() {
			r.tried = false // the first attempt is made, however short the wait
			if e, _, err = r.attempt(p); e == nil && err == nil {
				err = errEnded
			}
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
	c := r.client
	var own *listener // of one who is not in the gate
	defer func() { own.close() }()
	waited := w != nil && w.head != nil
	if waited {
		defer r.warnLater(p)()
		if !r.queueUp(p, w) {
			return p, nil, errEnded
		}
		if w.request == nil { // the others need not come first
			w = nil
		}
	}
	var wake <-chan struct{}
	var why cause
	for more := true; more; {
		e, pause, err := r.step(p, w, why)
		if errors.Is(err, errLate) {
			p, err = r.replace(p, w), nil
			if r.lock.kind.queues { // the next one listens on a channel of its own
				own.close()
				own, wake = nil, nil
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
		// The confirmation of a subscription wakes us, so the lock is tried once more when no release can be missed any
		// longer.
		switch channel := p.channel(); {
		case wake != nil || channel == "":
		case w != nil:
			wake = c.listenFor(w, channel)
		default:
			own = c.pubsub.listen(channel)
			wake = own.wake
		}
		why, more = r.sleep(pause, wake, w, p.beside)
	}
	return p, nil, errEnded
}

// queueUp waits until those who were in the gate before have left, or need not come first. It returns false when there is
// nothing left to wait for.
func (r *request) queueUp(p *possession, w *waiter) bool {
	c := r.client
	r.tried = true // others do
	r.queue(p, true)
	select {
	case <-w.head:
	case <-p.beside:
		c.mu.Lock()
		if w.stage == idle { // else the lock is being handed to it
			w.request = nil
		}
		c.mu.Unlock()
	case <-r.waiting.Done():
		return false
	case <-c.done:
		return false
	}
	r.queue(p, false)
	return true
}

// step takes the lock that was handed to the waiter, or lets it rest, or asks Redis. It returns what attempt does.
func (r *request) step(p *possession, w *waiter, why cause) (*entry, time.Duration, error) {
	if w == nil {
		return r.attempt(p)
	}
	c := r.client
	c.mu.Lock()
	if w.stage == handed {
		e, failed := w.entry, w.failed
		w.stage, w.entry, w.failed = asking, nil, nil // until it is reported what came of it
		c.mu.Unlock()
		switch {
		case e != nil:
			return e, 0, nil
		case errors.Is(failed, errLate), errors.Is(failed, errEnded):
			return nil, r.backoff(), failed
		}
		return nil, r.backoff(), r.failed(p, failed)
	}
	pause := c.consult(w, why)
	c.mu.Unlock()
	if pause > 0 {
		return nil, pause, nil
	}
	return r.attempt(p)
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
	return max(min(hint, r.client.pollInterval), time.Millisecond)
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
	script, publish := l.kind.acquire, any("")
	if l.kind.queues {
		publish = l.publisher() // who takes the lock tells the next one that he is first
	}
	got, err := c.ask(limit, question{
		script: script, name: l.nameKey.name, keys: script.withAbandoned(p.keys()),
		args:    []any{p.field, millis(lease), p.number, l.wire().sent, publish, wait, writer},
		waiting: r.waiting, replicated: true, late: p.late,
	})
	reply, failed := got.reply, got.err
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
	c.mu.Lock()
	e, err := r.grant(p, uint64(reply), sent, forces)
	if err != nil {
		r.last = outcome{trouble: errLate}
	}
	c.mu.Unlock()
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
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	r.noted(p, last)
}

// noted is note, and requires client.mu.
func (r *request) noted(p *possession, last outcome) {
	r.last = last
	if p.owner != &p.self {
		p.last = new(outcome)
		*p.last = last
	}
	p.orphan = p.orphan || last.refused && r.lock.kind.queues && !r.single()
	p.notify()
}

// grant makes the possession held, and its first entry. It requires client.mu.
func (r *request) grant(p *possession, token uint64, sent time.Time, forces int) (*entry, error) {
	c, lease := r.client, r.leaseTime()
	p.orphan = true // unless it is held below
	switch {
	case c.closed:
		return nil, errEnded
	case time.Since(sent) >= lease-margin(lease), c.forcedSince(r.lock.nameKey, forces):
		return nil, r.lock.wrap(errLate, r.op)
	}
	p.orphan = false
	p.stage, p.token = held, token
	p.turns, p.offered = 0, instantOf(sent)
	if c.maxHold > 0 {
		p.maxHold = instantOf(sent).add(c.maxHold)
	}
	p.register()
	if r.lock.kind.side == mainSide {
		c.tenants[p.lock.nameKey.family][p.lock.nameKey.name] = p
	}
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
func (r *request) replace(p *possession, w *waiter) *possession {
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
	if w != nil {
		w.possession = next
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
// do not all come at once. It returns by what it was woken, and false when there is nothing left to wait for.
func (r *request) sleep(d time.Duration, wake <-chan struct{}, w *waiter, beside <-chan struct{}) (why cause, more bool) {
	d = max(d, 50*time.Microsecond)
	timer := time.NewTimer(d + rand.N(min(d/10, 20*time.Millisecond)+1))
	defer timer.Stop()
	var news chan struct{}
	if w != nil && r.lock.kind.channel != "" { // who polls keeps his pace
		news = w.news
	}
	select {
	case <-news:
	case <-wake:
		why = byMessage
	case <-beside:
		why = byTime
	case <-timer.C:
		why = byTime
	case <-r.waiting.Done():
	case <-r.client.done:
	}
	return why, r.waiting.Err() == nil && !r.client.isClosed()
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
