package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// acquisition is how a verb acquires.
type acquisition struct {
	op     string
	try    bool // a single attempt unless Wait is given
	byHold bool // only the Hold unlocks it
	// group is the owner for whom a group of locks asks, where the context has none; nil: no group does.
	group *owner
}

var (
	// errRefused is in the error of an acquisition that ended because another owner has the lock, and for no other
	// reason.
	errRefused = fmt.Errorf("%w", ErrNotAcquired)

	// errWaitOver is the cause of a wait that has taken as long as Wait said.
	errWaitOver = errors.New("wait is over")

	// errEnded stands for what request.ended returns.
	errEnded = errors.New("ended")
)

// request is one acquisition under way.
type request struct {
	acquisition
	terms
	lock   *Lock
	client *Client
	ctx    context.Context //nolint:containedctx // the call's own, for the length of the call
	// waiting ends with ctx, and when the wait is over.
	waiting context.Context //nolint:containedctx // the same
	tried   bool            // whether an attempt was made
	last    outcome         // of the latest attempt
	retries int             // attempts in a row that went unanswered
	nap     time.Duration   // the latest pause of one that polls
	waiter  waiter          // in the gate, if it queues there
}

// outcome is how an attempt went: refused, in trouble, or, the zero value, not known yet.
type outcome struct {
	refused bool
	trouble error
}

func (o outcome) known() bool { return o.refused || o.trouble != nil }

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

// limit returns what may end the next attempt. The first one is made to its end, however short the wait.
func (r *request) limit() context.Context {
	if r.tried {
		return r.waiting
	}
	r.tried = true
	return r.ctx
}

func (r *request) run() (*entry, error) {
	o := r.lock.ownerIn(r.ctx)
	if o == nil {
		o = r.group
	}
	for {
		p, fresh, err := r.claim(o)
		if err != nil {
			return nil, err
		}
		if fresh {
			return r.contend(p)
		}
		e, again, err := r.reenter(p)
		if !again {
			return e, err
		}
		if _, more := r.sleep(r.backoff(), nil, nil, nil); !more {
			return nil, r.ended()
		}
	}
}

// claim returns the possession that this owner has of the lock, or a fresh one that is pending, with the turn taken. If
// another goroutine of the owner is busy with it, that comes first; a single attempt does not wait for the waits of
// others, and takes what they know.
func (r *request) claim(o *owner) (p *possession, fresh bool, err error) {
	c, l := r.client, r.lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if o == nil {
		p = l.newPossession(nil, r.leaseTime())
		p.busy = true
		return p, true, nil
	}
	for {
		p = c.possession(l.key(), o)
		if err := r.refuse(o); err != nil {
			return nil, false, l.wrap(err, r.op)
		}
		switch {
		case p == nil:
			p = l.newPossession(o, r.leaseTime())
			p.busy = true
			p.register()
			return p, true, nil
		case !p.busy && p.unlocking == 0:
			p.busy = true
			return p, false, nil
		}
		ctx, cancel := r.waiting, context.CancelFunc(func() {})
		if p.stage == pending && r.single() {
			if r.last = c.outcomeFor(p); r.last.known() {
				return nil, false, r.ended()
			}
			// The first attempt is under way. If it is that of another owner, nobody tells this one how it went.
			ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
		}
		p.awaitIdle(ctx)
		cancel()
		if r.waiting.Err() != nil {
			if p.stage == pending {
				r.last = c.outcomeFor(p)
			}
			return nil, false, r.ended()
		}
	}
}

// refuse returns why an owner must not ask for the lock now, or nil. It requires c.mu.
func (r *request) refuse(o *owner) error {
	c, l, now := r.client, r.lock, time.Now()
	if c.closed {
		return ErrClosed
	}
	holds := false
	for _, side := range []side{mainSide, readSide} {
		switch mine := c.possession(lockKey{l.nameKey, side}, o); {
		case mine == nil:
		case mine.stage == expired, mine.stage == held && mine.past(now):
			return ErrLost
		case mine.stage == held:
			holds = true
		}
	}
	switch {
	case o.hasLost(l.nameKey):
		return ErrLost
	case holds && l.nonReentrant:
		return ErrReentered
	}
	return nil
}

// outcomeFor returns how the latest attempt for a pending possession went, its own or that of the one it queues behind.
// It requires c.mu.
func (c *Client) outcomeFor(p *possession) outcome {
	if g := c.gates[p.lock.nameKey]; p.queued && g != nil {
		return g.last
	}
	if p.last == nil {
		return outcome{}
	}
	return *p.last
}

// reenter adds an entry to a possession that the owner has. It returns again when Redis did not answer and the wait is
// not over: then the possession must be looked at anew.
func (r *request) reenter(p *possession) (e *entry, again bool, err error) {
	c, l, lease := r.client, r.lock, r.leaseTime()
	limit := r.limit()
	c.mu.Lock()
	count := len(p.entries) + 1
	sent := p.sending(lease)
	c.mu.Unlock()
	script := p.lock.kind.count
	got, err := c.ask(limit, question{
		script: script, name: l.nameKey.name, keys: script.of(p.keys()),
		args: []any{p.field, millis(lease), p.number, l.wire().sent, "", count}, waiting: r.waiting,
	})
	if err == nil {
		err = got.err
	}

	var ends endings
	defer ends.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer p.rest()
	switch {
	case c.closed:
		return nil, false, l.wrap(ErrClosed, r.op)
	case err != nil && r.waiting.Err() != nil:
		if replied(err) || errors.Is(err, errNoAnswer) {
			r.last = outcome{trouble: err}
		}
		return nil, false, r.ended()
	case err != nil && !r.single() && c.transient(err):
		r.last = outcome{trouble: err}
		return nil, true, nil
	case err != nil:
		return nil, false, l.wrap(err, r.op)
	case got.reply == 0 && p.stage == held:
		p.lose(&ends, lostInRedis, false)
		ends.known()
	case p.stage == held && !p.past(time.Now()):
		e = r.enter(p)
		p.confirm(sent, lease)
		return e, false, nil
	}
	return nil, false, l.wrap(ErrLost, r.op)
}

// enter makes an entry. It requires client.mu.
func (r *request) enter(p *possession) *entry {
	e := &p.first
	if e.possession != nil {
		e = new(entry)
	} else {
		p.entries = p.one[:0]
	}
	*e = entry{
		possession: p, lock: r.lock, byHold: r.byHold,
		plain: p.owner == &p.self && len(p.entries) == 0, renewed: r.lease == 0,
	}
	p.entries = append(p.entries, e)
	if !e.byHold {
		r.lock.open = append(r.lock.open, e)
	}
	return e
}

// ended returns the error of a request that stops: because of its context, the client, or its wait, and then for what
// the latest attempt met.
func (r *request) ended() error {
	l := r.lock
	switch {
	case r.ctx.Err() != nil && r.last.trouble != nil:
		return l.wrap(fmt.Errorf("%w (%w)", r.last.trouble, endOf(r.ctx)), r.op)
	case r.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", l.wrap(ErrNotAcquired, r.op), endOf(r.ctx))
	case r.client.isClosed():
		return l.wrap(ErrClosed, r.op)
	case r.last.trouble != nil:
		return l.wrap(r.last.trouble, r.op)
	case r.last.refused:
		return l.wrap(errRefused, r.op)
	}
	return l.wrap(errNoAnswer, r.op)
}
