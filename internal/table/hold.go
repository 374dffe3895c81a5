package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// proof is what shows that Redis made an attempt the holder.
type proof struct {
	token uint64
	sent  clock.Instant // not after Redis did it
	lease time.Duration // from then
	// micros is when Redis did it, or before that, by its own clock in Unix µs. Zero means that this is not known.
	micros int64
}

// grant makes a pending grant held, with its first acquisition. It fails if the lock cannot be relied on: then Redis has a
// holder that needs cleanup.
func (t *Table) grant(a *Attempt, g *Grant, p proof, now clock.Instant, n *notice.List) (*Acquisition, error) {
	switch {
	case t.stopping && t.bars(a, now):
		g.needsCleanup = true
		return nil, nil
	case lease.Late(p.sent, p.lease, now):
		g.needsCleanup = true
		return nil, fault.LeaseTooShort(p.lease, now.Sub(p.sent))
	case t.forcings != a.forcings && t.forcedSince(a.Handle.Key, a.forcings, p.micros):
		g.needsCleanup = true
		return nil, fault.ErrLate
	}
	g.stage, g.micros, g.attempt = held, p.micros, nil
	if a.Handle.Kind.Tokens {
		g.token = p.token
	}
	if a.Witness != nil {
		g.rarely().witness = a.Witness
	}
	if a.AtLeast > 0 {
		a.keep(p.sent)
	}
	t.counts.Held++
	t.counts.Acquired++
	g.needsCleanup = false // the holder in Redis is that of this grant
	g.streak = streak{since: p.sent}
	g.streak.begin(now)
	g.contested = a.place.Stands
	if t.cfg.MaxHold > 0 {
		g.term.MaxHold = p.sent.Add(t.cfg.MaxHold)
	}
	if g.listed = true; g.owner != nil {
		t.list(g)
	}
	if a.Handle.Kind.Side == wire.MainSide {
		t.exclusive[a.Handle.Key.Family].Add(a.Handle.Key.Name, g)
	}
	if a.Handle.Kind.Tokens || t.fenced != nil {
		t.compareSorts(a.Handle, n)
	}
	got := g.acquired(a)
	g.confirm(p.sent, p.lease, n)
	if a.queue != nil && a.Handle.Kind.Side == wire.MainSide {
		a.queue.Shared.known.RefusedUntil(g.term.Ends()) // for the attempts behind it
	} else if a.queue != nil {
		a.queue.Shared.known.Answered()
	}
	if g.owner != nil {
		g.turns.End()
		if other := g.sibling(); other != nil && other.attempt != nil {
			other.attempt.bell.Ring() // it need not queue any more
		}
	}
	return got, nil
}

// compareSorts warns if a name is granted without a token although it was granted with one before. Readers write nothing, so
// they need no token.
func (t *Table) compareSorts(h *Handle, n *notice.List) {
	switch k := h.Kind; {
	case k.Tokens:
		if t.fenced == nil {
			none := queue.NewMemory[Key, bool](256)
			t.fenced = &none
		}
		if _, ok := t.fenced.Of(h.Key); !ok {
			t.fenced.Set(h.Key, false)
		}
	case k.Side == wire.MainSide:
		if logged, ok := t.fenced.Of(h.Key); ok && !logged {
			t.fenced.Set(h.Key, true)
			n.Log(h.Name, notice.LogUnfenced, nil)
		}
	}
}

// firstRenewal is after how long such a hold is first renewed. Most holds are over by then.
const firstRenewal = 100 * time.Millisecond

// Least returns how much of a lease must be left when its caller gets the lock. A lease that is renewed may be a first term.
func Least(of time.Duration, renewed bool) time.Duration {
	if renewed {
		of = min(of, wire.FirstTerm)
	}
	return lease.Least(of)
}

// least returns the shortest lease of a grant on which an attempt may rely. The watchdog soon lengthens that of a renewed hold. No
// one lengthens a fixed lease: the attempt asks again before its caller has the lock, and finds it its own. If it got the lock
// before that, an outage of a few seconds would end a hold that was to last for longer.
func (a *Attempt) least() time.Duration {
	if a.Renewed {
		return 0
	}
	return a.Lease
}

// maxUnknown is how many background releases may be under way when one more is begun for an unknown waiter. Beyond that, such a
// waiter has the lock for its first term.
const maxUnknown = 1000

// unknown gives back what Redis has given to a number, if that is over. A number that was never drawn is not this client's.
func (t *Table) unknown(h *Handle, number int64, given time.Duration, now clock.Instant, n *notice.List) {
	_, alive := t.alive[number]
	switch g := t.holder(h.Key); {
	case number <= 0, number > t.number, t.closed, t.counts.InDoubt >= maxUnknown:
	case alive, g != nil && g.holder.Number == number:
	default:
		g = &Grant{
			table: t, handle: h, holder: wire.NewHolder(h.Kind, h.Names(), t.cfg.ClientID, number), term: lease.Term{Lease: given},
			stage:  retired,
			traces: traces{inDoubt: true}, // its tombstone may have been lost, too
		}
		t.cleanUp(g, now, n)
		t.notePast(g)
	}
}
