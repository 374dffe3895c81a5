package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// leave ends an attempt that has acquired nothing. Its turn goes on to the next one of this process. What its commands may have done, or may do
// still, is undone in the background.
func (a *attempt) leave() {
	c := a.client
	c.mu.Lock()
	next := a.retire()
	doubt := a.stood || a.open != 0 || len(a.inbox) > 0 // which may have a grant
	if !doubt {
		a.unuse()
	}
	c.mu.Unlock()
	if next != nil {
		next.turn <- turn{}
	}
	if doubt {
		c.sweep(a)
	}
}

// retire takes out an attempt that is over, and returns the next one of this process, which the caller has to give a turn. The client's mutex
// must be held.
func (a *attempt) retire() (next *attempt) {
	delete(a.live, a.number)
	if a.grant != nil && a.held == a.grant {
		a.held = nil
	}
	return a.pass()
}

// pass has the next one of this process ask from now on, and returns it. The client's mutex must be held.
func (a *attempt) pass() (next *attempt) {
	if a.asks != a && (a.asks != nil || a.grant == nil) {
		return nil
	}
	a.asks = nil
	if len(a.queue) > 0 {
		next = a.queue[0]
		a.queue = a.queue[1:]
		a.asks, next.known = next, a.known
	}
	return next
}

// free sends the release of a number, which also leaves the line if member is not empty.
func (a *attempt) free(ctx context.Context, q transport.Question, member, next string, until int64) (wire.Reply, time.Time) {
	q.Call = a.releaseCall(member, next, until)
	return a.send(ctx, q, nil)
}

// kept returns for how many ms a release keeps the lock taken, by nobody.
func (a *attempt) kept() int64 {
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	if a.grant == nil {
		return 0
	}
	return wire.Millis(max(a.grant.keep.Sub(clock.Now()), 0))
}

// mostLook is after how long a release looks again whether a late command has made a holder.
const mostLook = time.Second

// sweep releases a number in the background, until nothing of it can come any more: Redis has refused by then whatever was under way. It ends a
// use of the name.
func (c *Client) sweep(a *attempt) {
	a.note(func() { c.counts.InDoubt++ })
	c.Tasks.Background(func() {
		defer a.note(func() {
			c.counts.InDoubt--
			a.unuse()
		})
		end := time.Now().Add(max(a.lease(), firstTerm) + 2*c.cfg.CommandTimeout) // the lease of whatever it made is over then
		var last time.Time
		look := 25 * time.Millisecond
		closed := c.Tasks.Closed()
		for failures := 0; ; {
			q := transport.Question{Slot: transport.DutySlot}
			if c.Tasks.IsClosed() && last.IsZero() {
				last = time.Now().Add(c.cfg.CommandTimeout) // Close waits for so long
				end = last
			}
			if !last.IsZero() {
				q.Within = max(time.Until(last), time.Millisecond)
			}
			r, _ := a.free(context.Background(), q, a.member, "", 0)
			var pause time.Duration
			switch {
			case r.Err == nil && r.List[1] > a.open, r.Err.WrongType():
				return
			case r.Err.Denied(), r.Err != nil && !r.Err.Transient && !r.Err.InDoubt() && r.Err.Fate != fault.Partial:
				end = time.Time{} // to ask again does not help
			case r.Err == nil && c.Tasks.IsClosed(): // nobody waits for a command that may never come
				return
			case r.Err == nil: // what comes late is mostly late by little
				look = min(2*look, mostLook)
				pause = min(look, time.Duration(a.open-r.List[1])*time.Microsecond+time.Millisecond)
			default:
				failures++
				pause = clock.Backoff(failures, time.Second, nil)
			}
			if time.Until(end) < pause || c.Tasks.Retired() {
				if r.Err != nil && !c.Tasks.IsClosed() {
					c.Receiver.Log(notice.Entry{Lock: a.userName(), Message: notice.LogNotReleased, Err: a.denied(r.Err)})
				}
				return
			}
			select {
			case <-time.After(pause):
			case <-closed:
				closed = nil // the next pause lasts
			}
		}
	})
}

// knows reports whether somebody uses a number, or releases it just now. The client's mutex must be held.
func (n *name) knows(number int64) bool {
	_, leaves := n.leaving[number]
	return leaves || n.live[number] != nil
}

// disown releases a grant for nobody.
func (c *Client) disown(k *Kind, key string, m message) {
	a := &attempt{name: c.use(k, key), number: m.number, flags: m.flags, field: c.cfg.ID + ":" + strconv.FormatInt(m.number, 10)}
	c.sweep(a)
}

// exorcise releases a holder of this client of which it knows nothing: a failover has brought it back.
func (c *Client) exorcise(a *attempt, number int64) {
	c.mu.Lock()
	known := a.knows(number)
	c.mu.Unlock()
	if !known {
		c.disown(a.kind, a.key.key, message{number: number, flags: a.flags})
	}
}

// Serve gives those who wait for permits what is free, in the background: somebody has made some free by another call.
func (c *Client) Serve(key string) {
	a := &attempt{name: c.use(Permits, key), flags: "0"}
	c.Tasks.Background(func() {
		r, _ := a.free(context.Background(), transport.Question{Slot: transport.DutySlot}, "", "", 0)
		if r.Err != nil && !c.Tasks.Retired() { // who waits asks by itself, within 3 s
			_, _ = a.free(context.Background(), transport.Question{Slot: transport.DutySlot}, "", "", 0)
		}
		a.note(a.unuse)
	})
}

// lease returns for how long Redis may keep what the attempt has.
func (a *attempt) lease() time.Duration { return time.Duration(a.millis) * time.Millisecond }

// userName returns the name that the user gave. What nobody asked for has none.
func (a *attempt) userName() string {
	if a.t == nil {
		return ""
	}
	return a.t.Name
}

func (a *attempt) denied(err *fault.Error) error {
	if a.t == nil {
		return err
	}
	return a.t.Denied(err)
}

// Unlock ends the hold. The last one of its owner frees the lock, and names the next one of this process, who gets it if nobody else waits. It
// does not heed the end of ctx, whose values it passes on. The error matches [fault.ErrLost] if the hold was lost before, and
// [fault.ErrUnavailable] if Redis did not say: then the release goes on in the background.
func (h *Hold) Unlock(ctx context.Context) error {
	if h.closed.Swap(true) {
		return fault.ErrUnlockedAlready
	}
	return h.unlock(ctx)
}

// Unlock ends the latest hold of an owner that has no user of its own, or one of those of a handle if nobody is the owner.
func (c *Client) Unlock(ctx context.Context, k *Kind, key string, who owner.Who, opened *Opened) error {
	c.mu.Lock()
	h := c.toUnlock(nameKey{k.channel, key}, who, opened)
	if h != nil {
		h.closed.Store(true)
	}
	c.mu.Unlock()
	if h == nil {
		return fault.ErrNotLocked
	}
	return h.unlock(ctx)
}

// toUnlock returns the hold that an unlock by a handle ends, or nil. The client's mutex must be held.
func (c *Client) toUnlock(key nameKey, who owner.Who, opened *Opened) *Hold {
	if o := who.Now(); o != nil {
		if g := c.grantOf(o, key); g != nil {
			for _, h := range slices.Backward(g.holds) {
				if h.opened != nil && !h.closed.Load() {
					return h
				}
			}
		}
		return nil
	}
	return opened.Soonest(func(h *Hold) bool { return !h.closed.Load() }, func(h *Hold) owner.State {
		return owner.State{Plain: h.loose(), Lost: h.grant.over(), Deadline: int64(h.grant.term.Deadline)}
	})
}

// loose reports whether a hold is nobody's but its handle's. The client's mutex must be held.
func (h *Hold) loose() bool {
	return h.plain && !slices.ContainsFunc(h.grant.holds, func(other *Hold) bool { return other.opened == nil && !other.closed.Load() })
}

// unlock is Unlock of a hold that is marked as closed.
func (h *Hold) unlock(ctx context.Context) error {
	g, a, c := h.grant, h.grant.attempt, h.grant.attempt.client
	next, last, err := h.unlocks()
	if err != nil || !last {
		return err
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	until, member := int64(0), ""
	if next != nil && next.t.Spin.First == 0 {
		until, member = a.until(), next.member
	}
	r, sent := a.free(ctx, transport.Question{}, "", member, until)
	freed, doubt := r.Err == nil && r.List[0] > 0, r.Err.InDoubt() || r.Err != nil && r.Err.Fate == fault.Partial
	if next != nil {
		next.turn <- next.turnOf(&r, clock.Of(sent), until)
	}
	for failures := 1; r.Err != nil && r.Err.Transient; failures++ {
		pause := clock.Backoff(failures, time.Second, nil)
		if time.Since(sent)+pause >= c.cfg.CommandTimeout {
			break
		}
		time.Sleep(pause)
		r, _ = a.free(ctx, transport.Question{Within: c.cfg.CommandTimeout - time.Since(sent)}, "", "", 0)
		freed = freed || r.Err == nil && (doubt || r.List[0] > 0)
		doubt = doubt || r.Err.InDoubt()
	}
	return g.released(&r, freed)
}

// unlocks begins the unlock of a hold. last says that the lock is to be freed; then next is the next one of this process. An error says that there
// is nothing to unlock any more.
func (h *Hold) unlocks() (next *attempt, last bool, err error) {
	g, c := h.grant, h.grant.attempt.client
	var n notice.List
	defer n.Deliver(c.Receiver)
	after := func() {}
	defer func() { after() }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := clock.Now(); h.ending.Err() == nil && g.term.Past(now) {
		after = c.lose(g, errLeaseEnded, now, &n)
	}
	g.drop(h)
	if why := h.ending.Err(); errors.Is(why, fault.ErrLost) {
		return nil, false, why
	}
	held := h.ending.End(fault.ErrUnlockedAlready, &n)
	switch {
	case len(g.holds) > 0 && held:
		c.plan(g, &n)
		return nil, false, nil
	case len(g.holds) > 0:
		return nil, false, nil
	}
	return g.leaves(held), true, nil
}

// leaves begins the release of a grant that nobody holds any more, and returns the next one of this process. held says that it was held just
// before. The client's mutex must be held.
func (g *grant) leaves(held bool) (next *attempt) {
	a := g.attempt
	if a.client.unlocks++; held {
		a.client.quit(g)
	}
	a.leaving[a.number] = false
	return a.retire()
}

// released ends the unlock, given the last reply.
func (g *grant) released(r *wire.Reply, freed bool) error {
	a, c := g.attempt, g.attempt.client
	swept := r.Err != nil && !r.Err.WrongType() || a.open != 0
	c.mu.Lock()
	swept = swept || a.leaving[a.number] // its release may have been carried out before the grant
	if r.Err == nil && r.List[0] == 2 {
		c.backs.Set(a.key, time.Now().Add(headStart))
	}
	delete(a.leaving, a.number)
	if !swept {
		a.unuse()
	}
	c.mu.Unlock()
	if swept { // a command may still come that makes it a holder, or the release has yet to come through
		c.sweep(a)
	}
	switch {
	case r.Err == nil && freed:
		return c.ended(g, nil)
	case r.Err == nil:
		return c.ended(g, errHolderGone)
	case r.Err.WrongType():
		return c.ended(g, fmt.Errorf("%w (%w)", errOverwritten, r.Err))
	}
	_ = c.ended(g, nil)
	return r.Err
}

// ended ends the release of a grant. why says that it was lost before. It returns the error of the unlock.
func (c *Client) ended(g *grant, why error) error {
	var n notice.List
	defer n.Deliver(c.Receiver)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlocks--
	c.drain()
	if errors.Is(why, errHolderGone) && g.term.Past(clock.Now()) {
		why = errLeaseEnded // nobody need have taken it away
	}
	g.witness(clock.Now(), why, &n)
	if why == nil {
		return nil
	}
	c.counts.Losses++
	if g.attempt.t.Renewed {
		n.Report(observe.EventLost, g.attempt.t.Name, notice.LogLost, g.attempt.reason(why))
	}
	return why
}

// turnOf returns the turn of an attempt that a release has named.
func (a *attempt) turnOf(r *wire.Reply, sent clock.Instant, until int64) turn {
	switch {
	case r.Err.InDoubt():
		return turn{open: until}
	case r.Err != nil:
		return turn{}
	case r.List[2] == 2:
		if a.client.cfg.Acks || lease.Late(sent, a.lease(), clock.Now()) || r.List[1] < a.forcedAt() { // it asks again
			return turn{stood: true}
		}
		h := a.newHold(sent, a.lease(), r.List[3], r.List[1])
		return turn{hold: h, stood: h == nil}
	}
	return turn{stood: r.List[2] == 1}
}
