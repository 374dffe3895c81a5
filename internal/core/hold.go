package core

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// renewGranted is when a lock that was granted for the first term is renewed: not at once, because most are unlocked before.
const renewGranted = 100 * time.Millisecond

// The reasons for losing a lock.
var (
	errLeaseEnded  = fmt.Errorf("%w: its lease ended", fault.ErrLost)
	errHolderGone  = fmt.Errorf("%w: its holder is gone from Redis", fault.ErrLost)
	errMaxHold     = fmt.Errorf("%w: it was held longer than WithMaxHold allows", fault.ErrLost)
	errOverwritten = fmt.Errorf("%w: its key was overwritten with another value", fault.ErrLost)
)

// Hold is a lock that was acquired. It is safe for concurrent use.
type Hold struct {
	queue.Timed[clock.Instant] // when there is something to do about it

	attempt *attempt
	token   uint64
	since   clock.Instant
	closed  atomic.Bool // its user has unlocked it

	// Its client's mutex guards these.
	ending   notice.Ending
	term     lease.Term
	failures int  // of renewals, since the latest one that succeeded
	inRound  bool // a renewal is under way
	alone    bool // its renewal does not go together with others
}

// newHold makes the attempt a hold: Redis has had it since a moment, for a term, of which enough is left. It returns nil if the client shuts down.
func (a *attempt) newHold(from clock.Instant, term time.Duration, token int64) *Hold {
	c, now := a.client, clock.Now()
	h := &Hold{attempt: a, since: now}
	if a.flags == "t" {
		h.token = uint64(token)
	}
	var n notice.List
	c.mu.Lock()
	if c.stopping {
		c.mu.Unlock()
		return nil
	}
	a.hold = h
	h.confirm(from, term)
	var next *attempt
	if a.kind.Shared { // a refusal of before stands for the next one
		a.known.Answered()
		next = a.pass()
	} else {
		a.known.RefusedUntil(h.term.Ends())
	}
	c.counts.Held++
	c.counts.Acquired++
	if c.cfg.MaxHold > 0 {
		h.term.MaxHold = from.Add(c.cfg.MaxHold)
	}
	if term < a.lease() && a.t.Renewed {
		h.term.RenewAt = now.Add(renewGranted)
	}
	c.plan(h, &n)
	c.mu.Unlock()
	if next != nil {
		next.turn <- turn{}
	}
	n.Deliver(c.Receiver)
	return h
}

// confirm notes that Redis has had the hold since a moment, for a term. The client's mutex must be held.
func (h *Hold) confirm(from clock.Instant, term time.Duration) {
	h.term.Confirm(from, term)
	h.term.RenewAt = h.term.Renewal(h.attempt.lease(), h.attempt.lease())
	h.failures, h.inRound, h.alone = 0, false, false
}

// plan sets when there is something to do about a hold. mu must be held.
func (c *Client) plan(h *Hold, n *notice.List) {
	c.holds.Set(h, h.term.Due(h.attempt.t.Renewed && !h.inRound))
	n.Alarm(c.holds.Alarm())
}

// over reports whether it has ended, or is being unlocked. The client's mutex must be held.
func (h *Hold) over() bool { return h.ending.Err() != nil || h.term.Past(clock.Now()) }

// Token returns the fencing token, or 0.
func (h *Hold) Token() uint64 { return h.token }

// Flags returns those of its terms.
func (h *Hold) Flags() string { return h.attempt.flags }

// PermitIDs returns the ids of permits, as Redis has them, in hex. A lock has none.
func (h *Hold) PermitIDs() []string {
	if h.attempt.kind != Permits {
		return nil
	}
	n, _ := strconv.Atoi(h.attempt.flags)
	ids, client := make([]string, n), wire.Digits(h.attempt.client.cfg.ID)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%012x%04x", client, h.attempt.number, i)
	}
	return ids
}

// Closed returns the flag that says whether it is unlocked.
func (h *Hold) Closed() *atomic.Bool { return &h.closed }

// Done returns a channel that is closed when the hold is over.
func (h *Hold) Done() <-chan struct{} {
	h.attempt.client.mu.Lock()
	defer h.attempt.client.mu.Unlock()
	return h.ending.Done()
}

// Err returns nil while the lock is held, and then why it is not.
func (h *Hold) Err() error {
	h.attempt.client.mu.Lock()
	defer h.attempt.client.mu.Unlock()
	if h.ending.Err() == nil && h.term.Past(clock.Now()) {
		return h.reason(errLeaseEnded)
	}
	return h.ending.Err()
}

// Deadline returns until when the lock is guaranteed.
func (h *Hold) Deadline() time.Time {
	h.attempt.client.mu.Lock()
	defer h.attempt.client.mu.Unlock()
	return h.term.Deadline.Time()
}

// Notify sets the function to which the end is reported. It returns why the hold is over, if it is already. It returns [fault.ErrClosed] while
// the client shuts down, because that is told only once; the end is still reported.
func (h *Hold) Notify(tell context.CancelCauseFunc) error {
	c := h.attempt.client
	c.mu.Lock()
	defer c.mu.Unlock()
	why := h.ending.Notify(tell)
	if why == nil && c.stopping {
		return fault.ErrClosed
	}
	return why
}

// reason returns the error by which the users of the hold see why it is over.
func (h *Hold) reason(why error) error {
	if errors.Is(why, fault.ErrClosed) || errors.Is(why, fault.ErrUnlockedAlready) {
		return why
	}
	return &fault.OpError{Op: "hold", Name: h.attempt.t.Name, Err: why}
}

// end ends the hold for its users. It reports whether they are told. mu must be held.
func (c *Client) end(h *Hold, why error, n *notice.List) (told bool) {
	told = h.ending.End(h.reason(why), n)
	c.holds.Remove(h)
	c.counts.Held--
	c.drain()
	return told
}

// witness tells the one who observes a hold that it has been over since a moment. Nil means that it was unlocked. mu must be held.
func (h *Hold) witness(at clock.Instant, why error, n *notice.List) {
	w := h.attempt.t.Witness
	if h.attempt.t.Witness = nil; w == nil {
		return
	}
	how := endOf(why)
	if why != nil {
		why = h.reason(why)
	}
	n.Ended(w, at, how, why)
}

// endOf returns how a hold ended for a reason. Nil means that it was unlocked.
func endOf(why error) observe.End {
	for target, how := range map[error]observe.End{
		fault.ErrClosed: observe.EndClosed, errLeaseEnded: observe.EndLeaseEnded, errMaxHold: observe.EndTooLong, errOverwritten: observe.EndOverwritten,
	} {
		if errors.Is(why, target) {
			return how
		}
	}
	if why == nil {
		return observe.EndUnlocked
	}
	return observe.EndGone
}

// lose ends the hold, because Redis may have given the lock to others. It returns what is to be done without the mutex, which must be held.
func (c *Client) lose(h *Hold, why error, now clock.Instant, n *notice.List) (after func()) {
	a := h.attempt
	if c.end(h, why, n) && a.t.Renewed {
		n.Report(observe.EventLost, a.t.Name, notice.LogLost, h.reason(why))
	}
	if errors.Is(why, errLeaseEnded) {
		now = min(now, h.term.Deadline)
	}
	h.witness(now, why, n)
	c.counts.Losses++
	next := a.retire()
	return func() {
		if next != nil {
			next.turn <- turn{}
		}
		c.sweep(a)
	}
}

// unlocks begins the unlock, and returns the next one of this process. An error says that there is nothing to unlock any more.
func (h *Hold) unlocks() (next *attempt, err error) {
	a, c := h.attempt, h.attempt.client
	var n notice.List
	defer n.Deliver(c.Receiver)
	after := func() {}
	defer func() { after() }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.closed.Swap(true) {
		return nil, fault.ErrUnlockedAlready
	}
	now := clock.Now()
	if h.ending.Err() == nil && h.term.Past(now) {
		after = c.lose(h, errLeaseEnded, now, &n)
	}
	if why := h.ending.Err(); errors.Is(why, fault.ErrLost) {
		return nil, why
	}
	c.unlocks++
	if h.ending.Err() == nil {
		c.end(h, fault.ErrUnlockedAlready, &n)
	}
	a.leaving[a.number] = false
	return a.retire(), nil
}

// ended ends the unlock of a hold. why says that it was lost before. It returns the error of the unlock.
func (c *Client) ended(h *Hold, why error) error {
	var n notice.List
	defer n.Deliver(c.Receiver)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlocks--
	c.drain()
	if errors.Is(why, errHolderGone) && h.term.Past(clock.Now()) {
		why = errLeaseEnded // nobody need have taken it away
	}
	h.witness(clock.Now(), why, &n)
	if why == nil {
		return nil
	}
	c.counts.Losses++
	if h.attempt.t.Renewed {
		n.Report(observe.EventLost, h.attempt.t.Name, notice.LogLost, h.reason(why))
	}
	return why
}

// Extend makes the lease end no earlier than d from now. over is why the hold is over, and failed the error of Redis.
func (h *Hold) Extend(ctx context.Context, d time.Duration) (failed *fault.Error, over error) {
	c := h.attempt.client
	if over := h.err(); over != nil {
		return nil, over
	}
	key, holder := h.attempt.renewed()
	x := extension{h, d, clock.Now()}
	call := wire.Call{Script: h.attempt.kind.renew(), Keys: []any{key}, Argv: []any{wire.Millis(d), holder}}
	r := c.Conn.Ask(ctx, transport.Question{Call: call}, x)
	over = x.onReply(r)
	return r.Err, over
}

// err returns why the hold is over for one who wants to use it.
func (h *Hold) err() error {
	c := h.attempt.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := h.ending.Err(); why != nil {
		return why
	}
	if h.term.Past(clock.Now()) {
		return h.reason(fault.ErrLost)
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
	h, c := x.hold, x.hold.attempt.client
	var n notice.List
	after := func() {}
	c.mu.Lock()
	switch {
	case h.over() || r.Err != nil:
	case r.List[0] == 1:
		h.confirm(x.sent, x.d)
		c.plan(h, &n)
	default:
		after = c.lose(h, errHolderGone, clock.Now(), &n)
	}
	c.mu.Unlock()
	after()
	n.Deliver(c.Receiver)
	return h.err()
}
