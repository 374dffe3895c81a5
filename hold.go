package rlock

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Hold is one acquisition of a lock, by [Lock.Acquire] or [Lock.TryAcquire], or by those of a group of locks. It knows
// when the lock is lost, which a bare [Lock.Lock] learns from its unlock alone. A Hold is safe for concurrent use. The
// zero value is a hold that is over.
//
// A Hold that nobody can reach any more, nor its context, nor a context derived from that and not canceled, is no
// longer renewed, so that its lock becomes free; that is logged, unless it was taken with [Lease].
type Hold struct {
	of     holding
	minted *owner          // the owner in the context that acquired, to tell whether another was minted within the hold
	parent context.Context //nolint:containedctx // Context is derived from it when it is asked for
	leak   runtime.Cleanup

	mu  sync.Mutex
	ctx context.Context //nolint:containedctx // what Context returned
}

// holding is what a Hold stands for: an entry of one lock, or one of a group. It must not know the Hold, see watchLeak.
type holding interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Token() uint64
	Unlock(ctx context.Context) error

	// notify has the end of the hold reported to one function, and notes whether anybody watches it for himself. It
	// returns why the hold is over, if it is already.
	notify(tell context.CancelCauseFunc, watched bool) error
	// lost tells how a hold that is over was lost.
	lost() loss
	// renewSoon has the hold renewed sooner than it would be.
	renewSoon()
	// leaked ends what nobody can unlock any more.
	leaked()
	// locks returns the locks that are held.
	locks() []*Lock
	// ownerOf returns by whom one of them is held.
	ownerOf(id nameKey) *owner
}

// loss is how a hold was lost, for the group that it is a member of.
type loss struct {
	early bool      // before its deadline: somebody else may have held it meanwhile
	since time.Time // from when, at the earliest
	final bool      // on purpose: it is not to be taken again
}

func newHold(ctx context.Context, h holding) *Hold {
	return &Hold{of: h, minted: mintedIn(ctx), parent: ctx}
}

// watchLeak notices when a hold is dropped without an unlock. Nothing that the possession, the watchdog or a timer
// can reach may reach the Hold, or it would never be.
func (h *Hold) watchLeak() {
	h.leak = runtime.AddCleanup(h, holding.leaked, h.of)
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (h *Hold) valid() bool { return h != nil && h.of != nil }

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
	ctx = context.WithValue(ctx, holdsKey{}, true)
	for _, l := range h.of.locks() {
		ctx = context.WithValue(ctx, l.nameKey, h) //nolint:fatcontext // one for each lock, and a group has few
	}
	h.ctx = ctx
	if err := h.of.notify(cancel, true); err != nil {
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
	return h.of.Done()
}

// Err returns nil while the lock is held, and then why it is not: [ErrLost], [ErrNotHeld] once it is unlocked, or
// [ErrClosed]. It looks at the clock, so it is never late.
func (h *Hold) Err() error {
	if !h.valid() {
		return ErrNotHeld
	}
	return h.of.Err()
}

// Deadline returns when the lock is no longer guaranteed, on the monotonic clock of this process: a little before its
// lease ends in Redis. Renewals move it. It is the zero time for the zero Hold.
func (h *Hold) Deadline() time.Time {
	if !h.valid() {
		return time.Time{}
	}
	return h.of.Deadline()
}

// Token returns the fencing token of a fenced lock: greater than that of every earlier acquisition by another owner. It
// is 0 for every other kind, and for groups.
func (h *Hold) Token() uint64 {
	if !h.valid() {
		return 0
	}
	return h.of.Token()
}

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
	return h.of.Unlock(ctx)
}
