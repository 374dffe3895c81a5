package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
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
	errForced      = fmt.Errorf("%w: it was unlocked by force", fault.ErrLost)
	errStillLost   = fmt.Errorf("%w before, and its owner has to unlock it first", fault.ErrLost)
)

// grant is what Redis has given to an attempt. Its owner may have several holds of it: one unlock ends one of them, and the last one frees the
// lock.
type grant struct {
	queue.Timed[clock.Instant] // when there is something to do about it

	attempt *attempt
	token   uint64
	since   clock.Instant
	at      int64 // when Redis gave it, in us; zero means that this is not known

	// Its client's mutex guards these.
	owner    *owner.Owner // nil until somebody asks for it, if the caller had none
	holds    []*Hold      // that are yet to be unlocked
	first    Hold
	room     [1]*Hold // the first array of holds
	term     lease.Term
	renewal  time.Duration // the longest lease with which it is renewed; zero means that it is not
	soonest  time.Duration // the shortest one, which decides how often
	lost     error         // why nobody holds it any more, although some have yet to unlock it
	loss     lease.Loss
	keep     clock.Instant // until when the lock stays taken, even if it is unlocked
	failures int           // of renewals, since the latest one that succeeded
	inRound  bool          // a renewal is under way
	alone    bool          // its renewal does not go together with others
}

// newHold makes the attempt the holder: Redis has had it since a moment, for a term, of which enough is left. It returns nil if the client shuts
// down.
func (a *attempt) newHold(from clock.Instant, term time.Duration, token, at int64) *Hold {
	c, now := a.client, clock.Now()
	g := &grant{attempt: a, since: now, at: at}
	g.holds = g.room[:0]
	if a.flags == "t" {
		g.token = uint64(token)
	}
	var n notice.List
	c.mu.Lock()
	if c.stopping {
		c.mu.Unlock()
		return nil
	}
	if a.grant = g; !a.kind.Shared {
		a.held = g
	}
	h := g.open(a.t)
	g.confirm(from, term)
	var next *attempt
	if a.kind.Shared { // a refusal of before stands for the next one
		a.known.Answered()
		next = a.pass()
	} else {
		a.known.RefusedUntil(g.term.Ends())
	}
	c.counts.Held++
	c.counts.Acquired++
	if c.cfg.MaxHold > 0 {
		g.term.MaxHold = from.Add(c.cfg.MaxHold)
	}
	if a.t.AtLeast > 0 {
		g.keep = now.Add(a.t.AtLeast)
	}
	if term < a.t.Lease && g.renewal > 0 {
		g.term.RenewAt = now.Add(renewGranted)
	}
	c.plan(g, &n)
	a.compare(&n)
	c.mu.Unlock()
	if next != nil {
		next.turn <- turn{}
	}
	n.Deliver(c.Receiver)
	return h
}

// compare logs once if a lock is acquired without a token that was acquired with one. The client's mutex must be held.
func (a *attempt) compare(n *notice.List) {
	logged, fenced := a.client.fenced.Of(a.key)
	switch {
	case a.flags == "t" && !fenced:
		a.client.fenced.Set(a.key, false)
	case a.flags == "" && fenced && !logged:
		a.client.fenced.Set(a.key, true)
		n.Log(a.t.Name, notice.LogUnfenced, nil)
	}
}

// open adds a hold. The client's mutex must be held.
func (g *grant) open(t *Terms) *Hold {
	h := &Hold{grant: g}
	if g.first.grant == nil {
		h = &g.first
		h.grant = g
		if g.owner = t.Who.Now(); g.owner != nil {
			g.owner.Attach(g.attempt.ownerKey(), g)
		}
	}
	if t.Renewed {
		h.renewal = t.Lease
	}
	h.opened, h.plain, h.reentered = t.Opened, t.Who.Owner == nil, h != &g.first
	if h.opened != nil {
		h.opened.Add(h)
	}
	g.holds = append(g.holds, h)
	g.measure()
	return h
}

// drop takes out a hold that is unlocked. The client's mutex must be held.
func (g *grant) drop(h *Hold) {
	if h.opened != nil {
		h.opened.Forget(h)
	}
	g.holds = slices.DeleteFunc(g.holds, func(other *Hold) bool { return other == h })
	g.measure()
	if len(g.holds) == 0 && g.owner != nil {
		g.owner.Detach(g.attempt.ownerKey(), g)
	}
}

// measure notes with which leases a grant is renewed. The client's mutex must be held.
func (g *grant) measure() {
	g.renewal, g.soonest = 0, 0
	for _, h := range g.holds {
		if g.renewal = max(g.renewal, h.renewal); h.renewal > 0 && (g.soonest == 0 || h.renewal < g.soonest) {
			g.soonest = h.renewal
		}
	}
}

// confirm notes that Redis has had the lock since a moment, for a term. The client's mutex must be held.
func (g *grant) confirm(from clock.Instant, term time.Duration) {
	g.term.Confirm(from, term)
	g.term.RenewAt = g.term.Renewal(g.renewal, g.soonest)
	g.failures, g.inRound, g.alone = 0, false, false
}

// plan sets when there is something to do about a grant. mu must be held.
func (c *Client) plan(g *grant, n *notice.List) {
	c.grants.Set(g, g.term.Due(g.renewal > 0 && !g.inRound))
	n.Alarm(c.grants.Alarm())
}

// over reports whether it has ended, or is being unlocked. The client's mutex must be held.
func (g *grant) over() bool {
	return g.lost != nil || len(g.holds) == 0 || g.term.Past(clock.Now())
}

// reason returns the error by which the users of a lock see why it is over.
func (a *attempt) reason(why error) error {
	if errors.Is(why, fault.ErrClosed) || errors.Is(why, fault.ErrUnlockedAlready) || errors.Is(why, fault.ErrExported) {
		return why
	}
	return &fault.OpError{Op: "hold", Name: a.t.Name, Err: why}
}

// end ends a grant for its users. It reports whether they are told. mu must be held.
func (c *Client) end(g *grant, why error, n *notice.List) (told bool) {
	for _, h := range g.holds {
		told = h.ending.End(g.attempt.reason(why), n) || told
	}
	c.quit(g)
	return told
}

// quit counts a grant no more among those that are held. mu must be held.
func (c *Client) quit(g *grant) {
	c.grants.Remove(g)
	c.counts.Held--
	c.drain()
}

// witness tells the one who observes a grant that it has been over since a moment. Nil means that it was unlocked. mu must be held.
func (g *grant) witness(at clock.Instant, why error, n *notice.List) {
	w := g.attempt.t.Witness
	if g.attempt.t.Witness = nil; w == nil {
		return
	}
	how := endOf(why)
	if why != nil {
		why = g.attempt.reason(why)
	}
	n.Ended(w, at, how, why)
}

// endOf returns how a hold ended for a reason. Nil means that it was unlocked.
func endOf(why error) observe.End {
	for target, how := range map[error]observe.End{
		fault.ErrClosed: observe.EndClosed, errLeaseEnded: observe.EndLeaseEnded, errMaxHold: observe.EndTooLong, errOverwritten: observe.EndOverwritten,
		errForced: observe.EndForced,
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

// lose ends a grant, because Redis may have given the lock to others. It returns what is to be done without the mutex, which must be held.
func (c *Client) lose(g *grant, why error, now clock.Instant, n *notice.List) (after func()) {
	a := g.attempt
	g.loss = lease.Loss{Early: !g.term.Past(now), Since: g.term.Confirmed}
	if c.end(g, why, n) && g.renewal > 0 {
		n.Report(observe.EventLost, a.t.Name, notice.LogLost, a.reason(why))
	}
	g.lost, g.keep = why, 0
	if errors.Is(why, errLeaseEnded) {
		now = min(now, g.term.Deadline)
	}
	g.witness(now, why, n)
	c.counts.Losses++
	next := a.retire()
	return func() {
		if next != nil {
			next.turn <- turn{}
		}
		c.sweep(a)
	}
}
