package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
)

// acquisition is one acquisition of a group. It lasts while enough members are held.
type acquisition struct {
	group  *Group
	owner  *owner.Owner // of the members that were not re-entered
	seen   *report.Span
	closed atomic.Bool   // unlocked, or given up
	over   chan struct{} // closed at the end

	mu        sync.Mutex
	members   []membership // as in group.members
	begun     bool         // enough members were held, once
	reentered bool         // by an owner that had enough of them
	why       error        // it is over; nil means that it is not
	tell      context.CancelCauseFunc
	stopping  bool // the client of a member shuts down: the context ends, although the hold may not be over
}

// part is an acquisition of one lock.
type part interface {
	client.Held
	// Reentered reports whether its owner had the lock already.
	Reentered() bool
	// Loss returns how it was lost, once it is over.
	Loss() lease.Loss
}

// membership is what an acquisition knows of one member.
type membership struct {
	part                // nil means not held
	since clock.Instant // when it joined what was held by then; zero means before
}

// live reports whether a member is held now.
func (m *membership) live() bool { return m.part != nil && m.Err() == nil }

var _ client.Held = (*acquisition)(nil)

// take takes one member. What comes too late for the acquisition is released.
func (a *acquisition) take(ctx context.Context, i int, t client.Terms) error {
	h, err := a.group.members[i].Take(ctx, t)
	if err != nil {
		return err
	}
	a.mu.Lock()
	added := !a.closed.Load() && a.why == nil
	if added {
		a.members[i].part, _ = h.(part) // a lock's is one
		if a.begun {
			a.members[i].since = clock.Now()
		}
	}
	a.mu.Unlock()
	if !added {
		return h.Unlock(context.Background()) // the call may have returned its context
	}
	ended := func(why error) { // or its client shuts down
		if a.Err() == nil && errors.Is(why, fault.ErrClosed) && h.Err() == nil {
			a.stop()
		}
	}
	if why := h.Notify(ended); why != nil {
		ended(why)
	}
	return nil
}

// giveBack forgets the members from one on, and unlocks them side by side. It returns a channel that is closed when that is over.
func (a *acquisition) giveBack(from int) <-chan struct{} {
	unlocks, over := a.calls(func(of part) error { return of.Unlock(context.Background()) }), make(chan struct{})
	clear(unlocks[:from])
	a.mu.Lock()
	for i := range a.members[from:] {
		a.members[from+i].part = nil
	}
	a.mu.Unlock()
	a.group.alongside(0, func() {
		a.group.each(unlocks, 0, nil, func(int, error) bool { return false })
		close(over)
	})
	return over
}

// stop ends the context of the acquisition, because the client of a member shuts down.
func (a *acquisition) stop() {
	a.mu.Lock()
	tell := a.tell
	a.stopping = true
	a.mu.Unlock()
	if tell != nil {
		tell(fault.ErrClosed)
	}
}

func (a *acquisition) lasts() bool { return a.begun && a.why == nil } // as far as is known; a.mu must be held
// lost returns why too few members are held, or nil. A member that is lost before its deadline may have been lost since it was last confirmed,
// so a member that joined later does not make up for it. a.mu must be held.
func (a *acquisition) lost() (why error) {
	if !a.lasts() {
		return nil
	}
	had := a.enough(clock.Now())
	for _, m := range a.members {
		if m.live() || m.part == nil {
			continue
		}
		if loss := m.Loss(); loss.Early {
			had = had && a.enough(loss.Since)
		}
		if err := m.Err(); why == nil || errors.Is(err, fault.ErrLost) {
			why = err
		}
	}
	if had {
		return nil
	}
	if op := (*fault.OpError)(nil); errors.As(why, &op) {
		why = op.Err
	}
	return a.group.wrap(why, "hold")
}

// enough reports whether enough members are held now that were held at a moment. a.mu must be held.
func (a *acquisition) enough(at clock.Instant) bool {
	n := 0
	for _, m := range a.members {
		if m.live() && m.since <= at {
			n++
		}
	}
	return n >= a.group.need
}

// end ends the acquisition, unless it has ended.
func (a *acquisition) end(why error) {
	a.mu.Lock()
	first, tell, at := a.why == nil, a.tell, clock.Now()
	if first {
		a.why = why
	}
	a.mu.Unlock()
	if !first {
		return
	}
	if a.seen != nil && a.begun && !a.reentered {
		reason := why
		if errors.Is(why, fault.ErrUnlockedAlready) {
			reason = nil
		}
		a.seen.Ended(at, table.EndOf(why), reason)
	}
	if tell != nil {
		tell(why)
	}
	close(a.over)
}

// Err returns nil while enough members are held, and then why the acquisition is over.
func (a *acquisition) Err() error {
	a.mu.Lock()
	lost := a.lost()
	a.mu.Unlock()
	if lost != nil {
		a.end(lost)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// Done returns a channel that is closed when the acquisition is over.
func (a *acquisition) Done() <-chan struct{} { return a.over }

// Notify sets the function to which the end of the acquisition is reported. It returns why the acquisition is over, if it is
// already, and [fault.ErrClosed] while the client of a member shuts down.
func (a *acquisition) Notify(tell context.CancelCauseFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tell = tell; a.why == nil && a.stopping {
		return fault.ErrClosed
	}
	return a.why
}

// Deadline returns the moment until which enough members are held: the need-th latest of their deadlines.
func (a *acquisition) Deadline() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	var live, all []time.Time
	for _, m := range a.members {
		if m.part == nil {
			continue
		}
		if all = append(all, m.Deadline()); m.live() {
			live = append(live, m.Deadline())
		}
	}
	if len(live) < a.group.need {
		live = all
	}
	slices.SortFunc(live, func(a, b time.Time) int { return b.Compare(a) })
	return live[min(a.group.need, len(live))-1]
}

// calls returns a call for each member that was ever held.
func (a *acquisition) calls(call func(of part) error) []func() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := make([]func() error, len(a.members))
	for i, m := range a.members {
		if m.part != nil {
			calls[i] = func() error { return call(m.part) }
		}
	}
	return calls
}

// Unlock releases the members, once. It returns once so few are left that others can have the group, if enough were held until then.
// Otherwise the error says how they failed.
func (a *acquisition) Unlock(ctx context.Context) error {
	was := a.Err()
	if a.closed.Swap(true) {
		return a.group.wrap(fault.ErrUnlockedAlready, "unlock")
	}
	a.end(fault.ErrUnlockedAlready)
	lent, end := lend(ctx)
	defer end()
	unlocks := a.calls(func(of part) error { return of.Unlock(lent) })
	need, good, gone, free := a.group.need, 0, 0, 0 // gone found the member lost, and free leave it free
	for _, unlock := range unlocks {
		if unlock == nil {
			free++
		}
	}
	held := len(unlocks) - free
	errs, released := a.group.each(unlocks, minTimeout, nil, func(_ int, err error) bool {
		switch {
		case err == nil:
			good, free = good+1, free+1
		case errors.Is(err, fault.ErrLost):
			gone, free = gone+1, free+1
		}
		return good >= need || free >= need && gone == 0 && good > 0
	})
	switch {
	case errors.Is(was, fault.ErrLost):
		return was
	case released, good == held:
		return nil
	}
	return a.group.wrap(a.group.failure(errs, gone > 0 && good+len(unlocks)-free < need), "unlock")
}

// Extend lengthens the leases of the members, side by side. It returns nil once enough of them have confirmed.
func (a *acquisition) Extend(ctx context.Context, d time.Duration) error {
	if why := a.Err(); why != nil {
		return a.group.wrap(why, "extend")
	}
	var lent driver.Lent
	lent.Lend(ctx)
	defer lent.End()
	confirmed := make([]membership, len(a.members))
	errs, extended := a.group.each(a.calls(func(of part) error { return of.Extend(&lent, d) }), 0, nil, func(i int, err error) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			confirmed[i] = a.members[i]
		}
		n := 0
		for _, m := range confirmed {
			if m.live() { // it may have been lost since
				n++
			}
		}
		return n >= a.group.need
	})
	if why := a.Err(); why != nil {
		return a.group.wrap(why, "extend")
	}
	if extended {
		return nil
	}
	for i, m := range confirmed {
		if m.part != nil {
			errs[i] = m.Err()
		}
	}
	return a.group.wrap(a.group.failure(errs, false), "extend")
}

// Token returns 0: a group has no fencing token.
func (a *acquisition) Token() uint64 { return 0 }

// Description returns the name of the group, for log lines.
func (a *acquisition) Description() string { return a.group.description }

// Locks returns the locks of the group.
func (a *acquisition) Locks() []*client.Lock { return a.group.locks }

// OwnerOf returns the owner that holds one of the locks.
func (a *acquisition) OwnerOf(key table.Key) *owner.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.members {
		if m.part != nil && a.group.locks[i].ID().Key == key {
			return m.OwnerOf(key)
		}
	}
	return a.owner
}

// Closed returns the flag that says whether the acquisition is unlocked.
func (a *acquisition) Closed() *atomic.Bool { return &a.closed }

// Part returns the acquisition itself for the group that it is of, and for a member of a multi lock the acquisition of that member. A red
// lock has none to return, because the majority may be without the member.
func (a *acquisition) Part(of client.Member) client.Held {
	if g, ok := of.(*Group); ok && a.group.same(g) {
		return a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range a.group.locks {
		if of, ok := of.(*client.Lock); ok && !a.group.red && l.ID() == of.ID() {
			return a.members[i].Part(of)
		}
	}
	return nil
}
