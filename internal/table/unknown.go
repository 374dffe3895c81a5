package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// A failover that loses the latest writes, or a restore, may bring back waiters that have left, or had their turn. A script then gives
// the lock to one of them, and tells its client, which gives the lock back at once.
//
// The client need not remember such waiters. It draws each number once, and knows every number that may still be, or become, a
// holder: those of the attempts that stand in the line, and those of the grants that stood there and are not over. A grant that never
// stood there gets no message. So any other number is over for good, and its release takes nothing from anybody.

// notePast notes a grant that does not stand in the line any more, or that may get a receipt, unless it is over: see [Table.Audit].
func (t *Table) notePast(g *Grant) {
	if g.stage != retired {
		t.alive.Note(g.holder.Number, g)
	}
}

// maxUnknown is how many background releases may be under way when one more is begun for an unknown waiter. Beyond that, such a
// waiter has the lock for its first term.
const maxUnknown = 1000

// unknown gives back what Redis has given to a number, if that is over. A number that was never drawn is not this client's.
func (t *Table) unknown(h *Handle, number int64, permits int, given time.Duration, now clock.Instant, n *notice.List) {
	_, alive := t.alive.Of(number)
	switch g := t.holder(h.Key); {
	case number <= 0, number > t.number, t.closed, t.counts.InDoubt >= maxUnknown:
	case alive, g != nil && g.holder.Number == number:
	default:
		g = &Grant{
			table: t, handle: h, holder: wire.NewHolder(h.Kind.Of(permits), h.Names(), t.cfg.ClientID, number), term: lease.Term{Lease: given},
			stage:   retired,
			inDoubt: true, // its tombstone may have been lost, too
		}
		t.cleanUp(g, now, n)
		t.notePast(g)
	}
}
