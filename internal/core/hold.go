package core

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Hold is one acquisition of a lock, which one unlock ends. It is safe for concurrent use.
type Hold struct {
	grant     *grant
	closed    atomic.Bool // its user has unlocked it, or exported it
	reentered bool        // its owner had the lock already
	plain     bool        // it was acquired for no owner, or for that of a hold

	// Its client's mutex guards these.
	ending  notice.Ending
	renewal time.Duration // the lease with which it wants to be renewed; zero means that it does not
	opened  *Opened       // through what it may be unlocked, too
}

// Opened has the holds that a handle is yet to unlock, because nobody else has them. The zero value has none. A client's mutex guards it.
type Opened struct{ owner.Unlocks[*Hold] }

// Token returns the fencing token, or 0.
func (h *Hold) Token() uint64 { return h.grant.token }

// Reentered reports whether its owner had the lock already.
func (h *Hold) Reentered() bool { return h.reentered }

// Flags returns those of its terms.
func (h *Hold) Flags() string { return h.grant.attempt.flags }

// PermitIDs returns the ids of permits, as Redis has them, in hex. A lock has none.
func (h *Hold) PermitIDs() []string {
	a := h.grant.attempt
	if a.kind != Permits {
		return nil
	}
	n, _ := strconv.Atoi(a.flags)
	ids, client := make([]string, n), wire.Digits(a.client.cfg.ID)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%012x%04x", client, a.number, i)
	}
	return ids
}

// Closed returns the flag that says whether it is unlocked, or exported.
func (h *Hold) Closed() *atomic.Bool { return &h.closed }

// mutex takes the mutex of the client, and returns what gives it back.
func (h *Hold) mutex() (unlock func()) {
	h.grant.attempt.client.mu.Lock()
	return h.grant.attempt.client.mu.Unlock
}

// Owner returns the owner that has it, and makes one if the caller had none.
func (h *Hold) Owner() *owner.Owner {
	defer h.mutex()()
	if g := h.grant; g.owner == nil {
		g.owner = new(owner.Owner)
		if len(g.holds) > 0 {
			g.owner.Attach(g.attempt.ownerKey(), g)
		}
	}
	return h.grant.owner
}

// Done returns a channel that is closed when the hold is over.
func (h *Hold) Done() <-chan struct{} {
	defer h.mutex()()
	return h.ending.Done()
}

// Err returns nil while the lock is held, and then why it is not.
func (h *Hold) Err() error {
	defer h.mutex()()
	if h.ending.Err() == nil && h.grant.term.Past(clock.Now()) {
		return h.grant.attempt.reason(errLeaseEnded)
	}
	return h.ending.Err()
}

// Deadline returns until when the lock is guaranteed.
func (h *Hold) Deadline() time.Time {
	defer h.mutex()()
	return h.grant.term.Deadline.Time()
}

// Loss returns how the lock was lost, once it is.
func (h *Hold) Loss() lease.Loss {
	defer h.mutex()()
	return h.grant.loss
}

// Notify sets the function to which the end is reported. It returns why the hold is over, if it is already. It returns [fault.ErrClosed] while
// the client shuts down, because that is told only once; the end is still reported.
func (h *Hold) Notify(tell context.CancelCauseFunc) error {
	defer h.mutex()()
	why := h.ending.Notify(tell)
	if why == nil && h.grant.attempt.client.stopping {
		return fault.ErrClosed
	}
	return why
}

// Chosen returns the field of the holder to which a query about a lock refers: that of the owner, or else that of the hold which an unlock would end.
// It is empty if nobody holds it. count returns how many holds of it are open.
func (c *Client) Chosen(k *Kind, key string, who owner.Who, opened *Opened) (field string, count func() int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := nameKey{k.channel, key}
	g := c.grantOf(who.Now(), id)
	if h := c.toUnlock(id, who, opened); g == nil && h != nil {
		g = h.grant
	}
	if g == nil || g.over() {
		return "", nil
	}
	return g.attempt.field, func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		if g.over() {
			return 0
		}
		return len(g.holds)
	}
}

// Extend makes the lease end no earlier than d from now. over is why the hold is over, and failed the error of Redis.
func (h *Hold) Extend(ctx context.Context, d time.Duration) (failed *fault.Error, over error) {
	a := h.grant.attempt
	if over := h.err(); over != nil {
		return nil, over
	}
	key, holder := a.renewed()
	x := extension{h, d, clock.Now()}
	call := wire.Call{Script: a.kind.renew(), Keys: []any{key}, Argv: []any{wire.Millis(d), holder}}
	r := a.client.Conn.Ask(ctx, transport.Question{Call: call}, x)
	over = x.onReply(r)
	return r.Err, over
}

// err returns why the hold is over for one who wants to use it.
func (h *Hold) err() error {
	defer h.mutex()()
	if why := h.ending.Err(); why != nil {
		return why
	}
	if h.grant.term.Past(clock.Now()) {
		return h.grant.attempt.reason(fault.ErrLost)
	}
	return nil
}

// extension is one call that lengthens a lease, under way.
type extension struct {
	hold *Hold
	d    time.Duration
	sent clock.Instant
}

// Late takes the reply after the caller has left. The lease was lengthened nevertheless.
func (x extension) Late(_ uint64, r wire.Reply, _ clock.Instant) { _ = x.onReply(r) }

// onReply takes the reply, and returns why the hold is over, or nil.
func (x extension) onReply(r wire.Reply) error {
	g, c := x.hold.grant, x.hold.grant.attempt.client
	var n notice.List
	after := func() {}
	c.mu.Lock()
	switch {
	case g.over() || r.Err != nil:
	case r.List[0] == 1:
		g.confirm(x.sent, x.d)
		c.plan(g, &n)
	default:
		after = c.lose(g, errHolderGone, clock.Now(), &n)
	}
	c.mu.Unlock()
	after()
	n.Deliver(c.Receiver)
	return x.hold.err()
}
