// Package place is what a waiter knows about its place in the line, the queue in Redis of those that wait for a lock: whether
// it stands there, when to ask, and what a message tells that says that it was granted the lock.
package place

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Place is the place of one waiter. The zero value stands in no line. It is not safe for concurrent use.
//
// A grant may come before the reply to the command that put the waiter into the line. It waits for that reply, because only
// replies show Redis's clock.
type Place struct {
	asks    bool // a question, or a release that names the waiter, is under way that may put it into the line
	stands  bool // it stands there, as far as is known
	may     bool // a command that may have put it there was sent
	unsure  bool // a grant came that cannot be relied on
	reading Reading
	since   clock.Instant // before the command was sent that first may have put it there
	askAt   clock.Instant
	epoch   uint64
	grant   *GrantMessage // that is yet to be taken; nil means none
	given   int64
}

// GrantMessage is the message that a waiter was granted the lock.
type GrantMessage struct {
	Micros int64         // when, in Unix µs of Redis
	Term   time.Duration // of the lease
	Token  uint64        // zero means none
	Heard  clock.Instant // when the message came
}

// Join notes that a command is about to be sent that may put the waiter into the line. epoch is that of the subscription to its
// channel; zero means none.
func (p *Place) Join(epoch uint64, now clock.Instant) {
	if !p.may {
		p.since = now
	}
	p.asks, p.may, p.unsure, p.epoch, p.grant = true, true, false, epoch, nil
}

// Listens notes the epoch before a command that cannot put the waiter into the line.
func (p *Place) Listens(epoch uint64) { p.epoch = epoch }

// Stand notes the reply that the waiter stands in the line. At askAt it has to ask, because a message may be lost.
func (p *Place) Stand(seen Reading, askAt clock.Instant) {
	p.asks, p.stands, p.reading, p.askAt = false, true, seen, askAt
}

// Unanswered notes that the command had no useful reply, and reports whether one was under way. A waiter that stood in the line
// before still does.
func (p *Place) Unanswered() bool {
	asked := p.asks
	p.asks = false
	p.unsure = p.unsure || asked && p.grant != nil && !p.stands // no reply has shown Redis's clock
	return asked
}

// OnGranted keeps a grant. [Place.Take] returns it, unless a reply says first that the waiter has the lock.
func (p *Place) OnGranted(g GrantMessage) { p.grant, p.given = &g, g.Micros }

// Take returns the grant of the lock, and a moment that was not after it. It reports false if there is none, or if the waiter has
// to wait for a reply before it. If the moment cannot be told, or the grant is too old now, or the term is below least, the waiter
// is unsure.
func (p *Place) Take(least time.Duration, now clock.Instant) (g GrantMessage, at clock.Instant, ok bool) {
	if p.grant == nil || p.asks || p.unsure {
		return GrantMessage{}, 0, false
	}
	g, p.grant = *p.grant, nil
	at, ok = p.reading.Granted(g.Micros, g.Term, g.Heard, now)
	p.unsure = !ok || g.Term < least
	return g, at, !p.unsure
}

// Given returns when the lock was granted to the waiter, in Unix µs of Redis, as far as it has heard. Zero means that it has not.
func (p *Place) Given() int64 { return p.given }

// EndsAt notes when the lease of the holder before the waiter ends.
func (p *Place) EndsAt(end clock.Instant) {
	p.unsure = p.unsure || p.asks // the reply on its way may be about the holder before
	p.AskBy(end)
}

// AskBy has the waiter ask at a moment at the latest.
func (p *Place) AskBy(at clock.Instant) { p.askAt = min(p.askAt, at) }

// AskAt returns when the waiter has to ask.
func (p *Place) AskAt() clock.Instant { return p.askAt }

// Doubt makes the waiter unsure.
func (p *Place) Doubt() { p.unsure = true }

// Unsure reports whether the waiter has to ask, because it may have been granted the lock.
func (p *Place) Unsure() bool { return p.unsure }

// Asks reports whether a command is under way that may put the waiter into the line.
func (p *Place) Asks() bool { return p.asks }

// Stands reports whether the waiter stands in the line, as far as is known.
func (p *Place) Stands() bool { return p.stands }

// May reports whether the waiter may stand in the line. If so, only a release can make sure that it does not.
func (p *Place) May() bool { return p.may }

// Epoch returns that of the subscription to the waiter's channel when the latest command was sent.
func (p *Place) Epoch() uint64 { return p.epoch }

// Waited returns for how long the waiter may have stood in the line.
func (p *Place) Waited(now clock.Instant) time.Duration { return now.Sub(p.since) }
