package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/wire"
)

// A failover that loses the latest writes, or a restore, may bring back waiters that have left, or had their turn. A script then gives
// the lock to one of them, and tells its client, which gives the lock back at once.
//
// The client need not remember such waiters. It draws each number once, and knows every number that may still be, or become, a
// holder: those of the attempts that stand in the line, and those of the grants that stood there and are not over. A grant that never
// stood there gets no message. So any other number is over for good, and its release takes nothing from anybody.

// origins has the handles by the channels on which this client hears of grants.
type origins struct {
	handles map[string]*Handle
	most    int // how many there may be before those are dropped that the client does not hear any more
}

// leastOrigins is how many channels are remembered in any case.
const leastOrigins = 64

// note notes a handle by whose channel an attempt may be told that it has the lock.
func (o *origins) note(channel string, h *Handle, messages Messages) {
	if o.handles == nil {
		o.handles, o.most = make(map[string]*Handle), leastOrigins
	}
	if _, ok := o.handles[channel]; !ok && len(o.handles) >= o.most {
		for old := range o.handles {
			if _, subscribed := messages.Heard(old); !subscribed {
				delete(o.handles, old)
			}
		}
		o.most = max(2*len(o.handles), leastOrigins)
	}
	o.handles[channel] = h
}

// alive has the grants that stood in the line, or may have, and that are not over. They are pending, held or being released. It has
// all grants of permits without leases, too: see [Table.Audit].
type alive map[int64]*Grant

// note notes a grant that does not stand in the line any more, or that may get a receipt.
func (s alive) note(g *Grant) {
	if g.stage != retired {
		s[g.holder.Number] = g
	}
}

// pass notes that a grant gave its holder in Redis, and thus its number, to another one.
func (s alive) pass(g, next *Grant) {
	if s[g.holder.Number] == g {
		s[g.holder.Number] = next
	}
}

// forget forgets a grant that is over.
func (s alive) forget(g *Grant) {
	if s[g.holder.Number] == g {
		delete(s, g.holder.Number)
	}
}

// maxUnknown is how many background releases may be under way when one more is begun for an unknown waiter. Beyond that, such a
// waiter has the lock for its first term.
const maxUnknown = 1000

// unknown gives back what Redis has given to a number, if that is over. A number that was never drawn is not this client's.
func (t *Table) unknown(h *Handle, number int64, permits int, lease time.Duration, now clock.Instant, n *Notices) {
	switch g := t.holder(h.Key); {
	case number <= 0, number > t.number, t.closed, t.counts.InDoubt >= maxUnknown:
	case t.alive[number] != nil, g != nil && g.holder.Number == number:
	default:
		g = &Grant{
			table: t, handle: h, holder: wire.NewHolder(h.Kind.Of(permits), h.Names(), t.cfg.ClientID, number), term: term.Term{Lease: lease},
			stage:   retired,
			inDoubt: true, // its tombstone may have been lost, too
		}
		t.cleanUp(g, now, n)
		t.alive.note(g)
	}
}
