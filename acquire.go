package rlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// acquisition is how a verb acquires.
type acquisition struct {
	op     string
	try    bool // a single attempt unless Wait is given
	byHold bool // only the Hold unlocks it
}

// errRefused is in the error of an acquisition that ended because another owner held the lock, and for no other reason.
var errRefused = fmt.Errorf("%w", ErrNotAcquired)

// errWaitOver is the cause of a wait that has taken as long as Wait said.
var errWaitOver = errors.New("wait is over")

// request is one acquisition under way. All kinds of lock wait here.
type request struct {
	acquisition
	terms
	lock   *Lock
	client *Client
	ctx    context.Context //nolint:containedctx // the call's own, for the length of the call
	// waiting ends with ctx, and when the wait is over.
	waiting context.Context //nolint:containedctx // the same
	trouble error           // why the last attempt went unanswered; nil when the lock was refused
	retries int             // attempts in a row that went unanswered
}

// acquire takes the lock, or re-enters it.
func (l *Lock) acquire(ctx context.Context, a acquisition, opts []AcquireOption) (*entry, error) {
	if err := l.check(a.op); err != nil {
		return nil, err
	}
	r := &request{acquisition: a, terms: terms{limited: a.try}, lock: l, client: l.client, ctx: ctx, waiting: ctx}
	if err := r.apply(opts); err != nil {
		return nil, l.wrap(err, a.op)
	}
	if ctx.Err() != nil {
		return nil, r.ended()
	}
	if err := l.client.begin(); err != nil {
		return nil, l.wrap(err, a.op)
	}
	defer l.client.end()
	if r.limited && r.wait > 0 {
		var cancel context.CancelFunc
		r.waiting, cancel = context.WithTimeoutCause(ctx, r.wait, errWaitOver)
		defer cancel()
	}
	return r.run()
}

// single tells whether there is one attempt and no waiting.
func (r *request) single() bool { return r.limited && r.wait == 0 }

func (r *request) leaseTime() time.Duration {
	if r.lease > 0 {
		return r.lease
	}
	return r.client.watchdogTimeout
}

func (r *request) run() (*entry, error) {
	o := r.lock.ownerIn(r.ctx)
	for {
		p, err := r.claim(o)
		if err != nil {
			return nil, err
		}
		var e *entry
		if p.stage == pending {
			e, err = r.contend(p)
		} else {
			e, err = r.reenter(p)
		}
		if e != nil || err != nil {
			return e, err
		}
	}
}

// claim returns the possession that this owner has of the lock, or a new one that is pending, with the turn taken. If
// another goroutine of the owner is busy with it, that comes first.
func (r *request) claim(o *owner) (*possession, error) {
	c, l := r.client, r.lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if o == nil {
		p := l.newPossession(nil, r.leaseTime())
		p.busy = true
		return p, nil
	}
	for {
		p := c.possessions[possessionKey{l.nameKey, o}]
		switch {
		case p == nil && o.lostOf(l.nameKey) != nil:
			return nil, l.wrap(ErrLost, r.op)
		case p == nil:
			p = l.newPossession(o, r.leaseTime())
			p.busy = true
			p.register()
			return p, nil
		case p.stage == expired, p.stage == held && p.past(time.Now()):
			return nil, l.wrap(ErrLost, r.op)
		case !p.busy:
			p.busy = true
			return p, nil
		case p.stage == pending && p.refused && r.single():
			return nil, l.wrap(errRefused, r.op)
		}
		if err := p.awaitIdle(r.waiting.Done()); err != nil {
			return nil, r.ended()
		}
	}
}

// contend acquires a pending possession. It gives it up if it fails.
func (r *request) contend(p *possession) (*entry, error) {
	if r.single() {
		e, _, err := r.attempt(r.ctx, p)
		if e == nil && err == nil {
			err = r.lock.wrap(errRefused, r.op)
		}
		return e, r.giveUpOn(p, err)
	}
	w := r.client.enter(r.lock.nameKey)
	e, err := r.await(p, w)
	if trouble := r.client.leave(w); e == nil && r.trouble == nil && trouble != nil {
		r.trouble = trouble
		err = r.ended()
	}
	return e, err
}

// giveUpOn gives a possession up for an error, which it returns.
func (r *request) giveUpOn(p *possession, err error) error {
	if err != nil {
		r.client.mu.Lock()
		p.giveUp()
		r.client.mu.Unlock()
	}
	return err
}

// await waits for the lock: its turn in this process, then a release. Being woken, for whichever reason, is only a hint
// to try again; whether the lock is free is for the script to say.
func (r *request) await(p *possession, w *waiter) (*entry, error) {
	warning := time.AfterFunc(r.client.watchdogTimeout, func() { r.warnOwn(p) })
	defer warning.Stop()

	var wake *listener
	if w.head != nil {
		select {
		case <-w.head:
		case <-r.waiting.Done():
			return nil, r.giveUpOn(p, r.ended())
		case <-r.client.done:
			return nil, r.giveUpOn(p, r.ended())
		}
		// Somebody was here before, so it is likely that the lock is held. A subscription that is confirmed before
		// the attempt saves the second one.
		wake = r.client.pubsub.listen(r.lock.channel)
		defer wake.close()
		if !r.sleep(r.client.pollInterval, wake.wake) {
			return nil, r.giveUpOn(p, r.ended())
		}
	}
	for first := w.head == nil; ; first = false {
		limit := r.waiting
		if first {
			limit = r.ctx // the first attempt is made to its end, whatever the wait
		}
		e, pause, err := r.attempt(limit, p)
		switch {
		case e != nil:
			return e, nil
		case errors.Is(err, errLate):
			p = r.replace(p)
		case err != nil:
			return nil, r.giveUpOn(p, err)
		}
		r.client.report(w, r.trouble)
		if wake == nil {
			// The confirmation wakes us, so the lock is tried once more when no release can be missed any longer.
			wake = r.client.pubsub.listen(r.lock.channel)
			defer wake.close()
		}
		if !r.sleep(pause, wake.wake) {
			return nil, r.giveUpOn(p, r.ended())
		}
	}
}

// attempt asks Redis for the lock once. Without entry and error it was refused, or Redis is in trouble that may pass:
// then it tells how long to pause at most.
func (r *request) attempt(ctx context.Context, p *possession) (*entry, time.Duration, error) {
	c, l, lease := r.client, r.lock, r.leaseTime()
	free, err := c.place(ctx)
	if err != nil {
		return nil, 0, r.ended()
	}
	var reply int64
	var failed error
	sent := time.Now()
	err = c.exec(ctx, func(ctx context.Context) {
		defer free()
		reply, failed = c.runNumber(ctx, l.kind.acquire, l.keys, p.field, millis(lease), p.number)
	}, func() { p.late(reply, failed) })
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, 0, r.ended()
	case err != nil: // the command goes on, and failed is not ours to look at
		return r.failed(p, err)
	case failed != nil:
		return r.failed(p, failed)
	}
	r.trouble, r.retries = nil, 0
	if !granted(reply) {
		r.refused(p)
		return nil, min(time.Duration(-1-reply)*time.Millisecond, c.pollInterval), nil
	}
	e, err := r.grant(p, sent)
	if err != nil {
		return nil, r.backoff(), err
	}
	return e, 0, nil
}

// granted tells whether an acquire was, by its reply.
func granted(reply int64) bool { return reply >= 0 }

// failed decides what becomes of the request after an attempt that Redis did not answer, or answered with an error.
func (r *request) failed(p *possession, err error) (*entry, time.Duration, error) {
	if unanswered(err) {
		r.client.mu.Lock()
		p.unanswered = true
		r.client.mu.Unlock()
	}
	if r.single() || !transient(err) {
		return nil, 0, r.lock.wrap(err, r.op)
	}
	r.trouble = err
	return nil, r.backoff(), nil
}

// refused notes that another owner has the lock, for a TryLock of the same owner that waits to hear.
func (r *request) refused(p *possession) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if !p.refused {
		p.refused = true
		p.notify()
	}
}

// grant makes the possession held, and its first entry.
func (r *request) grant(p *possession, sent time.Time) (*entry, error) {
	c := r.client
	c.mu.Lock()
	defer c.mu.Unlock()
	p.orphan = true // unless it is held below
	if c.closed {
		return nil, r.lock.wrap(ErrClosed, r.op)
	}
	lease := r.leaseTime()
	if time.Since(sent) >= lease-margin(lease) {
		return nil, r.lock.wrap(errLate, r.op)
	}
	p.orphan = false
	p.stage = held
	if c.maxHold > 0 {
		p.maxHold = sent.Add(c.maxHold)
	}
	p.register()
	e := r.enter(p)
	p.confirm(sent, lease)
	p.rest()
	return e, nil
}

// enter makes an entry. It requires client.mu.
func (r *request) enter(p *possession) *entry {
	e := &entry{
		possession: p, lock: r.lock, byHold: r.byHold,
		plain: p.owner == &p.self && len(p.entries) == 0, renewed: r.lease == 0,
	}
	p.entries = append(p.entries, e)
	if !e.byHold {
		r.lock.open = append(r.lock.open, e)
	}
	return e
}

// replace gives up a possession whose lease ended before it was known to be granted, and returns a new one.
func (r *request) replace(p *possession) *possession {
	c := r.client
	c.mu.Lock()
	defer c.mu.Unlock()
	r.trouble = errLate
	p.giveUp()
	next := r.lock.newPossession(nil, r.leaseTime())
	next.busy = true
	if p.owner != &p.self {
		next.owner = p.owner
		next.register()
	}
	return next
}

// reenter adds an entry to a possession that the owner has. Without entry and error it must be looked at again.
func (r *request) reenter(p *possession) (*entry, error) {
	c, l, lease := r.client, r.lock, r.leaseTime()
	c.mu.Lock()
	count := len(p.entries) + 1
	c.mu.Unlock()
	var reply int64
	var failed error
	sent := time.Now()
	err := c.exec(r.waiting, func(ctx context.Context) {
		reply, failed = c.runNumber(ctx, l.kind.count, l.keys, p.field, millis(lease), p.number, count)
	}, func() {})
	if err == nil {
		err = failed
	}
	var ends endings
	defer ends.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer p.rest()
	switch {
	case err != nil:
		return nil, r.retry(err)
	case c.closed:
		return nil, l.wrap(ErrClosed, r.op)
	case reply == 0 && p.stage == held:
		p.lose(&ends, lostInRedis, false)
		ends.known()
	case p.stage == held && !p.past(time.Now()):
		e := r.enter(p)
		p.confirm(sent, lease)
		return e, nil
	}
	return nil, l.wrap(ErrLost, r.op)
}

// retry decides what becomes of a re-entry that went unanswered: an error, or nil to try again. It requires client.mu,
// which it gives up while it pauses.
func (r *request) retry(err error) error {
	switch {
	case r.waiting.Err() != nil:
		return r.ended()
	case r.single() || !transient(err):
		return r.lock.wrap(err, r.op)
	}
	r.trouble = err
	r.client.mu.Unlock()
	defer r.client.mu.Lock()
	if !r.sleep(r.backoff(), nil) {
		return r.ended()
	}
	return nil
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
func (r *request) sleep(d time.Duration, wake <-chan struct{}) bool {
	d = max(d, time.Millisecond)
	timer := time.NewTimer(d + rand.N(min(d/10, 20*time.Millisecond)+1))
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-r.waiting.Done():
	case <-r.client.done:
	}
	return r.waiting.Err() == nil && !r.client.isClosed()
}

// ended returns the error of a request that stops waiting.
func (r *request) ended() error {
	l := r.lock
	switch {
	case r.ctx.Err() == nil && r.client.isClosed():
		return l.wrap(ErrClosed, r.op)
	case r.ctx.Err() == nil && r.trouble != nil:
		return l.wrap(r.trouble, r.op)
	case r.ctx.Err() == nil:
		return l.wrap(errRefused, r.op)
	case r.trouble != nil:
		return l.wrap(fmt.Errorf("%w (%w)", r.trouble, endOf(r.ctx)), r.op)
	}
	return fmt.Errorf("%w: %w", l.wrap(ErrNotAcquired, r.op), endOf(r.ctx))
}

// warnOwn says what to do when a caller without owner seems to wait for itself.
func (r *request) warnOwn(p *possession) {
	c := r.client
	c.mu.Lock()
	own := p.owner == &p.self && len(r.lock.open) > 0
	c.mu.Unlock()
	if own {
		r.lock.warn("waiting for a hold of the same handle for longer than a lease; if it is the caller's own, lock with "+
			"the context that Do or Hold.Context gives, or with an owner by WithOwner", nil)
	}
}
