package group

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/table"
)

// The methods of an acquisition that a Hold, or an outer group, stands on. See [lease.Held].

// Err returns nil while enough members are held, and then why the acquisition is over.
func (a *acquisition) Err() error {
	a.mu.Lock()
	tell := a.look()
	why := a.why
	a.mu.Unlock()
	tell()
	return why
}

// Done returns a channel that is closed when the acquisition is over.
func (a *acquisition) Done() <-chan struct{} {
	a.watchAll()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == nil {
		if a.why != nil {
			return closedChan
		}
		a.over = make(chan struct{})
	}
	return a.over
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline returns the moment until which enough members are held.
func (a *acquisition) Deadline() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	var live, all []time.Time
	for _, h := range a.members {
		if h == nil {
			continue
		}
		all = append(all, h.Deadline())
		if h.Err() == nil {
			live = append(live, h.Deadline())
		}
	}
	if len(live) < a.group.need {
		live = all
	}
	if len(live) > 0 {
		slices.SortFunc(live, func(a, b time.Time) int { return b.Compare(a) })
		a.deadline = live[min(a.group.need, len(live))-1]
	}
	return a.deadline
}

// Token returns 0: a group has no fencing token.
func (a *acquisition) Token() uint64 { return 0 }

// Unlock releases the members, once.
func (a *acquisition) Unlock(ctx context.Context) error {
	if !a.close() {
		return a.group.wrap(fault.ErrNotHeld, "unlock")
	}
	return a.release(ctx)
}

// Notify has the end of the acquisition reported to tell. It returns why the acquisition is over, if it is already.
func (a *acquisition) Notify(tell context.CancelCauseFunc, watched bool) error {
	if watched {
		a.watchAll()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel = tell
	return a.why
}

// Loss returns how the acquisition was lost, for an outer group. It counts as lost since its beginning, because it does
// not keep which of its members were held when.
func (a *acquisition) Loss() table.Loss { return table.Loss{Early: time.Now().Before(a.Deadline())} }

// RenewSoon has the members renewed sooner than they would be.
func (a *acquisition) RenewSoon() {
	for _, h := range a.held() {
		if h != nil {
			h.RenewSoon()
		}
	}
}

// Locks returns the base locks of the group.
func (a *acquisition) Locks() []*lease.Lock { return a.group.locks }

// OwnerOf returns the owner that holds one of the base locks.
func (a *acquisition) OwnerOf(key table.Key) *table.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.members {
		if h != nil && slices.ContainsFunc(h.Locks(), func(l *lease.Lock) bool { return l.ID().Key == key }) {
			return h.OwnerOf(key)
		}
	}
	return a.owner
}

// Leak ends an acquisition that nobody can unlock any more.
func (a *acquisition) Leak() {
	if !a.close() {
		return
	}
	for _, h := range a.held() {
		if h != nil {
			h.Leak()
		}
	}
}
