package table

import (
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// rarely has what few grants have, so that a held lock has no room for it.
type rarely struct {
	more     []*Acquisition // open, besides the first one, in the order in which they were made
	leaked   []*Acquisition // open, but no caller can unlock them any more
	owed     []owed         // those without a Hold that a hold let its context make
	giveUpAt clock.Instant  // when a background release gives up
	lost     error          // why the grant was lost
	keep     clock.Instant  // until when the lock stays taken, even if it is unlocked before; zero means no longer than that
	park     *wire.Holder   // that takes its place in Redis until then; nil means that it was not unlocked yet
	stood    time.Duration  // the term with which it stands in the line, or wire.Woken; zero means that it does not
	seat     *wire.Seat     // on which it may stand in the queue of a fair lock; nil means that it does not
	loss     lease.Loss
	watcher  notice.Watcher // is told when the grant is over; nil once it was, or if nobody wants to know
}

// owed is an acquisition without a Hold that a hold let its context make. The context unlocks it also when the hold is over.
type owed struct {
	acq *Acquisition
	by  *atomic.Bool // the flag of the hold
}

// owes notes that a hold let its context make an acquisition. A nil flag means that none did.
func (g *Grant) owes(a *Acquisition, by *atomic.Bool) {
	if by != nil {
		g.rarely().owed = append(g.rarely().owed, owed{a, by})
	}
}

// stood returns the term with which the grant may stand in the line in Redis, although it does not wait any more. Zero means
// that it does not.
func (g *Grant) stood() time.Duration {
	if g.rare == nil {
		return 0
	}
	return g.rare.stood
}

// rarely returns what few grants have, and makes it if this one has none.
func (g *Grant) rarely() *rarely {
	if g.rare == nil {
		g.rare = new(rarely)
	}
	return g.rare
}

// leaked returns the acquisitions that are open, but that no caller can unlock any more.
func (g *Grant) leaked() []*Acquisition {
	if g.rare == nil {
		return nil
	}
	return g.rare.leaked
}
