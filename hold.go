package rlock

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Hold is one acquisition of a lock, by [Lock.Acquire] or [Lock.TryAcquire]. It knows when the lock is lost, which a
// bare [Lock.Lock] learns from its unlock alone. A Hold is safe for concurrent use. The zero value is a hold that is
// over.
//
// A Hold that nobody can reach any more, nor its context, nor a context derived from that and not canceled, is no
// longer renewed, so that its lock becomes free; that is logged, unless it was taken with [Lease].
type Hold struct {
	entry  *entry
	minted *owner          // the owner in the context that acquired, to tell whether another was minted within the hold
	parent context.Context //nolint:containedctx // Context is derived from it when it is asked for
	leak   runtime.Cleanup

	mu  sync.Mutex
	ctx context.Context //nolint:containedctx // what Context returned
}

func newHold(ctx context.Context, e *entry) *Hold {
	return &Hold{entry: e, minted: mintedIn(ctx), parent: ctx}
}

// watchLeak notices when a hold is dropped without an unlock. Nothing that the possession, the watchdog or a timer
// can reach may reach the Hold, or it would never be.
func (h *Hold) watchLeak() {
	h.leak = runtime.AddCleanup(h, (*entry).leaked, h.entry)
}

// leaked ends an entry that nobody can unlock any more. Its lock becomes free when its lease ends, unless other entries
// of its owner keep it.
func (e *entry) leaked() {
	p := e.possession
	c := p.client
	c.mu.Lock()
	leaked, cancel := !e.closed, e.cancel
	warn := leaked && e.err == nil && e.renewed // one that was taken for a time may run out
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

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *Hold) valid() bool { return h != nil && h.entry != nil }

// Context returns a child of the context that acquired the lock. It ends with that one, and when the hold is over,
// with cause [Hold.Err]. Work that must not go on without the lock runs under it. It also carries the hold: locking the
// same lock with it is a re-entry.
func (h *Hold) Context() context.Context {
	if !h.valid() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx != nil {
		return h.ctx
	}
	ctx, cancel := context.WithCancelCause(h.parent)
	h.ctx = context.WithValue(ctx, h.entry.lock.id, h)
	c := h.entry.possession.client
	c.mu.Lock()
	err := h.entry.err
	h.entry.cancel = cancel
	c.mu.Unlock()
	if err != nil {
		cancel(err)
	}
	return h.ctx
}

// Done returns a channel that is closed when the hold is over: lost, unlocked, or its client closed. Unlike the
// context's, it does not close because the caller's context ended.
func (h *Hold) Done() <-chan struct{} {
	if !h.valid() {
		return closedChan
	}
	e := h.entry
	c := e.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.done == nil {
		if e.err != nil {
			return closedChan
		}
		e.done = make(chan struct{})
	}
	return e.done
}

// Err returns nil while the lock is held, and then why it is not: [ErrLost], [ErrNotHeld] once it is unlocked, or
// [ErrClosed]. It looks at the clock, so it is never late.
func (h *Hold) Err() error {
	if !h.valid() {
		return ErrNotHeld
	}
	c := h.entry.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.entry.ended(time.Now())
}

// Deadline returns when the lock is no longer guaranteed, on the monotonic clock of this process: a little before its
// lease ends in Redis. Renewals move it. It is the zero time for the zero Hold.
func (h *Hold) Deadline() time.Time {
	if !h.valid() {
		return time.Time{}
	}
	c := h.entry.possession.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.entry.possession.deadline
}

// Token returns the fencing token of a fenced lock, and 0 for every other kind.
func (h *Hold) Token() uint64 { return 0 }

// Unlock ends the hold; the last entry of an owner releases the lock. It does so though ctx has ended: ctx only lends
// its values to the command. It returns nil once, then [ErrNotHeld]; ErrLost when the lock had been lost, which changes
// nothing for whoever holds it now; and another error when Redis did not confirm the release within the command
// timeout: the hold is over all the same, is renewed no more, and the release is tried again until the lease is over.
// It works after [Client.Close] too.
func (h *Hold) Unlock(ctx context.Context) error {
	if !h.valid() {
		return fmt.Errorf("%w: unlock of a zero Hold", ErrNotHeld)
	}
	h.leak.Stop()
	e := h.entry
	c := e.possession.client
	c.mu.Lock()
	if e.closed {
		c.mu.Unlock()
		return e.lock.wrap(ErrNotHeld, "unlock")
	}
	e.closed = true
	return c.unlock(ctx, e)
}
