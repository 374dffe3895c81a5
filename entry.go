package rlock

import (
	"context"
	"time"
)

// entry is one successful acquisition: what one unlock settles. It is what a [Hold] of one lock stands for.
type entry struct {
	possession *possession
	lock       *Lock // the handle it was made through

	// Guarded by client.mu.
	why    error                   // it is over; nil: it is not
	over   chan struct{}           // made when it is asked for, closed when why is set
	cancel context.CancelCauseFunc // told why, if somebody asked for that

	byHold  bool // made by Acquire or Do: only its Hold unlocks it
	plain   bool // made without an owner in the context
	renewed bool // made without a lease: the watchdog keeps the possession for it
	closed  bool // unlocked, or being unlocked, or leaked
	watched bool // the holder will be told
}

var _ holding = (*entry)(nil)

// ended returns why the entry is over, or nil. It requires client.mu.
func (e *entry) ended(now time.Time) error {
	if e.why == nil && e.possession.past(now) {
		return e.lock.wrap(ErrLost, "hold")
	}
	return e.why
}

// Err is that of a Hold.
func (e *entry) Err() error {
	c := e.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.ended(time.Now())
}

// Done is that of a Hold.
func (e *entry) Done() <-chan struct{} {
	c := e.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.over == nil {
		if e.why != nil {
			return closedChan
		}
		e.over, e.watched = make(chan struct{}), true
	}
	return e.over
}

// Deadline is that of a Hold.
func (e *entry) Deadline() time.Time {
	c := e.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.possession.deadline.time()
}

// Token is that of a Hold.
func (e *entry) Token() uint64 { return e.possession.token } // set before there is an entry

// Unlock is that of a Hold.
func (e *entry) Unlock(ctx context.Context) error {
	c := e.possession.client
	c.mu.Lock()
	if e.closed {
		c.mu.Unlock()
		return e.lock.wrap(ErrNotHeld, "unlock")
	}
	e.closed = true
	return c.unlock(ctx, e)
}

func (e *entry) notify(tell context.CancelCauseFunc, watched bool) error {
	c := e.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	e.cancel, e.watched = tell, e.watched || watched
	return e.why
}

func (e *entry) lost() loss {
	p := e.possession
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return loss{early: p.gone, since: p.confirmed.time(), final: p.final}
}

func (e *entry) renewSoon() {
	p := e.possession
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	soon := instantOf(time.Now()).add(p.client.watchdogTimeout / 30) // most holds are over by then
	if p.stage == held && p.failures == 0 && soon < p.renewAt {
		p.renewAt = soon
		p.client.watchdog.plan(p)
	}
}

func (e *entry) locks() []*Lock { return []*Lock{e.lock} }

func (e *entry) ownerOf(nameKey) *owner { return e.possession.owner }

// leaked ends an entry that nobody can unlock any more. Its lock becomes free when its lease ends, unless other entries
// of its owner keep it.
func (e *entry) leaked() {
	p := e.possession
	c := p.client
	c.mu.Lock()
	leaked, cancel := !e.closed, e.cancel
	warn := leaked && e.why == nil && e.renewed // one that was taken for a time may run out
	if leaked {
		e.closed, e.cancel = true, nil
		p.entries = without(p.entries, e)
		p.leaked = append(p.leaked, e) // somebody may have kept its Done
		p.settleLost()
		if p.stage == held { // a detached one is the watchdog's already
			c.watchdog.plan(p)
		}
	}
	c.mu.Unlock()
	if leaked && cancel != nil {
		// Nobody has the context any more, but it may keep alive an outer hold that was dropped with this one.
		cancel(ErrNotHeld)
	}
	if warn {
		e.lock.warn("a Hold was dropped without Unlock; its lock is no longer renewed", nil)
	}
}
