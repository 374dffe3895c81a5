package group

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/table"
)

// The methods that a Hold or an outer group uses. See [client.Held].

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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == nil {
		a.over = make(chan struct{})
		if a.why != nil {
			close(a.over)
		}
	}
	return a.over
}

// Deadline returns the moment until which enough members are held.
func (a *acquisition) Deadline() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == nil {
		a.setDeadline()
	}
	return a.deadline
}

// setDeadline sets the deadline to the moment until which enough members are held. a.mu must be held.
func (a *acquisition) setDeadline() {
	var live, all []time.Time
	for _, h := range a.heldNow() {
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
}

// Description returns the name of the group, for log lines.
func (a *acquisition) Description() string { return a.group.description }

// Token returns 0: a group has no fencing token.
func (a *acquisition) Token() uint64 { return 0 }

// Waited reports whether one of the members was refused at first.
func (a *acquisition) Waited() bool {
	return slices.ContainsFunc(a.held(), func(h client.Held) bool { return h != nil && h.Waited() })
}

// Unlock releases the members, once.
func (a *acquisition) Unlock(ctx context.Context) error {
	if !a.close(false) {
		return a.group.wrap(fault.ErrUnlockedAlready, "unlock")
	}
	return a.release(ctx)
}

// Notify sets the function to which the end of the acquisition is reported. It returns why the acquisition is over, if it is
// already, and [fault.ErrClosed] while the client of a member shuts down.
func (a *acquisition) Notify(tell context.CancelCauseFunc, quiet bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel, a.quiet = tell, quiet
	if a.why == nil && a.stopping {
		return fault.ErrClosed
	}
	return a.why
}

// Loss returns, for an outer group, how the acquisition was lost: by the earliest loss among its members, and on purpose if one of them
// was.
func (a *acquisition) Loss() (l lease.Loss) {
	for _, h := range a.held() {
		if h == nil || h.Err() == nil {
			continue
		}
		m := h.Loss()
		if l.Final = l.Final || m.Final; m.Early && (!l.Early || m.Since < l.Since) {
			l.Early, l.Since = true, m.Since
		}
	}
	return l
}

// RenewSoon has the members renewed sooner than they would be.
func (a *acquisition) RenewSoon() {
	for _, h := range a.held() {
		if h != nil {
			h.RenewSoon()
		}
	}
}

// Locks returns the base locks of the group.
func (a *acquisition) Locks() []*client.Lock { return a.group.locks }

// OwnerOf returns the owner that holds one of the base locks.
func (a *acquisition) OwnerOf(key table.Key) *owner.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.group.members {
		at := slices.IndexFunc(m.Locks(), func(l *client.Lock) bool { return l.ID().Key == key })
		if at < 0 {
			continue
		}
		if h := a.members[i].held; h != nil {
			return h.OwnerOf(key)
		}
		o, _ := a.as[i][at].Now()
		return o
	}
	return a.owner
}

// Closed returns the flag that says whether the acquisition is unlocked or dropped.
func (a *acquisition) Closed() *atomic.Bool { return &a.closed }

// Leak ends an acquisition that nobody can unlock any more.
func (a *acquisition) Leak() {
	if !a.close(true) {
		return
	}
	for _, h := range a.held() {
		if h != nil {
			h.Leak()
		}
	}
}
